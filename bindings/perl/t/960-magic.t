use strict;
use warnings;

use Test::More;
use FindBin ();
use lib "$FindBin::Bin/lib";
use TestServer;
use TestTools qw(error_of);

use Math::BigInt ();

use Nearcall;

my $server = TestServer->start;
my $go = Nearcall->new( $server->address, timeout => 10 );

{
    package Tied::Scalar;
    our $fetched = 0;
    sub TIESCALAR { my ( $class, $code ) = @_; return bless { code => $code }, $class }
    sub FETCH { $fetched++; return $_[0]{code}->() }
}

# References to containers with one tied element: a copy would not be tied.
sub tied_list { my ($code) = @_; my @list = (1); tie $list[1], 'Tied::Scalar', $code; return \@list }
sub tied_hash { my ( $name, $code ) = @_; my %hash; tie $hash{$name}, 'Tied::Scalar', $code; return \%hash }

subtest 'tied scalars are fetched once' => sub {
    tie my $value, 'Tied::Scalar', sub { 3 };
    my $list = tied_list( sub { 3 } );
    my $hash = tied_hash( name => sub { 3 } );
    for my $way ( sub { $go->ack( 1, $value ) }, sub { $go->identity($list) },
        sub { $go->optional_sum( 1, $value ) }, sub { $go->greet($hash) }, sub { $go->identity($hash) },
        sub { $go->begin( ack => 1, $value )->wait }, sub { $go->add( $value, 1 ) } )
    {
        $Tied::Scalar::fetched = 0;
        $way->();
        is( $Tied::Scalar::fetched, 1, 'once' );
    }
    is( $go->ack( 1, $value ), 5, 'and right' );
};

subtest 'magical variables' => sub {
    'hello world' =~ /(\w+) (\w+)/ or die;
    is( $go->upper($1), 'HELLO', 'a capture' );
    is( $go->upper( substr 'abcdef', 1, 2 ), 'BC', 'substr' );
    local $ENV{NEARCALL_WORD} = 'env';
    is( $go->upper( $ENV{NEARCALL_WORD} ), 'ENV', 'the environment' );
    my %sparse;
    is( $go->optional_sum( 1, $sparse{none} ), 1, 'an element that does not exist' );
    ok( !exists $sparse{none}, 'is not made' );
};

subtest 'tied arrays and hashes' => sub {
    require Tie::Array;
    require Tie::Hash;
    tie my @list, 'Tie::StdArray';
    tie my %hash, 'Tie::StdHash';
    @list = ( 1, 2, 3 );
    %hash = ( name => 'Ada', tags => \@list );
    is( $go->greet( \%hash ), 'Hello, Ada [1,2,3]', 'both' );
    is_deeply( $go->identity( { a => \@list } ), { a => [ 1, 2, 3 ] }, 'as any' );
};

subtest 'overloading' => sub {
    is( $go->sum( Math::BigInt->new('9223372036854775806'), 1 ), 9223372036854775807, 'a big number' );
    is( $go->upper( Math::BigInt->new(12) ), '12', 'as text' );
    {
        package Wrapped::List;
        use overload '@{}' => sub { $_[0]->() }, fallback => 1;
        sub new { my ( $class, @values ) = @_; return bless sub { \@values }, $class }
    }
    is( $go->greet( { name => 'Ada', tags => Wrapped::List->new('a') } ), 'Hello, Ada [a]', 'a list' );
    like( error_of { $go->upper( bless {}, 'Plain' ) }->message, qr/got a reference to Plain/, 'an object without' );
};

subtest 'code of an argument that uses the handle' => sub {
    tie my $calling, 'Tied::Scalar', sub { $go->ack( 0, 1 ) };
    is( $go->ack( 1, $calling ), 4, 'an argument itself may' );
    my $error = error_of { $go->identity( tied_list( sub { $go->one } ) ) };
    is( $error->name, 'INVALID_ARGUMENT', 'one deeper inside may not' );
    like( $error->message, qr/argument 1 \(value\), element 1: its own code used the handle/, 'and is named' );
    is( $go->one, 1, 'the handle goes on' );

    my $handle = Nearcall->new( $server->address, timeout => 10 );
    tie my $closing, 'Tied::Scalar', sub { $handle->close; 1 };
    like( error_of { $handle->ack( 1, $closing ) }, qr/closed/, 'closing it' );
    $handle = Nearcall->new( $server->address, timeout => 10 );
    my $inside = tied_list( sub { $handle->close; 1 } );
    is( error_of { $handle->identity($inside) }->name, 'INVALID_ARGUMENT', 'closing it from deeper inside' );
    $handle = Nearcall->new( $server->address, timeout => 10 );
    tie my $forgetting, 'Tied::Scalar', sub { undef $handle; 1 };
    is( $handle->ack( 1, $forgetting ), 3, 'letting it go' );
    $handle = Nearcall->new( $server->address, timeout => 10 );
    my $deep = tied_list( sub { undef $handle; 1 } );
    is_deeply( $handle->identity($deep), [ 1, 1 ], 'letting it go from deeper inside' );
};

subtest 'code of an argument that dies' => sub {
    tie my $dying, 'Tied::Scalar', sub { die "on purpose\n" };
    is( error_of { $go->ack( 1, $dying ) }, "on purpose\n", 'an argument itself' );
    is( error_of { $go->identity( [ 1, tied_hash( a => sub { die "on purpose\n" } ) ] ) }, "on purpose\n", 'deeper inside' );
    is( $go->one, 1, 'the handle goes on' );
};

done_testing;
