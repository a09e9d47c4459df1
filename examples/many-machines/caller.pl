#!/usr/bin/perl
# Orders without a pause, from four forked workers, until SIGTERM:
#
#     perl caller.pl ADDRESS
#
# Each worker prints a line for each order: its number, when the call began (in seconds, wall
# clock), how many seconds it took, and which host has taken the order, or the code and the
# outcome of the error.
use v5.26;
use warnings;

use Nearcall;
use Time::HiRes qw(time sleep);

use constant { WORKERS => 4, DEADLINE => 5, REST => 0.005 };

STDOUT->autoflush(1);
my $stop = 0;
local $SIG{TERM} = sub { $stop = 1 };

# The handle is opened before the fork, as in a prefork server. A call that certainly was not
# executed may be sent again.
my $shop = Nearcall->new($ARGV[0], attempts => 8, timeout => DEADLINE);

sub order {
    my ($number) = @_;
    my $begun = time;
    my $host  = eval { $shop->order($number, 'a chair') };
    my $took  = time - $begun;
    if (!defined $host) {
        my $error = $@;
        # Words of a line have no spaces.
        $host = ref $error ? $error->name . '/' . $error->outcome_text =~ tr/ /-/r : 'INTERNAL/unknown';
    }
    printf "%d %.6f %.6f %s\n", $number, $begun, $took, $host;
    return;
}

my @workers;
for my $worker (1 .. WORKERS) {
    my $process = fork // die "fork: $!";
    if ($process) {
        push @workers, $process;
        next;
    }
    for (my $n = 1; !$stop; $n++) {
        order($worker * 1_000_000 + $n);
        sleep REST;
    }
    exit 0;
}
# SIGTERM reaches the parent alone.
while (!$stop) { sleep 0.05 }
kill TERM => @workers;
waitpid $_, 0 for @workers;
