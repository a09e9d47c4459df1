package Nearcall::Handoff;

use strict;
use warnings;

use Carp ();
use Nearcall ();
use Nearcall::Handoff::Connection ();

our $VERSION = 'v0.1.0';

# What it croaks of is the program's.
our @CARP_NOT = ('Nearcall');

my %OPTIONS = map { $_ => 1 }
    qw(mode window prefix_bytes_max message_bytes_max channels_max peer_users);

my %REASONS = ( busy => 1, kind => 3, draining => 4, denied => 5 );

sub new {
    my ( $class, $address, @pairs ) = @_;
    Carp::croak('Nearcall::Handoff->new needs an address, as unix:/run/shop/backend.sock, or a socket')
        unless defined $address && length $address;
    my %option = Nearcall::_options( 'Nearcall::Handoff->new', \%OPTIONS, @pairs );
    my $fd = ref $address || ref \$address eq 'GLOB' ? CORE::fileno($address) : undef;
    Carp::croak('Nearcall::Handoff->new: the socket is closed') if ref $address && !defined $fd;
    my @numbers = map { Nearcall::_number32( "Nearcall::Handoff->new: $_", $option{$_} // 0 ) }
        qw(mode window prefix_bytes_max message_bytes_max channels_max);
    # By goto, so that an error has the place of the call to new.
    @_ = (
        $class, defined $fd ? undef : $address,
        $fd // -1, @numbers, Nearcall::_user_ids( $option{peer_users} ),
    );
    goto &_open;
}

sub accept {
    my ( $self, $timeout ) = @_;
    my $what = $self->_accept( _milliseconds( $timeout, -1 ) ) or return;
    return Nearcall::Handoff::Connection->_new( $self, $what );
}

# 0 is not to wait here.
sub _milliseconds {
    my ( $timeout, $otherwise ) = @_;
    return $otherwise unless defined $timeout;
    return $timeout == 0 ? 0 : Nearcall::_timeout_ms($timeout);
}

sub refuse {
    my ( $self, $reason, $text ) = @_;
    my $number = $REASONS{ $reason // 'busy' }
        or Carp::croak("Nearcall::Handoff: the reasons to refuse are @{[ sort keys %REASONS ]}");
    @_ = ( $self, $number, $text // '' );
    goto &_refuse;
}

sub _plain_host {
    my ($name) = @_;
    return lc( $name =~ s/\.\z//r );
}

# The colons of an IPv6 address are within brackets.
sub host_matches {
    my ( $host, $pattern ) = @_;
    my $name = _plain_host( ( $host // '' ) =~ s/:[^:\]]*\z//r );
    my $wanted = _plain_host($pattern);
    return $name eq $wanted unless $wanted =~ s/\A\*//;
    return 1 if $wanted eq '';
    return length $name > length $wanted && substr( $name, -length $wanted ) eq $wanted;
}

# A handle belongs to the thread that opened it.
sub CLONE_SKIP { 1 }

1;

__END__

=encoding utf-8

=head1 NAME

Nearcall::Handoff - take live connections from other processes of this machine

=head1 SYNOPSIS

    use Nearcall::Handoff;

    my $listener = Nearcall::Handoff->new('unix:/run/shop/backend.sock');
    while ( my $connection = $listener->accept ) {
        printf "%s port %s asks %s\n", $connection->peerhost, $connection->peerport, $connection->name;
        sysread $connection, my $request, 8192;    # begins with what the giver had read
        syswrite $connection, "hello\n";
        close $connection;
    }

A web application, behind C<nearcall front>:

    plackup -s Nearcall --handoff unix:/run/shop/worker-%n.sock --max-workers 4 app.psgi

=head1 DESCRIPTION

A front, such as C<nearcall front>, accepts connections and gives the sockets themselves to
the process that is to serve them, which from then on talks to the client directly. This
module is for that process; the one that gives is called the giver. A connection has one
owner at any time. It belongs to its giver until L</accept> returns it, and to this process
from then on, whichever of them is killed.

For PSGI applications see L<Plack::Handler::Nearcall>.

=head1 METHODS

=head2 new

    my $listener = Nearcall::Handoff->new( $address, %options );

Listens on C<unix:/path>, or on a Unix socket that already listens because a master has
opened it before forking. If another process listens there it throws a L<Nearcall::Error>
with C<ALREADY_EXISTS>. The options are:

=over

=item mode

The permissions of the socket file. The default is 0660.

=item peer_users

A reference to an array of users, by name or number, that may give in addition to root and
this process's own user.

=item window

How many connections from one giver may wait to be accepted. The default is 64.

=item channels_max

How many givers are served at a time. Further givers wait. The default is 16384.

=item prefix_bytes_max, message_bytes_max

The longest prefix and the longest message that are taken, in bytes. The default of both is 65536.

=back

C<new> refuses numbers that are out of range.

=head2 accept

    my $connection = $listener->accept($timeout);

Waits for a connection and takes it: the giver is told before C<accept> returns. The timeout
is in seconds. Without one C<accept> waits without a limit, and with 0 it does not wait.
It returns a L<Nearcall::Handoff::Connection>, which is an L<IO::Socket::IP> or
L<IO::Socket::UNIX>. Otherwise it returns nothing, and C<$!> is C<EINTR> (a signal handler has
run), C<EAGAIN> or C<ETIMEDOUT>. After L</drain> it throws a L<Nearcall::Error> with
C<UNAVAILABLE>.

=head2 refuse

    $listener->refuse( $reason, $text );

Refuses what L</accept> would return next: the giver keeps it and may give it to another
process. The reason is C<busy>, C<kind>, C<draining> or C<denied>, and the text is for people.
Returns whether there was anything to refuse.

=head2 drain

    $listener->drain($text);

Stops listening. What was not accepted goes back to its givers, who are told that this process
takes no more. Connections that were accepted live on, and can be handed back until L</close>.

=head2 close

Ends all channels to givers. The end of the object does the same. What was accepted lives on.

=head2 host_matches

    if ( !Nearcall::Handoff::host_matches( $env->{HTTP_HOST}, 'shop.example' ) ) { ... }

A function that returns whether a request for this host, as in its Host header, fits a pattern:
C<www.example.com>, C<*.example.com> for every name below example.com, or C<*> for any. It ignores
a port, a final dot and the case of letters, and compares as C<nearcall front> does. A program
that gets a request for another host hands the connection back.

=head2 fileno

The descriptor to watch in an event loop. When it is readable, or after L</timeout>, call
C<< accept(0) >>.

=head2 timeout

The number of seconds after which to call C<< accept(0) >> even if the descriptor stays silent, or
undef for never.

=head1 SIGNALS

A signal handler may die or close the listener while L</accept> waits. If it closes the listener, C<accept>
returns nothing, and C<$!> is C<EINTR>. Handlers of L<POSIX/sigaction> that do not have C<< $action->safe(1) >>
run in the middle of the library. If such a handler uses the listener that it has interrupted otherwise than
by C<close>, it gets a L<Nearcall::Error> with C<MISUSE>. If it dies while a connection is handed back, the
connection may belong to its giver already: close it, and do not use it.

=head1 FORK

A listener that was made before a fork works in the children: each of them takes channels of its
own on the same socket, and leaves those of its parent alone. A giver that keeps one channel, as
C<nearcall front> does, therefore reaches only one of the children. If several workers are to get
connections, let each listen on an address of its own.

=head1 SEE ALSO

L<Nearcall::Handoff::Connection>, L<Plack::Handler::Nearcall>, L<Nearcall>

=cut
