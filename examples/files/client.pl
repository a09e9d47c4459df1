#!/usr/bin/perl
# The client in Perl: perl client.pl unix:/tmp/files/nearcall.sock
use v5.26;
use warnings;

use IO::Uncompress::Gunzip qw(gunzip);
use Nearcall;

my $go = Nearcall->new($ARGV[0] // die "usage: client.pl ADDRESS\n");

my $page = $go->open_page('hello.txt');
print 'page: ', readline $page;

# Both sides share the position in a file.
seek $page, 0, 0 or die "seek: $!\n";
pipe my $reader, my $writer or die "pipe: $!\n";
my $read = $go->compress($page, $writer);
close $writer;    # the function has closed its own

gunzip($reader => \my $back) or die "gunzip failed\n";
print "compressed: $read bytes, and back: $back";
