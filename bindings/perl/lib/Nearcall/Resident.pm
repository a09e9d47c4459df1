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

Most of the time that a short Perl program takes goes into loading its modules. With
this module a program stays ready: what stands before C<resident> is done once, and each
run is a forked child that has done it already. The launcher C<nearcall-run> stands in
for the program: it passes arguments, environment, directory, umask, resource limits and
the standard streams themselves, and ends as the program ended. The first run starts the
resident; after ten minutes without a run it leaves, and as soon as the program or a module
that was loaded changes.

Started in any other way, or by C<nearcall-run> where it finds something amiss, the
program runs plainly, as if C<resident> were not there.

=head1 FUNCTIONS

=head2 resident

    resident { ... } %options;

Runs the block and ends the process with code 0, whatever the block's value is. For another
code call C<exit>, as in C<exit main(@ARGV)>. C<exit> and C<die> work inside as they do without
this module, and END blocks run once, at the end of the run. It never returns. In a plain run a
first argument C<--no-resident> is taken from C<@ARGV>. Nothing before it takes the first
argument away: a resident that cannot see how it was started ends with code 125 and says so in
its log. The options:

=over

=item warm

A reference to code for each child, before it has something to run: to connect to a data base,
whose connections cannot be shared. It is called before the block in plain runs too.

=item idle

After how many seconds without a run the resident leaves; 0 or C<undef>: 600, negative: never.

=item workers

How many children wait; 2 unless given. There is no limit to how many run.

=item environment

Reference to an array of names of variables that the program reads before C<resident> where
nobody sees it, as C<MY_CONFIG>, or their beginnings, as C<MYAPP_*>. A run where they have another
value than at the resident's start is a plain one. For what perl reads itself (C<PERL*>, C<LANG> and
C<LC_*>), the dynamic linker and the time zone that holds already, and for what is read by
C<%ENV>, but not under C<-T>.

=item reread

Reference to an array of names of variables that are read before C<resident>, and again in each
run: callers may have others. Or their beginnings; C<*>: all.

=item same_directory

True: only callers in the directory where the resident was started have it; the others
run plainly. False: callers in any, though the program has looked at its directory. Not given: as it
was seen to do.

=item early_input

True: the program asks before C<resident> what its standard input is, as C<-t STDIN>. It was
F</dev/null>, and callers with another one run plainly. False: it asks again in the run. Not given: as it was seen to do.

=item watch

Reference to an array of files that the program reads before C<resident>, as its
configuration. The resident leaves when one of them changes, as it does for modules.

=back

=head1 WHAT DIFFERS FROM A PLAIN RUN

=over

=item *

What stands before C<resident> sees the arguments, environment, directory and streams (F</dev/null>
and a log) of the resident, not those of a run. So whatever looks at them belongs into the
block or what it calls, also what modules do at load. Variables that are read by C<%ENV>, the directory
where L<Cwd> or a relative path asks for it (C<open>, C<stat>, C<glob>, C<< <> >> and their like), and tests of STDIN and
C<< <STDIN> >> are noticed from C<use Nearcall::Resident> on, so that it is to
be the first: a caller with others runs the program plainly. A program that is started there (C<system>, backticks,
C<fork>, C<open> with a bar) has the directory and all variables. What is read by C's getenv(), and what the C code of modules
opens, is not noticed.

=item *

C<__FILE__>, and with it the place in messages, is the program's full path.

=item *

The random numbers of a run begin anew: C<srand> with a fixed seed belongs into the block.
C<$^T> is the time at which the run began.

=item *

Files that were opened for reading before are each run's own, at the place where they stood.
Whatever else is open before is shared with other runs, which for sockets and data bases goes
wrong: use L<warm|/resident>.

=item *

The process is a session leader without a controlling terminal: F</dev/tty> cannot be opened.
It leads its process group as well, and C<setpgrp>, where it is compiled behind C<use Nearcall::Resident>,
is content with that; C<POSIX::setsid> and C<POSIX::setpgid> fail.
The streams are the terminal, where they are one. Signals that the launcher gets it gets too, and SIGHUP
when the launcher is gone.

=item *

The end of a run is perl's own, with END blocks and the destructors of all objects, those that
modules made when they were loaded among them: with large ones that takes some milliseconds. A
run that needs none of it any more writes out what its handles hold and calls C<POSIX::_exit>:
the launcher ends with that code.

=item *

Threads do not survive the fork.

=back

=head1 ERRORS

C<resident> with an unknown option dies. What goes wrong in the resident stands in its log,
beside the socket, and the launcher runs the program plainly.

=head1 SEE ALSO

L<Nearcall>, nearcall-run(1)

=cut
