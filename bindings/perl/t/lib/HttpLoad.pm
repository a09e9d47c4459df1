package HttpLoad;

# Asks a web server many times, many at a time, as wrk does; and says what came.

use strict;
use warnings;

use Exporter 'import';
use HTTP::Tiny ();
use IO::Socket::INET ();

our @EXPORT_OK = qw(free_port answers);

sub free_port {
    my $socket = IO::Socket::INET->new( Listen => 1, LocalAddr => '127.0.0.1' ) or die "listen: $@";
    return $socket->sockport;
}

sub answers {
    my ( $port, $path ) = @_;
    return HTTP::Tiny->new( timeout => 10 )->get( "http://127.0.0.1:$port" . ( $path // '/' ) )->{success};
}

# How often which answer came, as "200 text". Options: port, requests, at_a_time; and
# paths, which each of those who ask at a time takes in turn.
sub run {
    my (%option) = @_;
    my $each = $option{requests} / $option{at_a_time};
    my @pipes = map { _ask( $each, %option ) } 1 .. $option{at_a_time};
    my %came;
    for my $pipe (@pipes) {
        $came{$_}++ for split /\n/, do { local $/; readline $pipe };
        close $pipe;
    }
    return %came;
}

sub _ask {
    my ( $requests, %option ) = @_;
    my $pid = open my $pipe, '-|';
    die "fork: $!" unless defined $pid;
    return $pipe if $pid;
    my $http = HTTP::Tiny->new( timeout => 60 );
    my @paths = @{ $option{paths} // ['/'] };
    for ( 1 .. $requests ) {
        push @paths, my $path = shift @paths;
        my $response = $http->get("http://127.0.0.1:$option{port}$path");
        ( my $text = $response->{content} ) =~ s/\n.*//s;
        print "$response->{status} $text\n";
    }
    close STDOUT;
    require POSIX;
    POSIX::_exit(0);
}

1;
