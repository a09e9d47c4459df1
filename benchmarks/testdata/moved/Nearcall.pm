# Stands in for the binding: its calls move the clock, which nothing else does, by 3 ms, the
# 5th by 35.5 ms. The one that a caller makes before it is ready does not count.
package Nearcall;

use strict;
use warnings;

use Time::HiRes ();

use constant {LONG_CALL => 5, CALL_S => 0.003, LONG_CALL_S => 0.0355};

my $now = 0.007;

BEGIN {
    no warnings qw(prototype redefine);
    *Time::HiRes::clock_gettime = sub { return $now };
}

sub new { my ($class) = @_; return bless {calls => -1}, $class }

sub call {
    my ($self) = @_;
    $now += ++$self->{calls} == LONG_CALL ? LONG_CALL_S : CALL_S;
    return 1;
}

sub transport { return '' }

1;
