use strict;
use warnings;

use Test::More;
use FindBin ();
use lib "$FindBin::Bin/lib";
use TestServer;
use TestRelay;
use TestTools qw(descriptors error_of in_child rss_kib wait_until sockets);

use JSON::PP qw(decode_json);
use POSIX ();
use Time::HiRes ();

use Nearcall;

# NEARCALL_FORKS is how many children are forked in the long part.
my $forks = $ENV{NEARCALL_FORKS} // 2000;

my $server = TestServer->start;
my $go = Nearcall->new( $server->address, timeout => 10 );
my $ack = $go->function('ack');
is( $go->ack( 2, 2 ), 7, 'the parent calls before any fork' );
my $connection = sockets();

# Whether the parent's own connection still stands and answers. It is the same
# socket as ever: had a child written to it or shut it down, the server would have
# closed it, and there would be another.
sub parent_is_undisturbed {
    my ($name) = @_;
    local $Test::Builder::Level = $Test::Builder::Level + 1;
    my $answer = $ack->( 2, 3 );
    my $now = sockets();
    return $answer == 9 && $now eq $connection unless $name;
    is( $answer, 9, "$name: the parent's call" );
    is( $now, $connection, "$name: on the same connection" );
}

subtest 'a child calls through what it inherited' => sub {
    is( in_child { $go->ack( 1, 1 ) }, 3, 'a proxy' );
    is( in_child { $ack->( 1, 1 ) }, 3, 'a function object' );
    is( in_child { $go->with( timeout => 5 )->call( upper => 'x' ) }, 'X', 'a view' );
    is( in_child { $go->begin( ack => 1, 1 )->wait }, 3, 'a call in flight of its own' );
    is( in_child { join ',', map { $go->sum( 1, $_ ) } 1 .. 100 }, join( ',', 2 .. 101 ), 'many' );
    is( in_child { $go->one; sockets() ne $connection ? 'other' : 'same' },
        'other', 'on a connection of its own' );
    is( in_child { in_child { $ack->( 1, 1 ) } }, 3, 'a grandchild' );
    parent_is_undisturbed('afterwards');
};

subtest 'a child may end in any way' => sub {
    my %end = (
        '_exit'          => sub { POSIX::_exit(0) },
        'exit'           => sub { exit 0 },
        'die'            => sub { close STDERR; die "on purpose\n" },
        'exec'           => sub { exec '/bin/true' },
        'a signal'       => sub { kill 'KILL', $$ },
        'close'          => sub { $go->close; POSIX::_exit(0) },
        'disconnect'     => sub { $go->disconnect; POSIX::_exit(0) },
        'letting go'     => sub { undef $ack; undef $go; exit 0 },
        'calling first'  => sub { $ack->( 1, 1 ) == 3 or POSIX::_exit(9); exit 0 },
    );
    for my $way ( sort keys %end ) {
        my $pid = fork // die "fork: $!";
        if ( !$pid ) {
            Test::More->builder->no_ending(1);
            $end{$way}->();
            POSIX::_exit(8);
        }
        waitpid $pid, 0;
        ok( $? >> 8 < 8 || $way eq 'die', "$way: the child came that far" );
        parent_is_undisturbed($way);
    }
};

subtest 'a child sends not one byte on the parent\'s connection' => sub {
    my $relay = TestRelay->start( $server->address );
    my $handle = Nearcall->new( $relay->address, timeout => 10 );
    my $call = $handle->begin( sleep => 60_000 );
    my $function = $handle->function('one');
    $function->();
    my ($before) = $relay->counts;
    cmp_ok( $before, '>', 0, 'the relay counts' );
    my %deed = (
        'exit'              => sub { exit 0 },
        '_exit'             => sub { POSIX::_exit(0) },
        'a call'            => sub { $function->(); exit 0 },
        'cancel'            => sub { $call->cancel; POSIX::_exit(0) },
        'close'             => sub { $handle->close; POSIX::_exit(0) },
        'disconnect'        => sub { $handle->disconnect; POSIX::_exit(0) },
        'letting all go'    => sub { undef $_ for $call, $function, $handle; exit 0 },
        'waiting'           => sub { eval { $call->wait }; exit 0 },
        'event loop'        => sub { $handle->fd; $handle->process; $handle->timeout; exit 0 },
        'ping'              => sub { $handle->ping; exit 0 },
        'a call, then all'  => sub { $function->(); undef $_ for $call, $function, $handle; exit 0 },
    );
    for my $name ( sort keys %deed ) {
        my $pid = fork // die "fork: $!";
        if ( !$pid ) {
            Test::More->builder->no_ending(1);
            $deed{$name}->();
        }
        waitpid $pid, 0;
        is( $?, 0, "$name: the child ended well" );
        is( ( $relay->counts )[0], $before, "$name: nothing was sent, and it was not closed" );
    }
    my $callers = grep { !/\A(?:closed:)?0\z/ } $relay->counts;
    is( $callers, 4, 'children that called made a connection of their own' );
    $function->();
    cmp_ok( ( $relay->counts )[0], '>', $before, 'and the parent goes on with its own' );
};

