package Plack::Handler::Nearcall;

use strict;
use warnings;

use parent 'Plack::Handler::Starlet';

use Nearcall::Handoff ();
use Socket qw(IPPROTO_TCP TCP_NODELAY);
use Time::HiRes qw(time);

our $VERSION = 'v0.1.0';

# How long a worker waits for one that is ending to give its address up, in seconds.
use constant SLOT_PAUSE => 0.05;

# How long a giver may take to take a connection back, in seconds.
use constant HAND_BACK_TIMEOUT => Nearcall::Handoff::_BACK_MS() / 1000;

sub new {
    my ( $class, %option ) = @_;
    my $address = delete $option{handoff}
        // die "Plack::Handler::Nearcall needs --handoff, as unix:/run/shop/worker-%n.sock\n";
    my $users = delete $option{peer_users};
    my $self = $class->SUPER::new(%option);
    $self->{handoff} = $address;
    $self->{handoff_options} = { $users ? ( peer_users => [ split /,/, $users ] ) : () };
    $self->{host} = $address;
    return $self;
}

# The master of workers that share an address listens for them.
sub setup_listener {
    my ($self) = @_;
    $self->{handoff_listener} = $self->_listen( $self->{handoff} ) if $self->{handoff} !~ /%n/;
    $self->{server_ready}->($self);
    return;
}

sub _listen {
    my ( $self, $address ) = @_;
    return Nearcall::Handoff->new( $address, %{ $self->{handoff_options} } );
}

# The first address that no other worker has.
sub _listen_in_slot {
    my ($self) = @_;
    while ( !$self->{term_received} ) {
        for my $number ( 1 .. $self->{max_workers} || 1 ) {
            my $listener = eval { $self->_listen( $self->{handoff} =~ s/%n/$number/r ) };
            return $listener if $listener;
            die $@ unless ref $@ && $@->isa('Nearcall::Error') && $@->is('ALREADY_EXISTS');
        }
        select undef, undef, undef, SLOT_PAUSE;
    }
    return;
}

sub _get_acceptor {
    my ($self) = @_;
    my $listener = $self->{handoff_listener} // $self->_listen_in_slot;
    return sub {
        my $connection = $listener && $listener->accept or return;
        $connection->setsockopt( IPPROTO_TCP, TCP_NODELAY, 1 ) if $connection->isa('IO::Socket::IP');
        # It is there, mostly: what Starlet takes for an accept that was deferred until then.
        my $listen = { _using_defer_accept => 1 };
        return ( $connection, undef, $listen );
    };
}

# What the giver had read is what Starlet takes for a pipelined request.
sub handle_connection {
    my ( $self, $env, $connection, $app, $use_keepalive, $is_keepalive, $buffered ) = @_;
    $env->{REMOTE_ADDR} = $connection->peerhost;
    $env->{REMOTE_PORT} = $connection->peerport // 0;
    $env->{SERVER_NAME} = $connection->sockhost // 'localhost';
    $env->{SERVER_PORT} = $connection->sockport // 0;
    $env->{'nearcall.connection'} = $connection;
    $buffered = $connection->take_prefix . ( $buffered // '' );
    $self->{nearcall_between} = $is_keepalive && !length $buffered;
    my ( $keepalive, $pipelined ) =
        $self->SUPER::handle_connection( $env, $connection, $app, $use_keepalive, $is_keepalive, $buffered );
    # Starlet closes it next. A stopped process that was to get it has a copy, perhaps, which
    # would keep the client waiting.
    shutdown $connection, 1 if !$keepalive && defined fileno $connection;
    return ( $keepalive, $pipelined );
}

# A worker that is told to end while its client is silent between two requests gives the
# connection back: to close it would lose a request that is on its way.
sub read_timeout {
    my ( $self, $connection, $buffer, $length, $offset, $timeout ) = @_;
    my $between = delete $self->{nearcall_between};
    if ( $between && $self->_is_left_silent( $connection, $timeout ) ) {
        return if eval { $connection->hand_back_idle(HAND_BACK_TIMEOUT); 1 };
    }
    return $self->SUPER::read_timeout( $connection, $buffer, $length, $offset, $timeout );
}

# Whether the worker was told to end before the next request has begun.
sub _is_left_silent {
    my ( $self, $connection, $timeout ) = @_;
    my $end = time + $timeout;
    vec( my $watched = '', fileno $connection, 1 ) = 1;
    until ( $self->{term_received} ) {
        my $left = $end - time;
        return 0 if $left <= 0 || select( my $readable = $watched, undef, undef, $left ) > 0;
    }
    return select( my $readable = $watched, undef, undef, 0 ) <= 0;
}

1;

__END__

=encoding utf-8

=head1 NAME

Plack::Handler::Nearcall - Starlet for connections that another process has accepted

=head1 SYNOPSIS

    plackup -s Nearcall --handoff unix:/run/shop/worker-%n.sock --max-workers 4 -E deployment app.psgi

=head1 DESCRIPTION

This is L<Starlet> with workers that do not accept connections: C<nearcall front>, or another program that
uses Nearcall's handoffs, gives them theirs (see L<Nearcall::Handoff>). The worker talks to the client
directly, so C<REMOTE_ADDR> is the address of the client.

It has all options of L<Starlet> except those for listening, and these:

=over

=item --handoff

The address at which connections are given. Each worker listens on an address of its own: C<%n> is replaced
by the first number from 1 that no other worker has. The front must be told all of these addresses. It gives
each connection to the worker that has the least to do:

    [backend.shop]
    sockets = ["unix:/run/shop/worker-1.sock", "unix:/run/shop/worker-2.sock"]

Without C<%n> the workers share one address, and all connections of a giver go to the worker that it has
reached. That suits a single worker.

=item --peer-users

Users, separated by commas, that may give in addition to root and this process's own user.

=back

When a worker ends, because of C<--max-reqs-per-child> or a signal, what it has not accepted goes back to the
giver, which gives it to another worker. So do connections that their clients keep open, on which no next
request has begun.

PSGI applications find the L<Nearcall::Handoff::Connection> as C<nearcall.connection> in their environment. It
has the name and the message that came with it.

=head1 SEE ALSO

L<Starlet>, L<Nearcall::Handoff>

=cut
