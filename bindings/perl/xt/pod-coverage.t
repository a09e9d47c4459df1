use strict;
use warnings;

use Test::More;
use Test::Pod::Coverage;

use Nearcall;

# Proxies that a test made are the server's functions; none are made here. The
# constants of Nearcall::Codes are listed as items.
pod_coverage_ok( 'Nearcall', { also_private => ['CLONE_SKIP'] } );
pod_coverage_ok('Nearcall::Error');
pod_coverage_ok('Nearcall::Codes');
pod_coverage_ok( $_, { also_private => ['CLONE_SKIP'] } )
    for qw(Nearcall::Handoff Nearcall::Handoff::Connection Nearcall::Handoff::Prefix);

done_testing;
