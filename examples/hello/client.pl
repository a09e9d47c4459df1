#!/usr/bin/perl
# The client in Perl: perl client.pl unix:/tmp/hello/nearcall.sock
use v5.26;
use warnings;

use Nearcall;

my $go = Nearcall->new($ARGV[0] // die "usage: client.pl ADDRESS\n");

say 'greet: ', $go->greet('World');

my ($quotient, $remainder) = $go->divide(17, 5);
say "divide: $quotient, remainder $remainder";

say 'visit: ', $go->visit('/');

eval { $go->divide(1, 0); 1 } and die "1 was divided by 0\n";
my $error = $@;
say 'error: ', join ', ', $error->name, $error->outcome_text, $error->message;
