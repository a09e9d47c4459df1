use strict;
use warnings;

use Test::More;
use FindBin ();
use lib "$FindBin::Bin/lib";
use TestServer;
use TestTools qw(descriptors error_of signal_when_asleep timed);

use POSIX ();
use Time::HiRes qw(time ualarm);

use Nearcall;

my $server = TestServer->start;
my $go = Nearcall->new( $server->address, timeout => 10 );
$go->one;

subtest 'a handler runs while a call waits' => sub {
    my $handled;
    local $SIG{ALRM} = sub { $handled = time };
    my $began = time;
    ualarm(50_000);
    is( $go->sleep(2000), 2000, 'the call goes on' );
    ok( $handled, 'the handler ran' );
    cmp_ok( $handled - $began, '<', 1.9, 'before the call was over' );
};

subtest 'a signal that comes just before the wait is not missed' => sub {
    my $noticed = 0;
    my $slow    = $go->with( timeout => 2 );
    local $SIG{ALRM} = sub { die "noticed\n" };
    $go->sleep(0);
    for my $after_us ( 1 .. 300 ) {
        my $began = time;
        my $error = error_of {
            ualarm($after_us);
            die error_of { $slow->sleep(60_000) };
        };
        $noticed++ if "$error" eq "noticed\n" && time - $began < 1;
        last if $after_us - $noticed > 10;
    }
    is( $noticed, 300, 'all were noticed at once' );
    is( $go->one, 1, 'the handle can be used' );
};

subtest 'many signals' => sub {
    my $handled = 0;
    local $SIG{ALRM} = sub { $handled++ };
    ualarm( 1_000, 1_000 );
    is( $go->sleep(300), 300, 'the call goes on' );
    my $error;
    my $took = timed { $error = error_of { $go->with( timeout => 0.2 )->sleep(60_000) } };
    my $ping = $go->ping;
    ualarm(0);
    cmp_ok( $handled, '>', 10, "$handled signals were handled" );
    is( $error->name, 'DEADLINE_EXCEEDED', 'the deadline holds' );
    cmp_ok( $took, '<', 0.45, 'and is not put off' );
    cmp_ok( $ping, '>', 0, 'a ping' );
};

subtest 'pings that signals interrupt take time' => sub {
    my ( $handled, $interrupted, $timeless ) = ( 0, 0, 0 );
    local $SIG{ALRM} = sub { $handled++ };
    ualarm( 200, 200 );
    while ( $interrupted < 100 ) {
        my $before = $handled;
        $timeless++ if $go->ping <= 0;
        $interrupted++ if $handled > $before;
    }
    ualarm(0);
    is( $timeless, 0, 'each of them says how long it took' );
};

subtest 'signals while connecting, finding a function, pinging' => sub {
    my $stopped = TestServer->start;
    my $connected = Nearcall->new( $stopped->address, timeout => 0.3 );
    $connected->one;
    my $new = Nearcall->new( $stopped->address, timeout => 0.3 );
    $stopped->signal('STOP');
    my $generated = $connected->_generated( one => '0' x 64, '{}', 'error' );
    my %way = ( comparing => sub { $generated->() }, connecting => sub { $new->connect }, 'a first call' => sub { $new->one },
        finding => sub { $connected->ack( 1, 1 ) }, pinging => sub { $connected->ping } );
    for my $name ( sort keys %way ) {
        my $handled = 0;
        # What each signal begins anew would never end.
        local $SIG{ALRM} = sub { ualarm(0) if ++$handled > 3_000 };
        ualarm( 1_000, 1_000 );
        my $error;
        my $took = timed { $error = error_of { $way{$name}->() } };
        ualarm(0);
        is( $error->name, 'DEADLINE_EXCEEDED', "$name: late" ) or diag $error;
        cmp_ok( $took, '<', 0.55, "$name: in time" );
        cmp_ok( $handled, '>', 10, "$name: $handled handlers ran" );
    }
    $stopped->signal('CONT');
    is( $connected->with( timeout => 10 )->one, 1, 'then the handle goes on' );
    is( $new->with( timeout => 10 )->one, 1, 'and the new one' );
};

