use strict;
use warnings;

# The hostile arguments of the tests again, under valgrind: nothing is read or written
# that was freed. What ends by its size alone takes too long here, and is left out.

use Test::More;
use File::Temp ();

for my $test ( 't/965-hostile.t', 't/967-magical-elements.t' ) {
    my $log = File::Temp->newdir( 'nearcall-perl-XXXXXXXX', TMPDIR => 1 );
    local $ENV{PERL_DESTRUCT_LEVEL} = 2;
    local $ENV{HOSTILE_QUICK} = 1;
    open my $run, '-|', 'valgrind', '--quiet', "--log-file=$log/%p", '--undef-value-errors=no',
        $^X, ( map {"-I$_"} @INC ), $test or die "valgrind: $!";
    my $said = do { local $/; readline $run };
    ok( close $run, "every test passes, $test" ) or diag $said;

    my @ours;
    for my $path ( glob "$log/*" ) {
        open my $file, '<', $path or die "$path: $!";
        local $/;
        my @reports = split /^==\d+== \n/m, readline $file;
        push @ours, grep {/Nearcall|ncp_|nearcall_/} @reports;
    }
    is( join( "\n", @ours ), '', 'and valgrind finds nothing' );
}

done_testing;
