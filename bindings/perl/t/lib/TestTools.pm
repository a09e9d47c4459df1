package TestTools;

# Small things that several tests measure or wait for.

use strict;
use warnings;

use Exporter 'import';
use POSIX ();
use Test::More ();
use Time::HiRes qw(time sleep);

our @EXPORT_OK = qw(error_of descriptors sockets peak_kib rss_kib wait_until in_child timed stops is_bounded leads signal_when_asleep);

# The exception that a block throws; fails the test when there is none.
sub error_of(&) {
    my ($block) = @_;
    local $@;
    return $@ if !eval { $block->(); 1 };
    Test::More::fail('something is thrown');
    return '';
}

# The process's open descriptors, without the one that lists them.
sub descriptors {
    my ($pid) = @_;
    $pid //= $$;
    opendir my $listing, "/proc/$pid/fd" or die "/proc/$pid/fd: $!";
    my @numbers = grep { /\A[0-9]+\z/ } readdir $listing;
    return scalar @numbers - ( $pid == $$ ? 1 : 0 );
}

# Which sockets the process has open, as one text.
sub sockets {
    return join ' ', sort grep { defined && /\Asocket:/ } map { readlink } glob '/proc/self/fd/*';
}

sub rss_kib  { return _kib('VmRSS') }
sub peak_kib { return _kib('VmHWM') }

sub _kib {
    my ($what) = @_;
    open my $status, '<', '/proc/self/status' or die "/proc/self/status: $!";
    my ($kib) = map { /\A$what:\s+([0-9]+)/ } readline $status;
    return $kib;
}

# Polls a condition that nothing announces, for a minute at most.
sub wait_until(&) {
    my ($condition) = @_;
    my $end = time + 60;
    while ( time < $end ) {
        return 1 if $condition->();
        sleep 0.002;
    }
    return 0;
}

# Servers that lead groups of processes: none outlives the test, however that ends.
my %leaders;

# The whole test, which says what it waited for where it takes too long: before whoever runs it does,
# by whom its servers would live on.
sub is_bounded {
    my ($waits_for) = @_;
    $SIG{ALRM} = sub { die "in 240 s: no end of waiting for $waits_for\n" };
    alarm 240;
    return;
}

sub leads { my ($pid) = @_; $leaders{$pid} = $$; return $pid }

END {
    local $?;
    stops($_) for grep { $leaders{$_} == $$ } keys %leaders;
}

# Ends a server that leads a group of processes, and reaps it. False when it did not end by
# itself: then the whole group was killed.
sub stops {
    my ($pid) = @_;
    delete $leaders{$pid};
    kill 'TERM', $pid;
    return 1 if wait_until { waitpid( $pid, POSIX::WNOHANG() ) == $pid };
    kill 'KILL', -$pid, $pid;
    waitpid $pid, 0;
    return 0;
}

# How long a block takes, but for what the machine adds: a process that only slept
# meanwhile was woken late too, and the block may be woken several times.
sub timed(&) {
    my ($block) = @_;
    pipe my $end,    my $going  or die "pipe: $!";
    pipe my $answer, my $writer or die "pipe: $!";
    my $pid = fork // die "fork: $!";
    if ( !$pid ) {
        close $going;
        my ( $late, $nap ) = ( 0, 0.002 );
        my $is_over;
        until ($is_over) {
            my $began = time;
            $is_over = select my $ready = _bits($end), undef, undef, $nap;
            $late = time - $began - $nap if $late < time - $began - $nap;
        }
        syswrite $writer, $late;
        require POSIX;
        POSIX::_exit(0);
    }
    close $_ for $end, $writer;
    my $began = time;
    $block->();
    my $took = time - $began;
    close $going;
    my $late = do { local $/; readline $answer };
    waitpid $pid, 0;
    return $took - 4 * $late;
}

sub _bits { my ($handle) = @_; vec( my $bits = '', fileno $handle, 1 ) = 1; return $bits }

# Sends this process a signal as soon as it sleeps, which until then it must not do but in
# what is tested. Returns the process that does, to be waited for.
sub signal_when_asleep {
    my ($name) = @_;
    my $target = $$;
    my $pid = fork // die "fork: $!";
    return $pid if $pid;
    my $state = '';
    while ( $state ne 'S' ) {
        open my $status, '<', "/proc/$target/stat" or last;
        ($state) = readline($status) =~ /\) (\S)/;
    }
    kill $name, $target;
    require POSIX;
    POSIX::_exit(0);
}

# Runs a block in a child that ends without cleaning up; returns what the block
# returned, as a string, or the child's fate.
sub in_child(&) {
    my ($block) = @_;
    pipe my $reader, my $writer or die "pipe: $!";
    my $pid = fork // die "fork: $!";
    if ( !$pid ) {
        my $answer = eval { $block->() };
        syswrite $writer, defined $answer ? $answer : "died: $@";
        require POSIX;
        POSIX::_exit(0);
    }
    close $writer;
    my $answer = do { local $/; readline $reader };
    waitpid $pid, 0;
    return $? ? "status $?" : $answer;
}

1;
