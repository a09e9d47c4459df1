use strict;
use warnings;

use Test::More;
use FindBin ();
use lib "$FindBin::Bin/lib";
use LyingServer qw(msgpack);
use TestTools qw(error_of rss_kib);

use JSON::PP ();
use Nearcall;

# The description of one function as the given result types have it.
sub description {
    my (@results) = @_;
    return msgpack( { name => 'lie', params => [], results => \@results,
        types => { Pair => { fields => [ { name => 'a', type => 'int64' }, { name => 'b', type => 'string' } ] } } } );
}

sub told {
    my ( $description, $result, @arguments ) = @_;
    my $server = LyingServer->start( $description, $result );
    return Nearcall->new( $server->address, timeout => 5 )->call( 'lie', @arguments );
}

sub begun {
    my ( $description, $result ) = @_;
    my $server = LyingServer->start( $description, $result );
    return Nearcall->new( $server->address, timeout => 5 )->begin('lie')->wait;
}

subtest 'the liar can speak the truth' => sub {
    is( told( description('int64'), msgpack(7) ), 7, 'a number' );
    is_deeply( [ told( description( 'int64', 'string' ), msgpack( [ 1, 'x' ] ) ) ], [ 1, 'x' ], 'two results' );
    is_deeply( scalar told( description( { struct => 'Pair' } ), msgpack( { a => 1, b => 'x', new => [1] } ) ),
        { a => 1, b => 'x' }, 'a field that is not described is skipped' );
    is( scalar told( description(), msgpack('anything') ), undef, 'no result' );
    is_deeply( scalar told( description( { list => 'int64' } ), msgpack(undef) ), [], 'nil for an empty list' );
    my $deep = told( description('any'), "\x91" x 32 . "\x01" );
    my $levels = 0;
    ( $deep, $levels ) = ( $deep->[0], $levels + 1 ) while ref $deep;
    is( $levels, 32, 'as deep as may be' );
    is( ( told( description( 'int64', 'any' ), "\x92\x07" . "\x91" x 32 . "\x01" ) )[0], 7, 'each of two results' );
    is_deeply( scalar told( description( { map => [ 'int64', 'bool' ] } ), msgpack( { 1 => \1 } ) ), { 1 => JSON::PP::true() }, 'a map of numbers' );
};

# Perl keeps such names in a byte for each letter where it can, and in UTF-8 where it cannot.
subtest 'names with letters beyond ASCII' => sub {
    for my $name ( "gr\x{f6}\x{df}e", "\x{540d}\x{524d}", "\x{e9}\x{540d}" ) {
        utf8::encode( my $bytes = $name );
        my $type = { struct => $bytes };
        my $description = msgpack( { name => 'lie', params => [ { name => $bytes, type => $type } ], results => [$type],
            types => { $bytes => { fields => [ { name => 'plain', type => 'int64' }, { name => $bytes, type => 'int64' } ] } } } );
        is_deeply( scalar told( $description, msgpack( { plain => 1, $bytes => 2 } ), { plain => 3, $name => 4 } ),
            { plain => 1, $name => 2 }, 'are those of fields' );
    }
};

