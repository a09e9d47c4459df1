package LyingServer;

# Speaks the protocol of spec/wire-format.md correctly and lies within: whatever
# bytes it is given are a function's description, or its result; no result is never an answer. Servers that differ
# are given hashes of their schema that differ.

use strict;
use warnings;
no warnings 'recursion';

use Exporter 'import';
use File::Temp ();
use IO::Socket::UNIX ();
use POSIX ();

our @EXPORT_OK = qw(msgpack);

use constant { REQUEST => 1, REPLY => 2, RESOLVE => 10, MSGPACK => 1 };

# A value as MessagePack: undef, \1 and \0, whole numbers, strings, lists, and maps.
sub msgpack {
    my ($value) = @_;
    return "\xc0" if !defined $value;
    return pack 'C N', 0xdd, scalar @$value, if ref $value eq 'ARRAY' && !@$value;
    return pack( 'C N', 0xdd, scalar @$value ) . join '', map { msgpack($_) } @$value
        if ref $value eq 'ARRAY';
    return pack( 'C N', 0xdf, scalar keys %$value )
        . join '', map { msgpack($_) . msgpack( $value->{$_} ) } sort keys %$value
        if ref $value eq 'HASH';
    return $$value ? "\xc3" : "\xc2" if ref $value eq 'SCALAR';
    return pack 'C q>', 0xd3, $value if $value =~ /\A-?[0-9]+\z/;
    return pack( 'C N', 0xdb, length $value ) . $value;
}

sub start {
    my ( $class, $description, $result, $schema_hash ) = @_;
    my $directory = File::Temp->newdir( 'nearcall-liar-XXXXXXXX', TMPDIR => 1 );
    my $self = bless { owner => $$, directory => $directory }, $class;
    my $listener = IO::Socket::UNIX->new( Local => "$directory/server.sock", Listen => 8 )
        // die "listen: $!";
    $self->{pid} = fork // die "fork: $!";
    if ( !$self->{pid} ) {
        while ( my $caller = $listener->accept ) { eval { _serve( $caller, $description, $result, $schema_hash // 1 ) } }
        POSIX::_exit(0);
    }
    return $self;
}

sub address { "unix:$_[0]{directory}/server.sock" }

sub _read {
    my ( $caller, $bytes ) = @_;
    return '' if !$bytes;
    ( read( $caller, my $data, $bytes ) // 0 ) == $bytes or die "gone\n";
    return $data;
}

sub _serve {
    my ( $caller, $description, $result, $schema_hash ) = @_;
    my $hello = _read( $caller, 12 );
    _read( $caller, unpack( 'x8 V', $hello ) - 12 );
    _write( $caller, "\x89NCW\r\n\x1a\n" . pack 'V v v Q< Q< V V Q< V V Q<',
        64, 1, 0, 0, 1, $$, 4 << 20, 0, 0, 64, $schema_hash );
    while (1) {
        my ( $bytes, $type, $codec, $call ) = unpack 'V C x C x Q<', _read( $caller, 32 );
        _read( $caller, $bytes );
        next if $type != REQUEST && $type != RESOLVE;
        my $payload = $type == RESOLVE ? $description : $result;
        next if !defined $payload;
        _write( $caller, pack( 'V C C C C Q< V V V V', length $payload, REPLY, 0,
                $type == RESOLVE ? MSGPACK : $codec, 0, $call, 1, 0, 0, 0 ) . $payload );
    }
}

sub _write {
    my ( $caller, $data ) = @_;
    print {$caller} $data or die "gone\n";
    $caller->flush;
    return;
}

sub CLONE_SKIP { 1 }

sub DESTROY {
    my ($self) = @_;
    return if $self->{owner} != $$;
    local ( $?, $! );
    kill 'KILL', $self->{pid};
    waitpid $self->{pid}, 0;
    return;
}

1;
