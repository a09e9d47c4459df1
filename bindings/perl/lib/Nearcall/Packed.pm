package Nearcall::Packed;

use strict;
use warnings;

use Carp ();

our $VERSION = 'v0.1.0';

# The elements that a list can have: the number in spec/schema.md, the letter of pack, the size.
my %ELEMENT = (
    bool  => [ 1,  'C', 1 ],
    int8  => [ 2,  'c', 1 ], int16  => [ 3, 's', 2 ], int32  => [ 4, 'l', 4 ], int64  => [ 5, 'q', 8 ],
    uint8 => [ 6,  'C', 1 ], uint16 => [ 7, 'S', 2 ], uint32 => [ 8, 'L', 4 ], uint64 => [ 9, 'Q', 8 ],
    float32 => [ 10, 'f', 4 ], float64 => [ 11, 'd', 8 ],
);
my %TYPE = ( c => 'int8', s => 'int16', l => 'int32', q => 'int64', C => 'uint8', S => 'uint16', L => 'uint32',
    Q => 'uint64', f => 'float32', d => 'float64' );

# What the encoder looks at: the number of the element, the bytes, the letter.
sub new {
    my ( $class, $type, $bytes ) = @_;
    Carp::croak("Nearcall::Packed: new takes a type, such as 'd*' or 'float64', and bytes")
        unless defined $type && defined $bytes && !ref $bytes;
    my $element = $ELEMENT{ $type =~ /\A([cslqCSLQfd])\*?\z/ ? $TYPE{$1} : $type };
    Carp::croak("Nearcall::Packed: '$type' is no type of a packed list; there are: " . join ' ', sort keys %ELEMENT)
        unless $element;
    my ( $number, $letter, $size ) = @$element;
    my $own = "$bytes";
    Carp::croak('Nearcall::Packed: what pack returns are bytes; this string has characters above 255')
        unless utf8::downgrade( $own, 1 );
    Carp::croak( 'Nearcall::Packed: ' . length($own) . " bytes are no whole number of elements of $size bytes" )
        if length($own) % $size;
    return bless [ $number, $own, $letter ], $class;
}

sub bytes { my ($self) = @_; return $self->[1] }

sub list {
    my ($self) = @_;
    return unpack "$self->[2]*", $self->[1];
}

# Where another type is wanted, the elements are sent one by one.
sub TO_JSON {    ## no critic (Capitalization)
    my ($self) = @_;
    my @list = $self->list;
    return \@list;
}

1;

__END__

=encoding utf-8

=head1 NAME

Nearcall::Packed - a list of numbers as a string that pack has made

=head1 SYNOPSIS

    use Nearcall::Packed;

    my $numbers = Nearcall::Packed->new( 'd*', pack 'd*', @numbers );
    my $scaled  = $go->scale( $numbers, 2 );                        # a reference to an array

    my $bytes = $go->with( packed => 1 )->scale( $numbers, 2 );     # a string
    my @scaled = unpack 'd*', $bytes;

=head1 DESCRIPTION

An object stands for a list where a function takes one. If the type of its elements is the one that the function
takes, the string travels as it is, as one block, and perl makes no scalar of an element. If it is another type, or if the
server is too old for blocks, the elements are sent one by one. The string is in the byte order of this machine, as C<pack>
makes it without C<< < >> and C<< > >>, and as PDL and other modules keep it in memory.

=over 4

=item Nearcall::Packed->new( $type, $bytes )

The type is one of C<c*>, C<s*>, C<l*>, C<q*>, C<C*>, C<S*>, C<L*>, C<Q*>, C<f*> and C<d*>, as for C<pack>, or the name
that the description has: C<int8> to C<int64>, C<uint8> to C<uint64>, C<float32>, C<float64>, and C<bool>, of which each
element is a byte 0 or 1. It croaks if the bytes are no whole number of elements.

=item $packed->bytes

The string.

=item $packed->list

The elements.

=back

=head1 SEE ALSO

L<Nearcall>, and there C<with( packed =E<gt> 1 )> for results (L<Nearcall::CallOptions>)

=cut
