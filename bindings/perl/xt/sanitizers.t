use strict;
use warnings;

# The hostile arguments of the tests again, with the binding compiled for the sanitizers: they see
# what valgrind does not, such as the stack, and what C leaves undefined. What ends by its size
# alone takes too long here as well.

use Test::More;
use Config;
use ExtUtils::MakeMaker ();
use File::Path qw(make_path);
use File::Temp ();

-f 'Nearcall.c' or die "run this in the build folder: tools/test-perl does\n";

my $directory = File::Temp->newdir( 'nearcall-perl-XXXXXXXX', TMPDIR => 1 );
my $library   = "$directory/auto/Nearcall/Nearcall.so";
make_path("$directory/auto/Nearcall");
my $version = MM->parse_version('lib/Nearcall.pm');
my @command = (
    $Config{cc}, qw(-shared -fPIC -O1 -g -std=gnu11 -fno-omit-frame-pointer -fno-sanitize-recover=undefined),
    '-fsanitize=address,undefined',
    split( ' ', $Config{ccflags} ), qq{-DVERSION="$version"}, qq{-DXS_VERSION="$version"},
    "-I$Config{archlibexp}/CORE", '-I../../libnearcall/include', '-I.', glob('*.c'), glob('libnearcall_*.o'), '-o', $library,
);
is( system(@command), 0, 'the binding is compiled' ) or BAIL_OUT('nothing to test');

chomp( my @runtimes = map {`$Config{cc} -print-file-name=lib$_.so`} qw(asan ubsan) );
# Perl itself keeps what it has until it ends.
local @ENV{qw(LD_PRELOAD ASAN_OPTIONS HOSTILE_QUICK)} = ( "@runtimes", 'detect_leaks=0', 1 );

# What perl prints that runs with it.
sub said_by {
    my (@arguments) = @_;
    open my $run, '-|', $^X, "-I$directory", ( map {"-I$_"} @INC ), @arguments or die "$^X: $!";
    my $said = do { local $/; readline $run };
    return ( close $run, $said );
}

my ( undef, $loaded ) = said_by( '-MNearcall', '-e', 'print grep {m{/Nearcall[.]so\z}} @DynaLoader::dl_shared_objects' );
is( $loaded, $library, 'and is what is loaded' );
for my $test ( 't/960-magic.t', 't/965-hostile.t', 't/967-magical-elements.t' ) {
    my ( $passed, $said ) = said_by($test);
    ok( $passed, "every test passes, $test" ) or diag $said;
}

done_testing;
