use strict;
use warnings;

# The binding's C compiles without a warning; those of Perl's own headers are not ours.

use Test::More;
use Config;

my @sources = glob '*.c';
ok( scalar( grep { $_ eq 'Nearcall.c' } @sources ), 'the XS was translated: run this in the build folder' );

my ($include) = grep { -e "$_/nearcall.h" } 'libnearcall/include', '../../libnearcall/include';
my @flags = qw(-O2 -Wall -Wextra -Wshadow -Wstrict-prototypes -Wno-unused-parameter -Werror
    -DVERSION="x" -DXS_VERSION="x");
for my $source (@sources) {
    my $output = `$Config{cc} $Config{ccflags} @{[ map { quotemeta } @flags ]} -I. -I$include -isystem $Config{archlibexp}/CORE -c -o /dev/null $source 2>&1`;
    ok( $? == 0, $source ) or diag $output;
}

done_testing;
