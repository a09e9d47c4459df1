use strict;
use warnings;

# What is built shows perl how to begin, and nothing else: another libnearcall in the process
# is not mistaken for it, and the optimiser need not reckon with callers from outside.

use Test::More;
use Config;

plan( skip_all => 'only GCC hides the rest' ) if !$Config{gccversion} || $Config{gccversion} =~ /clang/i;

my $object = "blib/arch/auto/Nearcall/Nearcall.$Config{dlext}";
my @shown  = map { (split)[2] } `nm --dynamic --defined-only $object`;
is( $?, 0, 'nm' );
is_deeply( \@shown, ['boot_Nearcall'], 'what is shown' );

done_testing;