# perl would run such a method at once, or when the program ends.
subtest 'functions with the names of blocks' => sub {
    my @warnings;
    local $SIG{__WARN__} = sub { push @warnings, @_ };
    for my $name (qw(BEGIN UNITCHECK CHECK INIT END)) {
        my $server = LyingServer->start( msgpack( { name => $name, params => [], results => ['int64'] } ), msgpack(7) );
        my $go = Nearcall->new( $server->address, timeout => 5 );
        is( eval { $go->$name() } // $@, 7, "$name is called" );
        ok( !Nearcall->can($name), '... and there is no such method' );
    }
    is_deeply( \@warnings, [], 'no warnings' );
};

subtest 'results that are not as described' => sub {
    my %lie = (
        'a string for a number'     => [ ['int64'], msgpack('x') ],
        'nil for a number'          => [ ['int64'], msgpack(undef) ],
        'a number for a string'     => [ ['string'], msgpack(1) ],
        'a number for a list'       => [ [ { list => 'int64' } ], msgpack(1) ],
        'a list that lies in length' => [ [ { list => 'int64' } ], "\xdd\xff\xff\xff\xff\x01" ],
        'a map that lies in length' => [ [ { map => [ 'string', 'int64' ] } ], "\xdf\xff\xff\xff\xff" ],
        'a string that is cut off'  => [ ['string'], "\xdb\x00\x00\x10\x00abc" ],
        'text that is not UTF-8'    => [ ['string'], "\xa3\xff\xfe\xfd" ],
        'a surrogate'               => [ ['string'], "\xa3\xed\xa0\x80" ],
        'UTF-8 that is cut off'     => [ ['string'], "\xa1\xe2" ],
        'a wrong element'           => [ [ { list => 'int64' } ], msgpack( [ 1, 'x' ] ) ],
        'a wrong field'             => [ [ { struct => 'Pair' } ], msgpack( { a => 'x' } ) ],
        'one result for two'        => [ [ 'int64', 'int64' ], msgpack(1) ],
        'three results for two'     => [ [ 'int64', 'int64' ], msgpack( [ 1, 2, 3 ] ) ],
        'nothing'                   => [ ['int64'], '' ],
        'no MessagePack'            => [ ['int64'], "\xc1" ],
        'an extension'              => [ ['any'], "\xd4\x05\x00" ],
        'deep nesting'              => [ ['any'], "\x91" x 100_000 . "\x01" ],
        'one level too many'        => [ ['any'], "\x91" x 33 . "\x01" ],
        'one too many in a result of two' => [ [ 'int64', 'any' ], "\x92\x07" . "\x91" x 33 . "\x01" ],
        'bytes behind'              => [ ['int64'], "\x07\x07" ],
        'bytes behind two results'  => [ [ 'int64', 'int64' ], "\x92\x07\x07\xc0" ],
        'bytes behind no result'    => [ [], "\xc0\xc0" ],
        'a list as a key'           => [ ['any'], "\x81\x90\x01" ],
    );
    for my $name ( sort keys %lie ) {
        my ( $results, $bytes ) = @{ $lie{$name} };
        my $error = error_of { told( description(@$results), $bytes ) };
        isa_ok( $error, 'Nearcall::Error', $name ) or next;
        is( $error->name, 'INTERNAL', "$name: code" );
        ok( $error->result_lost, "$name: it ran, and the result is lost" );
        my $begun = error_of { begun( description(@$results), $bytes ) };
        is( "$begun->{name} $begun->{outcome}", "$error->{name} $error->{outcome}", "$name: of a call in flight" );
    }
};

subtest 'descriptions that cannot be read' => sub {
    my $deep = { list => 'int64' };
    $deep = { list => $deep } for 1 .. 1000;
    my %lie = (
        'a number'           => msgpack(1),
        'nothing'            => '',
        'an unknown type'    => description('complex128'),
        'an unknown shape'   => description( { tree => 'int64' } ),
        'a missing struct'   => description( { struct => 'Nonesuch' } ),
        'a float as a key'   => description( { map => [ 'float64', 'int64' ] } ),
        'one type for a map' => description( { map => ['int64'] } ),
        'deep types'         => description($deep),
        'no results'         => msgpack( { name => 'lie', params => [] } ),
        'no params'          => msgpack( { name => 'lie', results => [] } ),
        'bytes for no param' => msgpack( { name => 'lie', params => [], results => [], raw => \1 } ),
        'more of no param'   => msgpack( { name => 'lie', params => [], results => [], variadic => \1 } ),
        'params that lie in number' => msgpack( { results => [] } ) =~ s/\A(.)..../$1\0\0\0\x02/sr . msgpack('params') . "\xdd\xff\xff\xff\xff",
    );
    for my $name ( sort keys %lie ) {
        my $error = error_of { told( $lie{$name}, msgpack(1), 'argument' ) };
        isa_ok( $error, 'Nearcall::Error', $name ) or next;
        is( $error->name, 'INTERNAL', "$name: code" ) or diag $error;
        ok( $error->not_executed, "$name: nothing ran" ) or diag $error;
    }
};

subtest 'a description that is cut off anywhere' => sub {
    my $whole = description( { map => [ 'string', { optional => { list => { struct => 'Pair' } } } ] } );
    my @accepted = grep {
        my $length = $_;
        !( error_of { told( substr( $whole, 0, $length ), msgpack( {} ) ); die "accepted\n" } )
            ->isa('Nearcall::Error');
    } map { $_ * 7 } 0 .. int( ( length($whole) - 1 ) / 7 );
    is_deeply( \@accepted, [], 'is refused' );
    is_deeply( scalar told( $whole, msgpack( {} ) ), {}, 'and whole it is taken' );
};

subtest 'a struct that contains itself' => sub {
    my $tree = { name => 'lie', params => [], results => [ { struct => 'Tree' } ],
        types => { Tree => { fields => [ { name => 'children', type => { list => { struct => 'Tree' } } } ] } } };
    is_deeply( scalar told( msgpack($tree), msgpack( { children => [ { children => [] } ] } ) ),
        { children => [ { children => [] } ] }, 'is understood' );
    my $endless = { children => [] };
    $endless = { children => [$endless] } for 1 .. 2000;
    is( error_of { told( msgpack($tree), msgpack($endless) ) }->name, 'INTERNAL', 'without end it is refused' );
};

done_testing;
