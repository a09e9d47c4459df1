use strict;
use warnings;

use Test::More;
use FindBin ();
use lib "$FindBin::Bin/lib";
use LyingServer qw(msgpack);
use TestServer;
use TestTools qw(error_of);

use JSON::PP ();
use Math::BigFloat ();
use Math::BigInt ();
use Scalar::Util ();
use Tie::Array ();
use Tie::Hash ();
use Time::Piece ();

use Nearcall;

my $server = TestServer->start;
my $go = Nearcall->new( $server->address, timeout => 10 );

# kinds returns its nine arguments as a list of any.
my @defaults = ( 1, 0, 0, 0, 0, 0, 0, '', '' );
my %place = ( bool => 0, int8 => 1, int64 => 2, uint8 => 3, uint64 => 4, float32 => 5,
    float64 => 6, string => 7, bytes => 8 );

sub through {
    my ( $type, $value ) = @_;
    my @arguments = @defaults;
    $arguments[ $place{$type} ] = $value;
    return $go->kinds(@arguments)->[ $place{$type} ];
}

sub refused {
    my ( $type, $value, $pattern, $name ) = @_;
    local $Test::Builder::Level = $Test::Builder::Level + 1;
    my $error = error_of { through( $type, $value ) };
    isa_ok( $error, 'Nearcall::Error', $name );
    is( $error->name, 'INVALID_ARGUMENT', "$name: code" );
    ok( $error->not_executed, "$name: not executed" );
    like( $error->message, qr/argument @{[ $place{$type} + 1 ]} \(\w+\): .*$pattern/, "$name: message" );
}

subtest 'whole numbers' => sub {
    for my $number ( 0, 1, -1, 127, 128, -128, 65535, 2147483647, -2147483648, 4294967296,
        9007199254740993, 9223372036854775807, -9223372036854775807 - 1 )
    {
        is( through( int64 => $number ),   $number,   "int64 $number" );
        is( through( int64 => "$number" ), $number, "int64 from the string $number" );
    }
    is( through( uint64 => 18446744073709551615 ), '18446744073709551615', 'uint64, the largest' );
    is( through( uint64 => '18446744073709551615' ), '18446744073709551615', 'from a string' );
    is( through( int8 => -128 ), -128, 'int8' );
    is( through( uint8 => 255 ), 255, 'uint8' );
    is( through( int64 => 3.0 ), 3,    'a float that is whole' );
    is( through( int64 => 1e15 ), 1000000000000000, 'a large one' );
    is( through( int64 => '1e3' ), 1000, 'a string with an exponent' );
    is( through( int64 => ' 7 ' ), 7, 'blanks around' );
    is( through( int64 => !!1 ), 1, 'true' );
    is( through( int64 => !!0 ), 0, 'false' );
};

subtest 'what is no whole number, or does not fit' => sub {
    refused( int8   => 128, qr/expected int8 \(-128 to 127\), got 128/, 'too large for int8' );
    refused( int8   => -129, qr/expected int8 .*, got -129/, 'too small for int8' );
    refused( uint8  => -1, qr/expected uint8 \(0 to 255\), got -1/, 'negative' );
    refused( uint8  => 256, qr/expected uint8 .*, got 256/, 'too large for uint8' );
    refused( int64  => '9223372036854775808', qr/expected int64 .*got "9223372036854775808"/, 'beyond int64' );
    refused( uint64 => '18446744073709551616', qr/expected uint64/, 'beyond uint64' );
    refused( uint64 => 18446744073709551616.0, qr/expected uint64/, 'beyond uint64 as a float' );
    refused( int64  => 1.5, qr/expected int64 .*, got 1\.5/, 'a fraction' );
    refused( int64  => 'abc', qr/expected int64 .*, got "abc"/, 'text' );
    refused( int64  => '', qr/expected int64 .*, got ""/, 'nothing' );
    refused( int64  => '12abc', qr/got "12abc"/, 'a number and more' );
    refused( int64  => undef, qr/got undef/, 'undef' );
    refused( int64  => [1], qr/got a reference to ARRAY/, 'a reference' );
    refused( int64  => *STDOUT, qr/got a GLOB/, 'a glob' );
    refused( string => *STDOUT, qr/got a GLOB/, 'a glob as text' );
    refused( string => qr/x/, qr/got a reference to Regexp/, 'a pattern' );
    refused( int64  => 9**9**9, qr/expected int64/, 'infinity' );
    refused( int64  => -sin(9**9**9), qr/expected int64/, 'not a number' );
    refused( int64  => "x" x 1000, qr/got "x{40}"\.\.\.$/, 'long text is cut' );
};

