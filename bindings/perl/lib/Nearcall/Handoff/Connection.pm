package Nearcall::Handoff::Connection;

use strict;
use warnings;

use Carp ();
use IO::Socket::IP ();
use IO::Socket::UNIX ();
use Nearcall::Handoff::Prefix ();
use Socket qw(AF_UNIX sockaddr_family);

our $VERSION = 'v0.1.0';

@Nearcall::Handoff::Connection::IP::ISA   = ( __PACKAGE__, 'IO::Socket::IP' );
@Nearcall::Handoff::Connection::UNIX::ISA = ( __PACKAGE__, 'IO::Socket::UNIX' );

# The socket in $what is a handle of no class yet.
sub _new {
    my ( undef, $listener, $what ) = @_;
    my $kind = $what->{local} =~ /\Atcp:/ || $what->{remote} =~ /\Atcp:/ ? 'IP' : 'UNIX';
    my $self = bless delete $what->{socket}, __PACKAGE__ . "::$kind";
    ${*$self}{nearcall_handoff} = { %$what, listener => $listener };
    tie *$self, 'Nearcall::Handoff::Prefix', $self, $what->{prefix} if length $what->{prefix};
    return $self;
}

sub _what { ${ *{ $_[0] } }{nearcall_handoff} }

sub name       { $_[0]->_what->{name} }
sub message    { $_[0]->_what->{message} }
sub prefix     { $_[0]->_what->{prefix} }
sub process_id { $_[0]->_what->{process_id} }
sub user_id    { $_[0]->_what->{user_id} }

sub pending {
    my ($self) = @_;
    my $tied = tied *$self;
    return $tied ? length $tied->{left} : 0;
}

sub take_prefix {
    my ($self) = @_;
    my $tied = tied *$self or return '';
    my $left = $tied->{left};
    undef $tied;
    untie *$self;
    return $left;
}

sub hand_back {
    my ( $self, $unread, $timeout ) = @_;
    my $what = $self->_what;
    # Not the number that it came with, which is another's once this handle is closed.
    my $fd = CORE::fileno($self)
        // Carp::croak('Nearcall::Handoff: the connection is closed, so there is none to hand back;'
            . ' hand it back instead of closing it');
    my $tied = tied *$self;
    my $prefix = ( $unread // '' ) . ( $tied ? $tied->{left} : '' );
    undef $tied;
    $self->flush;
    $what->{listener}->_give( $fd, $what, $prefix, Nearcall::Handoff::_milliseconds( $timeout, -1 ) );
    $self->take_prefix;
    return $self->close;
}

sub hand_back_idle {
    my ( $self, $timeout ) = @_;
    my $what = $self->_what;
    local $what->{message} = 'idle';
    return $self->hand_back( '', $timeout );
}

# What the giver says of the addresses, where it does.
sub _address {
    my ( $self, $side, $part ) = @_;
    my ( $host, $port ) = $self->_what->{$side} =~ /\Atcp:\[?(.*?)\]?:([0-9]+)\z/ or return;
    return $part eq 'host' ? $host : $port;
}

sub peerhost { $_[0]->_address( remote => 'host' ) }
sub peerport { $_[0]->_address( remote => 'port' ) }
sub sockhost { $_[0]->_address( local => 'host' ) }
sub sockport { $_[0]->_address( local => 'port' ) }

1;

__END__

=encoding utf-8

=head1 NAME

Nearcall::Handoff::Connection - a socket that came from another process

=head1 SYNOPSIS

    my $connection = $listener->accept;
    sysread $connection, my $bytes, 8192;
    syswrite $connection, 'HTTP/1.1 200 OK' . "\r\n\r\n";
    close $connection;

=head1 DESCRIPTION

This is what L<Nearcall::Handoff/accept> returns: an L<IO::Socket::IP> or L<IO::Socket::UNIX>.

The giver may have read the first bytes of the connection, which are called the prefix.
C<sysread>, C<read>, C<readline> and C<getc> return them first, but C<recv> does not; after
that the handle is an ordinary one. Where the prefix ends, one C<read> may return less than was
asked for. C<select> and event loops do not know about the prefix: as long as L</pending> is not
0, read before you wait, or begin with L</take_prefix>. With C<nearcall front> there is no
prefix, because it reads nothing.

A process that was stopped when it was to get the connection keeps a copy of it until it goes on.
Call C<shutdown> before C<close>; otherwise the client would wait for that process.

=head1 METHODS

=head2 name

The giver's name for the connection, such as that of a route.

=head2 message

Anything that the two programs have agreed on.

=head2 prefix

All that the giver had read, whether or not it was read here since.

=head2 pending

How many bytes of the prefix have not been read yet.

=head2 take_prefix

Returns what was not yet read of the prefix. It counts as read from then on.

=head2 process_id

The process id of the giver when it connected, from the kernel. Use it for logs.

=head2 user_id

The user id of the giver.

=head2 peerhost

The address of the client: the one that the giver stated, or else that of the socket. This and the
next three are undef for a Unix socket.

=head2 peerport

The port of the client.

=head2 sockhost

The address to which the client has connected.

=head2 sockport

The port to which the client has connected.


=head2 hand_back

    $connection->hand_back( $unread, $timeout );

Gives the connection to the process that it came from. C<$unread> are bytes that were read here but
belong to whoever serves the connection next; what is left of the prefix follows them. The connection
is then closed here. On failure it throws a L<Nearcall::Error>, and the connection is as it was. The
code is C<UNIMPLEMENTED> if that process does not take connections back.

=head2 hand_back_idle

    $connection->hand_back_idle($timeout);

The same for a connection that its client keeps open, and on which no byte of a next request was read.
A process that stops gives such connections back; the front waits for the next request and gives it to
another process. L<Plack::Handler::Nearcall> does that.

=cut
