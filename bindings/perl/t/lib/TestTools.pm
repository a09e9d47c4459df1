package TestTools;

# Small things that several tests measure or wait for.

use strict;
use warnings;

use Exporter 'import';
use Test::More ();
use Time::HiRes qw(time sleep);

our @EXPORT_OK = qw(error_of descriptors rss_kib wait_until in_child);

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

sub rss_kib {
    open my $status, '<', '/proc/self/status' or die "/proc/self/status: $!";
    my ($kib) = map { /\AVmRSS:\s+([0-9]+)/ } readline $status;
    return $kib;
}

# Polls a condition that nothing announces, for 10 seconds at most.
sub wait_until(&) {
    my ($condition) = @_;
    my $end = time + 10;
    while ( time < $end ) {
        return 1 if $condition->();
        sleep 0.002;
    }
    return 0;
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
