use strict;
use warnings;

use Test::More;
use FindBin ();
use lib "$FindBin::Bin/lib";
use TestServer;
use TestTools qw(error_of in_child wait_until);

use Nearcall;

my $near    = TestServer->start;
my $far     = TestServer->start( arguments => [ '-generation', 1 ] );
my $address = join ' | ', $near->address, $far->address;

subtest 'the nearest that works' => sub {
    my $go = Nearcall->new( $address, timeout => 20 );
    is( $go->endpoint, '', 'not connected' );
    is( $go->add( 1, 2 ), 3, 'a call' );
    is( $go->endpoint, $near->address, 'goes to the nearest' );
    $near->stop;
    is( $go->add( 1, 2 ), 3, 'another call' );
    is( $go->endpoint, $far->address, 'goes to the next one while that is away' );
    my $away = $go->server_process_id;
    $near->restart;
    ok( wait_until { $go->add( 1, 2 ); $go->endpoint eq $near->address }, 'calls come back' );
    isnt( $go->server_process_id, $away, 'to another server' );
};

subtest 'a function that only one has' => sub {
    my $go = Nearcall->new( $address, timeout => 20 );
    $go->level && $go->add( 1, 1 ) for 1, 2;    # what it finds out, it finds out where it is connected
    for ( 1 .. 20 ) {
        is( $go->level, 7, 'is called there' );
        is( $go->endpoint, $far->address, 'where it is' );
        is( $go->add( $_, 1 ), $_ + 1, 'and others are called' );
        is( $go->endpoint, $near->address, 'at the nearest one' );
    }
    my $error = error_of { $go->call('nobody_has_it') };
    is( $error->name, 'UNIMPLEMENTED', 'one that nobody has' );
    like( $error->message, qr/\n\Q@{[ $far->address ]}\E: /, 'each endpoint is named' );
};

subtest 'children' => sub {
    my $go = Nearcall->new( $address, timeout => 20 );
    $go->add( 1, 1 );
    $go->level;
    for ( 1 .. 5 ) {
        is( in_child { $go->endpoint eq '' && $go->add( 1, 1 ) + $go->level }, 9, 'call both' );
        is( $go->add( 1, 1 ) + $go->level, 9, 'and leave their parent its connections' );
    }
};

subtest 'calls in flight, in an event loop' => sub {
    my $away  = TestServer->start;
    my $go    = Nearcall->new( $away->address . ' | ' . $near->address, timeout => 20, nonblocking => 1 );
    $away->stop;
    my @calls = map { $go->begin( add => $_, 0 ) } 1 .. 20;
    my $count = 0;
    while ( $count < 20 ) {
        my $watched = '';
        vec( $watched, $go->fd, 1 ) = 1;
        select $watched, undef, undef, $go->timeout;
        $count += () = $go->process;
    }
    is_deeply( [ map { $_->wait } @calls ], [ 1 .. 20 ], 'move on while they wait for a connection' );
};

subtest 'nobody is there' => sub {
    my $go = Nearcall->new( $address, timeout => 20 );
    $_->stop for $near, $far;
    my $error = error_of { $go->add( 1, 2 ) };
    is( $error->name, 'UNAVAILABLE', 'the error' );
    ok( $error->not_executed, 'nothing was executed' );
    like( $error->message, qr/\Q@{[ $_->address ]}\E/, 'says why not at each' ) for $near, $far;
};

done_testing;
