use strict;
use warnings;

# The guide's application for Twiggy, as it stands there, has many requests under way in one
# process; what fails among them is answered, and holds up nobody.

use Test::More;
use FindBin ();
use lib "$FindBin::Bin/../t/lib";
use HttpLoad qw(answers);
use PlackServer;
use TestServer;
use TestTools qw(is_bounded wait_until);

is_bounded('Twiggy');
my $guide = "$FindBin::Bin/../../../docs/guides/perl.md";
open my $file, '<', $guide or die "$guide: $!";
my $text = do { local $/; readline $file };
my ($application) = $text =~ /^```perl app\.psgi\n(.*?)^```$/ms or BAIL_OUT('the guide has no application');

my $server = TestServer->start;
local $ENV{NEARCALL_ADDRESS} = $server->address;
my $twiggy = PlackServer->start( 'Twiggy', $application );
ok( wait_until { answers( $twiggy->port, '/one' ) }, 'it answers' );

my %came = HttpLoad::run( port => $twiggy->port, requests => 300, at_a_time => 150, paths => ['/sleep/42'] );
is_deeply( \%came, { '200 42' => 300 }, '300 of 300 requests, 150 at a time' );

%came = HttpLoad::run( port => $twiggy->port, requests => 1, at_a_time => 1, paths => ['/divmod/7/2'] );
is_deeply( \%came, { '200 3 1' => 1 }, 'several results' );

my @paths = qw(/upper/x /fail/5/gone /upper/y /upper/1/2);
%came = HttpLoad::run( port => $twiggy->port, requests => 400, at_a_time => 100, paths => \@paths );
my %count;
$count{ s/\A502 \w+: (\w+).*/502 $1/r } += $came{$_} for keys %came;
is_deeply(
    \%count,
    { '200 X' => 100, '200 Y' => 100, '502 NOT_FOUND' => 100, '502 INVALID_ARGUMENT' => 100 },
    'good ones are answered among others that fail',
);
ok( $twiggy->stop, 'it ends' );

done_testing;
