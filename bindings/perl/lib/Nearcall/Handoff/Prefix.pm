package Nearcall::Handoff::Prefix;

use strict;
use warnings;

use Scalar::Util ();

our $VERSION = 'v0.1.0';

# The class that a handle is tied to while there are bytes that its giver had read. With
# the last of them the tie is gone, and the handle is an ordinary one.

sub TIEHANDLE {
    my ( $class, $socket, $left ) = @_;
    return $class if ref $class;
    my $self = bless { socket => $socket, left => $left }, $class;
    Scalar::Util::weaken( $self->{socket} );
    return $self;
}

# Runs a block with the handle itself, then ties it again if bytes are left.
sub _bare {
    my ( $self, $block ) = @_;
    my $socket = $self->{socket};
    no warnings 'untie';
    untie *$socket;
    my @results = $block->($socket);
    tie *$socket, $self if length $self->{left} && defined CORE::fileno($socket);
    return wantarray ? @results : $results[0];
}

sub _take {
    my ( $self, $bytes ) = @_;
    my $taken = substr $self->{left}, 0, $bytes, '';
    $self->_bare( sub { } ) unless length $self->{left};
    return $taken;
}

sub READ {
    my ( $self, undef, $bytes, $offset ) = @_;
    my $taken = $self->_take($bytes);
    $_[1] //= '';
    $offset //= 0;
    $offset += length $_[1] if $offset < 0;
    $_[1] .= "\0" x ( $offset - length $_[1] ) if $offset > length $_[1];
    substr( $_[1], $offset ) = $taken;
    return length $taken;
}

sub GETC { $_[0]->_take(1) }

# The rest goes into the handle's own buffer, where a line may be put together.
sub READLINE {
    my ($self) = @_;
    my $socket = $self->{socket};
    my $left = $self->_take( length $self->{left} );
    Nearcall::_unread( $socket, $left );
    return readline $socket;
}

sub EOF    { '' }
sub FILENO { $_[0]->_bare( sub { CORE::fileno( $_[0] ) } ) }

sub WRITE {
    my ( $self, undef, $bytes, $offset ) = @_;
    my $text = \$_[1];
    return $self->_bare( sub { syswrite $_[0], $$text, $bytes // length $$text, $offset // 0 } );
}

sub PRINT {
    my ( $self, @parts ) = @_;
    return $self->_bare( sub { my ($socket) = @_; print {$socket} @parts } );
}

sub PRINTF {
    my ( $self, $format, @values ) = @_;
    return $self->_bare( sub { my ($socket) = @_; printf {$socket} $format, @values } );
}

sub BINMODE {
    my ( $self, @layer ) = @_;
    return $self->_bare( sub { @layer ? binmode $_[0], $layer[0] : binmode $_[0] } );
}

sub CLOSE {
    my ($self) = @_;
    $self->{left} = '';
    return $self->_bare( sub { CORE::close( $_[0] ) } );
}

1;

__END__

=encoding utf-8

=head1 NAME

Nearcall::Handoff::Prefix - the first bytes of a connection, which its giver had read

=head1 DESCRIPTION

A L<Nearcall::Handoff::Connection> is tied to this class until its prefix has been read. Programs do
not use it.

=cut
