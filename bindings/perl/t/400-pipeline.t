use strict;
use warnings;

use Test::More;
use FindBin ();
use lib "$FindBin::Bin/lib";
use TestServer;
use TestTools qw(error_of wait_until);

use Time::HiRes qw(time);

use Hash::Util ();

use Nearcall;

my $server = TestServer->start;
my $go = Nearcall->new( $server->address, timeout => 10 );

subtest 'several at a time' => sub {
    my $began = time;
    my @calls = map { $go->begin( sleep => $_ ) } 1500, 1400, 1300;
    is_deeply( [ map { $_->wait } @calls ], [ 1500, 1400, 1300 ], 'waited for in their order' );
    cmp_ok( time - $began, '<', 4.2, 'they ran side by side' );
    isa_ok( $calls[0], 'Nearcall::Call' );
    is( $calls[0]->wait, 1500, 'a result can be asked for again' );
};

subtest 'other calls meanwhile' => sub {
    my $slow = $go->begin( sleep => 2000 );
    is( $go->ack( 1, 1 ), 3, 'a call that waits' );
    ok( !$slow->ready, 'does not finish the other' );
    is( $slow->wait, 2000, 'which goes on' );
    ok( $slow->ready, 'and then is ready' );
};

subtest 'by a function object' => sub {
    my $ack = $go->function('ack');
    my @calls = map { $ack->begin( 1, $_ ) } 1 .. 3;
    undef $ack;
    is_deeply( [ map { $_->wait } @calls ], [ 3, 4, 5 ], 'which need not stay' );
    like( error_of { Nearcall::Function::begin($_) }, qr/not an object that function returned/, 'nothing else is one' )
        for undef, sub { 1 }, $go;
};

subtest 'ready' => sub {
    my $call = $go->begin( sleep => 50 );
    ok( wait_until { $call->ready }, 'becomes true without wait' );
    is( $call->wait, 50, 'the result is there' );
    is( $call->error, undef, 'and no error' );
};

subtest 'results' => sub {
    is_deeply( [ $go->begin( divmod => 7, 2 )->wait ], [ 3, 1 ], 'several' );
    is_deeply( scalar $go->begin( divmod => 7, 2 )->wait, [ 3, 1 ], 'several in scalar context' );
    my $bytes = join '', map { chr } 0 .. 255;
    is( $go->begin( echo => $bytes )->wait, $bytes, 'raw bytes' );
    is_deeply( $go->begin( identity => [ 1, { a => undef } ] )->wait, [ 1, { a => undef } ], 'structure' );
};

subtest 'failures' => sub {
    my $call = $go->begin( fail => 5, 'not there' );
    ok( wait_until { $call->ready }, 'a failed call is ready' );
    is( $call->error->name, 'NOT_FOUND', 'has its error' );
    my $error = error_of { $call->wait }; my $line = __LINE__;
    is( $error->name, 'NOT_FOUND', 'and throws it' );
    is( $error->line, $line, 'where it was waited for' );
    is( error_of { $call->wait }->name, 'NOT_FOUND', 'again' );
    my $refused = error_of { $go->begin( ack => 'x', 1 ) };
    is( $refused->name, 'INVALID_ARGUMENT', 'arguments are checked by begin' );
};

subtest 'what is handed out is the caller\'s' => sub {
    my $call = $go->begin( divmod => 7, 2 );
    my $both = $call->wait;
    @$both = ('mine');
    is_deeply( scalar $call->wait, [ 3, 1 ], 'an array that was changed' );
    $both = $call->wait;
    $#$both = 5;
    is_deeply( [ $call->wait ], [ 3, 1 ], 'that was made longer' );
    undef @$both;
    is_deeply( [ $call->wait ], [ 3, 1 ], 'that was emptied' );
    my $failed = $go->begin( fail => 5, 'not there' );
    my $error = error_of { $failed->wait };
    %$error = ();
    is( error_of { $failed->wait }->message, 'not there', 'an error that was emptied' );
    Hash::Util::lock_hashref($_) for $failed->error, scalar error_of { $failed->wait };
    $error = error_of { $failed->wait }; my $line = __LINE__;
    is( $error->line, $line, 'that was locked' );
    {
        package Refused;
        use overload '""' => sub { die $_[0]{with} };
    }
    my $loop = Nearcall->new( $server->address, timeout => 10, nonblocking => 1 );
    my $thrown = bless { mine => 1 }, 'Some::Exception';
    my $begun = $loop->begin( identity => bless { with => $thrown }, 'Refused' );
    wait_until { $loop->process; $begun->ready };
    is( error_of { $begun->wait }, $thrown, 'an exception of the program' );
    is_deeply( [ %$thrown ], [ mine => 1 ], 'is left as it is' );
};

subtest 'giving up' => sub {
    my $call = $go->begin( sleep => 60_000 );
    $call->cancel;
    ok( $call->ready, 'a cancelled call is over' );
    is( error_of { $call->wait }->name, 'CANCELLED', 'cancelled' );
    { my $dropped = $go->begin( sleep => 60_000 ); }
    is( $go->one, 1, 'one that went out of scope is no hindrance' );
    for ( 1 .. 200 ) { $go->begin( sleep => 60_000 ) }
    is( $go->one, 1, 'nor are two hundred' );
};

subtest 'as many as there may be' => sub {
    my @calls;
    my $error = error_of { push @calls, $go->begin( sleep => 20_000 ) for 1 .. 2000 };
    is( $error->name, 'RESOURCE_EXHAUSTED', 'there is a limit' );
    is( scalar @calls, 1024, 'of 1024' );
    @calls = ();
    is( $go->one, 1, 'and dropping them makes room' );
};

subtest 'closing' => sub {
    my $handle = Nearcall->new( $server->address, timeout => 10 );
    my $call = $handle->begin( sleep => 60_000 );
    $handle->close;
    is( error_of { $call->wait }->name, 'CANCELLED', 'a call whose handle was closed' );
    my $kept = do { my $short = Nearcall->new( $server->address, timeout => 10 ); $short->begin( sleep => 20 ) };
    is( $kept->wait, 20, 'a call keeps its handle' );
};

subtest 'a server that dies' => sub {
    my $mine = TestServer->start;
    my $handle = Nearcall->new( $mine->address, timeout => 10 );
    my @calls = map { $handle->begin( sleep => 60_000 ) } 1 .. 3;
    $handle->one;
    $mine->stop('KILL');
    for my $call (@calls) {
        my $error = error_of { $call->wait };
        is( $error->name, 'UNAVAILABLE', 'unavailable' );
        ok( $error->unknown, 'outcome unknown' );
    }
};

done_testing;