subtest 'floats' => sub {
    for my $number ( 0, 1.5, -2.25, 1e300, 2**53 + 2 ) {
        is( through( float64 => $number ), $number, "float64 $number" );
    }
    is( through( float32 => 1.5 ), 1.5, 'float32' );
    is( through( float64 => '2.5' ), 2.5, 'from a string' );
    is( through( float64 => 7 ), 7, 'from a whole number' );
    is( through( float64 => 9**9**9 ), 9**9**9, 'infinity' );
    my $nan = through( float64 => -sin(9**9**9) );
    ok( $nan != $nan, 'not a number' );
    refused( float32 => 1e300, qr/expected float32 \(a number of at most 3\.4e38, .*\), got 1e\+?300/, 'too large for float32' );
    refused( float64 => 'abc', qr/expected float64 .*, got "abc"/, 'text' );
    refused( float64 => undef, qr/got undef/, 'undef' );
    for my $number ( 9007199254740992, -9007199254740994, 18446744073709549568, '9007199254740994', '1e23' ) {
        cmp_ok( through( float64 => $number ), '==', $number, "float64 $number, which is one" );
    }
    for my $number ( 9007199254740993, -9007199254740993, 18446744073709551615, '9007199254740993', '9007199254740993.0' ) {
        refused( float64 => $number, qr/expected float64 .*, got "?\Q$number\E/, "$number, which no float64 is" );
        refused( float32 => $number, qr/expected float32/, "$number for a float32" );
    }
    for my $text ( '0.10000000000000001', '1e-400', '-1e-400', '0.30000000000000004440', '1.00000000000000001', '18446744073709551617' ) {
        refused( float64 => $text, qr/expected float64 .*, got "\Q$text\E"/, "$text, which no float64 is when it is written out" );
    }
    for my $text ( '0.1', '0.30000000000000004', '.5', '5.', '1e-5', '0.10000000000000000000', '5e-324', '2.2250738585072014e-308',
        '-0.0', '0.000', '1.7976931348623157e308', '00000000000000000001.5', ' 0.25', '18446744073709549568', '100000000000000000000000' )
    {
        cmp_ok( through( float64 => $text ), '==', $text, "float64 '$text'" );
    }
    refused( float64 => Math::BigFloat->new('0.1000000000000000055'), qr/expected float64/, 'a Math::BigFloat with more digits' );
    refused( float64 => Math::BigInt->new('9007199254740993'), qr/expected float64/, 'a Math::BigInt with more digits' );
    is( through( float64 => Math::BigFloat->new('0.1') ), 0.1, 'a Math::BigFloat' );
    is( eval { $go->identity( Math::BigFloat->new('0.1') ) }, undef, 'a Math::BigFloat for any' );
    like( $@, qr/any has no decimal numbers/, '... is refused' );
};

subtest 'truth' => sub {
    for my $true ( 1, 'x', !!1, \1, [], 0.1, JSON::PP::true() ) {
        is( through( bool => $true ), !!1, 'true' );
    }
    for my $false ( 0, '', '0', !!0, \0, undef, JSON::PP::false() ) {
        ok( !through( bool => $false ), 'false' );
    }
};

subtest '"10" and 10' => sub {
    my $number = 10;
    my $text = "10";
    is( $go->upper($number), '10', 'a number where text is wanted' );
    is( $go->sum( $text, $text ), 20, 'text where numbers are wanted' );
    is( JSON::PP->new->encode( [ $number, $text ] ), '[10,"10"]', 'and neither was changed' );
};

subtest 'objects as structs' => sub {
    { package Person; sub new { my ( $class, %self ) = @_; return bless {%self}, $class } }
    is( $go->greet( Person->new( name => 'Ada', tags => ['x'], _id => 7 ) ), 'Hello, Ada [x]',
        'of a hash, without what is optional and with what it keeps for itself' );
    is( error_of { $go->greet( Person->new( name => 'Ada' ) ) }->message,
        'argument 1 (person): an object of class Person has neither a key nor a method "tags", which Person needs',
        'one that lacks a field' );
    like( error_of { $go->greet( Person->new( name => 'Ada', tags => [], aeg => 1 ) ) }->message,
        qr/argument 1 \(person\): Person has no field "aeg"; it has name, age, tags/, 'one with a misnamed attribute' );
    { package Hidden; sub new { return bless [ 'Ada', ['y'] ], shift } sub name { $_[0][0] } sub tags { $_[0][1] } }
    is( $go->greet( Hidden->new ), 'Hello, Ada [y]', 'with methods' );
    { package Data; sub new { my ( $class, $data ) = @_; return bless { data => $data }, $class } sub TO_JSON { $_[0]{data} } }
    is( $go->greet( Data->new( { name => 'Ada' } ) ), 'Hello, Ada', 'with TO_JSON' );
    is( $go->upper( Data->new('ada') ), 'ADA', 'as text' );
    is( $go->sum( Data->new(7), 1 ), 8, 'as a number' );
    is_deeply( $go->identity( [ Data->new( { a => Data->new('b') } ) ] ), [ { a => 'b' } ], 'as any' );
    like( error_of { $go->identity( Data->new( Data->new(1) ) ) }->message, qr/TO_JSON returned an object that has one too/,
        'one that never ends' );
};

subtest 'fields that are named as what every class has' => sub {
    { package Nothing; our $VERSION = '1.24'; sub new { return bless {}, shift } }
    {
        package Everything;
        sub new { return bless {}, shift }
        no warnings 'redefine';
        for my $name (qw(import unimport VERSION isa can DOES)) { no strict 'refs'; *$name = sub {"its $name"} }
    }
    sub elsewhere {'of another package'}
    for my $name (qw(import unimport VERSION isa can DOES main::elsewhere main'elsewhere)) {
        my $odd = LyingServer->start( msgpack( { name => 'odd', params => [ { name => 'odd', type => { struct => 'Odd' } } ], results => ['any'],
            types => { Odd => { fields => [ { name => $name, type => 'any' } ] } } } ), msgpack('sent') );
        my $nc = Nearcall->new( $odd->address, timeout => 10 );
        my $error = error_of { $nc->odd( Nothing->new ) };
        is( ref $error && $error->message, qq{argument 1 (odd): an object of class Nothing has neither a key nor a method "$name", which Odd needs}, $name );
        is( $nc->odd( { $name => 1 } ), 'sent', "$name as a key" );
        is( $nc->odd( Everything->new ), 'sent', "$name of the class itself" ) if $name !~ /\W/;
    }
};

subtest 'restricted hashes' => sub {
    require Hash::Util;
    my %person = ( name => 'Ada' );
    Hash::Util::lock_ref_keys( \%person );
    is( $go->greet( \%person ), 'Hello, Ada', 'as a struct' );
    is_deeply( $go->identity( \%person ), {%person}, 'as any' );
    my %wide = ( name => 'Ada', age => 3 );
    Hash::Util::lock_ref_keys( \%wide, qw(name age nmae tags) );
    delete $wide{age};
    is( $go->greet( \%wide ), 'Hello, Ada', 'with room for other keys' );
    is_deeply( $go->identity( \%wide ), { name => 'Ada' }, 'which are not sent' );
};

subtest 'numbers as text' => sub {
    for my $large (qw(1e400 -1e400 1e999999999)) {
        like( error_of { $go->add( $large, 1 ) }->message, qr/argument 1 \(arg1\): expected float64 .*, got "\Q$large\E"/, "$large is not infinite" );
        my $used = $large;
        { no warnings; my $number = $used + 0; }
        is( error_of { $go->add( $used, 1 ) }->name, 'INVALID_ARGUMENT', 'also where it was used as a number' );
    }
    is( $go->add( 9**9**9, 1 ), 9**9**9, 'infinity is' );
    is( $go->add( 'inf', 1 ), 9**9**9, 'also by name' );
    is( $go->sum('9007199254740993.0'), 9007199254740993, 'no digit is lost' );
    is( $go->sum('9.007199254740993e15'), 9007199254740993, 'with an exponent' );
    is( $go->sum( '1e3', '-50e-1', ' 7 ', '.0' ), 1002, 'as Perl writes numbers' );
    for my $broken (qw(1.0000000000000000000001 1e-400 1e19 9223372036854775808.0 inf nan 0.5)) {
        is( error_of { $go->sum($broken) }->name, 'INVALID_ARGUMENT', "$broken is no int64" );
    }
};

subtest 'text that was used as a number' => sub {
    my %use = (
        'compared'   => sub { no warnings; my $is_positive = $_[0] > 0 },
        'calculated' => sub { no warnings; my $number = $_[0] + 0 },
        'cut'        => sub { no warnings; my $bits = $_[0] | 0 },
        'an index'   => sub { no warnings; my $element = [ 1 .. 3 ]->[ $_[0] ] },
    );
    for my $what ( sort keys %use ) {
        my $used = sub { my ($text) = @_; $use{$what}->($text); return $text };
        is( through( int64 => $used->('9007199254740993.0') ), 9007199254740993, "$what: no digit is lost" );
        is( through( uint64 => $used->('18446744073709551615') ), '18446744073709551615', "$what: uint64" );
        is( through( int64 => $used->('1e3') ), 1000, "$what: an exponent" );
        for my $broken (qw(12345678901234567.5 9007199254740993.5 1.0000000000000000000001 1e-400 18446744073709551617 12abc)) {
            refused( int64 => $used->($broken), qr/expected int64 .*, got "\Q$broken\E"/, "$what: $broken" );
        }
        for my $broken (qw(0.10000000000000001 1e-400 -1e-400 1.00000000000000001 9007199254740993.0 18446744073709551617 1e400)) {
            refused( float64 => $used->($broken), qr/expected float64 .*, got "\Q$broken\E"/, "$what: float64 $broken" );
        }
        refused( float32 => $used->('9007199254740993.0'), qr/expected float32/, "$what: float32" );
        for my $text (qw(0.1 .5 5e-324 0.30000000000000004 1e23 18446744073709549568)) {
            cmp_ok( through( float64 => $used->($text) ), '==', $text, "$what: float64 $text" );
        }
    }
    my $zeros = '0' x 1_200_000;
    for my $type ( 'int64', 'float64' ) {
        refused( $type => "5${zeros}e-12000000", qr/expected $type .*, got/, "$type: an exponent of more digits than a number has" );
        is( through( $type => "5${zeros}e-1200000" ), 5, "$type: one that is just the other's beginning" );
    }
    my $sum = 0.1 + 0.2;
    my $printed = "$sum";
    cmp_ok( through( float64 => $sum ), '==', 0.1 + 0.2, 'a number that was printed keeps its digits' );
    my $both = Scalar::Util::dualvar( 2**53 + 2, '9.00719925474099e+15' );
    is( through( int64 => $both ), 9007199254740994, 'also where it keeps its text, as before Perl 5.36' );
    is( through( int64 => Scalar::Util::dualvar( 5, 'five' ) ), 5, 'the number of two values in one' );
    is( through( float64 => Scalar::Util::dualvar( 5.5, '0.10000000000000001' ) ), 5.5, 'whatever the text reads as' );
};

subtest 'times as text' => sub {
    my %seconds = (
        '1970-01-01T00:00:00Z'           => 0,
        '2024-02-29T12:00:00.5Z'         => 1709208000.5,
        '2026-01-31T13:30:00+01:30'      => 1769860800,
        '1969-12-31T19:00:00-05:00'      => 0,
        '1600-03-01T00:00:00Z'           => -11670912000,
        '9999-12-31T23:59:59Z'           => 253402300799,
    );
    is( $go->later( $_, 0 ), $seconds{$_}, $_ ) for sort keys %seconds;
    for my $broken ( '2023-02-29T00:00:00Z', '2026-01-31', '2026-01-31T24:00:00Z', '2026-01-31T12:00:00', '2026-01-31 12:00:00Z',
        '2026-13-01T00:00:00Z', "2026-01-31T12:00:00Z\0", '2026-01-31T12:00:00.Z', '2026-01-31T12:00:00.0000000001Z', '2026-01-31T12:00:00.12345678950Z', 'yesterday' )
    {
        like( error_of { $go->later( $broken, 0 ) }->message, qr/expected time \(.*\), got/, $broken );
    }
};

subtest 'booleans' => sub {
    my $any = { true => JSON::PP::true(), list => [ JSON::PP::false(), 1 ] };
    my $json = JSON::PP->new->canonical;
    my $back = $go->identity($any);
    is( $json->encode($back), '{"list":[false,1],"true":true}', 'reach JSON as they were' );
    isa_ok( $back->{true}, 'JSON::PP::Boolean', 'true' );
    is( join( ',', map { $_ ? 'yes' : 'no' } $back->{true}, $back->{list}[0] ), 'yes,no', 'and are true and false' );
    is( "$back->{true}$back->{list}[0]", '10', 'and print' );
    require JSON::XS;
    is( JSON::XS->new->canonical->encode($back), '{"list":[false,1],"true":true}', 'JSON::XS' );
    is( JSON::XS->new->encode( $go->identity( [ Types::Serialiser::true() ] ) ), '[true]', 'also when it came later' );
    require Cpanel::JSON::XS;
    is( Cpanel::JSON::XS->new->canonical->encode($back), '{"list":[false,1],"true":true}', 'Cpanel::JSON::XS' );
    my $plain = Nearcall->new( $server->address, timeout => 10, booleans => 'perl' );
    $back = $plain->identity($any);
    is( ref $back->{true}, '', 'perl\'s own on demand' );
    is( $back->{list}[0], '', 'false' );
    like( error_of { Nearcall->new( $server->address, booleans => 'c' ) }, qr/booleans is json or perl, not c/, 'nothing else' );
};

subtest 'structs' => sub {
    is( $go->greet( { name => 'Ada' } ), 'Hello, Ada', 'fields that are left out' );
    is( $go->greet( { name => 'Ada', age => 36, tags => [ 'a', 'b' ] } ), 'Hello, Ada, 36 [a,b]', 'all' );
    is( $go->greet( { name => 'Ada', age => undef, tags => [] } ), 'Hello, Ada', 'undef and empty' );
    is_deeply( $go->move( { x => 1, y => 2 }, { x => 0.5, y => -2 } ), { x => 1.5, y => 0 }, 'a result' );
    is( $go->greet( {} ), 'Hello, ', 'none at all' );

    my $error = error_of { $go->greet( { name => 'Ada', nmae => 1 } ) };
    is( $error->name, 'INVALID_ARGUMENT', 'a key that is no field' );
    ok( $error->not_executed, 'is refused before anything is sent' );
    like( $error->message, qr/argument 1 \(person\): Person has no field "nmae"; it has name, age, tags/, 'by name' );
    like( error_of { $go->greet( { name => undef } ) }->message,
        qr/argument 1 \(person\), "name": expected string, got undef/, 'undef where a value is needed' );
    like( error_of { $go->greet( { name => 'Ada', tags => [ 'a', [] ] } ) }->message,
        qr/argument 1 \(person\), "tags", element 1: expected string, got a reference to ARRAY/, 'the way to it' );
    like( error_of { $go->greet('Ada') }->message, qr/expected Person \(a reference to a hash with name, age, tags\), got "Ada"/, 'no hash' );
};

subtest 'lists, maps, optional' => sub {
    is_deeply( $go->word_count('to be or not to be'), { to => 2, be => 2, or => 1, not => 1 }, 'a map' );
    is_deeply( $go->word_count(''), {}, 'an empty map' );
    is( $go->optional_sum( 1, 2 ), 3, 'given' );
    is( $go->optional_sum( 1, undef ), 1, 'undef' );
    is( $go->optional_sum(1), 1, 'left out' );
    like( error_of { $go->optional_sum }->message, qr/optional_sum takes 1 to 2 arguments; 0 came, and argument 1 \(a\) is missing/, 'too few' );
    like( error_of { $go->ack( 1, 2, 3 ) }->message, qr/ack takes 2 arguments; 3 came/, 'too many' );
};

{
    package Names::Twice;
    our @ISA = ('Tie::StdHash');
    sub FIRSTKEY { $_[0]{is_told} = 0; return 'a' }
    sub NEXTKEY { return $_[0]{is_told}++ ? undef : 'a' }
}

subtest 'keys that are numbers' => sub {
    my %plain = ( -3 => 'a', 0 => 'b', 7 => 'c', '9223372036854775807' => 'd', 12 => 'e' );
    is_deeply( $go->by_number( \%plain ), \%plain, 'as Perl writes them' );
    is_deeply( $go->by_number( { '01' => 'a', '2.0' => 'b', '1e1' => 'c', ' 3' => 'd', '-0' => 'e' } ),
        { 1 => 'a', 2 => 'b', 10 => 'c', 3 => 'd', 0 => 'e' }, 'written otherwise' );
    for my $same ( [ 1, '01' ], [ 1, '1.0' ], [ 10, '1e1' ], [ '1e1', '10.0' ], [ 7, ' 7' ], [ 7, '+7' ], [ 0, '-0' ], [ -3, '-03' ] ) {
        my %hash = ( 100 => 'z', map { $_ => "value of $_" } @$same );
        tie my %tied, 'Tie::StdHash';
        %tied = %hash;
        for my $map ( \%hash, \%tied ) {
            my $error = error_of { $go->by_number($map) };
            is( $error->name, 'INVALID_ARGUMENT', "the keys @$same" );
            ok( $error->not_executed, '... not executed' );
            my $number = 0 + $same->[0];
            like( $error->message, qr/argument 1 \(texts\): two of its keys are the number $number/, '... are one' );
        }
    }
    like( error_of { $go->by_number( { one => 'a' } ) }->message, qr/expected int64 .*got "one"/, 'none' );
};

subtest 'a tied hash that gives a key twice' => sub {
    tie my %twice, 'Names::Twice';
    like( error_of { $go->identity( [ \%twice ] ) }->message, qr/argument 1 \(value\), element 0: two of its keys are "a"/, 'is refused' );
};

subtest 'objects of tied hashes' => sub {
    tie my %ada, 'Tie::StdHash';
    %ada = ( name => 'Ada', tags => ['x'], _id => 7 );
    my $ada = bless \%ada, 'Person';
    is( $go->greet($ada), 'Hello, Ada [x]', 'have their keys' );
    $ada{aeg} = 1;
    like( error_of { $go->greet($ada) }->message, qr/argument 1 \(person\): Person has no field "aeg"/, 'one with a misnamed attribute' );
    delete @ada{qw(aeg tags)};
    like( error_of { $go->greet($ada) }->message, qr/neither a key nor a method "tags"/, 'one that lacks a field' );
};

subtest 'any' => sub {
    for my $value ( 1, -1, 0, 1.5, 'text', '', undef, [], {}, [ 1, [ 2, [3] ] ],
        { a => { b => [ undef, 'c' ] } }, "\x{263a}", 18446744073709551615 )
    {
        is_deeply( $go->identity($value), $value, 'as it is: ' . JSON::PP->new->allow_nonref->ascii->encode($value) );
    }
    my $json = JSON::PP->new->canonical;
    is( $json->encode( $go->identity( [ 10, '10', 1.5 ] ) ), '[10,"10",1.5]', 'numbers and strings stay what they are' );
    my $used = '10';
    { no warnings 'void'; $used + 0; }
    is( $json->encode( $go->identity( [$used] ) ), '["10"]', 'a string that was used as a number' );
    is( $go->identity( JSON::PP::true() ), !!1, 'true' );
    is( $go->identity( \0 ), !!0, 'false' );
    is( $go->identity( [ !!1, !!0 ] )->[1], !!0, 'Perl\'s own' ) if $] >= 5.036;
    is( $go->identity( \'1' ), !!1, 'true as text' );
    is_deeply( [ map { $_ ? 'true' : 'false' } @{ $go->identity( [ \!!1, \!!0 ] ) } ], [ 'true', 'false' ], 'references to Perl\'s own' )
        if $] >= 5.036;
    tie my @tied, 'Tie::StdArray';
    @tied = ( 0, 'text' );
    is( $go->identity( \$tied[0] ), !!0, 'a reference to what is tied' );
    for my $no_truth ( \'text', \'', \42, \-1, \0.5, \undef, \v1.2, \$tied[1] ) {
        my $error = error_of { $go->identity( [$no_truth] ) };
        is( $error->name, 'INVALID_ARGUMENT', 'a reference to another scalar' );
        like( $error->message, qr/element 0: any takes a reference to a scalar only for a boolean, as \\1 and \\0/, '... is refused' );
    }
    like( error_of { $go->identity( sub { } ) }->message, qr/expected any \(undef, numbers, text, .*\), got a reference to CODE/, 'code' );
    like( error_of { $go->identity( { a => \*STDOUT } ) }->message, qr/"a": expected any \(.*\), got a reference to GLOB/, 'a handle' );
    like( error_of { $go->identity( bless {}, 'Some::Class' ) }->message, qr/got a reference to Some::Class/, 'an object' );
    my $circle = [];
    push @$circle, $circle;
    my $error = error_of { $go->identity($circle) };
    is( $error->name, 'INVALID_ARGUMENT', 'a list that contains itself' );
    ok( $error->not_executed, 'is refused here' );
    @$circle = ();
};

