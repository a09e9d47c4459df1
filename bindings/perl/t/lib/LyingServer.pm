package LyingServer;

# Speaks the protocol of spec/wire-format.md correctly and lies within: whatever bytes it is given are a
# function's description, or its result; without a result it never answers. Servers that differ are given
# hashes of their schema that differ. Each of these may be a sub, which is asked each time. That of the result
# is asked before the request has been read; it dies to take the connection away, with WHEN_READ once that has been
# read, and a code behind its bytes makes them an error: not executed. With the feature ASKS it can be asked about calls of
# connections that were lost, and says that all came as far as the stage.

use strict;
use warnings;
no warnings 'recursion';

use Exporter 'import';
use File::Temp ();
use IO::Socket::UNIX ();
use POSIX ();
use Socket qw(MSG_WAITALL);

our @EXPORT_OK = qw(msgpack WHEN_READ ASKS);

use constant WHEN_READ => "when it is read\n";

use constant { REQUEST => 1, REPLY => 2, ERROR => 3, RESOLVE => 10, MSGPACK => 1, NOT_EXECUTED => 1 << 8, DESCRIPTIONS => 16 };
use constant { ASKS => 256, ASK => 16, CONNECTION_KEY => 4 };

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
    my ( $class, $description, $result, $schema_hash, $features, $stage ) = @_;
    my $directory = File::Temp->newdir( 'nearcall-liar-XXXXXXXX', TMPDIR => 1 );
    my $self = bless { owner => $$, directory => $directory }, $class;
    my $listener = IO::Socket::UNIX->new( Local => "$directory/server.sock", Listen => 8 )
        // die "listen: $!";
    $self->{pid} = fork // die "fork: $!";
    if ( !$self->{pid} ) {
        while ( my $caller = $listener->accept ) { eval { _serve( $caller, $description, $result, $schema_hash // 1, $features // 0, $stage ) } }
        POSIX::_exit(0);
    }
    return $self;
}

sub address { "unix:$_[0]{directory}/server.sock" }

sub _said { my ($what) = @_; return ref $what eq 'CODE' ? $what->() : $what }

sub _read {
    my ( $caller, $bytes ) = @_;
    return '' if !$bytes;
    recv $caller, my $data, $bytes, MSG_WAITALL;
    length $data == $bytes or die "gone\n";
    return $data;
}

sub _serve {
    my ( $caller, $description, $result, $schema_hash, $features, $stage ) = @_;
    my $hello = _read( $caller, 12 );
    _read( $caller, unpack( 'x8 V', $hello ) - 12 );
    my $key = $features & ASKS ? pack 'v v a16', CONNECTION_KEY, 16, 'k' x 16 : '';
    _write( $caller, "\x89NCW\r\n\x1a\n" . pack( 'V v v Q< Q< V V Q< V V Q<',
        64 + length $key, 1, 0, $features, 1, $$, 4 << 20, 0, 0, 64, _said($schema_hash) ) . $key );
    while (1) {
        my ( $bytes, $type, $codec, $call ) = unpack 'V C x C x Q<', _read( $caller, 32 );
        if ( $type == ASK ) {
            my $stages = chr($stage) x ( ( length( _read( $caller, $bytes ) ) - 16 ) / 8 );
            _write( $caller, pack( 'V C x x x Q< V V V V', length $stages, REPLY, $call, 0, 0, 0, 0 ) . $stages );
            next;
        }
        my ( $payload, $code ) = eval { $type == REQUEST ? _said($result) : $type == RESOLVE ? _said($description) : () };
        my $end = $@;
        _read( $caller, $bytes ) if !$end || $end eq WHEN_READ;
        die $end if $end;
        next if !defined $payload;
        $codec = MSGPACK if $type == RESOLVE || $code;
        _write( $caller, pack( 'V C C C C Q< V V V V', length $payload, $code ? ERROR : REPLY, 0,
                $codec, 0, $call, $code ? 0 : 1, 0, $code ? $code | NOT_EXECUTED : 0, 0 ) . $payload );
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
