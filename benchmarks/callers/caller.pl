#!/usr/bin/perl
# The Perl caller: measures one way to call, when it is told to. What it prints
# and what is timed is as in caller.c; allocations are not counted.
#
#     caller.pl MODE ADDRESS PAYLOAD_BYTES
#
# MODE is raw, floats, typed, one, ack, md5; child- before it: from a child of who opened the
# handle; reconnect- before it: with a new handle for each call; alone-one, alone-ack,
# alone-md5: Perl itself, where a sample is of many calls if one takes no longer than to
# read the clock; simple-one, simple-ack, simple-md5: the simple protocol, with a
# connection per call; kept-one, kept-ack, kept-md5: with one; app-NAME: a function of shop.pl.
use v5.26;
use warnings;
no warnings 'recursion'; # of ack()

use Digest::MD5 ();
use FindBin;
use IO::Socket::UNIX;
use Nearcall;
use Time::HiRes qw(clock_gettime CLOCK_MONOTONIC CLOCK_PROCESS_CPUTIME_ID);

use constant {NOT_COUNTED => 2**64 - 1, S_PER_MS => 1e-3, NS_PER_S => 1e9, ALONE_BATCH => 1000, CALLS_UNTIL_MEMORY_MAX => 256};

# In a run with windows the first of so many calls is a sample.
use constant CALLS_OF_A_SAMPLE => 16;

# How the calls went, as a report tells it.
use constant TRANSPORTS => {'unix socket' => 1, 'shared memory' => 2, 'same process' => 3, tcp => 4, tls => 5};

# What the functions are given, and have to answer.
my %known = (typed => [ack => [0, 1], 2], one => [one => [], 1], ack => [ack => [3, 4], 125],
    md5 => [md5 => ['hoge'], 'ea703e7aa1efda0064eaa507d9e8ab7e']);

sub ack {
    my ($m, $n) = @_;
    return $n + 1 if $m == 0;
    return ack($m - 1, $n == 0 ? 1 : ack($m, $n - 1));
}

sub one { return 1 }

# How Perl calls each of them itself, and how often in one sample.
my %alone = (
    one => [sub { my $answer; $answer = one() for 1 .. ALONE_BATCH; return $answer }, ALONE_BATCH],
    ack => [sub { ack(3, 4) }, 1],
    md5 => [sub { my $answer; $answer = Digest::MD5::md5_hex('hoge') for 1 .. ALONE_BATCH; return $answer }, ALONE_BATCH],
);

sub connected {
    my ($path) = @_;
    return IO::Socket::UNIX->new(Peer => $path) || die "$path: $!\n";
}

sub simple {
    my ($address, $function, $arguments, $kept) = @_;
    require JSON::XS; # what was published uses it; the other modes do without
    my $path = $address =~ s/\Aunix://r;
    $kept &&= connected($path);
    return sub {
        my $socket = $kept || connected($path);
        print {$socket} pack 'N/a*', JSON::XS::encode_json({f => $function, a => $arguments});
        $socket->flush;
        $socket->read(my $length, 4) == 4 or die "$path was closed\n";
        $socket->read(my $answer, unpack 'N', $length);
        my $decoded = JSON::XS::decode_json($answer);
        die "answered $answer\n" if !$decoded->{ok};
        return $decoded->{r};
    };
}

# A handle that is made for each call, and with it a connection.
package Reconnecting {
    sub new { my ($class, $address) = @_; return bless {address => $address}, $class }

    sub call {
        my ($self, @call) = @_;
        $self->{last} = Nearcall->new($self->{address});
        return $self->{last}->call(@call);
    }

    sub transport { my ($self) = @_; return $self->{last}->transport }
}

# Bytes that no short cut could guess, the same in every program.
sub payload_of {
    my ($bytes) = @_;
    my $state = 1;
    return pack 'C*', map { ($state = ($state * 1664525 + 1013904223) & 0xFFFFFFFF) >> 24 } 1 .. $bytes;
}

sub differs {
    my ($answer, $expected) = @_;
    $answer //= 'nothing';
    die "answered $answer instead of $expected\n";
}

# This process goes on as the one that serves; its child calls.
sub become_child {
    my $child = fork // die "fork: $!\n";
    return if !$child;
    close STDIN;
    close STDOUT;
    waitpid $child, 0;
    exit($? != 0);
}

# A server gives shared memory to a caller that has called some times. To have been given none
# is no error, because the report tells.
sub reach_memory {
    my ($go, $call) = @_;
    for (1 .. CALLS_UNTIL_MEMORY_MAX) {
        $call->();
        return if $go->transport ne 'unix socket';
    }
    return;
}