subtest 'signals while begin connects again' => sub {
    my $stopped = TestServer->start;
    my $handle = Nearcall->new( $stopped->address, timeout => 10 );
    $handle->sleep(0);
    my $begin = sub {
        my ( $timeout, $handler ) = @_;
        my $handled = 0;
        local $SIG{ALRM} = sub { $handled++; $handler->($handled) };
        $handle->disconnect;
        $stopped->signal('STOP');
        ualarm( 2_000, 2_000 );
        my ( $call, $error );
        my $took = timed {
            $call  = eval { $handle->with( timeout => $timeout )->begin( sleep => 20 ) };
            $error = $@;
        };
        ualarm(0);
        $stopped->signal('CONT');
        return ( $call, $error, $handled, $took );
    };

    my ( $call, $error, $handled ) = $begin->( 10, sub { $stopped->signal('CONT') if $_[0] == 20 } );
    ok( $call, 'it goes on' ) or diag $error;
    is( $call && $call->wait, 20, 'and sends the call' );
    cmp_ok( $handled, '>=', 20, "$handled handlers ran" );

    ( $call, $error, $handled, my $took ) = $begin->( 0.3, sub { } );
    is( $error->name, 'DEADLINE_EXCEEDED', 'the deadline holds' ) or diag $error;
    ok( $error->not_executed, 'nothing ran' );
    cmp_ok( $took, '<', 0.55, 'and is not put off' );

    ( $call, $error ) = $begin->( 10, sub { $handle->disconnect } );
    is( $error->name, 'CANCELLED', 'a handler that uses the handle gives the call up' ) or diag $error;
    ok( $error->not_executed, 'nothing ran' );
    is( $handle->one, 1, 'the handle can be used' );
};

# Whether the function then runs is up to the server.
subtest 'a signal while a part of a request is sent' => sub {
    my $stopped = TestServer->start;
    my $ends = sub {
        my ( $timeout, $handler ) = @_;
        my $handle = Nearcall->new( $stopped->address, shared_memory => 0, timeout => 60 );
        $handle->identity(1);
        $stopped->signal('STOP');
        local $SIG{ALRM} = sub { $handler->($handle) };
        my $sender = signal_when_asleep('ALRM');
        my $error = error_of { $handle->with( timeout => $timeout )->begin( identity => 'x' x 2_000_000 )->wait; die "sent\n" };
        waitpid $sender, 0;
        $stopped->signal('CONT');
        is( $handle->one, 1, 'the handle can be used' );
        return $error;
    };

    my $error = $ends->( 60, sub { $stopped->signal('CONT'); $_[0]->one } );
    is( $error->name, 'CANCELLED', 'a handler that uses the handle gives the call up' ) or diag $error;
    ok( $error->unknown, '... of which a part was sent' );

    $error = $ends->( 0.5, sub { my $end = time + 1; 1 while time < $end } );
    is( $error->name, 'DEADLINE_EXCEEDED', 'a handler that takes all of the time' ) or diag $error;
    ok( $error->unknown, '... of a call of which a part was sent' );

    is( $ends->( 60, sub { $stopped->signal('CONT') } ), "sent\n", 'any other lets it go on' );
};

subtest 'a handler that dies' => sub {
    local $SIG{ALRM} = sub { die "too late\n" };
    for my $way ( sub { $go->sleep(60_000) }, sub { $go->begin( sleep => 60_000 )->wait },
        sub { $go->function('sleep')->(60_000) }, sub { $go->with( timeout => 20 )->sleep(60_000) } )
    {
        my $began = time;
        my $sender;
        is( error_of { $sender = signal_when_asleep('ALRM'); $way->() }, "too late\n", 'what it dies with arrives' );
        cmp_ok( time - $began, '<', 15, 'at once' );
        waitpid $sender, 0;
        is( $go->ack( 2, 3 ), 9, 'the handle can be used' );
    }
};

subtest 'alarm, as everybody writes it' => sub {
    my $result = eval {
        local $SIG{ALRM} = sub { die "alarm\n" };
        alarm 1;
        my $slept = $go->sleep(60_000);
        alarm 0;
        $slept;
    };
    is( $@, "alarm\n", 'it went off' );
    is( $result, undef, 'and there is no result' );
    is( $go->one, 1, 'the handle can be used' );
};

subtest 'a handler that calls' => sub {
    my $inner;
    local $SIG{ALRM} = sub { $inner = $go->ack( 1, 1 ) };
    my $sender = signal_when_asleep('ALRM');
    my $error = error_of { $go->sleep(60_000) };
    waitpid $sender, 0;
    is( $inner, 3, 'through the same handle is answered' );
    isa_ok( $error, 'Nearcall::Error' );
    is( $error->name, 'CANCELLED', 'and gives the outer call up' );
    ok( $error->unknown, 'whose outcome is unknown' );
    is( $go->one, 1, 'the handle can be used' );

    my $other = Nearcall->new( $server->address, timeout => 10 );
    $SIG{ALRM} = sub { $inner = $other->ack( 2, 2 ) };
    $sender = signal_when_asleep('ALRM');
    is( $go->sleep(2000), 2000, 'through another handle disturbs nothing' );
    waitpid $sender, 0;
    is( $inner, 7, 'and is answered' );
};

