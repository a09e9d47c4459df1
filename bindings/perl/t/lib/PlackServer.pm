package PlackServer;

# An application, given as the text of its .psgi file, under a web server of Perl.

use strict;
use warnings;

use File::Temp ();
use HttpLoad qw(free_port);
use POSIX ();
use TestTools qw(leads stops);

sub start {
    my ( $class, $name, $application, @arguments ) = @_;
    my $file = File::Temp->new( SUFFIX => '.psgi' );
    print {$file} $application;
    close $file or die "$file: $!";
    my $self = bless { file => $file, port => free_port() }, $class;
    $self->{pid} = fork // die "fork: $!";
    leads( $self->{pid} ) and return $self if $self->{pid};
    setpgrp;
    exec $^X, ( map {"-I$_"} @INC ), '-MPlack::Runner', '-e',
        'my $r = Plack::Runner->new; $r->parse_options(@ARGV); $r->run', '--',
        '-s', $name, '-E', 'deployment', '--host', '127.0.0.1', '--port', $self->{port}, @arguments, "$file"
        or POSIX::_exit(127);
}

sub port { my ($self) = @_; return $self->{port} }

# False when it had to be killed.
sub stop { my ($self) = @_; return stops( $self->{pid} ) }

1;
