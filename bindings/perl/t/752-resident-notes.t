use strict;
use warnings;

# Nearcall::Resident: what it notes for 'nearcall resident check'.

use Test::More;
use FindBin ();
use lib "$FindBin::Bin/lib";
use TestResident;

# What a program is noted to do in BEGIN, and its run.
sub notes {
    my ( $before, $block ) = @_;
    my $resident = TestResident->new( "my \@kept; BEGIN { no warnings; \@kept = do { $before } }", $block // '1' );
    my $path     = "$resident->{directory}/notes";
    local $ENV{NEARCALL_RESIDENT_NOTES} = $path;
    $resident->run;
    is( $resident->log, '', "$before: it is silent" );
    open my $notes, '<', $path or return;
    return map { chomp; [ split /\t/, $_, 4 ] } readline $notes;
}

for my $touch (
    [ '$ENV{MINE}',                          'variable',   'MINE' ],
    [ 'Cwd::getcwd()',                       'directory',  '' ],
    [ 'open my $f, "<", "/etc/passwd"',      'file',       '/etc/passwd' ],
    [ '-e "/etc/passwd"',                    'file',       '/etc/passwd' ],
    [ 'opendir my $d, "/etc"',               'file',       '/etc' ],
    [ '-t STDIN',                            'input',      '' ],
    [ 'time',                                'time',       'time' ],
    [ 'my @now = localtime',                 'time',       'localtime' ],
    [ 'rand',                                'randomness', 'rand' ],
    [ '`true`',                              'process',    'true' ],
    [ 'socket my $s, 2, 1, 0',               'socket',     'socket' ],
    )
{
    my ( $before, $kind, $name ) = @{$touch};
    my @found = grep { $_->[0] eq 'before' && $_->[1] eq $kind } notes( "use Cwd (); $before" );
    is_deeply( [ map { $_->[3] } @found ], [$name], "$before is noted" );
    like( $found[0][2], qr{/program:\d+\z}, "$before: with its place" );
}

is_deeply( [ notes($_) ], [], "$_ is not noted" ) for 'my @then = localtime 0', 'my @then = gmtime 0', 'use POSIX (); use List::Util ()';

{
    my @found = notes( 'require File::Spec; my ($of) = grep { m{/JSON/PP[.]pm\z} && -e } map { "$_/JSON/PP.pm" } @INC; open my $f, "<", $of or die', 'require File::Spec; require Text::Wrap; eval "use Time::Local; 1" or die $@; eval { require Not::There }; my $now = time' );
    is_deeply( [ map { join ' ', @{$_} } @found ], [ 'run module  Text::Wrap', 'run module  Time::Local' ], 'what a run loads is noted, and nothing else' );
}

{
    my $resident = TestResident->new( 'BEGIN { my $now = time }', 'require Text::Wrap' );
    $resident->run;
    is( -e "$resident->{directory}/notes", undef, 'nothing is noted without being asked' );
}

done_testing;
