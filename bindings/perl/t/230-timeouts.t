use strict;
use warnings;

use Test::More;
use FindBin ();
use lib "$FindBin::Bin/lib";
use TestServer;
use TestTools qw(error_of timed wait_until);

use Time::HiRes qw(time);

use Nearcall;

my $server = TestServer->start;
my $go = Nearcall->new( $server->address, timeout => 10 );
$go->one;

sub late {
    my ( $seconds, $block, $name ) = @_;
    local $Test::Builder::Level = $Test::Builder::Level + 1;
    my ( $began, $error, $took ) = time;
    my $own = timed { $error = error_of { $block->() }; $took = time - $began };
    isa_ok( $error, 'Nearcall::Error', $name ) or return;
    is( $error->name, 'DEADLINE_EXCEEDED', "$name: code" );
    cmp_ok( $took, '>=', $seconds - 0.001, "$name: not early" );
    cmp_ok( $own, '<', $seconds + 0.25, "$name: in time" );
    return $error;
}

subtest 'a timeout of the handle, a view, a function, a call in flight' => sub {
    my $quick = Nearcall->new( $server->address, timeout => 0.15 );
    late( 0.15, sub { $quick->sleep(5000) }, 'the handle' );
    late( 0.1, sub { $quick->with( timeout => 0.1 )->sleep(5000) }, 'a view' );
    late( 0.1, sub { $go->with( timeout => 0.1 )->function('sleep')->(5000) }, 'a function' );
    late( 0.1, sub { $go->with( timeout => 0.1 )->begin( sleep => 5000 )->wait }, 'a call in flight' );
    is( $quick->with( timeout => 5 )->sleep(300), 300, 'a longer one for one call' );
    is( $quick->with( timeout => 'inf' )->sleep(300), 300, 'none for one call' );
};

subtest 'a function that cannot be stopped' => sub {
    my $error = late( 0.1, sub { $go->with( timeout => 0.1 )->block(400) }, 'block' );
    ok( $error->unknown, 'unknown' );
    is( $go->one, 1, 'the handle goes on' );
};

subtest 'a server that is stopped' => sub {
    my $mine = TestServer->start;
    my $handle = Nearcall->new( $mine->address, timeout => 0.2 );
    $handle->one;
    $mine->signal('STOP');
    late( 0.2, sub { $handle->one }, 'a call' );
    late( 0.2, sub { $handle->ping }, 'a ping' );
    late( 0.2, sub { $handle->call_raw( echo => 'x' x ( 2 << 20 ) ) }, 'a call that the socket cannot hold' );
    $mine->signal('CONT');
    ok( wait_until { eval { $handle->one } }, 'afterwards it answers' );
};

done_testing;
