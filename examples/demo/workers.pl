#!/usr/bin/perl
# Opens a handle, forks workers that use it, and measures: workers.pl ADDRESS
use v5.26;
use warnings;

use Nearcall;
use Time::HiRes qw(clock_gettime CLOCK_MONOTONIC);

use constant {WORKERS => 4, CALLS => 20_000};

my $go = Nearcall->new($ARGV[0] // die "usage: workers.pl ADDRESS\n");
$| = 1;

sub greet_and_count {
    my ($who) = @_;
    printf "  Perl   %-9s %6d: %s visit %d\n", $who, $$, $go->greet($who), $go->visit('/demo');
}

greet_and_count('parent');
for my $number (1 .. WORKERS) {
    my $worker = fork // die "fork: $!\n";
    next if $worker;
    greet_and_count("worker $number");
    exit;
}
for (1 .. WORKERS) {
    wait;
    die "a worker failed\n" if $?;
}
greet_and_count('parent');

my @times;
for (1 .. CALLS) {
    my $begin = clock_gettime(CLOCK_MONOTONIC);
    $go->greet('World');
    push @times, clock_gettime(CLOCK_MONOTONIC) - $begin;
}
@times = sort { $a <=> $b } @times;
printf "measured Perl %.1f %.1f\n", map { $_ * 1e6 } @times[CALLS * 0.50, CALLS * 0.99];
