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

subtest 'names with magic' => sub {
    for my $name ( 'upper', 'word_count' ) {
        my $of = sub { my ($way) = @_; "$name" =~ /(\w+)/ or die; return $way->() };
        my $expected = $go->call( "$name", 'abc abc' );
        $of->( sub { $go->one } );
        is_deeply( $of->( sub { $go->call( $1, 'abc abc' ) } ), $expected, "call of $name" );
        is_deeply( $of->( sub { $go->begin( $1, 'abc abc' )->wait } ), $expected, 'begin' );
        is_deeply( $of->( sub { $go->function($1)->('abc abc') } ), $expected, 'function' );
    }
    is( $go->call( substr( 'the upper one', 4, 5 ), 'abc' ), 'ABC', 'a part of a string' );
    'echo' =~ /(\w+)/ or die;
    is( $go->call_raw( $1, 'abc' ), 'abc', 'call_raw' );
    my @words = ('add');
    tie my $word, 'Tied::Scalar', sub { push @words, shift @words; return $words[-1] };
    for my $way ( sub { $go->call( $word, 1, 2 ) }, sub { $go->begin( $word, 1, 2 )->wait },
        sub { $go->function($word)->( 1, 2 ) } )
    {
        @words = ( 'add', 'ack' );
        is( $way->(), 3, 'a tied variable is fetched' );
        is( $words[-1], 'add', 'once' );
    }
};

subtest 'tied variables that hold objects are fetched once' => sub {
    { package Magic::Moment; sub epoch { 5 } sub nanosecond { 0 } }
    { package Magic::Json; sub TO_JSON { ['json'] } }
    require JSON::PP::Boolean;
    my $number = Math::BigInt->new(7);
    my %sent = (
        'a time as any'        => [ sub { $go->identity( $_[0] ) }, bless( {}, 'Magic::Moment' ) ],
        'a time'               => [ sub { $go->later( $_[0], 0 ) }, bless( {}, 'Magic::Moment' ) ],
        'data as any'          => [ sub { $go->identity( $_[0] ) }, bless( {}, 'Magic::Json' ) ],
        'an overloaded object' => [ sub { $go->upper( $_[0] ) }, $number ],
        'one as any'           => [ sub { $go->identity( $_[0] ) }, $number ],
        'a boolean as any'     => [ sub { $go->identity( $_[0] ) }, bless( \( my $one = 1 ), 'JSON::PP::Boolean' ) ],
        'inside of a list'     => [ sub { my @list; tie $list[0], 'Tied::Scalar', sub { $number }; $go->identity( \@list ) } ],
    );
    for my $what ( sort keys %sent ) {
        my ( $way, $object ) = @{ $sent{$what} };
        tie my $value, 'Tied::Scalar', sub { $object };
        $Tied::Scalar::fetched = 0;
        $way->($value);
        is( $Tied::Scalar::fetched, 1, $what );
    }
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

{
    package Only::Compared;
    use overload 'eq' => sub { 1 };
}
{
    package Only::Compared::Data;
    use overload 'eq' => sub { 1 };
    sub TO_JSON { return 'data' }
}
{
    package Only::Text;
    use overload '""' => sub { 'text' }, fallback => 0;
}
{
    package Only::Number;
    use overload '0+' => sub { 5 }, fallback => 0;
}
{
    package Only::List;
    use overload '@{}' => sub { [1] };
}
{
    package Compared::Or::Itself;
    use overload 'eq' => sub { 1 }, fallback => 1;
}
{
    package Whatever;
    use overload 'nomethod' => sub { '7' };
}

subtest 'overloading of something else' => sub {
    my $truth = sub { return ( $go->kinds( $_[0], 0, 0, 0, 0, 0, 0, '', '' ) )[0] ? 'true' : 'false' };
    my %refuses = (
        'Only::Compared' => [qw(truth upper sum add later identity)],
        'Only::Text'     => [qw(truth)],
        'Only::Number'   => [qw(truth upper sum add later identity)],
        'Only::List'     => [qw(truth upper sum add later identity)],
        'Compared::Or::Itself' => [qw(upper sum add later identity)],
    );
    for my $class ( sort keys %refuses ) {
        for my $name ( @{ $refuses{$class} } ) {
            my $object = bless sub { }, $class;
            my $error = error_of { $name eq 'truth' ? $truth->($object) : $go->call( $name, $object, $name =~ /sum|add|later/ ? 0 : () ) };
            like( ref $error ? $error->message : $error, qr/argument 1 \(\w+\): expected \w+.*, got a reference to $class\z/, "$class for $name" );
        }
    }
    is( $go->upper( bless {}, 'Only::Text' ), 'TEXT', 'text that is nothing else' );
    is( $go->upper( bless {}, 'Only::Compared::Data' ), 'DATA', 'data' );
    is( $truth->( bless {}, 'Only::Compared::Data' ), 'true', '... and its truth' );
    is( $truth->( bless {}, 'Compared::Or::Itself' ), 'true', 'a reference is true where perl says so' );
    is( $go->sum( bless( {}, 'Whatever' ), 1 ), 8, 'what stands for all' );
    is( $truth->( bless {}, 'Whatever' ), 'true', '... and its truth' );
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
