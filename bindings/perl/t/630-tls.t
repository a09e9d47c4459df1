use strict;
use warnings;

use Config;
use Test::More;
use FindBin ();
use lib "$FindBin::Bin/lib";
use TestSecure;
use TestServer;
use TestTools qw(error_of in_child);

use Nearcall;

my $server = TestServer->start;
my $relay  = TestSecure->start( $server->address, 'clients=required' );
my %own    = (
    tls_authorities => TestSecure::file('ca.pem'),
    tls_certificate => TestSecure::file('client.pem'),
    tls_key         => TestSecure::file('client.key'),
);

subtest 'calls' => sub {
    my $go = Nearcall->new( $relay->address, timeout => 20, %own );
    is( $go->add( 1, 2 ), 3, 'a call' );
    is( $go->transport, 'tls', 'how it travels' );
    is( length $go->call_raw( echo => 'x' x 3_000_000 ), 3_000_000, 'a large one' );
    my @calls = map { $go->begin( add => $_, 1 ) } 1 .. 50;
    is_deeply( [ map { $_->wait } @calls ], [ 2 .. 51 ], 'many in flight' );
};

subtest 'the settings can stand in the address' => sub {
    my $parameters = join '&', "ca=$own{tls_authorities}", "cert=$own{tls_certificate}", "key=$own{tls_key}", 'name=localhost';
    my $go = Nearcall->new( $relay->address . "?$parameters", timeout => 20, tls_authorities => '/none' );
    is( $go->add( 1, 2 ), 3, 'and come before the options' );
};

subtest 'a child has a connection of its own' => sub {
    my $go = Nearcall->new( $relay->address, timeout => 20, %own );
    $go->count;
    for ( 1 .. 10 ) {
        cmp_ok( in_child { $go->count }, q{>}, 0, 'the child calls' );
        cmp_ok( $go->count, '>', 0, 'and so does the parent' );
    }
};

subtest 'event loops' => sub {
    my $go    = Nearcall->new( $relay->address, timeout => 20, nonblocking => 1, %own );
    my @calls = map { $go->begin( add => $_, 0 ) } 1 .. 20;
    my $count = 0;
    while ( $count < 20 ) {
        my $watched = '';
        vec( $watched, $go->fd, 1 ) = 1;
        select $watched, undef, undef, $go->timeout;
        $count += () = $go->process;
    }
    is_deeply( [ map { $_->wait } @calls ], [ 1 .. 20 ], 'all calls have finished' );
};

subtest 'who is not who was meant' => sub {
    my $error = error_of { Nearcall->new( $relay->address, timeout => 20, tls_authorities => $own{tls_authorities} )->count };
    ok( $error->is('UNAUTHENTICATED') && $error->not_executed, 'a caller without a certificate' );
    like( "$error", qr/wants a certificate of this side/, 'is told' );
    for (
        [ 'certificate=expired-server', qr/certificate has expired/ ],
        [ 'certificate=other-name', qr/tls_server_name/ ],
        [ 'version=1.2',         qr/speaks no TLS 1\.3/ ],
        )
    {
        my ( $option, $words ) = @$_;
        my $false = TestSecure->start( $server->address, $option );
        $error = error_of { Nearcall->new( $false->address, timeout => 20, %own )->count };
        ok( $error->is('UNAUTHENTICATED') && $error->not_executed, $option );
        like( "$error", $words, 'is said' );
    }
    my $stranger = TestSecure::file('stranger-ca.pem');
    $error = error_of { Nearcall->new( $relay->address, timeout => 20, %own, tls_authorities => $stranger )->count };
    ok( $error->is('UNAUTHENTICATED'), 'an authority that is not trusted' );
    my $other = TestSecure->start( $server->address, 'certificate=other-name' );
    my $go = Nearcall->new( $other->address, timeout => 20, %own, tls_server_name => 'other.example.org' );
    is( $go->add( 1, 2 ), 3, 'another name that was meant' );
};

subtest 'options' => sub {
    my $error = error_of { Nearcall->new( 'tls:localhost:7000', tls_authorities => '/none/ca.pem' ) };
    ok( $error->is('INVALID_ARGUMENT'), 'a file that is not there' );
    like( "$error", qr{/none/ca\.pem: No such file}, 'is named' );
    like( error_of { Nearcall->new( 'tls:localhost:7000', tls_key => "a\0b" ) }, qr/NUL/, 'a path is a text' );
    like( error_of { Nearcall->new( 'tcp:localhost:7000', plain_tcp => 'no' ) }, qr/plain_tcp is warn or refuse/, 'plain_tcp' );
    ok( error_of { Nearcall->new( 'tcp:localhost:7000', silence => 0.05 ) }->is('INVALID_ARGUMENT'), 'silence' );
    like( error_of { Nearcall->new( 'tcp:localhost:7000', silence => $_ ) }, qr/silence is \Q$_\E; it is a positive.* at \Q$0\E line/, $_ )
        for 'inf', 0, -1, 'long';
    ok( Nearcall->new( 'tcp:localhost:7000', silence => 0.5, plain_tcp => 'refuse' ), 'both' );
};

subtest 'threads' => sub {
    plan skip_all => 'this perl is built without threads' unless $Config{useithreads};
    require threads;
    my $go = Nearcall->new( $relay->address, timeout => 20, %own );
    is( $go->add( 1, 2 ), 3, 'before' );
    my @threads = map { threads->create( sub { $go->add( $_[0], 1 ) }, $_ ) } 1 .. 4;
    is_deeply( [ map { $_->join } @threads ], [ 2 .. 5 ], 'a clone opens what it was opened with' );
    is( $go->add( 1, 2 ), 3, 'after' );
};

done_testing;