# perl runs them inside the library.
subtest 'handlers of sigaction that are not safe' => sub {
    my $handle = Nearcall->new( $server->address, timeout => 10 );
    $handle->sleep(0);
    my $before = POSIX::SigAction->new;
    my $inner;
    my $is_misuse = sub {
        my ( $error, $name ) = @_;
        isa_ok( $error, 'Nearcall::Error', $name ) or return;
        is( $error->name, 'MISUSE', "$name: the code" );
        like( $error->message, qr/safe\(1\)/, "$name: the text" );
    };
    POSIX::sigaction( POSIX::SIGALRM(), POSIX::SigAction->new( sub { $inner = error_of { $handle->one } } ), $before );
    my $sender = signal_when_asleep('ALRM');
    is( $handle->sleep(1000), 1000, 'one that calls through the same handle does not disturb it' );
    waitpid $sender, 0;
    $is_misuse->( $inner, 'the inner call' );
    ok( $inner && $inner->not_executed, 'which did not run' );
    is( $handle->one, 1, 'the handle can be used' );

    POSIX::sigaction( POSIX::SIGALRM(), POSIX::SigAction->new( sub { $handle->close } ) );
    my $before_closing = descriptors();
    $sender = signal_when_asleep('ALRM');
    is( $handle->sleep(1000), 1000, 'one that closes the handle lets the call end' );
    waitpid $sender, 0;
    like( error_of { $handle->one }, qr/handle is closed/, 'it is closed then' );
    cmp_ok( descriptors(), '<', $before_closing, '... and its descriptor' );

    my $safe = POSIX::SigAction->new( sub { die "in between\n" } );
    $safe->safe(1);
    POSIX::sigaction( POSIX::SIGALRM(), $safe );
    $sender = signal_when_asleep('ALRM');
    is( error_of { $go->sleep(60_000) }, "in between\n", 'a safe one that dies ends the call' );
    waitpid $sender, 0;
    is( $go->one, 1, 'and the handle can be used' );
    POSIX::sigaction( POSIX::SIGALRM(), $before );
};

subtest 'handlers of sigaction that let go at once' => sub {
    my ( $before, $held ) = POSIX::SigAction->new;
    my %way = (
        call => sub { $held->sleep(500) },
        with => sub { $held = $held->with( timeout => 9 ); $held->sleep(500) },
        begin => sub { my $call = $held->begin( sleep => 500 ); undef $held; $held = $call; undef $call; $held->wait },
        function => sub { $held = $held->function('sleep'); $held->(500) },
    );
    my %handler = ( undef => sub { undef $held },
        another => sub { $held = Nearcall->new( $server->address, timeout => 10 ); $held->one } );
    my @warnings;
    local $SIG{__WARN__} = sub { push @warnings, @_ };
    for my $what ( sort keys %handler ) {
        POSIX::sigaction( POSIX::SIGALRM(), POSIX::SigAction->new( $handler{$what} ), $before );
        for my $name ( sort keys %way ) {
            $held = Nearcall->new( $server->address, timeout => 10 );
            $held->sleep(0);
            my $sender = signal_when_asleep('ALRM');
            is( eval { $way{$name}->() }, 500, "$name goes on ($what)" ) or diag $@;
            waitpid $sender, 0;
        }
        POSIX::sigaction( POSIX::SIGALRM(), $before );
    }
    my $stopped = TestServer->start;
    my %idle = ( ping => sub { $held->ping }, connect => sub { $held->disconnect; $held->connect; 1 },
        find => sub { $held->one }, raw => sub { $held->call_raw( echo => 'x' ) } );
    POSIX::sigaction( POSIX::SIGALRM(), POSIX::SigAction->new( sub { undef $held; $stopped->signal('CONT') } ), $before );
    for my $name ( sort keys %idle ) {
        $held = Nearcall->new( $stopped->address, timeout => 10 );
        $held->sleep(0);
        $stopped->signal('STOP');
        my $sender = signal_when_asleep('ALRM');
        ok( eval { $idle{$name}->() }, "$name goes on" ) or diag $@;
        waitpid $sender, 0;
        is( $held, undef, '... and the handle is gone' );
    }
    POSIX::sigaction( POSIX::SIGALRM(), $before );
    is_deeply( \@warnings, [], 'perl finds nothing wrong' );
};

