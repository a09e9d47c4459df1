# A server that is replaced by one that declares its functions otherwise: no call runs
# otherwise than its caller meant.

use strict;
use warnings;

use Test::More;

use FindBin;
use lib "$FindBin::Bin/lib";

use LyingServer qw(msgpack);
use Nearcall;
use TestServer;

use constant CALLS_FOR_MEMORY => 64;

my $server = TestServer->start( arguments => ['-generation=1'] );

sub replace { my ($generation) = @_; $server->restart("-generation=$generation"); return }

sub history { return Nearcall->new( $server->address )->call('history') }

# Each form of a call, as a function of a client: name and arguments to a result.
my %forms = (
    call => sub {
        my ($nc) = @_;
        return sub { my ( $name, @arguments ) = @_; return $nc->call( $name, @arguments ) };
    },
    proxy => sub {
        my ($nc) = @_;
        return sub { my ( $name, @arguments ) = @_; return $nc->$name(@arguments) };
    },
    function => sub {
        my ($nc) = @_;
        my %functions;
        return sub {
            my ( $name, @arguments ) = @_;
            $functions{$name} //= $nc->function($name);
            return $functions{$name}->(@arguments);
        };
    },
    begin => sub {
        my ($nc) = @_;
        return sub { my ( $name, @arguments ) = @_; return $nc->begin( $name, @arguments )->wait };
    },
    ready => sub {
        my ($nc) = @_;
        return sub {
            my ( $name, @arguments ) = @_;
            my $call = $nc->begin( $name, @arguments );
            1 until $call->ready;
            return $call->wait;
        };
    },
    loop => sub {
        my ($nc) = @_;
        return sub {
            my ( $name, @arguments ) = @_;
            my $call = $nc->begin( $name, @arguments );
            until ( grep { $_ == $call } $nc->process ) { }
            return $call->wait;
        };
    },
);

# A call that is begun and fetched apart is sent once: a server that is leaving may say so.
sub again {
    my ( $call, @arguments ) = @_;
    my $result = eval { $call->(@arguments) };
    return $result if defined $result;
    my $error = $@;
    die $error unless ref $error && $error->name eq 'UNAVAILABLE' && $error->outcome_text eq 'not executed';
    return $call->(@arguments);
}

sub error_of {
    my (@arguments) = @_;
    my $result = eval { again(@arguments) };
    return defined $result ? "returned $result" : $@;
}

for my $shm (qw(off auto)) {
    for my $form ( sort keys %forms ) {
        subtest "$form, shm=$shm" => sub {
            replace(1);
            my $nc = Nearcall->new( $server->address . "?shm=$shm", nonblocking => $form eq 'loop' );
            my $call = $forms{$form}->($nc);
            is $call->( 'transfer', 'alice', 'bob' ), 'alice to bob', 'before' for 1 .. CALLS_FOR_MEMORY;
            is $call->( 'sleep_for', 1.5 ), '1500 ms', 'a duration in seconds';
            is $call->('level'), 7, 'a number';
            is $call->( 'tag', 'x' ), 'bytes x', 'a raw function';
            is $call->('lost'), 'lost', 'a function that will be lost';
            is $nc->transport, $shm eq 'off' ? 'unix socket' : 'shared memory', 'the transport';
            replace(2);
            is again( $call, 'sleep_for', 1500 ), '1500 ms', 'a number, as the server describes it now';
            is again( $call, 'transfer', 'bob', 'alice' ), 'alice to bob', 'the order that the server has now';
            is again( $call, 'level' ), 'seven', 'a result of another type';
            is again( $call, 'tag', 'x' ), 'text x', 'text where bytes were';
            my $error = error_of( $call, 'lost' );
            is eval { $error->name }, 'UNIMPLEMENTED', 'a function that is lost' or diag $error;
            is_deeply history(), [ '1500 ms', 'alice to bob', 'level', 'text x' ], 'nothing else ran';
        };
    }
}

