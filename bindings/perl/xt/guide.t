use strict;
use warnings;

# The programs of the guide, each in a process of its own, print what stands there.

use Test::More;
use File::Temp ();
use FindBin ();
use lib "$FindBin::Bin/../t/lib";
use TestServer;

my $guide = "$FindBin::Bin/../../../docs/guides/perl.md";
open my $file, '<', $guide or die "$guide: $!";
my $text = do { local $/; readline $file };

my ( $beginning, @programs ) = $text =~ /^```perl\n(.*?)^```$(?:\n```text\n(.*?)^```$)?/gms;
shift @programs;    # the beginning prints nothing
cmp_ok( scalar @programs, '>', 10, 'the guide has programs' );

my $library = $ENV{NEARCALL_TESTLIBRARY} or BAIL_OUT('NEARCALL_TESTLIBRARY names no library');
my $server  = TestServer->start;
local $ENV{NEARCALL_ADDRESS} = $server->address;
while ( my ( $program, $output ) = splice @programs, 0, 2 ) {
    $program =~ s{/srv/app/libdemo\.so}{$library};
    my $script = File::Temp->new( SUFFIX => '.pl' );
    print {$script} "\$| = 1;\n# line 1 \"program.pl\"\n$beginning$program";
    close $script;
    open my $run, '-|', $^X, ( map { "-I$_" } @INC ), "$script" or die "perl: $!";
    my $said = do { local $/; readline $run };
    ok( close $run, 'it ends well' );
    is( $said, $output, ( split /\n/, $program )[0] );
}

done_testing;
