use strict;
use warnings;

use Test::More;
use FindBin ();
use lib "$FindBin::Bin/lib";
use TestServer;
use Config;

use Nearcall;

# Who installs the distribution, which carries the C client, may have any perl; in
# the repository a perl without threads is a missing tool, and fails.
if ( !$Config{useithreads} ) {
    die "this perl is built without threads; build and test with one that has them, as Debian's\n"
        if !-e "$FindBin::Bin/../libnearcall/include/nearcall.h";
    plan( skip_all => 'this perl is built without threads; there is nothing to clone' );
}
require threads;

my $server = TestServer->start;
my $address = $server->address;
my $go = Nearcall->new( $address, timeout => 10 );
my $ack = $go->function('ack');
my $call = $go->begin( sleep => 100 );
is( $go->ack( 1, 1 ), 3, 'the first thread calls' );

for my $class (qw(Nearcall Nearcall::Function Nearcall::Call)) {
    ok( $class->CLONE_SKIP, "$class is not cloned" );
}

my $seen = threads->create( sub {
    return join ',', map { defined $$_ || !ref $_ ? 'cloned' : 'undef' } $go, $call;
} )->join;
is( $seen, 'undef,undef', 'objects are undef in a new thread' );

my $died = threads->create( sub { eval { $go->ack( 1, 1 ) } ? 'called' : "$@" } )->join;
like( $died, qr/unblessed/, 'and cannot be called' );

is( threads->create( sub { Nearcall->new( $address, timeout => 10 )->ack( 2, 2 ) } )->join, 7,
    'a handle of its own works, by methods that were made before' );

my @threads = map {
    my $n = $_;
    threads->create( sub {
        my $mine = Nearcall->new( $address, timeout => 10 );
        return scalar grep { $mine->sum( $n, $_ ) == $n + $_ } 1 .. 100;
    } )
} 1 .. 4;
is( $_->join, 100, 'threads side by side' ) for @threads;

is( $call->wait, 100, 'the first thread\'s call in flight is undisturbed' );
is( $ack->( 2, 2 ), 7, 'and its function object' );

done_testing;
