#!/usr/bin/perl
# The Perl caller: measures one way to call, when it is told to. What it prints
# and what is timed is as in caller.c; allocations are not counted.
#
#     caller.pl raw|typed ADDRESS PAYLOAD_BYTES
use v5.26;
use warnings;

use Nearcall;
use Time::HiRes qw(clock_gettime CLOCK_MONOTONIC CLOCK_PROCESS_CPUTIME_ID);

use constant {NOT_COUNTED => 2**64 - 1, S_PER_MS => 1e-3, NS_PER_S => 1e9};

# How the calls went, as a report tells it.
use constant TRANSPORTS => {'unix socket' => 1, 'shared memory' => 2};

sub subject {
    my ($mode, $address, $payload_bytes) = @_;
    my $go = Nearcall->new($address);
    if ($mode eq 'raw') {
        my $payload = pack 'C*', map { ($_ * 31 + 7) & 255 } 0 .. $payload_bytes - 1;
        die "echo differs\n" if $go->call(echo => $payload) ne $payload;
        return ($go, sub { $go->call(echo => $payload) });
    }
    die "usage: caller.pl raw|typed ADDRESS PAYLOAD_BYTES\n" if $mode ne 'typed';
    die "ack(0, 1) is not 2\n" if $go->call(ack => 0, 1) != 2;
    return ($go, sub { $go->call(ack => 0, 1) });
}

sub run {
    my ($go, $call, $run_ms) = @_;
    my @samples;
    my $begin_cpu = clock_gettime(CLOCK_PROCESS_CPUTIME_ID);
    my $begin = clock_gettime(CLOCK_MONOTONIC);
    my $until = $begin + $run_ms * S_PER_MS;
    my $end = $begin;
    while ($end < $until) {
        my $start = clock_gettime(CLOCK_MONOTONIC);
        $call->();
        $end = clock_gettime(CLOCK_MONOTONIC);
        push @samples, ($end - $start) * NS_PER_S;
    }
    my $cpu = clock_gettime(CLOCK_PROCESS_CPUTIME_ID) - $begin_cpu;
    my $transport = $go->can('transport') ? TRANSPORTS->{$go->transport} // 0 : 0;
    print pack 'Q*', scalar @samples, ($end - $begin) * NS_PER_S, $cpu * NS_PER_S, NOT_COUNTED, scalar @samples, $transport,
        @samples;
}

my ($go, $call) = subject(@ARGV == 3 ? @ARGV : ('', '', 0));
$| = 1;
binmode STDOUT;
print "ready\n";
while (my $line = <STDIN>) {
    $line =~ /\Arun ([1-9][0-9]*)\b/ or die "expected \"run MILLISECONDS\", got $line";
    run($go, $call, $1);
}