subtest 'a result is read by the description of its call' => sub {
    replace(1);
    my $nc = Nearcall->new( $server->address );
    is $nc->level, 7;
    replace(2);
    is $nc->level, 'seven';
    is_deeply history(), ['level'];
};

for my $form ( sort keys %forms ) {
    subtest "$form: arguments that only the former description refuses" => sub {
        replace(1);
        my $nc = Nearcall->new( $server->address, nonblocking => $form eq 'loop' );
        my $call = $forms{$form}->($nc);
        is $call->( 'tag', 'x' ), 'bytes x', 'before';
        is $call->( 'transfer', 'alice', 'bob' ), 'alice to bob';
        replace(2);
        is again( $call, 'tag', "\x{263a}" ), "text \x{263a}", 'are encoded by what the server says now';
        is eval { error_of( $call, 'tag', 'x', 'y' )->name }, 'INVALID_ARGUMENT', 'one too many is wrong by that as well';
        is_deeply history(), ["text \x{263a}"], 'nothing else ran';
        replace(2);
        is eval { error_of( $call, 'tag', 'x', 'y' )->name }, 'INVALID_ARGUMENT', 'and where only the connection was lost';
    };
}

subtest 'a function gained refuses nothing' => sub {
    replace(1);
    my $nc = Nearcall->new( $server->address );
    is $nc->transfer( 'alice', 'bob' ), 'alice to bob';
    replace(3);
    is $nc->transfer( 'alice', 'bob' ), 'alice to bob';
    is $nc->gained, 'gained';
};

subtest 'one attempt is one sending' => sub {
    replace(1);
    my $nc = Nearcall->new( $server->address, attempts => 1 );
    is $nc->transfer( 'alice', 'bob' ), 'alice to bob';
    replace(2);
    is eval { $nc->transfer( 'alice', 'bob' ) }, undef;
    is $@->outcome_text, 'not executed';
    is_deeply history(), [];
    replace(1);
    is $nc->tag('x'), 'bytes x';
    replace(2);
    is eval { $nc->tag("\x{263a}") }, undef;
    is $@->name, 'ABORTED', 'also for arguments that do not fit';
    is $nc->tag("\x{263a}"), "text \x{263a}", 'the next call knows';
};

for my $form ( sort keys %forms ) {
    subtest "$form: after the one attempt that is refused the new description is known" => sub {
        replace(1);
        my $nc = Nearcall->new( $server->address, attempts => 1, nonblocking => $form eq 'loop' );
        my $call = $forms{$form}->($nc);
        is $call->( 'transfer', 'alice', 'bob' ), 'alice to bob', 'before';
        for my $to ( [ 2, 'bob to alice' ], [ 1, 'alice to bob' ] ) {
            replace( $to->[0] );
            error_of( $call, 'transfer', 'alice', 'bob' );
            is $call->( 'transfer', 'alice', 'bob' ), $to->[1], "by generation $to->[0]";
        }
    };
}

# Takes two requests away unread before it refuses the third, and describes its function otherwise then.
for my $attempts ( 1, 2, 3, 5, 8 ) {
    subtest "$attempts attempts are all sendings" => sub {
        pipe my $sent, my $writer or die "pipe: $!";
        my $seen = 0;
        my $generation = sub { 1 + int $seen / 3 };
        my $describe = sub {
            return msgpack( { name => 'f', params => [], results => ['any'],
                hash => sprintf( '%08x', $generation->() ) . 'a' x 56, doc => 'generation ' . $generation->() } );
        };
        my $refuse = sub {
            syswrite $writer, 'x';
            die "not read\n" if ++$seen % 3;
            return msgpack( [ 'refused', [] ] ), 10;
        };
        my $server = LyingServer->start( $describe, $refuse, $generation, LyingServer::DESCRIPTIONS );
        close $writer;
        my $nc = Nearcall->new( $server->address, attempts => $attempts, timeout => 20 );
        is eval { $nc->call('f') }, undef;
        is $@->outcome_text, 'not executed' or diag $@;
        undef $server;
        is read( $sent, my $requests, 100 ), $attempts;
    };
}

done_testing;
