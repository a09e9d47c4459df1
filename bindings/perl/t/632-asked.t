use strict;
use warnings;

# Calls that were begun, and whose connection was lost: their server is asked what became of them, beside the loop.

use Test::More;
use FindBin ();
use lib "$FindBin::Bin/lib";
use LyingServer qw(msgpack WHEN_READ ASKS);

use IO::Poll qw(POLLIN);
use Time::HiRes qw(time);

use Nearcall;

use constant { NEVER => 0, FINISHED => 3 };

my $description = msgpack( { name => 'lie', params => [], results => ['int64'] } );

# The first request takes its connection away, once it has been read.
sub losing_server {
    my ($stage) = @_;
    my $requests = 0;
    return LyingServer->start( $description, sub { die WHEN_READ if !$requests++; return msgpack(7) }, 1, ASKS, $stage );
}

sub run_until_ready {
    my ( $go, $call ) = @_;
    my $end = time + 60;
    until ( $call->ready ) {
        die "the loop never ended\n" if time > $end;
        my $read = '';
        vec( $read, $go->fd, 1 ) = 1 if $go->events & POLLIN;
        select $read, undef, undef, $go->timeout;
        $go->process;
    }
    return;
}

for my $case ( [ FINISHED, 'executed, result lost', qr/the function had returned/ ], [ NEVER, 'not executed', qr/was not started/ ] ) {
    my ( $stage, $outcome, $said ) = @$case;
    subtest "in an event loop: $outcome" => sub {
        my $server = losing_server($stage);
        my $go = Nearcall->new( $server->address, timeout => 10, nonblocking => 1 );
        my $call = $go->begin('lie');
        run_until_ready( $go, $call );
        is( $call->error->name, 'UNAVAILABLE', 'it has lost its connection' );
        is( $call->error->outcome_text, $outcome, 'what the server says' );
        like( $call->error->message, $said, 'in words' );
        my $next = $go->begin('lie');
        run_until_ready( $go, $next );
        is( $next->wait, 7, 'the next call' );
    };
}

subtest 'waited for' => sub {
    my $server = losing_server(FINISHED);
    my $call = Nearcall->new( $server->address, timeout => 10 )->begin('lie');
    ok( !eval { $call->wait; 1 }, 'its connection was lost' );
    is( $@->outcome_text, 'executed, result lost', 'what the server says' );
};

done_testing;
