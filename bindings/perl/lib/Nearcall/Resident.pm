package Nearcall::Resident;

use strict;
use warnings;

use Carp ();
use Exporter 'import';
use Nearcall ();
use Nearcall::Resident::Reads ();

our $VERSION = 'v0.1.0';
our @EXPORT  = qw(resident);

# What it croaks of is the program's.
our @CARP_NOT = ('Nearcall');

my %OPTIONS = map { $_ => 1 } qw(idle workers environment watch warm reread same_directory early_input);

# What perl itself reads when it starts, and never again.
my @READ_ONCE = qw(PERL* LANG LC_*);

# At once: what the program loads next may read them.
Nearcall::Resident::Reads::begin()
    if @ARGV && $ARGV[0] eq '--nearcall-resident' && ( $ENV{LISTEN_PID} // '' ) eq $$;

# The handle, in a child that runs; zero in all other processes.
my $running = 0;
my $leader  = 0;

# In programs, and modules, that are compiled behind this one.
BEGIN {
    no warnings 'once';    ## no critic (ProhibitNoWarnings)
    *CORE::GLOBAL::setpgrp = \&_setpgrp;
}

# A run leads its process group and its session. The kernel refuses it to lead its group
# again, where a program that was started would be granted it.
sub _setpgrp (;$$) {
    my ( $pid, $group ) = @_;
    my $again = $running && $leader == $$ && grep { $_ == 0 || $_ == $$ } $pid // 0;
    return 1 if $again && grep { $_ == 0 || $_ == $$ } $group // 0;
    return CORE::setpgrp( $pid // 0, $group // 0 );
}

sub resident (&@) {
    my ( $run, @pairs ) = @_;
    my %option = Nearcall::_options( 'resident', \%OPTIONS, @pairs );
    if ( _started( $ARGV[0] // '' ) ) {
        _supervise( \%option );
    }
    else {
        shift @ARGV if @ARGV && $ARGV[0] eq '--no-resident';
        $option{warm}->() if $option{warm};
    }
    $run->();
    exit 0;
}

# For Nearcall::Resident::Installed.
sub _begin_program {
    my ($option) = @_;
    _supervise($option) if _started( $ARGV[0] // '' );
    return;
}

# Returns in children that have a run, and nowhere else.
sub _supervise {
    my ($option) = @_;
    my $handle = eval { _begin($option) } or _give_up();
    while ( ( eval { _next($handle) } // _give_up() ) == _FORK() ) {
        my $pid = fork;
        return _work( $handle, $option ) if defined $pid && $pid == 0;
        _forked( $handle, $pid // -1 );
    }
    return _leave(0);
}

sub _give_up {
    print {*STDERR} "nearcall: $0: $@";
    return _leave(1);
}

sub _begin {
    my ($option) = @_;
    Nearcall::Resident::Reads::leave();
    my $idle     = $option->{idle};
    my $idle_ms  = !defined $idle ? 0 : $idle == 0 ? 0 : $idle < 0 ? -1 : Nearcall::_timeout_ms($idle);
    my @names    = ( @READ_ONCE, @{ $option->{environment} // [] } );
    my $workers  = Nearcall::_number32( 'workers', $option->{workers} // 0 );
    my $handle   = _open( $0, $workers, $idle_ms, \@names );
    my @loaded   = grep { defined && !ref && -e } values %INC, @DynaLoader::dl_shared_objects, $^X;
    _watch( $handle, $_ ) for @loaded;
    for my $path ( @{ $option->{watch} // [] } ) {
        _watch( $handle, $path ) or die "a file to watch is not there: $path\n";
    }
    _tell_reads( $handle, $option );
    return $handle;
}

# What the program has read, without what its options except.
sub _tell_reads {
    my ( $handle, $option ) = @_;
    my @reread = map { /\A(.*)[*]\z/s ? qr/\A\Q$1\E/ : qr/\A\Q$_\E\z/ } @{ $option->{reread} // [] };
    for my $name ( grep { !/\0/ } Nearcall::Resident::Reads::variables() ) {    # no variable of a process has one
        _reads( $handle, _VARIABLE(), $name ) if !grep { $name =~ $_ } @reread;
    }
    _reads( $handle, _DIRECTORY(), '' ) if $option->{same_directory} // Nearcall::Resident::Reads::directory();
    _reads( $handle, _INPUT(),     '' ) if $option->{early_input}    // Nearcall::Resident::Reads::input();
    return;
}

sub _prepare {
    my ( $handle, $option ) = @_;
    if ( $option->{warm} ) {
        Nearcall::Resident::Reads::enter();
        $option->{warm}->();
        Nearcall::Resident::Reads::leave();
        _tell_reads( $handle, $option );
    }
    return Nearcall::Resident::Reads::end();
}

sub _work {
    my ( $handle, $option ) = @_;
    my $what = eval {
        _child($handle);
        _prepare( $handle, $option );
        _accept($handle) // 0;
    };
    _give_up() unless defined $what;
    _leave(0)  unless $what;
    $running = $handle;
    $leader  = $$;
    my ( $name, @arguments ) = @{ $what->{arguments} };
    ## no critic (RequireLocalizedPunctuationVars)
    $0    = $name;
    @ARGV = _decodes_arguments() ? map { utf8::decode($_); $_ } @arguments : @arguments;
    $^T   = time;
    _set_environment( $what->{environment} );
    _name($name);
    $! = 0;    # what was looked for meanwhile, as the directories of PATH under -T, is nothing of the run's
    return;
}

# Under -T names are to be trusted, else what is assigned to them later is not; values are not.
sub _set_environment {
    my ($variables) = @_;
    ## no critic (RequireLocalizedPunctuationVars)
    %ENV = ();
    for my $variable ( @{$variables} ) {
        my ($name) = $variable =~ /\A([^=]+)=/ or next;
        $ENV{$name} = substr $variable, 1 + length $name;
    }
    return;
}

# As -CA and -CAL, or PERL_UNICODE, had it for those that perl was started with.
sub _decodes_arguments {
    return ${^UNICODE} & 32 && ( !( ${^UNICODE} & 64 ) || ${^UTF8LOCALE} );
}

END {
    Nearcall::Resident::Notes::tell_run() if $running;
    _ending( $running, $? ) if $running;
}

1;

__END__

=encoding utf-8

=head1 NAME

Nearcall::Resident - keep a Perl program ready between its runs

=head1 SYNOPSIS

    #!/usr/bin/perl
    use strict;
    use warnings;
    use Nearcall::Resident;
    use My::Fifty::Modules;    # loaded once

    resident {
        exit main(@ARGV);
    };

and to run it:

    nearcall-run ./report --since yesterday

=head1 DESCRIPTION

A short Perl program spends most of its time loading modules. With this module it stays ready: what stands
before C<resident> is done once, in a process that is called the resident, and each run is a forked child of
that process. The launcher C<nearcall-run> stands in for the program. It passes on its arguments, environment,
directory, umask, resource limits, and the standard streams themselves, and ends as the program has ended. The
first run starts the resident. The resident leaves after ten minutes without a run, and as soon as the program
or a module that was loaded changes.

Started in any other way, or by C<nearcall-run> when something is wrong, the program runs plainly, as if
C<resident> were not there.

=head1 FUNCTIONS

=head2 resident

    resident { ... } %options;

Runs the block and ends the process with code 0, whatever the value of the block is. For another code call
C<exit>, as in C<exit main(@ARGV)>. C<exit> and C<die> work inside the block as they do without this module,
and END blocks run once, at the end of the run. C<resident> never returns. In a plain run it removes
C<--no-resident> from C<@ARGV> if that is the first argument. Nothing before C<resident> may remove the first
argument: a resident that cannot see how it was started ends with code 125 and says so in its log. The options
are:

=over

=item warm

A reference to code that each child calls before it gets a run, for example to connect to a data base, because
such connections cannot be shared. In plain runs it is called before the block, too.

=item idle

The number of seconds without a run after which the resident leaves. 0 or C<undef> mean 600, and a negative
number means never.

=item workers

How many children wait for runs. The default is 2. Any number of children may run.

=item environment

A reference to an array of names of variables, such as C<MY_CONFIG>, or of their beginnings, such as C<MYAPP_*>.
These are variables that the program reads before C<resident> in a way that is not noticed. If they have other
values than at the start of the resident, the program runs plainly. This is already done for what Perl itself
reads (C<PERL*>, C<LANG> and C<LC_*>), for the dynamic linker and the time zone, and for what is read through
C<%ENV>, except under C<-T>.

=item reread

A reference to an array of names of variables, or of their beginnings, that are read before C<resident> and
again in each run, so that callers may have other values. C<*> stands for all variables.

=item same_directory

If true, only callers in the directory in which the resident was started are served by it; for others the program
runs plainly. If false, callers in any directory are served, even if the program has looked at its directory. By
default this depends on whether the program was seen to look.

=item early_input

If true, the program asks before C<resident> what its standard input is, for example by C<-t STDIN>. In the resident
that was F</dev/null>, so for callers with another one the program runs plainly. If false, it asks again in the run.
By default this depends on whether the program was seen to ask.

=item watch

A reference to an array of files that the program reads before C<resident>, such as its configuration. The resident
leaves when one of them changes, as it does for modules.

=back

=head1 WHAT DIFFERS FROM A PLAIN RUN

=over

=item *

What stands before C<resident> sees the arguments, environment, directory and streams (F</dev/null> and a log) of the
resident, not those of a run. So code that looks at them belongs into the block or into what the block calls. That
includes what modules do when they are loaded.

Some of this is noticed, from C<use Nearcall::Resident> on, which should therefore come first: variables that are read
through C<%ENV>; the directory, if L<Cwd> or a relative path uses it (C<open>, C<stat>, C<glob>, C<< <> >> and their
like); tests of STDIN, and C<< <STDIN> >>. For a caller for whom these are different the program runs plainly. A program
that is started before C<resident> (by C<system>, backticks, C<fork>, or C<open> with a bar) counts as reading the
directory and all variables. What is read by C's getenv(), and what the C code of modules opens, is not noticed.

=item *

C<__FILE__>, and with it the place that messages name, is the full path of the program.

=item *

Each run has its own sequence of random numbers. A C<srand> with a fixed seed belongs into the block. C<$^T> is the
time at which the run began.

=item *

Files that were opened for reading before C<resident> are each run's own, at the position where they were. Everything
else that is open by then is shared with other runs. That goes wrong for sockets and data bases: use
L<warm|/resident> for them.

=item *

The process is a session leader without a controlling terminal, so F</dev/tty> cannot be opened. It already leads its
process group. A C<setpgrp> that is compiled behind C<use Nearcall::Resident> accepts that; C<POSIX::setsid> and
C<POSIX::setpgid> fail. A stream that is a terminal is the caller's terminal. The process gets the signals that the
launcher gets, and SIGHUP when the launcher is gone.

=item *

A run ends as any Perl program does, with END blocks and the destructors of all objects, including those that modules
made when they were loaded. With large objects that takes some milliseconds. A run that does not need this can flush its
handles and call C<POSIX::_exit>; the launcher ends with that code.

=item *

Threads do not survive the fork.

=back

=head1 ERRORS

C<resident> dies if it is given an unknown option. What goes wrong in the resident is in its log, beside the socket, and
the launcher then runs the program plainly.

=head1 SEE ALSO

L<Nearcall>, nearcall-run(1)

=cut
