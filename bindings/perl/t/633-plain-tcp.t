use strict;
use warnings;

# Plain TCP to another machine is warned of once. The other machine is an address in a network of the test's own.

use Test::More;
use FindBin ();

use Nearcall;

if ( !$ENV{NEARCALL_TEST_NETWORK} ) {
    local $ENV{NEARCALL_TEST_NETWORK} = 1;
    my @user = $> ? ('--map-root-user') : ();
    exec 'unshare', @user, '--net', 'sh', '-c', 'ip link set lo up && ip address add 192.0.2.1/32 dev lo && exec "$@"', 'sh',
        $^X, ( map { "-I$_" } @INC ), $0
        or die "unshare: $!\n";
}

my $pid = open my $lines, '-|', $ENV{NEARCALL_TESTSERVER}, '-address', 'tcp:0.0.0.0:0?plain=quiet' or die "the server: $!\n";
my ($port) = readline($lines) =~ /:([0-9]+)\D*\z/ or die "the server says no port\n";

# The warnings of what is done with a handle of its own.
sub warnings_of {
    my ( $host, $parameters, $use ) = @_;
    my @warnings;
    local $SIG{__WARN__} = sub { push @warnings, $_[0] };
    $use->( Nearcall->new( "tcp:$host:$port$parameters", timeout => 30 ) );
    return @warnings;
}

my %uses = (
    calls => sub { is( $_[0]->add( $_, 2 ), 2 + $_, 'a call' ) for 1, 2 },
    views => sub { is( $_[0]->with( timeout => 20 )->call( add => $_, 2 ), 2 + $_, 'a call with options' ) for 1, 2 },
    raw   => sub { is( $_[0]->call_raw( 'echo', 'x' ), 'x', 'a raw call' ) for 1, 2 },
    begun => sub { is( $_[0]->begin( add => $_, 2 )->wait, 2 + $_, 'a begun call' ) for 1, 2 },
    ping  => sub { ok( $_[0]->ping > 0, 'a ping' ) for 1, 2 },
);
for my $name ( sort keys %uses ) {
    subtest $name => sub {
        my @warnings = warnings_of( '192.0.2.1', '', $uses{$name} );
        is( scalar @warnings, 1, 'one warning' );
        like( $warnings[0], qr/^tcp:192\.0\.2\.1:$port is not on this machine: .* at \Q$0\E line [0-9]+\b/, 'with the line' );
        is( scalar warnings_of( '127.0.0.1', '', $uses{$name} ), 0, 'none on this machine' );
        is( scalar warnings_of( '192.0.2.1', '?plain=quiet', $uses{$name} ), 0, 'none where the way is safe' );
    };
}

subtest 'handlers of warnings' => sub {
    my $go = Nearcall->new( "tcp:192.0.2.1:$port", timeout => 30 );
    local $SIG{__WARN__} = sub { die "no\n" };
    is( eval { $go->add( 1, 2 ) }, undef, 'may die' );
    is( $@, "no\n", 'with what they like' );
    is( $go->add( 1, 2 ), 3, 'and the handle goes on' );
    $go = Nearcall->new( "tcp:192.0.2.1:$port", timeout => 30 );
    $SIG{__WARN__} = sub { $go->close };
    is( eval { $go->add( 1, 2 ) }, undef, 'may close the handle' );
    like( $@, qr/closed by a handler of warnings/, 'which is said' );
    $go = Nearcall->new( "tcp:192.0.2.1:$port", timeout => 30 );
    $SIG{__WARN__} = sub { is( $go->call_raw( 'echo', 'y' ), 'y', 'may call' ) };
    is( $go->call_raw( 'echo', 'x' ), 'x', 'and the result stays' );
};

kill 'TERM', $pid;
done_testing;
