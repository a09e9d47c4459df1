use strict;
use warnings;

use Test::More;
use FindBin ();
use lib "$FindBin::Bin/lib";
use LyingServer qw(msgpack);
use TestServer;
use TestTools qw(error_of timed);

use File::Temp ();
use IO::Poll qw(POLLIN POLLOUT);
use Time::HiRes qw(time);

use Nearcall;

my $server = TestServer->start;
my $go = Nearcall->new( $server->address, timeout => 10, nonblocking => 1 );

# Runs the loop of the manual until a condition holds; returns what finished.
sub run_until {
    my ( $done, $handle ) = ( @_, $go );
    my @finished;
    my $end = time + 60;
    until ( $done->() ) {
        die "the loop never ended\n" if time > $end;
        my ( $read, $write ) = ( '', '' );
        if ( ( my $fd = $handle->fd ) >= 0 ) {
            vec( $read,  $fd, 1 ) = 1 if $handle->events & POLLIN;
            vec( $write, $fd, 1 ) = 1 if $handle->events & POLLOUT;
        }
        select $read, $write, undef, $handle->timeout;
        push @finished, $handle->process;
    }
    return @finished;
}

subtest 'one call' => sub {
    my $call;
    cmp_ok( timed { $call = $go->begin( ack => 2, 3 ) }, '<', 0.1, 'begin does not wait' );
    ok( !$call->error, 'nothing has failed' );
    run_until( sub { $call->ready } );
    is( $call->wait, 9, 'the result' );
};

subtest 'many' => sub {
    my %calls = map { $_ => $go->begin( sleep => $_ ) } 150, 100, 50, 1;
    my @finished = run_until( sub { !grep { !$_->ready } values %calls } );
    push @finished, $go->process;
    is_deeply( [ sort { $a <=> $b } map { $_->wait } values %calls ], [ 1, 50, 100, 150 ], 'all came' );
    is( scalar @finished, 4, 'process returned each once' );
    is( scalar $go->process, 0, 'and none again' );
};

subtest 'twenty at once' => sub {
    my @calls = map { $go->begin( sum => $_, $_ ) } 1 .. 20;
    run_until( sub { ( grep { $_->ready } @calls ) == 20 } );
    is_deeply( [ map { $_->wait } @calls ], [ map { 2 * $_ } 1 .. 20 ], 'twenty sums' );
};

subtest 'failures arrive as such' => sub {
    my $missing = $go->begin('nonesuch');
    my $refused = $go->begin( later => 'soon', 0 );
    my $failing = $go->begin( fail => 9, 'x' );
    run_until( sub { !grep { !$_->ready } $missing, $refused, $failing } );
    is( $missing->error->name, 'UNIMPLEMENTED', 'no such function' );
    is( $refused->error->name, 'INVALID_ARGUMENT', 'arguments that do not fit' );
    ok( $refused->error->not_executed, 'not executed' );
    is( $failing->error->name, 'FAILED_PRECONDITION', 'the function\'s own error' );
};

subtest 'time' => sub {
    my $call;
    my $took = timed {
        $call = $go->with( timeout => 0.1 )->begin( sleep => 60_000 );
        ok( defined $go->timeout, 'there is something to wait for' );
        run_until( sub { $call->ready } );
    };
    is( $call->error->name, 'DEADLINE_EXCEEDED', 'late' );
    cmp_ok( $took, '<', 0.5, 'in time' );
};

subtest 'looking up is part of the time' => sub {
    my $silent = LyingServer->start( msgpack( { name => 'any', params => [], results => [] } ), undef );
    my $handle = Nearcall->new( $silent->address, timeout => 2, nonblocking => 1 );
    my $call;
    kill 'STOP', $silent->{pid};
    my $took = timed {
        $call = $handle->begin('any');
        select undef, undef, undef, 1.5;
        kill 'CONT', $silent->{pid};
        run_until( sub { $call->ready }, $handle );
    };
    is( $call->error->name, 'DEADLINE_EXCEEDED', 'late' ) or diag $call->error;
    cmp_ok( $took, '<', 3, 'in time, whatever part of it looking up took' );
};

subtest 'no server' => sub {
    my $lost = Nearcall->new( 'unix:/nonexistent/nearcall.sock', timeout => 2, nonblocking => 1 );
    my $call = eval { $lost->begin('one') };
    my $error = $call ? do { $lost->process until $call->ready; $call->error } : $@;
    is( $error->name, 'UNAVAILABLE', 'unavailable' );
    ok( $error->not_executed, 'not executed' );
};

subtest 'another server while a function is looked up' => sub {
    my $directory = File::Temp->newdir( TMPDIR => 1 );
    my $lead_to = sub { unlink "$directory/now"; symlink $_[0]->address =~ s/\Aunix://r, "$directory/now" or die $! };
    my @servers = map {
        LyingServer->start( msgpack( { name => 'any', params => [], results => ['int64'], revision => $_ } ),
            msgpack($_), $_ )
    } 1, 2;
    $lead_to->( $servers[0] );
    my $handle = Nearcall->new( "unix:$directory/now", timeout => 5, nonblocking => 1 );
    my $call = $handle->begin('looked_up');
    is( $handle->call('other'), 1, 'the reply to it is read in passing' );
    $handle->disconnect;
    $lead_to->( $servers[1] );
    is( $handle->call('another'), 2, 'another server is there' );
    kill 'STOP', $servers[1]{pid};
    my $began = time;
    ok( $call->ready, 'the call is over' );
    cmp_ok( time - $began, '<', 4, 'at once' );
    kill 'CONT', $servers[1]{pid};
    is( $call->error->name, 'UNAVAILABLE', 'unavailable' ) or diag $call->error;
    ok( $call->error->not_executed, 'not executed' );
    is( $handle->begin('looked_up')->wait, 2, 'called again, it is found' );
};

subtest 'waiting on such a handle' => sub {
    is( $go->begin( sleep => 20 )->wait, 20, 'a function that is known' );
    is( $go->begin( upper => 'abc' )->wait, 'ABC', 'one that is not' );
    is( $go->call( ack => 1, 1 ), 3, 'a call' );
};

done_testing;
