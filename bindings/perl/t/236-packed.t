# Lists of numbers that travel as blocks: Nearcall::Packed as arguments, strings and arrays as results.

use strict;
use warnings;

use Test::More;
use FindBin ();
use lib "$FindBin::Bin/lib";
use LyingServer qw(msgpack);
use TestServer;
use TestTools qw(error_of);

use Nearcall;
use Nearcall::Packed;

my $server = TestServer->start;
my $go = Nearcall->new( $server->address, timeout => 10 );
my $strings = $go->with( packed => 1 );

sub doubles { return Nearcall::Packed->new( 'd*', pack 'd*', @_ ) }

subtest 'there and back' => sub {
    for my $count ( 0, 1, 7, 8, 1000, 100_000, 200_000 ) {
        my @numbers = map { $_ / 4 } 1 .. $count;
        my $twice = pack 'd*', map { $_ * 2 } @numbers;
        for my $sent ( doubles(@numbers), \@numbers ) {
            my $list = $go->scale( $sent, 2 );
            is( ref $list, 'ARRAY', 'a list by default' );
            ok( ( pack 'd*', @$list ) eq $twice, "$count numbers" );
            ok( $strings->scale( $sent, 2 ) eq $twice, "$count numbers as a string" );
        }
    }
};

subtest 'types' => sub {
    my @integers = map { $_ * 1_000_003 } -500 .. 499;
    is_deeply( $go->reverse( Nearcall::Packed->new( 'q*', pack 'q*', @integers ) ), [ reverse @integers ], 'int64' );
    is( $strings->reverse( \@integers ), pack( 'q*', reverse @integers ), 'int64 as a string' );
    my $flags = $go->flip( Nearcall::Packed->new( bool => "\1\0" x 100 ) );
    is( ref $flags->[0], 'JSON::PP::Boolean', 'booleans are booleans' );
    ok( !$flags->[0] && $flags->[199], 'bool' );
    is( $strings->flip( [ ( 1, 0 ) x 100 ] ), "\0\1" x 100, 'bool as a string' );
    my @rows = ( doubles( 1 .. 20 ), doubles( 101 .. 120 ) );
    is_deeply( $go->transpose( \@rows ), [ map { [ $_, $_ + 100 ] } 1 .. 20 ], 'rows' );
    is_deeply( $strings->transpose( \@rows ), [ map { pack 'd*', $_, $_ + 100 } 1 .. 20 ], 'rows as strings' );
};

subtest 'what is another list' => sub {
    my $floats = Nearcall::Packed->new( 'f*', pack 'f*', 1 .. 50 );
    is_deeply( $go->echo_numbers($floats), [ 1 .. 50 ], 'of another type' );
    is_deeply( $go->echo_numbers( Nearcall::Packed->new( 'l*', pack 'l*', 1 .. 50 ) ), [ 1 .. 50 ], 'of integers' );
    is_deeply( $go->identity($floats), [ 1 .. 50 ], 'for any' );
    like( error_of { $go->reverse( doubles(1.5) ) }->message, qr/element 0: expected int64/, 'numbers that do not fit' );
    like( error_of { $go->upper( doubles(1) ) }->message, qr/expected string/, 'for a string' );
    my $spoiled = doubles( 1 .. 20 );
    $spoiled->[1] .= 'x';
    is_deeply( $go->echo_numbers($spoiled), [ 1 .. 20 ], 'whose bytes were spoiled' );
    my @small = (7) x 1_000_000;
    my $back = $go->reverse( Nearcall::Packed->new( 'q*', pack 'q*', @small ) );
    is( scalar @$back, 1_000_000, 'small integers that would not fit a frame as a block' );
};

subtest 'new' => sub {
    for my $wrong ( [], ['d*'], [ 'x*', '' ], [ 'd*', 'abc' ], [ 'd*', "\x{100}" x 8 ], [ 'd*', [] ], [ 'd>*', '' ], [ 'any', '' ] ) {
        ok( !eval { Nearcall::Packed->new(@$wrong) }, 'croaks' );
        like( $@, qr/\ANearcall::Packed: .* at .*236-packed/, 'says why' );
    }
    my $wide = pack 'd*', 0.1, 0.2;
    utf8::upgrade($wide);
    my $packed = Nearcall::Packed->new( float64 => $wide );
    is_deeply( [ $packed->list ], [ 0.1, 0.2 ], 'list' );
    is( $packed->bytes, pack( 'd*', 0.1, 0.2 ), 'bytes' );
};

# What a server sends, byte for byte.
sub block {
    my ( $element, $bytes ) = @_;
    return pack 'C N C C C a*', 0xC9, 3 + length $bytes, 2, $element, 1, "\xAA$bytes";
}

my $list = { name => 'f', params => [ { name => 'p', type => { list => 'float64' } } ], results => [ { list => 'float64' } ] };

sub answered_with {
    my ($reply) = @_;
    my $lying = LyingServer->start( msgpack($list), $reply );
    my $client = Nearcall->new( $lying->address, timeout => 10 );
    return ( $lying, $client );
}

subtest 'servers' => sub {
    my ( $old, $client ) = answered_with("\x92\x01\x02");
    is_deeply( $client->f( doubles( 1 .. 50 ) ), [ 1, 2 ], 'one that takes no blocks' );
    is( $client->with( packed => 1 )->f( doubles( 1 .. 50 ) ), pack( 'd*', 1, 2 ), 'its arrays become strings' );
    my %wrong = (
        'another type' => block( 4, pack 'l<*', 1, 2 ), 'no type' => block( 12, 'xxxxxxxx' ), 'half an element' => block( 11, 'xxxx' ),
        'no head' => "\xC7\x00\x02", 'a number' => "\x05", 'text inside' => "\x91\xA1x", 'a lie' => "\xDD\xFF\xFF\xFF\xFF",
    );
    for my $what ( sort keys %wrong ) {
        my ( $lying, $go_on ) = answered_with( $wrong{$what} );
        for my $options ( [], [ packed => 1 ] ) {
            my $view = @$options ? $go_on->with(@$options) : $go_on;
            my $error = error_of { $view->f( [1] ) };
            ok( ref $error && $error->is('INTERNAL'), $what ) or diag $error;
            is( $error->outcome_text, 'executed, result lost', 'the outcome' );
        }
    }
};

subtest 'views and calls in flight' => sub {
    my $view = $strings->with( timeout => 5 )->with( attempts => 2 );
    is( $view->echo_numbers( [1] ), pack( 'd', 1 ), 'a view of a view' );
    is_deeply( $go->echo_numbers( [1] ), [1], 'the handle itself stays' );
    my $call = $strings->begin( 'echo_numbers', doubles( 1 .. 100 ) );
    is( $call->wait, pack( 'd*', 1 .. 100 ), 'a call that was begun' );
    for ( 1 .. 40 ) {
        my @numbers = map { rand } 1 .. 1000;
        my $packed = doubles(@numbers);
        fail("call $_") if $strings->echo_numbers($packed) ne $packed->bytes;
    }
    pass('by the socket and through memory');
};

done_testing;
