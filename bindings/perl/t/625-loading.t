use strict;
use warnings;

# What is loaded when it is first needed is whole afterwards, whatever a program's signals and the
# hooks of its @INC do meanwhile.

use Test::More;
use FindBin ();
use lib "$FindBin::Bin/lib";
use LyingServer qw(msgpack);
use TestServer;
use TestTools qw(in_child);

use POSIX ();
use Socket qw(INADDR_LOOPBACK SOMAXCONN pack_sockaddr_in unpack_sockaddr_in);

use Nearcall;

my $server = TestServer->start( arguments => ['-files'] );
socket my $listener, Socket::AF_INET(), Socket::SOCK_STREAM(), 0 or die "socket: $!";
bind $listener, pack_sockaddr_in( 0, INADDR_LOOPBACK ) or die "bind: $!";
listen $listener, SOMAXCONN or die "listen: $!";
my ($port) = unpack_sockaddr_in( getsockname $listener );

ok( !$INC{'IO/Socket/IP.pm'}, 'nobody has loaded it yet' );
ok( !$INC{'JSON/PP/Boolean.pm'}, 'nor the class of booleans' );

sub kind_of {
    my ($go) = @_;
    my $connection = eval { $go->connection_dial("127.0.0.1:$port") } // return $@ =~ s/ at .*//sr;
    my $said = eval { ref($connection) . ' to port ' . ( $connection->peerport == $port ? 'ours' : 'another' ) };
    return $said // ref($connection) . " that is not whole: $@";
}

my %during = (
    'a signal whose handler dies' => sub { kill ALRM => $$ },
    'a hook that dies'            => sub { die "died once\n" },
    'a hook that leaves'          => sub { no warnings 'exiting'; last },
);

for my $file ( 'IO/Socket/IP.pm', 'IO/Socket.pm', 'JSON/PP/Boolean.pm' ) {
    for my $what ( sort keys %during ) {
        next if $what eq 'a hook that leaves' && $file eq 'IO/Socket.pm';    # perl itself crashes of that
        my $said = in_child {
            my ( $is_over, @said );
            local $SIG{ALRM} = sub { die "alarm\n" };
            local $SIG{__WARN__} = sub { };
            my $former = POSIX::SigSet->new;
            my $hook = sub { $during{$what}->() if $_[1] eq $file && !$is_over++; return };
            local @INC = ( $hook, @INC );
            for ( 1 .. 3 ) {
                my $kind = eval { my $go = Nearcall->new( $server->address ); kind_of($go) } // $@;
                push @said, $kind =~ s/ at .*|\t\.\.\.propagated.*//sr;
            }
            POSIX::sigprocmask( POSIX::SIG_BLOCK(), POSIX::SigSet->new, $former );
            push @said, 'signals are blocked' if grep { $former->ismember($_) } 1 .. 31;
            return join '|', map { s/\n\z//r } @said;
        };
        like( $said, qr/\A(?:alarm|died once|Can't "last" outside a loop block|IO::Socket::IP to port ours)(?:\|IO::Socket::IP to port ours){2}\z/, "$what, in $file" );
    }
}

# Tainted values are values: what is loaded because of them has a name of the module's own.
for my $case (
    [ 'an option of calls', '$go->with( metadata => { x => $tainted } )->call( echo => 1 )', 1 ],
    [ 'a call that returns a connection', 'ref $go->connection_dial("127.0.0.1:$port$tainted")', 'IO::Socket::IP' ],
    )
{
    my ( $what, $code, $expected ) = @$case;
    my $program = 'my ( $address, $port ) = @ARGV; my $tainted = substr $ENV{PATH}, 0, 0; my $go = Nearcall->new($address); print eval { ' . $code . ' } // $@';
    open my $run, '-|', $^X, '-T', ( map { "-I$_" } @INC ), '-MNearcall', '-we', $program, $server->address, $port or die "perl: $!";
    my $said = do { local $/; readline $run };
    close $run or fail("perl ended with $?");
    is( $said, $expected, "$what, by a tainted value" );
}

# Loading comes before there is a request, so that code may call by the same handle.
for my $case ( [ 'fewer', [] ], [ 'more', [ { name => 'a', type => 'any' }, { name => 'b', type => 'any' } ] ] ) {
    my ( $what, $params ) = @$case;
    my $generation = 0;
    my $describe = sub {
        return msgpack( { name => 'f', results => ['int64'], hash => "0000000$generation" . 'a' x 56,
            params => $generation == 1 ? [ { name => 'a', type => 'connection' } ] : $params } );
    };
    my $replaced = LyingServer->start( $describe, sub { msgpack(1) }, sub { ++$generation }, LyingServer::DESCRIPTIONS );
    my $said = in_child {
        my $go = Nearcall->new( $replaced->address, timeout => 60 );
        my $hook = sub {
            return if $_[1] ne 'IO/Socket/IP.pm';
            $go->disconnect;
            $go->call( f => (1) x @$params );
            return;
        };
        local @INC = ( $hook, @INC );
        my $said = eval { $go->call( f => 1 ) } // $@->message;
        return $said . ', ' . $go->call( f => (1) x @$params );
    };
    like( $said, qr/\Af takes [02] arguments; 1 came.*, 1\z/, "a hook that learns of $what parameters" );
}

done_testing;
