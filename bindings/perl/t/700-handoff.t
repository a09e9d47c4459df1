use strict;
use warnings;

# Connections that another process has accepted.

use Test::More;
use File::Temp ();
use FindBin ();
use lib "$FindBin::Bin/lib";
use IO::Select;
use POSIX ();
use Socket qw(SOCK_STREAM AF_UNIX);
use Hostile qw(tied_value litter);
use TestGiver;
use TestTools qw(descriptors error_of in_child rss_kib signal_when_asleep wait_until);
use Time::HiRes ();

use Nearcall::Handoff;

my $directory = File::Temp->newdir( 'nearcall-perl-XXXXXXXX', TMPDIR => 1 );
my $count     = 0;
my $PATIENCE  = 20;
alarm 300;

sub address { "unix:$directory/" . ++$count . '.sock' }

sub pair {
    my (%option) = @_;
    my $address  = address();
    my $listener = Nearcall::Handoff->new($address);
    return ( $listener, TestGiver->start( addresses => [$address], %option ) );
}

# What the client reads to its end.
sub answer_to { my ($client) = @_; local $/; return scalar readline $client }

subtest 'numbers out of range are refused' => sub {
    for my $name (qw(window prefix_bytes_max message_bytes_max channels_max)) {
        for my $number ( -1, 0x7FFF_FFFF, 2**32 + 8, 'many' ) {
            like( error_of( sub { Nearcall::Handoff->new( address(), $name => $number ) } ),
                qr/\Q$name\E is \Q$number\E: it is out of range/, "$name => $number" );
        }
    }
};

subtest 'a connection with all that belongs to it' => sub {
    my ( $listener, $giver ) = pair( prefix => 5, name => 'shop', message => 'for you' );
    my $client = $giver->connect;
    syswrite $client, 'Hello, world';
    my $connection = $listener->accept($PATIENCE);
    isa_ok( $connection, 'IO::Socket::IP' );
    is( $connection->name,       'shop',     'its name' );
    is( $connection->message,    'for you',  'the message' );
    is( $connection->prefix,     'Hello',    'the prefix' );
    is( $connection->process_id, $giver->pid, 'the giver' );
    is( $connection->user_id,    $>,         'and its user' );
    is( $connection->peerhost, '127.0.0.1',        'the client' );
    is( $connection->peerport, $client->sockport,  'and its port' );
    is( $connection->sockport, $client->peerport,  'and the port that it asked for' );
    ok( fileno($connection) > 2, 'it has a descriptor' );
    is( $connection->pending, 5, 'bytes wait' );
    is( do { my $selected = select $connection; my $flushed = $|; select $selected; $flushed }, 1, 'a print is sent at once' );
    is( sysread( $connection, my $bytes, 2 ), 2, 'sysread' );
    is( sysread( $connection, $bytes, 100, 2 ), 3, 'ends with the prefix' );
    is( $bytes, 'Hello', 'which is what was read' );
    ok( !tied *$connection, 'after that it is an ordinary handle' );
    is( sysread( $connection, $bytes, 100 ), 7, 'with what follows' );
    is( $bytes, ', world', 'in order' );
    syswrite $connection, 'answer';
    ok( close $connection, 'closed' );
    is( answer_to($client), 'answer', 'the client has its answer, and the end' );
};

subtest 'other ways to read, and writing before' => sub {
    my ( $listener, $giver ) = pair( prefix => 6 );
    for my $way (
        [ 'lines'           => sub { [ readline $_[0] ] }, [ "one\n", "two\n", 'three' ] ],
        [ 'characters'      => sub { [ getc $_[0], getc $_[0] ] }, [ 'o', 'n' ] ],
        [ 'the prefix'      => sub { [ $_[0]->take_prefix, $_[0]->pending ] }, [ "one\ntw", 0 ] ],
        [ 'at an offset'    => sub { my $in = 'ab'; sysread $_[0], $in, 3, 4; [$in] }, ["ab\0\0one"] ],
        [ 'lines by object' => sub { [ $_[0]->getline ] }, ["one\n"] ],
    ) {
        my ( $name, $read, $expected ) = @$way;
        my $client = $giver->connect;
        syswrite $client, "one\ntwo\nthree";
        shutdown $client, 1;
        my $connection = $listener->accept($PATIENCE);
        syswrite $connection, 'w';
        print {$connection} 'p';
        printf {$connection} '%s', 'f';
        is_deeply( $read->($connection), $expected, $name );
        close $connection;
        is( answer_to($client), 'wpf', 'and what was written' );
    }
};

