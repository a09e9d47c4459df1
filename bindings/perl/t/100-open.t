use strict;
use warnings;

use Test::More;
use FindBin ();
use lib "$FindBin::Bin/lib";
use TestTools qw(descriptors error_of);

use Nearcall;

subtest 'opening does not connect' => sub {
    my $before = descriptors();
    my $go = Nearcall->new('unix:/nonexistent/nearcall.sock');
    isa_ok( $go, 'Nearcall' );
    is( descriptors(), $before, 'no descriptor was opened' );
    is( $go->server_process_id, 0, 'and no server known' );
};

subtest 'addresses' => sub {
    for my $address ( 'nowhere', 'http://example.com', 'unix:', 'tcp:host', 'unix:/a | unix:b', 'tcp:a:1,b', 'embed:/a.so | unix:/b' ) {
        my $error = error_of { Nearcall->new($address) };
        isa_ok( $error, 'Nearcall::Error', "for \"$address\" what is thrown" );
        is( $error->name, 'INVALID_ARGUMENT', 'says so' );
        ok( $error->not_executed, 'and that nothing ran' );
    }
    ok( Nearcall->new('unix:/a | tcp:b:1,c:1'), 'a list' );
    like( error_of { Nearcall->new }, qr/needs an address.* at \Q$0\E line/, 'none at all' );
    like( error_of { Nearcall->new('') }, qr/needs an address/, 'an empty one' );
    isa_ok( error_of { Nearcall->new('unix:@name') }, 'Nearcall::Error', 'an abstract name' );
    ok( Nearcall->new( 'unix:@name', allow_abstract => 1 ), 'an abstract name that was asked for' );
};

subtest 'options' => sub {
    my $address = 'unix:/nonexistent/nearcall.sock';
    ok( Nearcall->new( $address, timeout => 1.5, connect_timeout => 0.5, name => "caf\x{e9}",
            attempts => 1, frame_bytes_max => 1 << 20, value_bytes_max => 1 << 30, server_users => [ 0, 'root' ],
            any_server_user => 1, nonblocking => 1 ), 'all of them' );
    ok( Nearcall->new( $address, timeout => 'inf' ), 'no timeout' );
    like( error_of { Nearcall->new( $address, timout => 1 ) },
        qr/no option timout; it has .*timeout.* at \Q$0\E line/, 'one that does not exist' );
    for my $timeout ( 0, -1, 'soon', 'nan', 1e300 ) {
        like( error_of { Nearcall->new( $address, timeout => $timeout ) },
            qr/\ANearcall: timeout .* at \Q$0\E line \d+\.\n\z/, "timeout $timeout" );
    }
    like( error_of { Nearcall->new( $address, connect_timeout => 'soon' ) },
        qr/\ANearcall: connect_timeout is a number of seconds/, 'a timeout is named' );
    like( error_of { Nearcall->new( $address, 'timeout' ) },
        qr/takes its options as name => value, .*timeout.* at \Q$0\E line \d/, 'a list that is odd' );
    like( error_of { Nearcall->new( 'unix:@nearcall-test' ) },
        qr/in Perl and Python allow_abstract/, 'an abstract name' );
    like( error_of { Nearcall->new( $address, server_users => 'root' ) },
        qr/reference to an array/, 'users that are no array' );
    like( error_of { Nearcall->new( $address, server_users => ['no-such-user'] ) },
        qr/no user no-such-user/, 'a user that does not exist' );
};

subtest 'close' => sub {
    my $go = Nearcall->new('unix:/nonexistent/nearcall.sock');
    my $view = $go->with( timeout => 1 );
    my $function = $go->function('one');
    $go->close;
    $go->close;
    like( error_of { $go->call('one') }, qr/handle is closed.* at \Q$0\E line/, 'a call' );
    like( error_of { $view->one }, qr/handle is closed/, 'a view of the same handle' );
    like( error_of { $function->() }, qr/handle is closed/, 'a function object' );
};

subtest 'the place of a bad address' => sub {
    like( error_of { Nearcall->new('/tmp/x.sock') }, qr/ at \Q$0\E line ${\ __LINE__ }/,
        'is the caller of new' );
};

subtest 'objects' => sub {
    like( error_of { Nearcall::call( {}, 'one' ) }, qr/not an object that Nearcall->new/,
        'no object of ours' );
    like( error_of { bless( {}, 'Nearcall' )->call('one') }, qr/not an object that Nearcall->new/,
        'a forged one' );
    like( error_of { Nearcall->one }, qr/no class method or function "one"/, 'a class method' );
    ok( eval { Nearcall->import; 1 }, 'import' );
    my $go = Nearcall->new('unix:/nonexistent/nearcall.sock');
    ok( !$go->can('one'), 'can is not swallowed' );
    ok( $go->can('call'), 'and answers' );
    {
        package Nearcall::Subclass;
        our @ISA = ('Nearcall');
    }
    isa_ok( Nearcall::Subclass->new('unix:/x')->with( timeout => 1 ), 'Nearcall::Subclass' );
};

done_testing;
