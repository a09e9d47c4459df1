use strict;
use warnings;

use Test::More;
use FindBin ();
use lib "$FindBin::Bin/lib";
use TestTools qw(error_of in_child);

use IO::Select ();
use POSIX ();
use Time::HiRes qw(ualarm);

use Nearcall;

my $library = $ENV{NEARCALL_TESTLIBRARY} or BAIL_OUT('NEARCALL_TESTLIBRARY names no library');
my $address = "embed:$library";

# Opened before the library is loaded, for children that load it themselves.
my $lazy = Nearcall->new("$address?children=own");

subtest 'a library for each child that calls first after the fork' => sub {
    for ( 1, 2 ) {
        is( in_child { $lazy->count . ' ' . $lazy->transport }, '1 same process', 'a state of its own' );
    }
};

my @signals = qw(TERM HUP CHLD ALRM USR1 INT PIPE);

# What becomes of a process that gets a signal for which %SIG has this word.
sub fate_of {
    my ( $name, $word, $prepare ) = @_;
    my $pid = fork // die $!;
    if ( !$pid ) {
        $SIG{$name} = $word;    # whoever runs this may ignore it
        $prepare->();
        kill $name => $$;
        $prepare->();
        POSIX::_exit(0);
    }
    waitpid $pid, 0;
    return $?;
}

sub signals_without_handlers {
    my ($prepare) = @_;
    for my $name (@signals) {
        for my $word (qw(DEFAULT IGNORE)) {
            is( fate_of( $name, $word, $prepare ), fate_of( $name, $word, sub { } ), "SIG$name, $word" );
        }
    }
    is( fate_of( 'TERM', 'DEFAULT', $prepare ), POSIX::SIGTERM(), 'which can be the end' );
}

subtest 'signals without a handler do what they always did, in a process that loaded' => sub {
    signals_without_handlers( sub { $lazy->one; $lazy->transport eq 'same process' or POSIX::_exit(99) } );
};

my $go = Nearcall->new( $address, timeout => 10 );

subtest 'calls within the process' => sub {
    is( $go->transport,        'same process', 'from the first call on' );
    is( $go->one,              1,              'without arguments' );
    is( $go->ack( 2, 3 ),      9,              'with some' );
    is( $go->md5('hoge'),      'ea703e7aa1efda0064eaa507d9e8ab7e', 'text' );
    is( $go->process_id,       $$,             'in this process' );
    is( $go->goroutine,        1,              'a goroutine' );
    is( $go->call_raw( echo => 'x' x 3_000_000 ) eq 'x' x 3_000_000, 1, 'a large reply' );
    is_deeply( [ $go->divmod( 7, 2 ) ], [ 3, 1 ], 'two results' );
};

subtest 'errors' => sub {
    my $error = error_of { $go->divmod( 1, 0 ) };
    is( $error->name, 'INVALID_ARGUMENT', 'of the function' );
    $error = error_of { $go->panic('no') };
    is( $error->name,    'INTERNAL', 'a panic' );
    is( $error->outcome_text, 'executed', 'and its outcome' );
    is( error_of { $go->no_such }->name, 'UNIMPLEMENTED', 'no such function' );
    like( error_of { Nearcall->new('embed:/no/such.so') }, qr/nearcall build/, 'no such library' );
};

subtest 'children share the state' => sub {
    my $before = $go->count;
    for ( 1 .. 3 ) {
        my $said = in_child {
            $go->one for 1 .. 40;
            join ' ', $go->count > 0, $go->process_id, $go->transport;
        };
        is( $said, "1 $$ shared memory", 'a child' );
    }
    is( $go->count, $before + 4, 'counted' );
    like( in_child { error_of { $lazy->one } }, qr/forked from process $$/, 'children=own is too late' );
};

use constant ROUNDS => 100;

# Sends the signal that often, each time when the one before was handled; ends sooner
# if one is not within a minute.
sub sender_of {
    my ( $name, $answers ) = @_;
    my $target = $$;
    my $sender = fork // die $!;
    return $sender if $sender;
    for ( 1 .. ROUNDS ) {
        kill $name => $target or POSIX::_exit(1);
        IO::Select->new($answers)->can_read(60) or POSIX::_exit(1);
        sysread $answers, my $byte, 1 or POSIX::_exit(1);
    }
    POSIX::_exit(0);
}

# Calls until the sender has ended; what went wrong, if anything did.
sub rain_of {
    my ($name) = @_;
    pipe my $answers, my $handler or die $!;
    my ( $handled, $wrong ) = ( 0, 0 );
    local $SIG{$name} = sub { $handled++; syswrite $handler, 'h' };
    my $sender = sender_of( $name, $answers );
    for ( my $i = 0; waitpid( $sender, POSIX::WNOHANG() ) == 0; $i++ ) {
        $wrong++ if $go->deep( $i % 300 ) != $i % 300 || $go->md5('hoge') !~ /^ea703e/;
    }
    my $status = $?;
    # The end of the sender is a SIGCHLD more.
    my $is_right = !$status && !$wrong && ( $handled == ROUNDS || ( $name eq 'CHLD' && $handled == ROUNDS + 1 ) );
    return $is_right ? 'right' : "$handled handled, $wrong wrong answers, the sender ended with $status";
}

for my $name (@signals) {
    subtest "SIG$name" => sub {
        is( rain_of($name), 'right', 'in the process that loaded' );
        is( in_child { rain_of($name) }, 'right', 'in a child' );
    };
}

subtest 'signals wait where a handler has no room' => sub {
    my $usr1 = 1 << POSIX::SIGUSR1() - 1;
    { local $SIG{ALRM} = sub { } }
    local @SIG{qw(TERM HUP)} = qw(IGNORE DEFAULT);
    is( $go->blocked_signals & $usr1, 0, 'not without one, also where there was one' );
    my $careful = Nearcall->new( $address, block_signals => 1 );
    is( $careful->blocked_signals & $usr1, $usr1, 'with block_signals, for those that %SIG does not show' );
    local $SIG{USR2} = sub { };
    is( $go->blocked_signals & $usr1, $usr1, 'with one of %SIG' );
    is( $go->transport, 'same process', 'all in this process' );
};

subtest 'an alarm ends the wait for a slow function' => sub {
    $go->block(100);    # it is slow
    my $error = error_of {
        local $SIG{ALRM} = sub { die "alarm\n" };
        ualarm(100_000);
        $go->block(5_000);
    };
    ualarm(0);
    is( "$error", "alarm\n", 'in the process that loaded' );
};

subtest 'signals without a handler do what they always did, in its children' => sub {
    signals_without_handlers( sub { $go->one; $go->transport eq 'same process' and POSIX::_exit(99) } );
};

done_testing;
