use strict;
use warnings;

use Test::More;
use FindBin ();
use lib "$FindBin::Bin/lib";
use LyingServer qw(msgpack WHEN_READ);
use TestServer;
use TestTools qw(error_of);

use Nearcall;

use constant UNAVAILABLE => 14;

my $TRACEPARENT = '00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01';
# Enough that some calls go over the socket and some through shared memory.
my $CALLS = 48;

my $server = TestServer->start;
my $go = Nearcall->new( $server->address, timeout => 10 );

sub outcome_is {
    my ( $error, $code, $outcome, $what ) = @_;
    ok( ref $error && $error->is($code), "$what: $code" ) or diag $error;
    is( $error->outcome_text, $outcome, "$what: the outcome" );
    return;
}

subtest 'metadata of requests' => sub {
    my $tenant = $go->with( metadata => { tenant => 'acme' } );
    my $every = $tenant->with( timeout => 5 )->with(
        metadata        => { tenant => ['other'], user => "\0\xff", empty => '' },
        traceparent     => $TRACEPARENT,
        idempotency_key => ( "\0" x 15 ) . "\1",
    );
    my %seen;
    for ( 1 .. $CALLS ) {
        $seen{ $go->metadata_seen }++;
        $seen{ $tenant->metadata_seen }++;
        $seen{ $every->metadata_seen }++;
    }
    is_deeply(
        \%seen,
        {
            ' map[] []'                  => $CALLS,
            ' map["tenant":["acme"]] []' => $CALLS,
            $TRACEPARENT
                . ' map["empty":[""] "tenant":["acme" "other"] "user":["\x00\xff"]]'
                . ' [0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 1]' => $CALLS,
        },
        'each call has its own'
    );
};

subtest 'all ways to call' => sub {
    my $view = $go->with( metadata => { tenant => "\x{e9}\x{100}" } );
    my $expected = " map[\"tenant\":[\"\x{e9}\x{100}\"]] []";
    is( $view->call('metadata_seen'), $expected, 'call' );
    is( $view->function('metadata_seen')->(), $expected, 'function' );
    is( $view->function('metadata_seen')->begin->wait, $expected, 'begin of a function' );
    is( $view->call_raw( metadata_raw => '!' ), "[\xc3\xa9\xc4\x80]!", 'call_raw' );
    my ( $one, $other ) = ( $view->begin('metadata_seen'), $go->begin('metadata_seen') );
    undef $view;
    is( $other->wait, ' map[] []', 'a call in flight without' );
    is( $one->wait,   $expected,   'a call in flight with, whose view is gone' );
    is( Nearcall->new( $server->address )->with( metadata => { a => 'b' } )->metadata_seen,
        ' map["a":["b"]] []', 'temporary objects' );
};

subtest 'metadata of replies' => sub {
    my $answer = { cost => [ 7, 8 ], node => ['a'] };
    my $view = $go->with( reply_metadata => \my $metadata );
    my $wrong = 0;
    for my $bytes ( ( 0, 100, 20 << 10 ) x $CALLS ) {
        $wrong++ unless length $view->metadata_answer( $bytes, 0 ) == $bytes && eq_hash( $metadata, $answer );
        $wrong++ unless $view->one == 1 && !defined $metadata;
        my $error = error_of { $view->metadata_answer( $bytes, 1 ) };
        $wrong++ unless $error->is('NOT_FOUND') && eq_hash( $metadata, $answer );
    }
    is( $wrong, 0, 'each reply has its own' );
    $go->one;
    is_deeply( $metadata, $answer, 'another view leaves them' );
    my $call = $go->with( reply_metadata => \my $later )->begin( metadata_answer => 3, 0 );
    is( $later, undef, 'not before the reply' );
    is( length $call->wait, 3, 'a call in flight' );
    is_deeply( $later, $answer, 'has them' );
    is( $go->with( reply_metadata => \$later )->call_raw( echo => 'x' ), 'x', 'call_raw' );
    is( $later, undef, 'has none' );
};

subtest 'what the variable had before may use the handle' => sub {
    my $metadata = bless [], 'UsesTheHandle';
    is( length $go->with( reply_metadata => \$metadata )->metadata_answer( 100_000, 0 ), 100_000, 'the reply is whole' );
    is_deeply( $metadata, { cost => [ 7, 8 ], node => ['a'] }, 'and so are its metadata' );
};

sub UsesTheHandle::DESTROY { $go->fill(100_000); return }

