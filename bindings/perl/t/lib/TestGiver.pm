package TestGiver;

# A front for tests: it accepts TCP connections and gives them to those who listen.

use strict;
use warnings;

use Carp qw(croak);
use File::Basename qw(dirname);
use IO::Socket::INET;
use POSIX ();
use lib dirname(__FILE__);
use TestServer;

sub executable {
    return $ENV{NEARCALL_TESTGIVER} if $ENV{NEARCALL_TESTGIVER};
    ( my $path = TestServer::executable() ) =~ s/testserver\z/testgiver/;
    return -x $path ? $path : croak "there is no $path: run make build";
}

# Options: addresses, and those of the program.
sub start {
    my ( $class, %option ) = @_;
    my @arguments = map { ( '-address', $_ ) } @{ delete $option{addresses} };
    push @arguments, map { "-$_=$option{$_}" } sort keys %option;
    pipe my $output, my $input or die "pipe: $!";
    my $pid = fork // die "fork: $!";
    if ( !$pid ) {
        open STDOUT, '>&', $input or POSIX::_exit(126);
        exec { executable() } 'testgiver', @arguments or POSIX::_exit(127);
    }
    close $input;
    my $line = readline $output;
    croak 'the giver did not start' unless ( $line // '' ) =~ /\Aready (\S+)/;
    return bless { pid => $pid, output => $output, address => $1, owner => $$ }, $class;
}

sub pid     { $_[0]{pid} }
sub address { $_[0]{address} }
sub url     { "http://$_[0]{address}" }

sub connect {
    my ($self) = @_;
    return IO::Socket::INET->new( PeerAddr => $self->{address}, Timeout => 20 ) || croak "connect: $!";
}

sub DESTROY {
    my ($self) = @_;
    return unless $self->{owner} == $$;
    local ( $?, $! );
    kill 'KILL', $self->{pid};
    waitpid $self->{pid}, 0;
    return;
}

1;