subtest 'what is printed is sent at once' => sub {
    for my $prefix ( 0, 3 ) {
        my ( $listener, $giver ) = pair( prefix => $prefix );
        my $client = $giver->connect;
        syswrite $client, 'abc';
        my $connection = $listener->accept($PATIENCE);
        print {$connection} "220 hello\n";
        ok( IO::Select->new($client)->can_read($PATIENCE), "as by any IO::Socket, with $prefix bytes before" );
    }
};

subtest 'waiting' => sub {
    my $listener = Nearcall::Handoff->new( address() );
    ok( !defined $listener->accept(0), 'nothing' );
    is( $! + 0, POSIX::EAGAIN(), 'yet' );
    ok( !defined $listener->accept(0.02), 'nothing' );
    is( $! + 0, POSIX::ETIMEDOUT(), 'in time' );
    my $handled = 0;
    local $SIG{ALRM} = sub { $handled++ };
    my @senders = signal_when_asleep('ALRM');
    ok( !defined $listener->accept, 'a signal' );
    is( $! + 0, POSIX::EINTR(), 'ends the wait' );
    is( $handled, 1, 'and its handler has run' );
    local $SIG{ALRM} = sub { die "late\n" };
    push @senders, signal_when_asleep('ALRM');
    is( error_of { $listener->accept }, "late\n", 'a handler may die' );
    waitpid $_, 0 for @senders;
    ok( !$listener->refuse('busy'), 'nothing to refuse' );
};

# perl runs them inside the library.
subtest 'handlers of sigaction that are not safe' => sub {
    my $address  = address();
    my $listener = Nearcall::Handoff->new($address);
    my $giver    = TestGiver->start( addresses => [$address] );
    my ( $before, $accepted, $errno ) = POSIX::SigAction->new;
    my $takes_one = sub {
        my $client = $giver->connect;
        syswrite $client, 'x';
        return ok( $listener->accept($PATIENCE), 'what is given next is taken' );
    };
    my $interrupted_by = sub {
        my ($handler) = @_;
        POSIX::sigaction( POSIX::SIGALRM(), POSIX::SigAction->new($handler), $before );
        my $sender = signal_when_asleep('ALRM');
        eval { $accepted = $listener->accept; $errno = $! + 0 };
        my $error = $@;
        waitpid $sender, 0;
        POSIX::sigaction( POSIX::SIGALRM(), $before );
        return $error;
    };
    $takes_one->();

    my $misuse;
    is( $interrupted_by->( sub { $misuse = error_of { $listener->accept(0) } } ), '', 'one that accepts does not disturb' );
    isa_ok( $misuse, 'Nearcall::Error', 'what it gets' ) && is( $misuse->name, 'MISUSE', '... and its code' );
    like( $misuse, qr/safe\(1\)/, '... and what to do' );
    is( $errno, POSIX::EINTR(), 'it ends the wait' );
    $takes_one->();

    my $descriptors = descriptors();
    for ( 1 .. 3 ) {
        is( $interrupted_by->( sub { die "left\n" } ), "left\n", 'one may die' );
        $takes_one->();
    }
    is( descriptors(), $descriptors, 'no descriptor stays' );

    ( my $path = $address ) =~ s/\Aunix://;
    is( $interrupted_by->( sub { $listener->close } ), '', 'one may close it' );
    is( $accepted, undef, 'nothing was given' );
    is( $errno, POSIX::EINTR(), 'the wait has ended' );
    like( error_of { $listener->accept }, qr/it is closed/, 'it is closed' );
    ok( !-e $path, 'the path is gone' );
    cmp_ok( descriptors(), '<', $descriptors, 'and its descriptors' );

    $descriptors = descriptors();
    for my $way ( sub { $_[0]->close }, sub { } ) {
        $listener = Nearcall::Handoff->new( address() );
        $interrupted_by->( sub { die "left\n" } );
        $way->($listener);
        undef $listener;
    }
    is( descriptors(), $descriptors, 'no descriptor stays of one that was left and closed, or let go of' );
};

# Whether a process has been stopped by a signal.
sub is_stopped {
    my ($pid) = @_;
    open my $status, '<', "/proc/$pid/stat" or die "/proc/$pid/stat: $!";
    return readline($status) =~ /\) T/;
}