# Returns a way to call, what it has to return, its client where it has one, and how many
# calls it makes where that is not one.
sub subject {
    my ($mode, $address, $payload_bytes) = @_;
    if ($mode =~ /\Aalone-(.*)/) {
        my ($call, $count) = $alone{$1}->@*;
        return ($call, $known{$1}[2], undef, $count);
    }
    if ($mode =~ /\A(simple|kept)-(.*)/) {
        my ($function, $arguments, $expected) = $known{$2}->@*;
        return (simple($address, $function, $arguments, $1 eq 'kept'), $expected);
    }
    my $go = ($mode =~ s/\Areconnect-// ? 'Reconnecting' : 'Nearcall')->new($address);
    become_child() if $mode =~ s/\Achild-//;
    if ($mode eq 'raw' || $mode eq 'floats') {
        my $payload = payload_of($payload_bytes);
        my $echo = sub { $go->call(echo => $payload) };
        reach_memory($go, $echo) if ref $go eq 'Nearcall' && $address !~ /shm=off/;
        return ($echo, $payload, $go) if $mode eq 'raw';
        require Nearcall::Packed;
        my ($numbers, $strings) = (Nearcall::Packed->new('d*', $payload), $go->with(packed => 1));
        return (sub { $strings->call(echo_numbers => $numbers) }, $payload, $go);
    }
    if ($mode =~ /\Aapp-(.*)/) {
        require "$FindBin::Bin/shop.pl"; # the other modes do without
        my ($call, $answer) = Shop::subject($1, $go, \&payload_of);
        reach_memory($go, $call);
        return ($call, $answer, $go);
    }
    my ($function, $arguments, $expected) = ($known{$mode} // die "no mode $mode, see caller.pl\n")->@*;
    my @arguments = $arguments->@*;
    return (sub { $go->call($function, @arguments) }, $expected, $go);
}

# Calls until then. Returns how many calls, when the last ended, and their times.
sub call_until {
    my ($call, $expected, $begin, $until) = @_;
    my ($end, @samples) = $begin;
    while ($end < $until) {
        my $start = clock_gettime(CLOCK_MONOTONIC);
        my $answer = $call->();
        $end = clock_gettime(CLOCK_MONOTONIC);
        push @samples, ($end - $start) * NS_PER_S;
        differs($answer, $expected) if $answer ne $expected;
    }
    return (scalar @samples, $end, \@samples);
}

# Calls without a pause; each is timed from the end of the one before, so that no time is
# left out. Returns also how many calls ended in each window, and in what is left of time.
sub call_sustained {
    my ($call, $expected, $begin, $until, $window) = @_;
    my ($calls, $in_window, $last, $edge, @samples, @windows) = (0, 0, $begin, $begin + $window);
    while ($last < $until) {
        my $answer = $call->();
        my $end = clock_gettime(CLOCK_MONOTONIC);
        while ($end >= $edge) {
            push @windows, $in_window;
            $in_window = 0;
            $edge = $begin + (@windows + 1) * $window;
        }
        $in_window++;
        push @samples, ($end - $last) * NS_PER_S if $calls++ % CALLS_OF_A_SAMPLE == 0;
        differs($answer, $expected) if $answer ne $expected;
        $last = $end;
    }
    return ($calls, $last, \@samples, [@windows, $in_window]);
}

sub run {
    my ($run_ms, $window_ms, $call, $expected, $go, $count) = @_;
    my $begin_cpu = clock_gettime(CLOCK_PROCESS_CPUTIME_ID);
    my $begin = clock_gettime(CLOCK_MONOTONIC);
    my $until = $begin + $run_ms * S_PER_MS;
    my ($calls, $end, $samples, $windows) =
        $window_ms ? call_sustained($call, $expected, $begin, $until, $window_ms * S_PER_MS) : call_until($call, $expected, $begin, $until);
    my $cpu = clock_gettime(CLOCK_PROCESS_CPUTIME_ID) - $begin_cpu;
    my $transport = $go ? TRANSPORTS->{$go->transport} // 0 : 0;
    my @whole = $window_ms ? $windows->@[0 .. int($run_ms / $window_ms) - 1] : ();
    print pack 'Q*', $calls * ($count // 1), ($end - $begin) * NS_PER_S, $cpu * NS_PER_S, NOT_COUNTED, scalar $samples->@*, $transport,
        @whole, $samples->@*;
}

my ($call, $expected, $go, $count) = subject(@ARGV == 3 ? @ARGV : ('', '', 0));
my $first = $call->();
differs($first, $expected) if $first ne $expected;
$| = 1;
binmode STDOUT;
print "ready\n";
while (my $line = <STDIN>) {
    # Neither a rate nor a time to begin.
    $line =~ /\Arun ([1-9][0-9]*)(?: 0(?: 0(?: ([1-9][0-9]*))?)?)?\n\z/ or die "expected \"run MILLISECONDS [0 0 WINDOW_MS]\", got $line";
    my ($run_ms, $window_ms) = ($1, $2);
    die "several calls that are timed together are not counted by windows\n" if $window_ms && ($count // 1) > 1;
    run($run_ms, $window_ms, $call, $expected, $go, $count);
}
