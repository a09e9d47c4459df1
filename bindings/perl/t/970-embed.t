use strict;
use warnings;

use Test::More;
use FindBin ();
use lib "$FindBin::Bin/lib";
use TestTools qw(error_of in_child);

use POSIX ();
use Time::HiRes qw(ualarm usleep);

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

sub rain_of {
    my ($name) = @_;
    my $handled = 0;
    local $SIG{$name} = sub { $handled++ };
    my $target = $$;
    my $sender = fork // die $!;
    if ( !$sender ) {
        usleep(200) while kill $name => $target;
        POSIX::_exit(0);
    }
    my $wrong = 0;
    for ( my $i = 0; $handled < 100; $i++ ) {
        $wrong++ if $go->deep( $i % 300 ) != $i % 300 || $go->md5('hoge') !~ /^ea703e/;
    }
    kill KILL => $sender;
    waitpid $sender, 0;
    return $wrong;
}

for my $name (qw(TERM HUP CHLD ALRM USR1 INT PIPE)) {
    subtest "SIG$name" => sub {
        is( rain_of($name), 0, 'in the process that loaded' );
        is( in_child { rain_of($name) }, 0, 'in a child' );
    };
}

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

subtest 'signals without a handler do what they always did' => sub {
    for my $name (qw(TERM HUP USR1 INT PIPE)) {
        my $pid = fork // die $!;
        if ( !$pid ) {
            $SIG{$name} = 'DEFAULT';    # whoever runs this may ignore it
            my $own = Nearcall->new($address);
            $own->one;
            kill $name => $$;
            POSIX::_exit(0);
        }
        waitpid $pid, 0;
        is( $? & 127, POSIX->can("SIG$name")->(), "SIG$name" );
    }
};

done_testing;
