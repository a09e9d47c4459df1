package Devel::Late;

# perl -d:Late: a program that dies before the statement it says, counted from where it
# says so, as a signal's handler may make it die before any.

use strict;
use warnings;

my $left = 0;

# What is compiled from here on stops before each statement; calls are left alone.
BEGIN { $^P = 0x02; $DB::single = 1 }

sub arm { ($left) = @_; return }

# Whether it died since.
sub disarm { my $died = !$left; $left = 0; return $died }

sub DB::DB {
    return unless $left && ( caller 0 )[0] ne __PACKAGE__;
    die "late\n" unless --$left;
    return;
}

1;