subtest 'out of range' => sub {
    my %refused = (
        'an upper case key' => [ metadata => { Tenant => 'x' } ],
        'no key'            => [ metadata => { q{} => 'x' } ],
        'a long value'      => [ metadata => { k => 'x' x 5000 } ],
        'no value'          => [ metadata => { k => undef } ],
        'no hash'           => [ metadata => 'x' ],
        'a trace context'   => [ traceparent => '00-xyz' ],
        'a short key'       => [ idempotency_key => 'short' ],
        'shorter pauses'    => [ backoff => [ 2, 1 ] ],
        'no pause'          => [ backoff => [ 0, 1 ] ],
        'endless pauses'    => [ backoff => [ 'inf', 'inf' ] ],
        'one pause'         => [ backoff => 1 ],
        'no attempt'        => [ attempts => 0 ],
        'many attempts'     => [ attempts => 17 ],
        'no time'           => [ timeout => 0, attempts => 1 ],
        'no reference'      => [ reply_metadata => 1 ],
        'a hash'            => [ reply_metadata => {} ],
        'a constant'        => [ reply_metadata => \'x' ],
    );
    for my $what ( sort keys %refused ) {
        my ($option) = @{ $refused{$what} };
        my $error = error_of { $go->with( @{ $refused{$what} } ) };
        like( $error, qr/$option/, $what );
        like( "$error", qr/ at \Q@{[__FILE__]}\E line @{[ __LINE__ - 2 ]}\b[^\n]*\n?\z/, "$what: the place" );
    }
    outcome_is( error_of { $go->with( metadata => { key => [ ('x' x 1000) x 5 ] } )->one },
        'RESOURCE_EXHAUSTED', 'not executed', 'more than fits' );
};

subtest 'timeouts' => sub {
    my $brief = $go->with( timeout => 0.03, attempts => 2 );
    ok( error_of { $brief->sleep(60_000) }->is('DEADLINE_EXCEEDED'), 'a view' );
    ok( error_of { $brief->with( metadata => { a => 'b' } )->sleep(60_000) }->is('DEADLINE_EXCEEDED'), 'a view of a view' );
    is( $brief->with( timeout => 'inf', attempts => 1 )->sleep(50), 50, 'without one' );
};

my $DESCRIPTION = { name => 'f', params => [], results => ['int64'], idempotent => \1 };

sub losing {
    my ( $lost, $refused, %more ) = @_;
    return LyingServer->start(
        msgpack( { %$DESCRIPTION, %more } ),
        sub {
            die WHEN_READ if $lost-- > 0;
            return ( msgpack( [ 'stopping', [] ] ), UNAVAILABLE ) if $refused-- > 0;
            return msgpack(7);
        }
    );
}

subtest 'sent again when nobody knows' => sub {
    my $liar = losing( 2, 0 );
    my $handle = Nearcall->new( $liar->address, timeout => 10 );
    outcome_is( error_of { $handle->f }, 'UNAVAILABLE', 'unknown', 'not asked for' );
    is( $handle->with( retry_unknown => 1 )->f, 7, 'asked for' );

    $liar = losing( 5, 0 );
    outcome_is( error_of { Nearcall->new( $liar->address )->with( retry_unknown => 1, attempts => 2 )->f },
        'UNAVAILABLE', 'unknown', 'within its attempts' );
    $liar = losing( 1, 10 );
    outcome_is( error_of { Nearcall->new( $liar->address )->with( retry_unknown => 1 )->f },
        'UNAVAILABLE', 'unknown', 'the last was not executed' );
    $liar = losing( 0, 0, idempotent => \0 );
    outcome_is( error_of { Nearcall->new( $liar->address )->with( retry_unknown => 1 )->f },
        'FAILED_PRECONDITION', 'not executed', 'not idempotent' );
};

# Loses the first request, and is then as if another had taken its place, whose function takes integers only.
sub replaced {
    my ($refused) = @_;
    my ( $generation, $seen ) = ( 1, 0 );
    return LyingServer->start(
        sub {
            return msgpack( { %$DESCRIPTION, hash => $generation x 64,
                params => [ { name => 'x', type => $generation == 1 ? 'any' : 'int64' } ] } );
        },
        sub {
            $generation = 2;
            die WHEN_READ if !$seen++;
            return ( msgpack( [ 'stopping', [] ] ), UNAVAILABLE ) if $refused-- > 0;
            return msgpack(7);
        },
        sub { $generation },
        LyingServer::DESCRIPTIONS
    );
}

subtest 'encoded again when nobody knows' => sub {
    my %case = ( call => sub { $_[0]->f( $_[1] ) }, function => sub { $_[0]->function('f')->( $_[1] ) } );
    for my $way ( sort keys %case ) {
        my $f = sub {
            my ( $refused, $value ) = @_;
            my $liar = replaced($refused);
            return $case{$way}->( Nearcall->new( $liar->address, timeout => 10 )->with( retry_unknown => 1 ), $value );
        };
        is( eval { $f->( 0, 5 ) }, 7, "$way: by what the server describes now" ) or diag $@;
        outcome_is( error_of { $f->( 0, 'text' ) }, 'INVALID_ARGUMENT', 'unknown', "$way: what that does not take" );
        outcome_is( error_of { $f->( 9, 5 ) }, 'UNAVAILABLE', 'unknown', "$way: not executed at last" );
    }
};

subtest 'waiting for a server' => sub {
    my $liar = losing( 0, 8 );
    my $view = Nearcall->new( $liar->address )->with( attempts => 1, backoff => [ 0.000_001, 0.001 ] );
    outcome_is( error_of { $view->f }, 'UNAVAILABLE', 'not executed', 'not asked for' );
    is( $view->with( wait_for_ready => 1 )->f, 7, 'asked for' );
};

done_testing;
