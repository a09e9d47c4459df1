use strict;
use warnings;

use Test::More;
use FindBin ();
use lib "$FindBin::Bin/lib";
use TestServer;
use TestTools qw(error_of);

use Nearcall;
use Nearcall::Codes qw(:all);

my $server = TestServer->start;
my $go = Nearcall->new( $server->address, timeout => 10 );

subtest 'every code' => sub {
    for my $code ( sort { $a <=> $b } grep { $_ } keys %NAMES ) {
        my $error = error_of { $go->fail( $code, "code $code" ) };
        is( $error->code, $code, "number $code" );
        is( $error->name, $NAMES{$code}, "is $NAMES{$code}" );
        ok( $error->is( $NAMES{$code} ) && $error->is($code), 'and compares' );
        is( $error->message, "code $code", 'message' );
        is( $error->outcome, OUTCOME_EXECUTED, 'the function ran' );
        ok( $error->executed && !$error->unknown && !$error->not_executed && !$error->result_lost, 'and only that' );
    }
};

subtest 'all of one error' => sub {
    my $error = error_of { $go->fail( NOT_FOUND, "no \x{263a} here" ) }; my $line = __LINE__;
    isa_ok( $error, 'Nearcall::Error' );
    is( $error->message, "no \x{263a} here", 'characters' );
    is_deeply( $error->details, [ [ 'example.Hint', { hint => 'this is what fail is for' } ] ], 'details' );
    is( $error->function, 'fail', 'function' );
    is( $error->file, $0, 'file' );
    is( $error->line, $line, 'line' );
    is( $error->outcome_text, 'executed', 'outcome in words' );
    is( "$error", "fail: NOT_FOUND: no \x{263a} here (executed) at $0 line $line.\n", 'as a string' );
    ok( $error, 'it is true' );
    ok( $error->is( 'OUT_OF_RANGE', 'NOT_FOUND' ), 'one of several' );
    ok( !$error->is('OUT_OF_RANGE'), 'not another' );
    my $again = error_of { $error->throw };
    is( "$again", "$error", 'thrown again unchanged' );
};

subtest 'other errors of a function' => sub {
    my $plain = error_of { $go->plain_error('as it is') };
    is( $plain->name, 'UNKNOWN', 'an error without a code' );
    is( $plain->message, 'as it is', 'its message' );
    ok( $plain->executed, 'executed' );
    is_deeply( $plain->details, [], 'no details' );
    my $panic = error_of { $go->panic('on purpose') };
    is( $panic->name, 'INTERNAL', 'a panic' );
    ok( $panic->executed, 'executed' );
    is( error_of { $go->ack( 4, 1 ) }->name, 'OUT_OF_RANGE', 'out of range' );
    is( error_of { $go->divmod( 1, 0 ) }->name, 'INVALID_ARGUMENT', 'its own refusal' );
    is( $go->one, 1, 'the handle goes on' );
};

subtest 'no such function' => sub {
    for my $way ( sub { $go->call('nonesuch') }, sub { $go->nonesuch }, sub { $go->function('nonesuch')->() },
        sub { $go->begin('nonesuch') }, sub { $go->call_raw( nonesuch => '' ) }, sub { $go->call('') }, )
    {
        my $error = error_of { $way->() };
        isa_ok( $error, 'Nearcall::Error' ) or next;
        ok( $error->is( 'UNIMPLEMENTED', 'INVALID_ARGUMENT' ), 'unimplemented: ' . $error->name );
        ok( $error->not_executed, 'not executed' );
    }
    ok( !Nearcall->can('nonesuch'), 'no method was made' );
    like( error_of { $go->call_raw( "a\0b" => '' ) }, qr/holds no NUL/, 'a name with a NUL' );
};

subtest 'bytes that are none' => sub {
    for my $way ( sub { $go->call_raw( echo => "\x{263a}" ) }, sub { $go->call( echo => "\x{263a}" ) } ) {
        my $error = error_of { $way->() };
        is( $error->name, 'INVALID_ARGUMENT', 'refused' );
        like( $error->message, qr/argument 1\b.*above 255/, 'with the argument' );
        ok( $error->not_executed, 'not executed' );
    }
    like( error_of { $go->call_raw( echo => undef ) }, qr/call_raw takes/, 'undef' );
    like( error_of { $go->call_raw( echo => [] ) }, qr/call_raw takes/, 'a reference' );
};

subtest 'too much' => sub {
    my $error = error_of { $go->call_raw( echo => 'x' x ( 20 << 20 ) ) };
    ok( $error->is('RESOURCE_EXHAUSTED'), 'an argument of 20 MiB' ) or diag $error;
    ok( $error->not_executed, 'not executed' );
    my $small = Nearcall->new( $server->address, timeout => 10, frame_bytes_max => 65536 );
    $error = error_of { $small->fill( 1 << 20 ) };
    ok( $error->is('RESOURCE_EXHAUSTED'), 'a result larger than is accepted' ) or diag $error;
    ok( $error->result_lost, 'it ran, and the result is lost' ) or diag $error;
    is( $small->one, 1, 'the handle goes on' );
};

subtest 'a server that dies' => sub {
    my $mine = TestServer->start;
    my $handle = Nearcall->new( $mine->address, timeout => 10 );
    my $error = error_of { $handle->exit(0) };
    is( $error->name, 'UNAVAILABLE', 'unavailable' );
    ok( $error->unknown, 'unknown' );
    $error = error_of { $handle->with( timeout => 1 )->one };
    is( $error->name, 'UNAVAILABLE', 'then it is gone' );
    ok( $error->not_executed, 'not executed' );
    $mine->restart;
    is( $handle->one, 1, 'and back' );
};

subtest 'die in the middle of other code' => sub {
    my @seen;
    local $SIG{__DIE__} = sub { push @seen, ref $_[0] };
    eval { $go->fail( ABORTED, 'x' ) };
    is_deeply( \@seen, ['Nearcall::Error'], 'a __DIE__ handler sees the object' );
    my $kept = do { local $@; eval { $go->fail( ABORTED, 'inner' ) }; $@ };
    is( $kept->message, 'inner', 'nested' );
};

done_testing;
