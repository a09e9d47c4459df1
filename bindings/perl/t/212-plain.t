# Plain arguments of a call that is waited for take a shorter way than those of a call that is
# begun. Both do the same.
use strict;
use warnings;

use Test::More;
use FindBin ();
use lib "$FindBin::Bin/lib";
use TestServer;

use Nearcall;

my $server = TestServer->start;
my $go = Nearcall->new( $server->address, timeout => 10 );

my $used = '12';
{ no warnings 'void'; $used + 0 }
my @values = (
    0, 1, -1, 127, 128, 2**31, 9223372036854775807, 18446744073709551615, -9223372036854775807 - 1, 1.5, 1e300, '7', $used,
    '', 'x', 'x' x 5000, "\xFC", "\x{263A}", "\x{FC}" x 600, "\x{D800}", !!1, !!0, undef, [1], {}, \1,
);

sub ending {
    my ($call) = @_;
    my @results;
    return join ', ', map { $_ // 'undef' } @results if eval { @results = $call->(); 1 };
    return ref $@ ? $@->code . ': ' . $@->message : $@;
}

for my $function (qw(ack add divmod md5 upper echo)) {
    my $differ = 0;
    for my $value (@values) {
        for my $arguments ( [$value], [ $value, 1 ], [ 1, $value ], [ 1, 2, $value ] ) {
            my $waited = ending( sub { $go->call( $function, @$arguments ) } );
            my $begun  = ending( sub { $go->begin( $function, @$arguments )->wait } );
            $differ++ if $waited ne $begun;
            diag("$function: $waited, not $begun") if $waited ne $begun;
        }
    }
    is( $differ, 0, "$function ends alike" );
}

is( $go->call( upper => "\x{FC}x" ), "\x{DC}X", 'text that is converted' );
is( $go->call( upper => 'y' x 600 ), 'Y' x 600, 'text that is not short' );
is( $go->call( ack => 0, 1 ), 2, 'numbers' );

done_testing;
