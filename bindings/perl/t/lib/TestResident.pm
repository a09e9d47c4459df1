package TestResident;

# A program that is a resident's, in a directory of its own, run plainly and by nearcall-run.
# Nothing is skipped: a launcher that is missing fails the test.

use strict;
use warnings;

use Carp qw(croak);
use File::Basename qw(dirname);
use File::Spec;
use File::Temp ();
use IO::Socket::UNIX ();
use JSON::PP ();
use lib dirname(__FILE__);
use TestTools qw(wait_until);

sub launcher {
    my $here = File::Spec->rel2abs( dirname(__FILE__) );
    my @candidates = ( $ENV{NEARCALL_RUN} // (), map { "$here/$_/build/bin/nearcall-run" } '../../../..', '../../../../..' );
    for my $path (@candidates) {
        return $path if -x $path;
    }
    croak 'there is no launcher: run make build, or name it in NEARCALL_RUN';
}

# Writes the program: what stands before its block, and the block. Options: options of
# resident, perl's switches, what stands at the end.
sub new {
    my ( $class, $before, $block, %option ) = @_;
    my $self = bless { owner => $$ }, $class;
    $self->{directory} = File::Temp->newdir( 'nearcall-perl-XXXXXXXX', TMPDIR => 1 );
    $self->{program}   = "$self->{directory}/program";
    my $libraries = join ', ', map { "'" . File::Spec->rel2abs($_) . "'" } grep { -d } @INC;
    my $switches  = $option{switches} ? " $option{switches}" : '';
    my $options   = $option{options} // '';
    $self->write( $self->{program}, <<"PROGRAM");
#!$^X$switches
use strict;
use warnings;
use lib $libraries;
use Nearcall::Resident;
$before
resident { $block } $options;
@{[ $option{end} // '' ]}
PROGRAM
    chmod 0755, $self->{program} or die "chmod: $!";
    return $self;
}

sub write {
    my ( $self, $path, $text ) = @_;
    open my $file, '>', $path or die "$path: $!";
    print {$file} $text;
    close $file or die "$path: $!";
    return;
}

# Runs a command of the shell where PROGRAM stands for the program or the launcher with
# it: its output, errors and status.
sub _shell {
    my ( $self, $program, $command ) = @_;
    my $directory = $self->{directory};
    local $ENV{XDG_RUNTIME_DIR} = "$directory";
    delete local $ENV{NEARCALL_NO_RESIDENT};
    $command =~ s/PROGRAM/$program/g;
    my $output = qx{cd $directory; { ( $command ); } 2>$directory/errors};
    my $status = $?;
    open my $errors, '<', "$directory/errors" or die "errors: $!";
    return ( $output, scalar do { local $/; readline $errors } // '', $status );
}

sub plain { my ( $self, $command ) = @_; return $self->_shell( $self->{program}, $command // 'PROGRAM' ) }

# The launcher runs a program plainly where it cannot do otherwise: that it did not is
# seen from the number of runs.
sub run {
    my ( $self, $command ) = @_;
    my $before = $self->socket ? $self->ask(2)->{runs} : 0;
    my @result = $self->_shell( launcher() . " $self->{program}", $command // 'PROGRAM' );
    wait_until { $self->ask(2)->{runs} == $before + 1 } or croak "it ran plainly: @result\n" . $self->log;
    return @result;
}

sub run_anyhow { my ( $self, $command ) = @_; return $self->_shell( launcher() . " $self->{program}", $command // 'PROGRAM' ) }

sub _file {
    my ( $self, $suffix ) = @_;
    my ($path) = glob "$self->{directory}/nearcall-resident/program-*.$suffix";
    return $path && -e $path ? $path : undef;
}

sub socket { return $_[0]->_file('sock') }

sub log {
    my $path = $_[0]->_file('log') // return '';
    open my $log, '<', $path or return '';
    return scalar do { local $/; readline $log } // '';
}

# What a resident reports: kind 2, or 3 and it leaves.
sub ask {
    my ( $self, $kind ) = @_;
    my $connection = IO::Socket::UNIX->new( Peer => $self->socket // croak('no resident') ) or croak "connect: $!";
    syswrite $connection, pack 'a8 V v v x32', "\x8BNCR\r\n\x1A\n", 48, 1, $kind;
    my $answer = do { local $/; readline $connection };
    return JSON::PP::decode_json( substr $answer, 16 );
}

sub wait_gone {
    my ($self) = @_;
    return wait_until { !$self->socket };
}

sub DESTROY {
    my ($self) = @_;
    return if $self->{owner} != $$;
    local ( $?, $@, $! );
    eval { $self->ask(3) if $self->socket };
    return;
}

1;