# They leave the library by a longjmp.
subtest 'handlers of sigaction that die at once' => sub {
    my $before = POSIX::SigAction->new;
    POSIX::sigaction( POSIX::SIGALRM(), POSIX::SigAction->new( sub { die "at once\n" } ), $before );
    my $is_left = sub {
        my ($way) = @_;
        my $sender = signal_when_asleep('ALRM');
        is( error_of { $way->() }, "at once\n", 'one that dies ends the call' );
        waitpid $sender, 0;
    };
    for my $option ( [], [ shared_memory => 0 ] ) {
        my $handle = Nearcall->new( $server->address, timeout => 10, @$option );
        $handle->sleep(0) for 1 .. 50;
        my $sleep  = $handle->function('sleep');
        my $flying = $handle->begin( sleep => 60_000 );
        my %way    = (
            call => sub { $handle->one }, ping => sub { $handle->ping }, begin => sub { $handle->begin('one')->wait },
            connect => sub { $handle->connect; $handle->one }, function => sub { $sleep->(1) },
            disconnect => sub { $handle->disconnect; $handle->one }, process => sub { $handle->process; $handle->one },
            with => sub { $handle->with( attempts => 2 )->one },
        );
        for my $name ( sort keys %way ) {
            $is_left->( sub { $handle->sleep(60_000) } );
            ok( eval { $way{$name}->() }, "$name goes on with the handle" ) or diag $@;
        }
        my $error = error_of { $flying->wait };
        is( $error->name, 'UNAVAILABLE', 'a call that was in flight has ended' ) or diag $error;
        ok( $error->unknown, '... and may have run' );
        $flying = $handle->begin( sleep => 60_000 );
        $is_left->( sub { $flying->wait } );
        is( error_of { $flying->wait }->name, 'UNAVAILABLE', 'so has one that was waited for' );
    }

    my $inner;
    my $handle = Nearcall->new( $server->address, timeout => 10 );
    {
        package Nearcall::Test::Guard;
        sub new { my ( $class, $code ) = @_; return bless $code, $class }
        sub DESTROY { local $@; $_[0]->(); return }
    }
    $is_left->( sub { my $guard = Nearcall::Test::Guard->new( sub { $inner = eval { $handle->one } } ); $handle->sleep(60_000) } );
    is( $inner, 1, 'what is destroyed on the way out can use the handle' );

    my $descriptors = descriptors();
    for my $way ( sub { $_[0]->close }, sub { } ) {
        for ( 1 .. 5 ) {
            my $left = Nearcall->new( $server->address, timeout => 10 );
            $is_left->( sub { $left->sleep(60_000) } );
            $way->($left);
        }
    }
    is( descriptors(), $descriptors, 'no descriptor of a handle stays that was closed, or let go of' );
    POSIX::sigaction( POSIX::SIGALRM(), $before );
};

subtest 'a handler that closes, or lets go' => sub {
    my $handle = Nearcall->new( $server->address, timeout => 10 );
    $handle->sleep(0);    # it sleeps in no other call
    local $SIG{ALRM} = sub { $handle->close };
    my @senders = signal_when_asleep('ALRM');
    is( error_of { $handle->sleep(60_000) }->name, 'CANCELLED', 'close' );

    $handle = Nearcall->new( $server->address, timeout => 10 );
    $handle->sleep(0);
    $SIG{ALRM} = sub { undef $handle };
    push @senders, signal_when_asleep('ALRM');
    is( $handle->sleep(2000), 2000, 'the object lives until its call is over' );
    is( $handle, undef, 'and no longer' );

    my $function = Nearcall->new( $server->address, timeout => 10 )->function('sleep');
    $function->(0);
    $SIG{ALRM} = sub { undef $function };
    push @senders, signal_when_asleep('ALRM');
    is( $function->(2000), 2000, 'so does a function object' );

    my $bytes = 'x' x 100_000;
    $handle = Nearcall->new( $server->address, timeout => 10 );
    $handle->one;
    my $call = $handle->begin( sleep => 2000 );
    $SIG{ALRM} = sub { undef $call };
    push @senders, signal_when_asleep('ALRM');
    is( $call->wait, 2000, 'and a call in flight' );
    waitpid $_, 0 for @senders;
};

subtest 'TERM ends a worker between two calls' => sub {
    pipe my $reader, my $writer or die "pipe: $!";
    my $pid = fork // die "fork: $!";
    if ( !$pid ) {
        my $stopping = 0;
        local $SIG{TERM} = sub { $stopping = 1 };
        syswrite $writer, "ready\n";
        my $calls = 0;
        until ($stopping) { $calls++ if $go->sleep(20) == 20 }
        syswrite $writer, "finished\n";
        POSIX::_exit( $calls ? 0 : 1 );
    }
    close $writer;
    is( readline $reader, "ready\n", 'a worker works' );
    Time::HiRes::sleep(0.1);
    kill 'TERM', $pid;
    is( readline $reader, "finished\n", 'and finishes its call' );
    waitpid $pid, 0;
    is( $?, 0, 'in peace' );
};

subtest 'signals that are not handled do what they do' => sub {
    my $pid = fork // die "fork: $!";
    if ( !$pid ) { $go->sleep(60_000); POSIX::_exit(0) }
    kill 'TERM', $pid;
    waitpid $pid, 0;
    is( $? & 127, POSIX::SIGTERM(), 'TERM kills a caller that waits' );
};

done_testing;
