package TestSecure;

# Certificates, and a process that ends TLS before a server.

use strict;
use warnings;

use Carp qw(croak);
use File::Basename qw(dirname);
use File::Spec;
use File::Temp ();
use POSIX ();

my $programs = File::Spec->rel2abs( dirname(__FILE__) . '/../../../../tests/programs/tls' );

# Those that tests/programs/tls/certificates makes.
my $folder;

sub file {
    my ($name) = @_;
    if ( !$folder ) {
        $folder = File::Temp->newdir( 'nearcall-tls-XXXXXXXX', TMPDIR => 1 );
        my $said = qx{$programs/certificates $folder 2>&1};
        croak "no certificates: $said" if $?;
    }
    return "$folder/$name";
}

# Before the server of that address; the options are those of tests/programs/tls/relay.
sub start {
    my ( $class, $target, @options ) = @_;
    my @command = ( "$programs/relay", $target, dirname( file('ca.pem') ), @options );
    my $self = bless { owner => $$ }, $class;
    $self->{pid} = open $self->{output}, '-|', @command or croak "$command[0]: $!";
    my $line = readline $self->{output};
    croak "$command[0] did not start" unless ( $line // '' ) =~ /\Aready (\S+)/;
    $self->{address} = $1;
    return $self;
}

sub address { $_[0]{address} }

sub CLONE_SKIP { 1 }

sub DESTROY {
    my ($self) = @_;
    return if $self->{owner} != $$;
    local ( $?, $! );
    kill 'KILL', $self->{pid};
    close $self->{output};
    return;
}

1;
