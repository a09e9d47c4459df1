package TestRelay;

# A process between callers and a server that counts the bytes each caller's
# connection has carried: the witness that nothing was sent.

use strict;
use warnings;

use File::Temp ();
use IO::Select ();
use IO::Socket::UNIX ();
use POSIX ();

sub start {
    my ( $class, $server_address ) = @_;
    my $directory = File::Temp->newdir( 'nearcall-relay-XXXXXXXX', TMPDIR => 1 );
    my $self = bless { owner => $$, directory => $directory }, $class;
    my %listener = map { $_ => _listen("$directory/$_.sock") } qw(calls control);
    ( my $server_path = $server_address ) =~ s/\Aunix://;
    $self->{pid} = fork // die "fork: $!";
    if ( !$self->{pid} ) {
        eval { _relay( $server_path, %listener ) };
        print {*STDERR} "relay: $@";
        POSIX::_exit(1);
    }
    return $self;
}

sub _listen {
    my ($path) = @_;
    return IO::Socket::UNIX->new( Local => $path, Listen => 64 ) // die "listen $path: $!";
}

sub address { "unix:$_[0]{directory}/calls.sock" }

# The bytes that each connection has carried to the server, in the order in which
# they were made, and "closed" for those that have ended.
sub counts {
    my ($self) = @_;
    my $control = IO::Socket::UNIX->new( Peer => "$self->{directory}/control.sock" )
        // die "control: $!";
    my $line = readline $control;
    return split ' ', $line;
}

sub _relay {
    my ( $server_path, %listener ) = @_;
    my $select = IO::Select->new( values %listener );
    my ( @connections, %peer, %counted );
    while (1) {
        my @ready = $select->can_read;
        # Control comes last: what was sent before the question is counted.
        for my $handle ( grep { $peer{ fileno $_ } } @ready ) {
            _forward( $select, \%peer, \%counted, $handle );
        }
        if ( grep { $_ == $listener{calls} } @ready ) {
            my $caller = $listener{calls}->accept;
            my $server = IO::Socket::UNIX->new( Peer => $server_path ) // die "server: $!";
            $select->add( $caller, $server );
            @peer{ fileno $caller, fileno $server } = ( $server, $caller );
            push @connections, $counted{ fileno $caller } = { bytes => 0 };
        }
        if ( grep { $_ == $listener{control} } @ready ) {
            my $control = $listener{control}->accept;
            print {$control} join( ' ', map { $_->{closed} ? "closed:$_->{bytes}" : $_->{bytes} } @connections ), "\n";
        }
    }
}

sub _forward {
    my ( $select, $peers, $counted, $handle ) = @_;
    my $number = fileno $handle // return;
    my $peer   = $peers->{$number} // return;
    if ( sysread $handle, my $bytes, 65536 ) {
        $counted->{$number}{bytes} += length $bytes if $counted->{$number};
        print {$peer} $bytes and $peer->flush;
        return;
    }
    for my $end ( $handle, $peer ) {
        my $connection = delete $counted->{ fileno $end };
        $connection->{closed} = 1 if $connection;
        delete $peers->{ fileno $end };
        $select->remove($end);
        close $end;
    }
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
