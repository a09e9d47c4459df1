use strict;
use warnings;

# Nearcall::Resident: what a program reads before its runs, and for whom it is run then.

use Test::More;
use FindBin ();
use lib "$FindBin::Bin/lib";
use TestResident;

my $block = 'print $ENV{MINE} // "none", getppid == $loaded ? " resident\n" : " plain\n"; return';

sub start {
    my ( $before, %option ) = @_;
    return TestResident->new( "use Cwd (); my \$loaded = \$\$; $before", $block, %option );
}

# In the directory of the program, and in another one.
sub is_for {
    my ( $resident, $command, $is, $name ) = @_;
    my ( $output, $errors ) = $resident->run_anyhow($command);
    return like( $output, $is ? qr/ resident\n\z/ : qr/ plain\n\z/, $name ) || diag $errors, $resident->log;
}

for my $read ( '$ENV{MINE}', 'exists $ENV{MINE}', '@ENV{qw(OTHER MINE)}', 'map { $ENV{$_} } "MINE"', 'local $ENV{MINE} = 1' ) {
    my $resident = start("{ my \@r = ($read); }");
    is_for( $resident, 'MINE=a PROGRAM', 1, "$read: the first" );
    is_for( $resident, 'MINE=b PROGRAM', 0, "$read: another value" );
    is_for( $resident, 'PROGRAM',        0, "$read: none" );
    is_for( $resident, 'cd /; UNREAD=1 MINE=a PROGRAM', 1, "$read: other things" );
    is_deeply( [ grep { /MINE/ } @{ $resident->ask(2)->{reads} } ], ['MINE'], "$read: it is reported" );
}

is_for( start('{ my @r = ($ENV{"MINE\0"}, exists $ENV{"MINE\0"}); }'), 'MINE=a PROGRAM', 1, 'a name that no variable has' );

for my $read ( 'keys %ENV', 'my %e = %ENV', 'values %ENV' ) {
    my $resident = start("{ my \@r = ($read); }");
    is_for( $resident, 'SHLVL=1 PROGRAM', 1, "$read: the first" );
    is_for( $resident, 'SHLVL=2 PROGRAM', 1, "$read: what shells count does not" );
    is_for( $resident, 'SHLVL=1 NEW=1 PROGRAM', 0, "$read: another one" );
}

{
    my $resident = start('BEGIN { $ENV{OWN} = 1; delete $ENV{GONE}; } { local %ENV = (%ENV, MORE => 1); } print STDERR `echo \$OWN \$MORE`;', options => q{reread => ['*']});
    is_for( $resident, 'MINE=a PROGRAM', 1, 'what is set' );
    is_for( $resident, 'MINE=b PROGRAM', 1, 'or read again in the run, does not count' );
    is( $resident->log, "1\n", 'and programs that are started before the run have it' );
}

for my $look ( 'Cwd::getcwd()', 'Cwd::cwd()', 'Cwd::abs_path("x")', '-e "x"', '-d -r "."', 'stat "x"', 'open my $f, "<", "x"', 'open my $f, "x"',
    'opendir my $d, "."', 'glob "*.conf"', '<*.conf>', 'glob "/tmp/* x"', 'require File::Glob; File::Glob::bsd_glob("*")', 'local @ARGV = ("x"); <>', 'local @ARGV = "x"; <<>>',
    'local @ARGV = "x"; my $l = ""; $l .= <>', 'local @ARGV = "x"; while (<>) { }', 'do "./x.pl"', 'require File::Spec; File::Spec->rel2abs("x")', 'push @INC, "lib"', 'readlink "x"', 'use lib "lib"' )
{
    my $resident = start("{ no warnings; $look; }");
    is_for( $resident, 'PROGRAM',       1, "$look: where it was started" );
    is_for( $resident, 'cd /; PROGRAM', 0, "$look: in another directory" );
    is( $resident->ask(2)->{reads_directory}, Cwd::abs_path("$resident->{directory}"), "$look: it is reported" );
}

for my $look ( 'Cwd::abs_path("/x")', '-e "/x"', 'open my $f, "<", "/dev/null"', 'glob "/x/* /y"', 'local @ARGV = ("/dev/null"); <>', 'use FindBin; use lib $FindBin::Bin', 'use POSIX; use JSON::PP; use File::Temp' ) {
    is_for( my $resident = start("{ $look; }"), 'PROGRAM', 1, "$look: where it was started" );
    is_for( $resident, 'cd /; PROGRAM', 1, "$look: in another directory" );
}

for my $look ( '`true`', 'system "true"', 'open my $f, "-|", "true"', 'open my $f, "true|"', 'open my $f, "| true"',
    'if (my $p = fork) { waitpid $p, 0 } else { require POSIX; POSIX::_exit(0) }', 'require IPC::Open3; waitpid IPC::Open3::open3(undef, undef, undef, "true"), 0' )
{
    my $resident = start("{ no warnings; $look; }");
    is_for( $resident, 'MINE=a PROGRAM',       1, "$look: where it was started" );
    is_for( $resident, 'MINE=b PROGRAM',       0, "$look: with another variable" );
    is_for( $resident, 'cd /; MINE=a PROGRAM', 0, "$look: in another directory" );
    is_deeply( $resident->ask(2)->{reads}, ['*'], "$look: it is reported" );
}

{
    my $resident = start('{ my @r = glob "~/*"; }');
    is_for( $resident, 'HOME=/tmp PROGRAM',       1, 'a home directory: where it was started' );
    is_for( $resident, 'cd /; HOME=/tmp PROGRAM', 1, 'a home directory: in another one' );
    is_for( $resident, 'HOME=/ PROGRAM',          0, 'another home directory' );
}

for my $look ( '-t STDIN', '-p *STDIN', 'stat STDIN', '<STDIN>', 'local @ARGV; <>', 'local @ARGV = "-"; <>' ) {
    my $resident = start("{ my \@r = $look; }");
    is_for( $resident, 'PROGRAM </dev/null', 1, "$look: without input" );
    is_for( $resident, 'echo | PROGRAM',     0, "$look: with a pipe" );
}

{
    my $resident = start( '$ENV{MINE}; Cwd::getcwd(); -t STDIN;', options => q{reread => ['MINE'], same_directory => 0, early_input => 0} );
    is_for( $resident, 'MINE=a PROGRAM', 1, 'with options' );
    is_for( $resident, 'cd /; echo | MINE=b PROGRAM', 1, 'nothing of it counts' );
    $resident = start( '', options => q{environment => ['MINE'], same_directory => 1, early_input => 1} );
    is_for( $resident, 'MINE=a PROGRAM </dev/null', 1, 'with other options' );
    is_for( $resident, "$_ PROGRAM", 0, "$_ counts" ) for 'MINE=b', 'cd /; MINE=a', 'echo | MINE=a';
    $resident = start( '', options => 'warm => sub { my $r = $ENV{MINE}; -e "x" }' );
    is_for( $resident, 'MINE=a PROGRAM', 1, 'what warm reads' );
    is_for( $resident, "$_ PROGRAM", 0, "$_ counts" ) for 'MINE=b', 'cd /; MINE=a';
}

done_testing;