subtest 'times' => sub {
    is( $go->later( 1_000_000_000, 1.5 ), 1_000_000_001.5, 'seconds' );
    is( $go->later( 0.25, 0 ), 0.25, 'a fraction' );
    is( $go->later( -1.75, 0 ), -1.75, 'before 1970' );
    is( $go->later( '1000000000', '-0.5' ), 999_999_999.5, 'strings' );
    is( $go->later( scalar Time::Piece::gmtime(86400), 60 ), 86460, 'an object with epoch' );
    {
        package Moment;
        sub new        { bless {}, shift }
        sub epoch      { 1_700_000_000 }
        sub nanosecond { 250_000_000 }
    }
    is( $go->later( Moment->new, 0 ), 1_700_000_000.25, 'an object with nanoseconds' );
    my ( $before, $now, $after ) = ( time, $go->now, time );
    cmp_ok( $now, '>=', $before, 'now' );
    cmp_ok( $now, '<=', $after + 1, 'is now' );
    is( $go->identity( Moment->new ), 1_700_000_000.25, 'as any' );
    is( $go->later( -$_, $_ ), 0, "$_ seconds are exact" ) for 9_186_649_359, 9_186_649_359.5, -9_223_372_035.25, 0.1;
    like( error_of { $go->later( 0, 9_223_372_037 ) }->message, qr/expected duration/, 'a second too long' );
    like( error_of { $go->later( 'soon', 0 ) }->message, qr/argument 1 \(moment\): expected time \(seconds since 1970, text as 2026-01-31T12:00:00Z, or an object with epoch\), got "soon"/, 'no time' );
    like( error_of { $go->later( 0, 1e300 ) }->message, qr/argument 2 \(by\): expected duration \(seconds, as 1\.5, of at most 9223372036\), got 1e\+?300/, 'too long' );
    like( error_of { $go->later( 0, '1.5s' ) }->message, qr/expected duration \(seconds, as 1\.5, .*\), got "1\.5s"/, 'with a unit' );
    like( error_of { $go->later( '2026-01-31', 0 ) }->message, qr/expected time \(.*text as 2026-01-31T12:00:00Z.*\), got "2026-01-31"/, 'a day' );
    like( error_of { $go->later( 1e300, 0 ) }->message, qr/argument 1 \(moment\): expected time/, 'too late' );
};

subtest 'a refusal leaves the handle as it was' => sub {
    for ( 1 .. 100 ) {
        eval { $go->greet( { name => 'Ada', tags => [ ('x') x 50, undef ] } ) };
    }
    is( $go->one, 1, 'the next call works' );
};

done_testing;
