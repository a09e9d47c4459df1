use strict;
use warnings;

use Test::More;
use Fcntl qw(O_RDWR);
use File::Temp ();
use FindBin ();
use POSIX ();
use lib "$FindBin::Bin/lib";
use TestServer;
use TestTools qw(error_of in_child);

use Nearcall;

# As many calls as it takes until a connection is given memory, and some more.
use constant CALLS_ENOUGH => 40;

my $server = TestServer->start;

sub busy {
    my $go = Nearcall->new( $server->address, timeout => 10, @_ );
    $go->one for 1 .. CALLS_ENOUGH;
    return $go;
}

subtest 'a busy connection gets memory, unless it is off' => sub {
    my $go = Nearcall->new( $server->address );
    is( $go->transport, '', 'nothing before the first call' );
    $go->one;
    is( $go->transport, 'unix socket', 'one call' );
    is( busy()->transport, 'shared memory', 'many calls' );
    is( busy( shared_memory => 0 )->transport, 'unix socket', 'shared_memory => 0' );
    is( busy( spin => $_ )->transport, 'shared memory', "spin => $_" ) for qw(auto off dedicated);
    like( error_of { busy( spin => 'fast' ) }, qr/spin is auto, off or dedicated, not fast/,
        'another spin' );
};

subtest 'the same answers of every size' => sub {
    my $go = busy();
    for my $bytes ( 0, 1, 80, 100, 4096, 70_000, 1 << 20, 3 << 20 ) {
        my $data = join '', map { chr( $_ % 256 ) } 1 .. $bytes;
        is( $go->call_raw( echo => $data ) eq $data, 1, "raw, $bytes bytes" );
        is( $go->echo($data) eq $data,               1, "typed, $bytes bytes" );
    }
    my $text = "\x{263a}" x 50_000;
    is( $go->upper($text) eq $text, 1, 'characters' );
    is_deeply( $go->identity( { list => [ 1 .. 5000 ] } ), { list => [ 1 .. 5000 ] }, 'nested' );
    is( $go->transport, 'shared memory', 'all of it through memory' );
};

subtest 'a value is kept while later ones arrive' => sub {
    my $go = busy();
    my @kept = map { $go->call_raw( echo => "value $_" x 20 ) } 1 .. 1000;
    is_deeply( \@kept, [ map { "value $_" x 20 } 1 .. 1000 ], 'a thousand values' );
};

subtest 'pipelined' => sub {
    my $go = busy();
    for my $round ( 1 .. 100 ) {
        my @calls = map { $go->begin( add => $round, $_ ) } 1 .. 60;
        is_deeply( [ map { $_->wait } @calls ], [ map { $round + $_ } 1 .. 60 ], "round $round" )
            or last;
    }
};

subtest 'a child gets a connection of its own' => sub {
    my $go = busy();
    my $answer = in_child {
        my $first = $go->add( 1, 2 );
        $go->one for 1 .. CALLS_ENOUGH;
        "$first " . $go->transport;
    };
    is( $answer, '3 shared memory', 'and memory of its own' );
    is( $go->add( 3, 4 ), 7, 'the parent goes on' );
    is( $go->transport, 'shared memory', 'through its own' );
};

subtest 'children come and go while the parent calls' => sub {
    my $go = busy();
    my $wrong = 0;
    for my $child ( 1 .. 20 ) {
        my $pid = fork // die "fork: $!";
        if ( !$pid ) {
            my $right = grep { $go->add( $child, $_ ) == $child + $_ } 1 .. CALLS_ENOUGH;
            POSIX::_exit( $right == CALLS_ENOUGH ? 0 : 1 );
        }
        $wrong += grep { $go->add( -1, $_ ) != $_ - 1 } 1 .. 200;
        waitpid $pid, 0;
        $wrong++ if $?;
    }
    is( $wrong, 0, 'every answer is its own' );
    is( $go->transport, 'shared memory', 'the parent stays hot' );
};

# Where a text that the server replied with lies in the memory it shares.
sub reply_place {
    my ( $server, $text ) = @_;
    open my $maps, '<', "/proc/@{[ $server->pid ]}/maps" or die "maps: $!";
    my ($region) = grep { /nearcall-server/ } readline $maps;
    no warnings 'portable';    # addresses have 64 bits
    my ( $begin, $end ) = map { hex } $region =~ /\A([0-9a-f]+)-([0-9a-f]+)/;
    sysopen my $memory, "/proc/@{[ $server->pid ]}/mem", O_RDWR or die "mem: $!";
    sysseek $memory, $begin, 0 or die "seek: $!";
    sysread( $memory, my $bytes, $end - $begin ) or die "read: $!";
    my $offset = index $bytes, $text;
    return $offset < 0 ? die 'the reply is not in shared memory' : ( $memory, $begin + $offset );
}

