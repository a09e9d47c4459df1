# What the tests of tests/resident make resident, in Perl.
use strict;
use warnings;

use Nearcall::Resident;    # the first, so that what the others read is noticed
use Cwd qw(getcwd);
use IO::Handle ();
use JSON::PP ();
use POSIX ();

use constant { VERSION => '1', EXIT_BROKEN => 99, SIGWINCH => 28 };

# Of the process that loads this: a resident's children have it from there.
my $is_resident = @ARGV && $ARGV[0] eq '--nearcall-resident';
if ($is_resident) {
    print STDERR "a resident starts\n";
}

BEGIN {
    if ($ENV{PROGRAM_CHANGES}) {
        $ENV{SET}     = 'by the program';
        $ENV{CHANGED} = "more than $ENV{CHANGED}";
        delete $ENV{REMOVED};
    }
}

# What a program can have looked at before its runs.
sub look_early {
    my ($what) = @_;
    return $ENV{EARLY} // 'none' if $what eq 'variable';
    return join ',', map { $ENV{$_} } grep { /^EARLY/ } sort keys %ENV if $what eq 'variables';
    return getcwd() if $what eq 'directory';
    return -e 'where' ? 'there' : 'not there' if $what eq 'file';
    return -p STDIN ? 'pipe' : 'other' if $what eq 'input';
    if ($what eq 'module') {
        push @INC, '.';
        return eval { require early } ? 'there' : 'not there';
    }
    return '';
}

my $early = look_early($ENV{PROGRAM_EARLY} // '');

sub state_now {
    my ($input) = @_;
    my $where = '';
    if (open my $file, '<', 'where') {
        local $/;
        $where = <$file>;
    }
    return {
        args     => [$0, @ARGV],
        mark     => $ENV{MARK} // '',
        extra    => $ENV{EXTRA} // '',
        names    => [sort keys %ENV],
        dir      => getcwd() // '',
        where    => $where,
        umask    => umask() + 0,
        input    => $input,
        resident => $is_resident ? getppid() : 0,
        pid      => $$ + 0,
        version  => VERSION,
        wrong    => '',
    };
}

sub tell_state {
    my ($input, $code) = @_;
    print JSON::PP->new->canonical->encode(state_now($input)), "\n";
    STDOUT->flush;
    print STDERR 'mark ', $ENV{MARK} // '', "\n";
    return $code;
}

sub input {
    local $/;
    return <STDIN> // '';
}

sub say_now { print @_; STDOUT->flush; return 0 }

sub exists_now { return -e $_[0] }

my %verbs = (
    report => sub { tell_state(input(), $_[0]) },
    meet   => sub { tell_state('', $_[0]); tell_state(input(), $_[0]) },
    say    => sub { print "@_\n"; 0 },
    early   => sub { print "$early\n"; 0 },
    changed => sub {
        say_now(join(',', map { $ENV{$_} // 'none' } qw(SET CHANGED REMOVED OTHER)), "\n");
        return system('sh', '-c', 'echo "$SET,$CHANGED,${REMOVED-none},$OTHER"') >> 8;
    },
    lead => sub {
        setpgrp or die "setpgrp: $!";
        setpgrp 0, 0 or die "setpgrp: $!";
        getpgrp == $$ or die "it leads no group\n";
        my $pid = fork // die "fork: $!";
        if (!$pid) {
            setpgrp or die "setpgrp: $!";
            POSIX::_exit(getpgrp == $$ ? 0 : 1);
        }
        waitpid $pid, 0;
        print "leads $?\n";
        return 0;
    },
    ignored => sub {
        say_now(join(',', map { $SIG{$_} // '' } qw(HUP INT PIPE USR1 TERM)), "\n");
        return system('grep', 'SigIgn', '/proc/self/status') >> 8;
    },
    copy   => sub { while (my $text = <STDIN>) { print $text } 0 },
    take   => sub { sysread STDIN, my $text, $_[0]; print $text; 0 },
    yes    => sub { while (1) { print "y\n" } },
    write  => sub { defined syswrite(STDOUT, '*' x $_[0]) ? 0 : 1 },
    ledger => sub {
        my ($name, $key, $code) = @_;
        open my $file, '>>', $name or die "$name: $!";
        print {$file} "$key ", ($is_resident ? 'true' : 'false'), "\n";
        close $file or die "$name: $!";
        select undef, undef, undef, 0.005;    # as in verbs.go
        print "$key\n";
        return $code;
    },
    change => sub {
        umask 0123;
        $ENV{EXTRA} = 'left behind';
        delete $ENV{MARK};
        @ARGV = ('changed');
        chdir '/' or die "chdir: $!";
        return 0;
    },
    exit   => sub { POSIX::_exit($_[0]) },
    limits => sub {
        my %option = (core => 'c', files => 'n', bytes => 'f');
        return system('sh', '-c', "ulimit -H$option{$_[0]}") >> 8;
    },
    leave  => sub { exit $_[0] },
    panic  => sub { die "as it was told\n" },
    signal => sub { kill $_[0], $$; sleep 60 while 1 },
    close  => sub { print "before\n"; close STDOUT; 3 },
    child  => sub {
        my ($name) = @_;
        my $pid = fork // die "fork: $!";
        exec 'sh', '-c', 'while [ ! -e "$0" ]; do sleep 0.02; done; echo late', $name unless $pid;
        print "early\n";
        return 0;
    },
    wait   => sub { say_now("waiting $$\n"); sleep 60 while 1 },
    linger => sub {
        my ($code, $name) = @_;
        say_now("waiting $$\n");
        select undef, undef, undef, 0.001 until exists_now($name);
        return tell_state('', $code);
    },
    size => sub {
        $SIG{WINCH} = sub { say_now('resized ' . `stty size`) };
        # Open between the two calls only: sleep would sleep on after a signal that
        # comes just before it, whose handler runs behind it.
        POSIX::sigprocmask(POSIX::SIG_BLOCK(), POSIX::SigSet->new(SIGWINCH)) or die "sigprocmask: $!";
        say_now('size ' . `stty size`);
        POSIX::sigsuspend(POSIX::SigSet->new) while 1;
    },
    line => sub {
        say_now("line of $$> ");
        chomp(my $text = <STDIN>);
        print "got [$text]\n";
        return 0;
    },
    raw => sub {
        system('stty', 'raw', '-echo') == 0 or die 'stty';
        say_now("raw $$\r\n");
        sleep 60 while 1;
    },
    pager => sub {
        system(@_) == 0 or die "@_";
        print "after the pager\n";
        return 0;
    },
);

resident {
    my ($name, @arguments) = @ARGV;
    my $verb = $verbs{ $name // '' };
    if (!$verb) {
        print STDERR "program: no verb\n";
        exit EXIT_BROKEN;
    }
    exit $verb->(@arguments);
};
