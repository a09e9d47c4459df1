#!/usr/bin/perl
# Calls without a pause until SIGTERM or a call that fails, and says what became of its calls:
# perl client.pl unix:/run/demo/nearcall.sock
use v5.26;
use warnings;

use Nearcall;

STDOUT->autoflush(1);
my ($calls, $failed, $server, $stop) = (0, 0, 0, 0);
local $SIG{TERM} = sub { $stop = 1 };

# A call may be sent five times where it was certainly not executed, all within two seconds.
my $go = Nearcall->new($ARGV[0], attempts => 5, timeout => 2);
while (!$stop) {
    $calls++;
    my $process = eval { $go->transfer('alice', 'bob', $calls) };
    if (!defined $process) {
        $failed++;
        print "failed: $@\n";
        last;
    }
    if ($process != $server) {
        $server = $process;
        say "server $server";
    }
}
say "calls $calls, failed $failed";
