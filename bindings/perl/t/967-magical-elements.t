use strict;
use warnings;

# Elements whose value is only what they say when they are asked: they are sent as they were when
# the first code ran, as arguments and plain elements are.

use Test::More;
use FindBin ();
use lib "$FindBin::Bin/lib";
use TestServer;
use TestTools qw(error_of);
use Hostile qw(text tied_value list_of litter);

use Nearcall;

my $server = TestServer->start( arguments => [ '-generation', 1 ] );
my $go = Nearcall->new( $server->address, timeout => 30 );

sub aliases { return \@_ }
sub shown { my ($list) = @_; return join ' ', map { ref ? '[' . shown($_) . ']' : $_ // 'undef' } @$list }

# Sends a list of the values; the first is code that does what is said.
sub sent_beside {
    my $does = shift;
    return shown( $go->identity( aliases( text( sub { $does->(); litter(); 'T' } ), @_ ) ) );
}

subtest 'elements that perl makes when they are asked' => sub {
    my ( $text, $bits, @list, %hash ) = ( 'abcdef', "\1", 1, 2, 3 );
    is( sent_beside( sub { $text = 'uvwxyz' }, substr $text, 1, 2 ), 'T bc', 'substr' );
    $text = 'abcdef';
    is( sent_beside( sub { $text = '' }, substr $text, 1, 2 ), 'T bc', 'substr of what is gone' );
    is( sent_beside( sub { $bits = "\2" }, vec $bits, 0, 8 ), 'T 1', 'vec' );
    $text = 'abc';
    $text =~ /b/g;
    is( sent_beside( sub { pos($text) = 3 }, pos $text ), 'T 2', 'pos' );
    is( sent_beside( sub { push @list, 4 }, $#list ), 'T 2', 'the last index' );
    is( sent_beside( sub { $hash{new} = 'set' }, $hash{new} ), 'T undef', 'an element to come' );
    'abc' =~ /(b)/;
    is( sent_beside( sub { 'xyz' =~ /(y)/ }, $1 ), 'T b', 'a capture' );
    local $! = 2;
    my $error = "$!";
    is( sent_beside( sub { $! = 1 }, $! ), "T $error", '$!' );
};

subtest 'tied elements' => sub {
    my $value;
    tied_value( $value, sub { 'tied' } );
    is( sent_beside( sub { untie $value; $value = 'later' }, $value ), 'T tied', 'that other code unties' );
    my $own;
    tied_value( $own, sub { untie $own; $own = 'later'; 'own' } );
    is( shown( $go->identity( aliases( 'a', $own, 'b' ) ) ), 'a own b', 'that its own code unties' );
    my ( $text, $first ) = 'abcdef';
    tied_value( $first, sub { $text = 'uvwxyz'; 'first' } );
    is( shown( $go->identity( aliases( substr( $text, 0, 2 ), $first, 'b' ) ) ), 'ab first b', 'behind a substr that they change' );
    my $count = 0;
    tied_value( my $counter, sub { ++$count } );
    is( shown( $go->identity( aliases( ($counter) x 4 ) ) ), '1 2 3 4', 'one that counts' );
    my @order;
    my @tied = (undef) x 4;
    for my $i ( 0 .. 3 ) {
        tied_value( $tied[$i], sub { push @order, $i; @tied = (); litter(); "t$i" } );
    }
    is( shown( $go->identity( \@tied ) ), 't0 t1 t2 t3', 'that drop their list' );
    is( "@order", '0 1 2 3', 'each is asked once, in order' );
    my $dies;
    tied_value( $dies, sub { die "of its own\n" } );
    is( error_of { sent_beside( sub { }, 'a', $dies ) }, "of its own\n", 'that die' );
    my $calls;
    tied_value( $calls, sub { $go->one } );
    like( error_of { sent_beside( sub { }, 'a', $calls ) }, qr/argument 1 \(value\), element 2: its own code used the handle/, 'that call, are named' );
    my %hash = ( a => text( sub { 'T' } ) );
    tied_value( $hash{b}, sub { $go->one } );
    like( error_of { $go->identity( \%hash ) }, qr/argument 1 \(value\), "b": its own code used the handle/, 'of a hash' );
    is( $go->one, 1, 'the handle can be used' );
};

subtest 'of hashes and structs' => sub {
    my ( $text, %hash ) = 'abcdef';
    for my $key ( 'a' .. 'f' ) { $hash{$key} = text( sub { $text = 'uvwxyz'; 'T' } ) }
    tied_value( $hash{tied}, sub { $text } );
    my $back = $go->identity( \%hash );
    is( join( ' ', map { $back->{$_} } sort keys %$back ), 'T T T T T T abcdef', 'a hash' );
    $text = 'abcdef';
    my %person = ( name => text( sub { $text = 'uvwxyz'; 'Ada' } ) );
    tied_value( $person{age}, sub { $text eq 'abcdef' ? 7 : 99 } );
    is( $go->greet( \%person ), 'Hello, Ada, 7', 'a struct' );
    $text = 'abcdef';
    { no strict 'refs'; *{'Hostile::Late::name'} = sub { $text = 'uvwxyz'; 'Ada' }; *{'Hostile::Late::tags'} = sub { ['x'] } }
    my $object = bless {}, 'Hostile::Late';
    tied_value( $object->{age}, sub { $text eq 'abcdef' ? 7 : 99 } );
    is( $go->greet($object), 'Hello, Ada, 7 [x]', 'an object, keys before methods' );
    $text = 'abcdef';
    my ( $is_outer, @outer ) = 'outer';
    @outer = ( [ text( sub { $is_outer = 'changed'; 'T' } ), 'in' ] );
    tied_value( $outer[1], sub { $is_outer } );
    is( shown( $go->identity( \@outer ) ), '[T in] outer', 'a list around' );
};

# What comes first is walked, or its code run, after the tied value behind it was asked: that changes the variable.
subtest 'a value that the code of another changes before its own runs' => sub {
    { package Given::Data; sub TO_JSON { return 'data' } }
    my %first = (
        'a tied array' => [ sub { Hostile::tied_list( size => sub { 2 }, fetch => sub { "e$_[0]" } ) }, '[e0 e1]' ],
        'a tied hash' => [ sub { Hostile::tied_hash( next => sub { defined $_[0] ? undef : 'key' }, fetch => sub { 'value' } ) }, '[key value]' ],
        'text'      => [ sub { text( sub { 'text' } ) }, 'text' ],
        'an object' => [ sub { bless [], 'Given::Data' }, 'data' ],
    );
    for my $what ( sort keys %first ) {
        my ( $make, $expected ) = @{ $first{$what} };
        my $list = [ $make->(), undef, 'end' ];
        tied_value( $list->[1], sub { $_ = 'changed' for $list->[0]; litter(); 'asked' } );
        my $said = eval { $go->identity($list) } // [$@];
        is( shown( [ map { ref eq 'HASH' ? [%$_] : $_ } @$said ] ), "$expected asked end", $what );
    }
    my $person = { tags => list_of( sub { [ 'a', 'b' ] } ), name => 'Ada', age => undef };
    tied_value( $person->{age}, sub { $_ = ['changed'] for $person->{tags}; litter(); 7 } );
    is( $go->greet($person), 'Hello, Ada, 7 [a,b]', 'a field' );
    my $naps = [ bless( { Length => 1 }, 'Given::Nap' ), undef ];
    tied_value( $naps->[1], sub { $_ = 'changed' for $naps->[0]; litter(); { Length => 2 } } );
    is( eval { $go->naps($naps) } // $@, '[{1s} {2s}]', 'an object that is a struct' );
};

done_testing;