subtest 'the parent goes first' => sub {
    pipe my $reader, my $writer or die "pipe: $!";
    pipe my $gate_reader, my $gate_writer or die "pipe: $!";
    my $parent = fork // die "fork: $!";
    if ( !$parent ) {
        my $handle = Nearcall->new( $server->address, timeout => 10 );
        $handle->one;
        if ( !( fork // die "fork: $!" ) ) {
            close $gate_writer;
            readline $gate_reader;
            syswrite $writer, join ',', map { $handle->ack( 0, $_ ) } 1 .. 3;
        }
        POSIX::_exit(0);
    }
    close $writer;
    waitpid $parent, 0;
    close $gate_writer;
    is( readline($reader), '2,3,4', 'its child goes on' );
};

subtest 'calls in flight belong to the parent' => sub {
    my $call = $go->begin( sleep => 200 );
    is( in_child { error_of { $call->wait } . '' } =~ /UNAVAILABLE.*\(unknown\)/ ? 1 : 0, 1, 'a child cannot wait for one' );
    in_child { undef $call; $go->one };
    in_child { $call->cancel; 1 };
    is( $call->wait, 200, 'the parent can' );
    parent_is_undisturbed('afterwards');
};

subtest 'forks inside a call\'s signal handler' => sub {
    my $answer;
    local $SIG{ALRM} = sub { $answer = in_child { $ack->( 1, 1 ) } };
    Time::HiRes::ualarm(50_000);
    is( $go->sleep(200), 200, 'the call goes on' );
    is( $answer, 3, 'and the child has called' );
};

subtest "$forks children, one after the other" => sub {
    my ( $failed, $disturbed ) = ( 0, 0 );
    my ( $descriptors, $rss );
    for my $n ( 1 .. $forks ) {
        my $pid = fork // die "fork: $!";
        if ( !$pid ) {
            my $right = $ack->( 0, $n % 10 ) == $n % 10 + 1 && $go->sum( $n, 1 ) == $n + 1;
            Test::More->builder->no_ending(1);
            $n % 2 ? POSIX::_exit( $right ? 0 : 1 ) : exit( $right ? 0 : 1 );
        }
        $disturbed++ unless $ack->( 1, $n % 10 ) == $n % 10 + 2;
        waitpid $pid, 0;
        $failed++ if $?;
        $disturbed++ unless parent_is_undisturbed();
        if ( $n == int( $forks / 10 ) || !defined $descriptors ) {
            ( $descriptors, $rss ) = ( descriptors(), rss_kib() );
        }
    }
    is( $failed, 0, 'every child got its answers' );
    is( $disturbed, 0, 'no child disturbed the parent' );
    is( descriptors(), $descriptors, 'no descriptor was left open' );
    cmp_ok( rss_kib() - $rss, '<', 512, 'memory stayed flat' );
    my $stats;
    wait_until { ( $stats = decode_json( $go->call('nearcall.stats') ) )->{connections} == 1 };
    is( $stats->{connections}, 1, 'the server holds the parent\'s connection alone' );
    is( $stats->{violations_total}, 0, 'and nobody broke the protocol' );
};

subtest 'children side by side' => sub {
    my @children;
    for my $worker ( 1 .. 16 ) {
        my $pid = fork // die "fork: $!";
        if ( !$pid ) {
            my $wrong = grep { $go->sum( $worker, $_ ) != $worker + $_ } 1 .. 500;
            POSIX::_exit( $wrong ? 1 : 0 );
        }
        push @children, $pid;
    }
    my $wrong = grep { $ack->( 1, $_ % 10 ) != $_ % 10 + 2 } 1 .. 500;
    my $failed = 0;
    for my $pid (@children) { waitpid $pid, 0; $failed++ if $? }
    is( $wrong, 0, 'the parent\'s answers are its own' );
    is( $failed, 0, 'and each child\'s' );
    parent_is_undisturbed('afterwards');
};

done_testing;
