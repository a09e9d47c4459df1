package TestServer;

# The server that the tests call: the project's own, as a process. Nothing is
# skipped: a server that is missing or does not start fails the test.

use strict;
use warnings;

use Carp qw(croak);
use File::Basename qw(dirname);
use File::Spec;
use File::Temp ();
use POSIX ();

sub executable {
    return $ENV{NEARCALL_TESTSERVER} if $ENV{NEARCALL_TESTSERVER};
    my $here = File::Spec->rel2abs( dirname(__FILE__) );
    my @candidates = map { "$here/$_/build/testserver" } '../../../..', '../../../../..';
    for my $path (@candidates) {
        return $path if -x $path;
    }
    croak 'there is no test server: run make build, or name it in NEARCALL_TESTSERVER';
}

# Starts one and waits until it listens. Options: address, arguments.
sub start {
    my ( $class, %option ) = @_;
    my $self = bless { owner => $$ }, $class;
    $self->{directory} = File::Temp->newdir('nearcall-perl-XXXXXXXX', TMPDIR => 1);
    $self->{address} = $option{address} // "unix:$self->{directory}/server.sock";
    $self->_spawn( @{ $option{arguments} // [] } );
    return $self;
}

sub _spawn {
    my ( $self, @arguments ) = @_;
    my $executable = executable();
    pipe my $output, my $input or die "pipe: $!";
    my $pid = fork // die "fork: $!";
    if ( !$pid ) {
        open STDOUT, '>&', $input or POSIX::_exit(126);
        delete $ENV{LD_PRELOAD};    # of a sanitizer, which is for this program
        no warnings 'exec';
        # A test that dies without having ended it would leave prove waiting for its output.
        exec $executable, '-with-parent', '-address', $self->{address}, @arguments;
        print {*STDERR} "$executable: $!\n";
        POSIX::_exit(127);
    }
    close $input;
    my $line = readline $output;
    croak "the test server $executable did not start" unless ( $line // '' ) =~ /\Aready (\S+)/;
    @$self{qw(pid output address)} = ( $pid, $output, $1 );
    return;
}

sub address   { $_[0]{address} }
sub directory { "$_[0]{directory}" }
sub pid       { $_[0]{pid} }

sub signal {
    my ( $self, $name ) = @_;
    kill $name, $self->{pid} or croak "kill $name: $!";
    # Its threads stop one by one; the kernel says when all have.
    waitpid $self->{pid}, POSIX::WUNTRACED() if $name eq 'STOP';
    return;
}

# Ends it, by TERM unless another signal is named, and waits for that.
sub stop {
    my ( $self, $name ) = @_;
    my $pid = delete $self->{pid} or return;
    local ( $?, $! );
    kill 'CONT', $pid;
    kill $name // 'TERM', $pid;
    waitpid $pid, 0;
    return;
}

# Starts it again on the same address.
sub restart {
    my ( $self, @arguments ) = @_;
    $self->stop;
    $self->_spawn(@arguments);
    return;
}

sub CLONE_SKIP { 1 }

# Only the process that started it ends it: tests fork.
sub DESTROY {
    my ($self) = @_;
    $self->stop if $self->{owner} == $$;
    return;
}

1;