# How many descriptors of this process mean the same file as that one.
sub descriptors_of {
    my ($number) = @_;
    my $file = readlink "/proc/self/fd/$number";
    return scalar grep { ( readlink($_) // '' ) eq $file } glob '/proc/self/fd/*';
}

subtest 'a handler that is not safe hands back, and dies, while something is handed back' => sub {
    my ( $listener, $giver ) = pair();
    my @clients     = map { $giver->connect } 1, 2;
    my @connections = map { $listener->accept($PATIENCE) } @clients;
    my @numbers     = map { fileno $_ } @connections;
    my $before      = POSIX::SigAction->new;
    my $misuse;
    kill 'STOP', $giver->pid;
    ok( wait_until { is_stopped( $giver->pid ) }, 'the giver is stopped' );
    POSIX::sigaction(
        POSIX::SIGALRM(),
        POSIX::SigAction->new( sub { $misuse = error_of { $connections[1]->hand_back( '', $PATIENCE ) }; die "left\n" } ),
        $before
    );
    my $sender = signal_when_asleep('ALRM');
    is( error_of { $connections[0]->hand_back( '', $PATIENCE ) }, "left\n", 'it died' );
    waitpid $sender, 0;
    POSIX::sigaction( POSIX::SIGALRM(), $before );
    kill 'CONT', $giver->pid;
    is( $misuse->name, 'MISUSE', 'what it got' );
    $listener->drain('the next use');
    is_deeply( [ map { descriptors_of($_) } @numbers ], [ 1, 1 ], 'no copy stays' );
};

subtest 'addresses and mistakes' => sub {
    my $address  = address();
    my $listener = Nearcall::Handoff->new( $address, mode => oct 600 );
    ( my $path = $address ) =~ s/\Aunix://;
    is( ( stat $path )[2] & 0777, 0600, 'the mode' );
    my $error = error_of { Nearcall::Handoff->new($address) };
    is( $error->name, 'ALREADY_EXISTS', 'one listens' );
    like( $error, qr/ at \Q${\__FILE__}\E line /, 'said where it was asked' );
    is( error_of { Nearcall::Handoff->new('tcp:x:1') }->name, 'INVALID_ARGUMENT', 'no path' );
    like( error_of { Nearcall::Handoff->new( $address, colour => 1 ) }, qr/no option colour/, 'options' );
    like( error_of { Nearcall::Handoff->new( $address, 'mode' ) },
        qr/takes its options as name => value.* at \Q$0\E line \d/, 'a list that is odd' );
    like( error_of { Nearcall::Handoff->new }, qr/needs an address/, 'nothing' );
    like( error_of { $listener->refuse('lazy') }, qr/reasons to refuse/, 'reasons' );
    $listener->close;
    ok( !-e $path, 'the path is gone' );
    like( error_of { $listener->accept }, qr/closed/, 'and the object says so' );
};

subtest 'refusing, draining, handing back' => sub {
    my ( $listener, $giver ) = pair( prefix => 5 );
    my $client = $giver->connect;
    syswrite $client, "GET / HTTP/1.1\r\n\r\n";
    ok( wait_until { $listener->refuse( busy => 'not now' ) }, 'refused' );
    my $connection = $listener->accept($PATIENCE);
    ok( $connection, 'and given again' );
    sysread $connection, my $method, 3;
    ok( $connection->hand_back( $method, $PATIENCE ), 'handed back' );
    ok( !defined fileno($connection), 'and closed here' );
    like( answer_to($client), qr/handed back with GET /, 'its giver answers' );
    $client = $giver->connect;
    syswrite $client, 'GET /';
    $connection = $listener->accept($PATIENCE);
    $connection->take_prefix;
    ok( $connection->hand_back_idle($PATIENCE), 'handed back between two requests' );
    like( answer_to($client), qr/handed back idle with \z/, 'its giver knows' );
    $client = $giver->connect;
    syswrite $client, 'abcde';
    IO::Select->new( $listener->fileno )->can_read($PATIENCE);
    $listener->drain('a new one comes');
    is( error_of { $listener->accept }->name, 'UNAVAILABLE', 'nothing is taken any more' );
};

subtest 'a text whose code drops the listener' => sub {
    is( in_child {
        my $listener = Nearcall::Handoff->new( address() );
        tied_value( my $text, sub { undef $listener; litter(); 'a new one comes' } );
        $listener->drain($text);
        return defined $listener ? 'is there' : 'dropped';
    }, 'dropped', 'is drained before' );
};

subtest 'handing back what is closed' => sub {
    for my $prefix ( 0, 5 ) {
        my ( $listener, $giver ) = pair( prefix => $prefix );
        my $client = $giver->connect;
        syswrite $client, 'x' x $prefix;
        my $connection = $listener->accept($PATIENCE);
        my $number     = fileno $connection;
        close $connection;
        is( answer_to($client), '', 'its client has seen the end' );
        socketpair my $other, my $peer, AF_UNIX, SOCK_STREAM, 0 or die "socketpair: $!";
        is( fileno $other, $number, 'another has its number' );
        like(
            error_of { $connection->hand_back( '', $PATIENCE ) },
            qr/the connection is closed.* at \Q${\__FILE__}\E line /, 'refused'
        );
        syswrite $other, 'mine';
        is( sysread( $peer, my $bytes, 9 ), 4, 'and the other is as it was' );
        $client = $giver->connect;
        syswrite $client, "GET / HTTP/1.1\r\n\r\n";
        $connection = $listener->accept($PATIENCE);
        ok( $connection->hand_back( '', $PATIENCE ), 'another is handed back' );
        like( error_of { $connection->hand_back( '', $PATIENCE ) }, qr/the connection is closed/, 'once' );
        like( answer_to($client), qr/handed back/, 'to its giver' );
    }
};

subtest 'forked workers' => sub {
    for my $inherited ( 'listener', 'socket' ) {
        my $address = address();
        ( my $path = $address ) =~ s/\Aunix://;
        my $shared =
            $inherited eq 'listener'
            ? Nearcall::Handoff->new($address)
            : IO::Socket::UNIX->new( Listen => 10, Local => $path );
        my @workers = map {
            my $pid = fork // die "fork: $!";
            if ( !$pid ) {
                my $own = $inherited eq 'listener' ? $shared : Nearcall::Handoff->new($shared);
                my $connection = $own->accept($PATIENCE);
                syswrite $connection, $$;
                close $connection;
                POSIX::_exit(0);
            }
            $pid;
        } 1 .. 3;
        my $giver = TestGiver->start( addresses => [$address] );
        my @seen = map { answer_to( $giver->connect ) } @workers;
        waitpid $_, 0 for @workers;
        is_deeply( [ sort @seen ], [ sort @workers ], "each served one by the master's $inherited" );
    }
};

subtest 'a child leaves its parent\'s channel' => sub {
    my ( $listener, $giver ) = pair();
    my $first = $giver->connect;
    close $listener->accept($PATIENCE);
    my $client = $giver->connect;
    IO::Select->new( $listener->fileno )->can_read($PATIENCE);
    is( in_child { $listener->accept(0.05) ? 'taken' : 'nothing' }, 'nothing', 'it gets nothing' );
    is( in_child { undef $listener; 'closed' }, 'closed', 'it closes' );
    my $connection = $listener->accept($PATIENCE);
    syswrite $connection, 'parent';
    close $connection;
    is( answer_to($client), 'parent', 'the parent serves' );
};

subtest 'what a killed process had not accepted' => sub {
    my $address = address();
    pipe my $reader, my $writer or die "pipe: $!";
    my $pid = fork // die "fork: $!";
    if ( !$pid ) {
        my $listener = Nearcall::Handoff->new($address);
        my $connection = $listener->accept($PATIENCE);
        syswrite $connection, 'first';
        syswrite $writer, 'x';
        sleep 100;
    }
    my $giver = TestGiver->start( addresses => [$address] );
    my @clients = map { $giver->connect } 1 .. 4;
    sysread $reader, my $byte, 1;
    kill 'KILL', $pid;
    waitpid $pid, 0;
    my $listener = Nearcall::Handoff->new($address);
    for ( 1 .. 3 ) {
        my $connection = $listener->accept($PATIENCE);
        syswrite $connection, 'second';
        close $connection;
    }
    is_deeply( [ sort map { answer_to($_) } @clients ], [ 'first', ('second') x 3 ], 'is served by the next' );
};

# A handler runs between two operations of Perl, wherever that is.
subtest 'an exception while a connection is accepted' => sub {
    my ( $listener, $giver ) = pair( prefix => 4 );
    my $accept = sub {
        my $client = $giver->connect;
        syswrite $client, 'abcd';
        my $connection = eval { $listener->accept($PATIENCE) };
        return ( $client, $connection );
    };
    $accept->();
    my $descriptors = descriptors();
    for my $place (qw(Nearcall::Handoff::Connection::_new Nearcall::Handoff::Prefix::TIEHANDLE)) {
        no strict 'refs';
        no warnings 'redefine';
        local *$place = sub { die "late\n" };
        my ( $client, $connection ) = $accept->();
        is( $@, "late\n", "it dies in $place" );
        ok( !$connection, 'and nothing is accepted' );
        is( descriptors(), $descriptors + 1, 'no descriptor is left' );
        ok( IO::Select->new($client)->can_read($PATIENCE), 'and the client sees the end' );
    }
    my ( $lost, $rounds ) = ( 0, 0 );
    while ( $lost < 5 && $rounds++ < 20_000 ) {
        my $client = $giver->connect;
        syswrite $client, 'abcd';
        my $accepted = eval {
            local $SIG{ALRM} = sub { die "late\n" };
            Time::HiRes::ualarm( 100 + int rand 1000 );
            $listener->accept($PATIENCE);
            Time::HiRes::ualarm(0);
            1;
        };
        my $select = IO::Select->new($client);
        $lost++ if !$accepted && $select->can_read(0.002);
        # It is still to be accepted where the handler died before that.
        my $tries = 0;
        $listener->accept(0.001) until $select->can_read(0) || $tries++ > 100;
    }
    alarm 300;
    cmp_ok( $lost, '>=', 5, "handlers died behind TAKEN in $lost of $rounds rounds" );
    is( descriptors(), $descriptors, 'no descriptor is left' );
};

# Before each statement in turn, those of the modules that it uses included.
subtest 'an exception at any place of accept' => sub {
    my $address = address();
    my $program = <<'PROGRAM';
        use TestTools qw(descriptors);
        use Nearcall::Handoff;
        my $listener = Nearcall::Handoff->new(shift);
        syswrite STDOUT, "ready\n";
        $listener->accept(20);
        my ( $place, $died, $descriptors ) = ( 0, 1, descriptors() );
        while ($died) {
            syswrite STDOUT, "next\n";
            eval { Devel::Late::arm( ++$place ); $listener->accept(20); $died = Devel::Late::disarm() };
            die "at $place the connection is left selected" if select ne 'main::STDOUT';
        }
        syswrite STDOUT, "last\n";
        1 until $listener->accept(20)->prefix eq 'last';
        # What waited while one died before it was taken may come behind the last.
        my $end = time + 60;
        $listener->accept(0.01) while descriptors() > $descriptors && time < $end;
        die 'a descriptor is left' if descriptors() != $descriptors;
PROGRAM
    my $pid = open my $run, '-|', $^X, ( map { "-I$_" } @INC ), '-d:Late', '-e', $program, $address or die "perl: $!";
    readline $run;
    my $giver = TestGiver->start( addresses => [$address], prefix => 4 );
    my @clients = $giver->connect;
    syswrite $clients[0], 'abcd';
    while ( my $line = readline $run ) {
        push @clients, $giver->connect;
        syswrite $clients[-1], $line eq "last\n" ? 'last' : 'abcd';
    }
    cmp_ok( scalar @clients, '>', 10, @clients . ' places' );
    ok( close $run, 'nothing is left' );
};

subtest 'the descriptor limit' => sub {
    my $address = address();
    my $program = <<'PROGRAM';
        use Nearcall::Handoff;
        my $listener = Nearcall::Handoff->new(shift);
        my $first = $listener->accept(20);
        close $first;
        my @files;
        while ( open my $file, '<', '/dev/null' ) { push @files, $file }
        syswrite STDOUT, "full\n";
        for ( 1 .. 100 ) { die 'taken' if $listener->accept(0.001) }
        @files = ();
        my $connection = $listener->accept(20) or die 'nothing';
        syswrite $connection, 'at last';
PROGRAM
    my $pid = open my $run, '-|', 'bash', '-c', 'ulimit -n 40; exec "$@"', '-', $^X, ( map { "-I$_" } @INC ),
        '-e', $program, $address
        or die "bash: $!";
    my $giver = TestGiver->start( addresses => [$address] );
    is( answer_to( $giver->connect ), '', 'one, to have a channel' );
    is( readline $run, "full\n", 'no descriptor is left' );
    is( answer_to( $giver->connect ), 'at last', 'the connection waits for one' );
    ok( close $run, 'the program ends well' );
};

subtest 'memory and descriptors stay flat' => sub {
    my ( $listener, $giver ) = pair( prefix => 4, message => 'm' x 1000 );
    my $one = sub {
        my $client = $giver->connect;
        syswrite $client, 'abcdefgh';
        my $connection = $listener->accept($PATIENCE);
        sysread $connection, my $bytes, 2 for 1 .. 2;
        return;
    };
    $one->() for 1 .. 50;
    my ( $rss, $descriptors ) = ( rss_kib(), descriptors() );
    $one->() for 1 .. 300;
    is( descriptors(), $descriptors, 'no descriptor more' );
    my $growth = rss_kib() - $rss;
    cmp_ok( $growth, '<', 256, "$growth KiB more" );
};

done_testing;
