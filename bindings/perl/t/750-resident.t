use strict;
use warnings;

# Nearcall::Resident: what a run is given, what of a process is its own, how it ends.

use Test::More;
use FindBin ();
use lib "$FindBin::Bin/lib";
use TestResident;
use TestTools qw(wait_until);

# The same by the resident as plainly.
sub both {
    my ( $name, $resident, $command ) = @_;
    my @plain = $resident->plain($command);
    my @run   = $resident->run($command);
    is_deeply( \@run, \@plain, $name ) or diag $resident->log;
    return @run;
}

{
    my $resident = TestResident->new( 'my $loaded = $$; my @state; print "loading\n";', <<'BLOCK');
        require Cwd;
        printf "%s %s %s %o %s\n", "@ARGV", Cwd::getcwd(), $ENV{MINE} // 'none', umask, scalar @state;
        push @state, 1;
        $ENV{MINE} = 'left';
        print STDERR getppid == $loaded ? "forked\n" : "plain\n";
        print <STDIN>;
        exit 7;
BLOCK
    my $directory = $resident->{directory};
    my $expected  = "a b c $directory mine 27\ 0\nin\n";
    my @result    = $resident->run(q{umask 027; echo in | MINE=mine PROGRAM a 'b c'});
    is_deeply( \@result, [ $expected, "forked\n", 7 << 8 ], 'arguments, environment, directory, umask, streams, code' );
    is( ( $resident->run('PROGRAM </dev/null') )[0], " $directory none 22 0\n", 'nothing of one run is in another' );
    is( $resident->log, "loading\n", 'what stands before is done once' );
}

{
    my $resident = TestResident->new( '', <<'BLOCK');
        my $what = shift @ARGV;
        exit 9 if $what eq 'exit';
        die "what\n" if $what eq 'die';
        kill $ARGV[0], $$ if $what eq 'kill';
        return 7 if $what eq 'return';
        print '';
BLOCK
    both( "status of $_", $resident, "PROGRAM $_" ) for 'exit', 'die', 'return', 'print';
    is( ( $resident->run("PROGRAM $_") )[2], 0, "the value of a block that ends with $_ is no code" ) for 'return', 'print';
    is( ( $resident->run("PROGRAM kill $_") )[2], $_ == 9 ? 137 << 8 : ( 128 + $_ ) << 8, "ended by signal $_" ) for 9, 15;
}

{
    my $resident = TestResident->new( <<'BEFORE', 'print "$0 ", time - $^T, "\n"; open my $c, "<", "/proc/self/comm"; print <$c>');
        use File::Temp ();
        END { print "END $$ $?\n" if $$ == getpgrp }
BEFORE
    my ($output) = $resident->run;
    like( $output, qr{\A\Q$resident->{program}\E [0-9]\nprogram\nEND \d+ 0\n\z}, 'name, END once, in the run' );
    $resident->ask(3);
    ok( $resident->wait_gone, 'it leaves when asked' );
    unlike( $resident->log, qr/END/, 'and END is not for the supervisor' );
}

{
    my $resident = TestResident->new( 'use POSIX (); END { print "END\n" }', 'print "out\n"; STDOUT->flush; POSIX::_exit(7)' );
    is_deeply( [ $resident->run ], [ "out\n", '', 7 << 8 ], 'who needs no END says so by POSIX::_exit' );
}

{
    my $resident = TestResident->new( 'srand 1; rand;', 'print rand, "\n"; return' );
    my %numbers = map { ( $resident->run )[0] => 1 } 1 .. 4;
    is( scalar keys %numbers, 4, 'random numbers differ' );
}

{
    my $resident = TestResident->new( 'my $first = <DATA>;', 'my $count = () = <DATA>; print "$first$count\n"; return',
        end => join( "\n", '__END__', 1 .. 20000, '' ) );
    both( 'DATA is each run\'s own', $resident ) for 1 .. 3;
}

{
    my $resident = TestResident->new( '', <<'BLOCK');
        print "out\n";
        print STDERR "err\n";
        print "at ", tell(STDIN), "\n";
        print scalar(<STDIN>) // "none\n";
        return;
BLOCK
    my $directory = $resident->{directory};
    $resident->write( "$directory/in", "one\ntwo\nthree\n" );
    both( 'a file, from where it stands', $resident, q[{ read line; PROGRAM; } <in] );
    both( 'a pipe',                       $resident, 'echo one | PROGRAM' );
    both( 'the end of a pipe',            $resident, 'PROGRAM </dev/null | head -1' );
    both( 'both in one',                  $resident, 'PROGRAM </dev/null 2>&1' );
    both( 'appended',                     $resident, 'PROGRAM </dev/null >>out 2>&1; cat out; rm out' );
    my ($output) = $resident->run(q{script -qec "PROGRAM </dev/null" /dev/null});
    is( $output, "out\r\nerr\r\nat 0\r\nnone\r\n", 'a terminal is written line by line' );
}

{
    my $resident = TestResident->new( 'binmode STDOUT, ":encoding(UTF-8)";', 'print "\x{e4}@ARGV\n"; return' );
    both( 'layers stay', $resident, "PROGRAM x" );
    both( 'a full device', $resident, 'PROGRAM x >/dev/full' );
    $resident = TestResident->new( '', 'print length($ARGV[0]), "\n"; return', switches => '-CA' );
    both( 'arguments in UTF-8', $resident, "PROGRAM \xC3\xA4" );
    $resident = TestResident->new( '', 'print length($ARGV[0]), "\n"; return' );
    both( 'arguments in bytes', $resident, "PROGRAM \xC3\xA4" );
}

