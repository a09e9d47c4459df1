package Nearcall::CallOptions;

use strict;
use warnings;

use Carp       ();
use List::Util ();
use Nearcall   ();

our $VERSION = 'v0.1.0';

# Mistakes are told of the program's own line.
our @CARP_NOT = ('Nearcall');

## no critic (ProtectPrivateSubs)

my %KNOWN = map { $_ => 1 } qw(
    timeout attempts backoff wait_for_ready retry_unknown
    metadata traceparent idempotency_key reply_metadata packed
);

# What Nearcall::with does for more than a timeout.
sub with {
    my ( $go, @pairs ) = @_;
    Carp::croak('Nearcall: with takes timeout => SECONDS or other options') unless @pairs;
    my %option = Nearcall::_options( 'with', \%KNOWN, @pairs );
    return $go->_view(
        [
            Nearcall::_milliseconds( timeout => $option{timeout} ), _attempts( $option{attempts} ),
            _backoff( $option{backoff} ), $option{wait_for_ready} ? 1 : 0, $option{retry_unknown} ? 1 : 0,
            _text( $option{traceparent} ), _text( $option{idempotency_key} ),
            _pairs( $option{metadata} ), _place( $option{reply_metadata} ),
            $option{packed} ? 1 : 0,
        ]
    );
}

sub _text {
    my ($text) = @_;
    return defined $text ? "$text" : undef;
}

sub _attempts {
    my ($attempts) = @_;
    return 0 unless defined $attempts;
    my $number = Nearcall::_number32( 'with: attempts', $attempts );
    Carp::croak('with: attempts is 1 or more') if $number == 0;
    return $number;
}

sub _backoff {
    my ($backoff) = @_;
    return ( 0, 0 ) unless defined $backoff;
    Carp::croak('with: backoff is [ $first, $longest ], two numbers of seconds')
        unless ref $backoff eq 'ARRAY' && @$backoff == 2;
    return map { _microseconds($_) } @$backoff;
}

my $PAUSE_MOST = 365 * 86_400;

sub _microseconds {
    my ($seconds) = @_;
    my $number = defined $seconds && $seconds =~ /\A[0-9]*\.?[0-9]+(?:e-?[0-9]+)?\z/i ? $seconds : 0;
    Carp::croak('with: a pause of backoff is a microsecond at least and a year at most')
        unless $number >= 0.000_001 && $number <= $PAUSE_MOST;
    return int $number * 1_000_000;
}

# Keys and values in turn; text as UTF-8.
sub _pairs {
    my ($metadata) = @_;
    return [] unless defined $metadata;
    Carp::croak('with: metadata is a reference to a hash of keys and values') unless ref $metadata eq 'HASH';
    my @pairs;
    for my $key ( sort +_keys($metadata) ) {
        my $values = $metadata->{$key};
        my @own    = ref $values eq 'ARRAY' ? Nearcall::_copied($values) : $values;
        push @pairs, map { ( $key, _bytes( $key, $_ ) ) } @own;
    }
    return \@pairs;
}

# By the hash's own iterator, with which the program may be walking through it, only where there is no other
# way: for tied and restricted hashes.
sub _keys {
    my ($hash) = @_;
    require Hash::Util;
    my ($buckets) = Hash::Util::bucket_array($hash);
    return $buckets ? map { ref ? @$_ : () } @$buckets : keys %$hash;
}

sub _bytes {
    my ( $key, $value ) = @_;
    Carp::croak("with: metadata $key: a value is a string, or a reference to an array of strings")
        if !defined $value || ref $value eq 'ARRAY' || ref $value eq 'HASH';
    my $bytes = "$value";
    utf8::encode($bytes) if utf8::is_utf8($bytes);
    return $bytes;
}

sub _place {
    my ($place) = @_;
    return undef unless defined $place;    ## no critic (ProhibitExplicitReturnUndef)
    Carp::croak('with: reply_metadata is a reference to a variable, as in reply_metadata => \my $metadata')
        unless List::Util::first { ref $place eq $_ } qw(SCALAR REF);
    Carp::croak('with: reply_metadata is a reference to what cannot be changed') if Internals::SvREADONLY($$place);
    return $place;
}

1;

__END__

=encoding utf-8

=head1 NAME

Nearcall::CallOptions - options and metadata of single calls

=head1 SYNOPSIS

    my $acme = $go->with( timeout => 300, metadata => { tenant => 'acme' } );
    my $report = $acme->report(2026);

    $go->with( reply_metadata => \my $metadata )->report(2026);
    print "cost: $metadata->{cost}[0]\n";

=head1 DESCRIPTION

C<< $go->with( %options ) >> returns the same handle with options for the calls that are made through it. It is
cheap, may be kept, and can be asked for further options. Options that are not given stay as they are in C<$go>.
Options that are out of range throw a L<Nearcall::Error> or croak.

=over 4

=item timeout => $seconds

How long a call may take in all; C<'inf'> means no limit.

=item attempts => $number

How many times a call is sent in all.

=item backoff => [ $first, $longest ]

The mean pauses between attempts, in seconds: the first pause, and the longest. Each pause is twice as long as the
one before it, up to the longest. The default is 0.001 and 1.

=item wait_for_ready => 1

Waits until the deadline for a server that is not there or is stopping, however many attempts that takes.

=item retry_unknown => 1

Also sends a call again if the connection was lost and nobody knows whether the function ran, or if its result was
lost. The function must be registered as idempotent (in Go C<server.Idempotent>). A call of any other function
fails with C<FAILED_PRECONDITION> before anything is sent.

=item metadata => { $key => $value, $key => [ $value, ... ] }

Pairs that travel with each request. A key consists of lower-case letters, digits and any of C<-_.>; a value is any
string. One with characters travels as UTF-8.

=item traceparent => $text

A W3C trace context.

=item idempotency_key => $bytes

16 bytes that name what is asked for.

=item reply_metadata => \my $metadata

The variable has, after each call, a reference to a hash of the pairs that came with the reply or the error, each value
a reference to an array of strings of bytes. It is C<undef> if none came. Calls that are in flight at the same time
need a variable each.

=item packed => 1

Lists of numbers and booleans are returned as strings, as C<pack> makes them: C<unpack 'd*', $string> gives the numbers of
a C<float64> list. It also applies to lists within other lists, hashes and structs. L<Nearcall::Packed> has the letters
of the types. A boolean is a byte 0 or 1.

=back

A call of C<begin> is sent only once, so C<attempts>, C<backoff>, C<wait_for_ready> and C<retry_unknown> do not
concern it.

=head1 SEE ALSO

L<Nearcall>

=cut
