# A test that is killed leaves no server behind: prove would wait for the end of its output.

use strict;
use warnings;

use Test::More;
use FindBin ();
use lib "$FindBin::Bin/lib";

use File::Path qw(remove_tree);
use IO::Select ();
use POSIX ();
use TestServer;

pipe my $output, my $written or die "pipe: $!";
my $pid = fork // die "fork: $!";
if ( !$pid ) {
    open STDERR, '>&', $written or POSIX::_exit(1);
    my $server = TestServer->start;
    print {*STDERR} $server->directory, "\n";
    kill KILL => $$;
}
close $written;
chomp( my $directory = readline($output) // '' );
ok( -d $directory, 'a test starts a server, and is killed' );
waitpid $pid, 0;
remove_tree($directory) if -d $directory;
ok( IO::Select->new($output)->can_read(30), 'what it has written to ends' );
is( readline $output, undef, 'because nobody has it any more' ) if IO::Select->new($output)->can_read(0);

done_testing;
