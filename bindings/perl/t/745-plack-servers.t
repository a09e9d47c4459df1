use strict;
use warnings;

# Real web servers of Perl, whose workers share a handle that was opened and used before they were
# forked. Twiggy, which does not fork, is in xt/guide-twiggy.t.

use Test::More;
use FindBin ();
use lib "$FindBin::Bin/lib";
use HttpLoad qw(answers);
use PlackServer;
use TestServer;
use TestTools qw(is_bounded wait_until);

my $server = TestServer->start;
local $ENV{NEARCALL_ADDRESS} = $server->address;
is_bounded('a server of Plack');

my $application = <<'PSGI';
use Nearcall;
my $go = Nearcall->new( $ENV{NEARCALL_ADDRESS}, timeout => 20 );
$go->one;
sub { return [ 200, [ 'Content-Type' => 'text/plain' ], [ $go->sum( 40, 2 ) ] ] };
PSGI

my @servers = ( [ 'Starman', '--workers', 4 ], [ 'Starlet', '--max-workers', 4 ] );
for (@servers) {
    my ( $name, @arguments ) = @$_;
    my $plack = PlackServer->start( $name, $application, @arguments );
    ok( wait_until { answers( $plack->port ) }, "$name answers" );
    my %came = HttpLoad::run( port => $plack->port, requests => 300, at_a_time => 20 );
    is_deeply( \%came, { '200 42' => 300 }, '300 of 300 requests, 20 at a time' );
    ok( $plack->stop, "$name ends" );
}

done_testing;