{
    my $resident = TestResident->new( 'use Scalar::Util qw(tainted);', <<'BLOCK', switches => '-T' );
        print join( ' ', map { tainted($_) ? 'tainted' : 'trusted' } $ENV{PATH}, $ENV{MINE}, $ARGV[0], $0 ), "\n";
        $ENV{PATH} = '/bin:/usr/bin' if @ARGV > 1;
        delete @ENV{qw(IFS CDPATH ENV BASH_ENV)};
        system 'true';
        print "done\n";
BLOCK
    my @refused = both( 'what comes from outside is tainted', $resident, 'MINE= PROGRAM a' );
    like( $refused[1], qr/\AInsecure \$ENV\{PATH\}/, 'and refused' );
    both( 'what the program trusts is not', $resident, 'MINE=b=c PROGRAM a b' );
}

{
    my $resident = TestResident->new( <<'BEFORE', 'kill TERM => $$; sleep 5; return 4' );
        $SIG{TERM} = sub { print "handler\n"; exit 3 };
        $SIG{CHLD} = 'IGNORE';
BEFORE
    both( 'handlers stay', $resident );
    $resident = TestResident->new( '', 'open my $f, "<", "/proc/self/status"; print grep { /^Sig(?:Blk|Ign|Cgt)/ } <$f>; return' );
    # Perl ignores SIGFPE itself. What this test was started with is not the run's, but
    # for 32 and 33, which belong to the C library.
    my ($signals) = $resident->run;
    like( $signals, qr/\ASigBlk:\s0{16}\nSigIgn:\s0{7}[01][08]0{5}80\nSigCgt:\s0{16}\n/, 'and without any they are as perl has them' );
}

{
    my $resident = TestResident->new( 'my $warmed = 0;', 'print "$warmed\n"; return', options => 'warm => sub { $warmed = $$ == getpgrp ? "group" : "plain" }' );
    is( ( $resident->run )[0], "group\n", 'warm is called in each child' ) for 1 .. 3;
    like( ( $resident->plain )[0], qr/\A(?:plain|group)\n\z/, 'and in a plain run' );
}

{
    my $resident = TestResident->new( '', 'print "@ARGV\n"; return' );
    is( ( $resident->plain('PROGRAM --no-resident --no-resident') )[0], "--no-resident\n", '--no-resident is taken away once' );
    is( ( $resident->plain('PROGRAM --nearcall-resident') )[0], "--nearcall-resident\n", 'the other is nothing of its own' );
    $resident = TestResident->new( 'my $what = shift @ARGV;', 'print STDERR "work: $what\n"; exit 3' );
    is_deeply( [ $resident->run_anyhow('PROGRAM one') ], [ '', "work: one\n", 3 << 8 ], 'who takes arguments away before runs plainly' );
    is( $resident->log, "nearcall: arguments were read before resident { } (main(), Main): read them inside\n", 'and does no work as a resident' );
    $resident = TestResident->new( '', '', options => 'colour => 1' );
    like( ( $resident->plain )[1], qr/resident has no option colour; it has early_input environment /, 'an unknown option' );
}

{
    my $resident = TestResident->new( 'my $loaded = $$;', 'print getppid == $loaded ? "resident\n" : "plain\n"; return',
        options => q{environment => ['MINE_*']} );
    is( ( $resident->run )[0], "resident\n", 'with the same variables' );
    is( ( $resident->run_anyhow("$_=x PROGRAM") )[0], "plain\n", "$_ is read once" ) for qw(PERL_FOO LC_TIME LANG TZ MINE_X);
    is( ( $resident->run('MINE=x PROGRAM') )[0], "resident\n", 'others are not' );
}

{
    my $resident = TestResident->new( 'use FindBin (); use lib $FindBin::Bin; use Local::Module;', 'print Local::Module::text(), "\n"; return' );
    my $directory = $resident->{directory};
    mkdir "$directory/Local" or die "mkdir: $!";
    my $module = sub { $resident->write( "$directory/Local/Module.pm", "package Local::Module; sub text { '$_[0]' } 1;\n" ) };
    $module->('one');
    is( ( $resident->run )[0], "one\n", 'a module' );
    $module->('two');
    ok( $resident->wait_gone, 'it leaves when a module changes' );
    is( ( $resident->run )[0], "two\n", 'and the next one has the new' );
    wait_until { $resident->ask(2)->{waiting} == 2 } or die 'nobody waits';
    my $supervisor = $resident->ask(2)->{pid};
    kill STOP => $supervisor;
    $module->('three');
    my ($output) = $resident->run_anyhow;
    kill CONT => $supervisor;
    is( $output, "three\n", 'nor does a run that comes first have the old' );
}

{
    my $resident = TestResident->new( '', 'return', options => q{watch => ['/not/there']} );
    is( ( $resident->run_anyhow )[2], 0, 'what cannot start runs plainly' );
    like( $resident->log, qr{a file to watch is not there: /not/there}, 'and the log says why' );
    $resident = TestResident->new( '', 'return', options => 'idle => 0.05' );
    $resident->run_anyhow;
    ok( $resident->wait_gone, 'it leaves when idle' );
    for ( [ 'idle => 0', 600_000 ], [ '', 600_000 ], [ 'idle => -1', -1 ] ) {
        my ( $options, $idle_ms ) = @{$_};
        $resident = TestResident->new( '', 'return', options => $options );
        $resident->run;
        is( $resident->ask(2)->{idle_ms}, $idle_ms, "idle time with '$options'" );
    }
}

done_testing;
