use strict;
use warnings;

use Test::More;
use FindBin ();
use lib "$FindBin::Bin/lib";
use TestServer;
use TestTools qw(error_of sockets);

use Nearcall;

my $server = TestServer->start;
my $go = Nearcall->new( $server->address, timeout => 10, name => 'perl-test' );

subtest 'by name' => sub {
    is( $go->call('one'), 1, 'no argument' );
    is( $go->call( ack => 2, 3 ), 9, 'two' );
    is( $go->call( upper => 'hello' ), 'HELLO', 'text' );
    is( $go->call( add => 0.5, 0.25 ), 0.75, 'floats' );
    is( $go->call('sum'), 0, 'variadic with none' );
    is( $go->call( sum => 1 .. 100 ), 5050, 'variadic with many' );
    is( $go->call( md5 => 'abc' ), '900150983cd24fb0d6963f7d28e17f72', 'md5' );
    is( $go->call('one'), 1, 'once more' );
};

subtest 'several results' => sub {
    is_deeply( [ $go->call( divmod => 7, 2 ) ], [ 3, 1 ], 'as a list' );
    is_deeply( scalar $go->call( divmod => -7, 2 ), [ -3, -1 ], 'as a reference in scalar context' );
    is_deeply( { first => $go->call( upper => 'x' ) }, { first => 'X' }, 'one result in list context' );
};

subtest 'bytes as they are' => sub {
    my $every = join '', map { chr } 0 .. 255;
    is( $go->call_raw( echo => $every ),   $every, 'every byte' );
    is( $go->call_raw( echo => '' ),       '',     'none' );
    is( $go->call( echo => $every ),       $every, 'by the description' );
    my $large = $every x 8192;
    ok( $go->call( echo => $large ) eq $large,     'two mebibytes' );
    ok( $go->call_raw( echo => $large ) eq $large, 'two mebibytes raw' );
    my $wide = "\x{e9}";
    utf8::upgrade($wide);
    is( $go->call_raw( echo => $wide ), "\xe9", 'a string that Perl keeps as UTF-8' );
    is( $go->call_raw( echo => 42 ),    '42',   'a number' );
    is( length $go->call( fill => 1000 ), 1000, 'fill' );
};

subtest 'views share the handle' => sub {
    my $view = $go->with( timeout => 5 );
    isa_ok( $view, 'Nearcall' );
    my $connection = sockets();
    is( $view->call('one'), 1, 'a call through a view' );
    is( sockets(), $connection, 'uses the same connection' );
    is( Nearcall->new( $server->address )->with( timeout => 1 )->call('one'), 1,
        'a view outlives the object it was made from' );
    like( error_of { $go->with }, qr/with takes timeout/, 'no argument' );
    like( error_of { $go->with( timout => 1 ) }, qr/with has no option timout/, 'another argument' );
    like( error_of { $go->with('timeout') }, qr/with takes its options as name => value/, 'half of one' );
};

subtest 'the connection' => sub {
    is( $go->server_process_id, $server->pid, 'the server says who it is' );
    cmp_ok( $go->ping, '>', 0, 'a sign of life takes time' );
    cmp_ok( $go->ping, '<', 5, 'but little' );
    $go->disconnect;
    is( $go->server_process_id, 0, 'disconnected' );
    is( $go->call('one'), 1, 'the next call connects' );
    $go->disconnect;
    $go->connect;
    is( $go->server_process_id, $server->pid, 'connect connects' );
};

subtest 'a server that was restarted' => sub {
    my $mine = TestServer->start;
    my $handle = Nearcall->new( $mine->address, timeout => 10 );
    my $ack = $handle->function('ack');
    is( $ack->( 1, 1 ), 3, 'before' );
    $mine->restart;
    is( $ack->( 2, 2 ), 7, 'after' );
    is( $handle->server_process_id, $mine->pid, 'with the new process' );
};

subtest '$! and $@ are left alone' => sub {
    local ( $!, $@ ) = ( 2, 'mine' );
    my $scratch = Nearcall->new( $server->address );
    $scratch->call('one');
    undef $scratch;
    is( $@, 'mine', '$@ after an object is gone' );
    $! = 2;
    { my $other = Nearcall->new( $server->address ); $other->connect; $! = 2; }
    is( $! + 0, 2, '$! after an object is gone' );
};

done_testing;