# A child that writes two bytes in turn into the server's memory until it is killed.
sub start_flipping {
    my ( $memory, $place, @bytes ) = @_;
    my $pid = fork // die "fork: $!";
    return $pid if $pid;
    while (1) {
        for my $byte (@bytes) {
            POSIX::_exit(1) unless sysseek( $memory, $place, 0 ) && syswrite $memory, $byte;
        }
    }
}

subtest 'a reply that changes while it is read' => sub {
    my $own = TestServer->start;
    my $go = Nearcall->new( $own->address, timeout => 10 );
    $go->one for 1 .. CALLS_ENOUGH;
    my $filling = 'a' x ( 1 << 19 );
    my %value = ( text => "\x{263a}$filling", key => { "\x{263a}$filling" => 1 } );
    for my $kind ( sort keys %value ) {
        $go->identity( $value{$kind} );
        my ( $memory, $place ) = reply_place( $own, $filling );
        my $flipper = start_flipping( $memory, $place + length($filling) / 2, "\xff", 'a' );
        my ( $refused, $malformed ) = ( 0, 0 );
        my $end = time + 60;
        while ( $refused < 30 && time < $end ) {
            my $result = eval { $go->identity( $value{$kind} ) };
            $refused++ if !defined $result && $@->is('INTERNAL');
            my ($text) = ref $result ? keys %$result : $result;
            $malformed++ if defined $text && !utf8::valid($text);
        }
        kill 'KILL', $flipper;
        waitpid $flipper, 0;
        cmp_ok( $refused, '>=', 30, "$kind: what is not UTF-8 is refused" );
        is( $malformed, 0, "$kind: and never handed out" );
    }
};

# The outcomes of calls that were in flight when their server was killed.
sub outcomes_after_kill {
    my ( $begin, %option ) = @_;
    my $directory = File::Temp->newdir;
    POSIX::mkfifo( "$directory/ledger", 0600 ) or die "mkfifo: $!";
    sysopen my $ledger, "$directory/ledger", O_RDWR or die "ledger: $!";
    my $victim = TestServer->start( arguments => [ -ledger => "$directory/ledger" ] );
    my $go = Nearcall->new( $victim->address, timeout => 10, %option );
    $go->ledger($_) for 1 .. CALLS_ENOUGH;
    sysread( $ledger, my $keys, 8 * CALLS_ENOUGH ) == 8 * CALLS_ENOUGH or die "ledger: $!";
    my @calls = $begin->( $go, $victim, $ledger );
    $victim->signal('KILL');
    $victim->stop;
    my @errors = map { my $call = $_; error_of { $call->wait } } @calls;
    return join ', ', map { join ' ', $_->name, $_->outcome_text } @errors;
}

subtest 'what is known of a call after the server was killed' => sub {
    # Two, because of a single one the socket itself tells whether it was read.
    my $stopped = sub {
        my ( $go, $victim ) = @_;
        $victim->signal('STOP');
        return map { $go->begin( ledger => $_ ) } 7, 8;
    };
    my $running = sub {
        my ( $go, $victim, $ledger ) = @_;
        my $call = $go->begin( ledger_slow => 7, 60_000 );
        sysread( $ledger, my $key, 8 ) == 8 or die "ledger: $!";
        return $call;
    };
    is( outcomes_after_kill($stopped), 'UNAVAILABLE not executed, UNAVAILABLE not executed', 'not begun' );
    is( outcomes_after_kill($running), 'UNAVAILABLE unknown', 'begun' );
    is( outcomes_after_kill( $stopped, shared_memory => 0 ), 'UNAVAILABLE unknown, UNAVAILABLE unknown',
        'not begun, but without memory nobody knows' );
};

subtest 'a killed server is followed by another' => sub {
    my $victim = TestServer->start;
    my $go = Nearcall->new( $victim->address, timeout => 10 );
    $go->one for 1 .. CALLS_ENOUGH;
    $victim->stop('KILL');
    my $error = error_of { $go->one };
    ok( $error->is('UNAVAILABLE') && $error->not_executed, 'nobody there' ) or diag $error;
    $victim->restart;
    $go->one for 1 .. CALLS_ENOUGH;
    is( $go->transport, 'shared memory', 'and memory again' );
};

done_testing;
