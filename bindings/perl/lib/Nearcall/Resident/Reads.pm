package Nearcall::Resident::Reads;

# What a program reads before its runs, and of which each caller has its own: variables of
# %ENV, which is tied meanwhile, the directory, by Cwd and by paths that are relative, and what
# standard input is. A program that is started has all of it. Noticed from "use Nearcall::Resident" on, in
# residents alone. Files are looked at by perl's own operations, which reads.c stands before.

use strict;
use warnings;

use Nearcall::Resident::Notes ();

our $VERSION = 'v0.1.0';

# Shells set these for each command. They are compared only where the program names them.
my %OF_COMMANDS = map { $_ => 1 } qw(_ SHLVL OLDPWD);

my $is_noticing = 0;
my ( %names, $asks, $start );

sub begin {
    # The launcher is trusted under -T too.
    ($start) = ( $ENV{NEARCALL_RESIDENT_DIRECTORY} // '' ) =~ m{\A(/.*)\z}s;
    require Cwd;
    Nearcall::Resident::Notes::begin();
    _stand_before( "Cwd::$_", \&_asks ) for qw(getcwd cwd fastcwd fastgetcwd abs_path realpath fast_abs_path);
    require File::Glob;
    _stand_before( 'File::Glob::bsd_glob', \&_pattern );
    _files();
    # Perl trusts a tied hash to be trusted: under -T it would no longer refuse programs by a
    # PATH that comes from outside.
    tie %ENV, __PACKAGE__ if !${^TAINT};    ## no critic (ProhibitTies)
    enter();
    return;
}

# The program is to find there what it would find in a plain run.
sub enter {
    $asks = 1 if defined $start && !chdir $start;
    _notice_files(1);
    Nearcall::Resident::Notes::enter();
    return $is_noticing = 1;
}

# When everything is loaded. Modules may still be found by a path that is relative.
sub leave {
    $is_noticing = 0;
    _notice_files(0);
    Nearcall::Resident::Notes::leave();
    $asks = 1 if grep { !ref && !m{\A/} } @INC;
    chdir '/' if defined $start;
    return;
}

# From here on nothing is noticed.
sub end {
    Nearcall::Resident::Notes::run();
    my $table = tied %ENV or return;
    my %now = %{$table};
    undef $table;
    untie %ENV;
    %ENV = %now;    ## no critic (RequireLocalizedPunctuationVars)
    return;
}

sub variables {
    my %all = ( %names, ( HOME => 1 ) x _noticed_home() );
    return $names{q{*}} || _noticed_variables() ? q{*} : sort keys %all;
}

sub directory { return $asks || _noticed_directory() }

sub input { return _noticed_input() }

# ---- What stands before functions ----

# Whoever has imported it has what stands before it.
sub _stand_before {
    my ( $name, $notice ) = @_;
    no strict 'refs';                    ## no critic (ProhibitNoStrict)
    no warnings qw(redefine prototype);  ## no critic (ProhibitNoWarnings)
    my $original = *{$name}{CODE} or return;
    *{$name} = sub {
        $notice->( $_[0] );
        goto &{$original};
    };
    return;
}

sub _asks {
    my ($path) = @_;
    return if $asks || !$is_noticing || ( defined $path && $path =~ m{\A/} );
    Nearcall::Resident::Notes::directory();
    return $asks = 1;
}

# ---- Variables: what tie needs ----

sub _notice {
    my ($name) = @_;
    return if !$is_noticing || $OF_COMMANDS{$name} || $names{$name};
    Nearcall::Resident::Notes::variable($name);
    return $names{$name} = 1;
}

sub TIEHASH { my ($class) = @_; return bless {%ENV}, $class }

sub FETCH { my ( $self, $name ) = @_; _notice($name); return $self->{$name} }

sub EXISTS { my ( $self, $name ) = @_; _notice($name); return exists $self->{$name} }

# Perl itself has given it to the process's own environment, as text.
sub STORE { my ( $self, $name, $value ) = @_; $self->{$name} = defined $value ? "$value" : ''; return }

sub DELETE { my ( $self, $name ) = @_; _notice($name); return delete $self->{$name} }

sub CLEAR { my ($self) = @_; %{$self} = (); return }

sub SCALAR { my ($self) = @_; _notice('*'); return scalar %{$self} }

sub FIRSTKEY { my ($self) = @_; _notice('*'); keys %{$self}; return each %{$self} }

sub NEXTKEY { my ($self) = @_; return each %{$self} }

1;

__END__

=encoding utf-8

=head1 NAME

Nearcall::Resident::Reads - notices what a program reads before its runs

=head1 DESCRIPTION

This is a part of L<Nearcall::Resident>, whose manual says what is noticed and what follows from it. It does
nothing when a program runs plainly. Programs do not use it.

=head1 SEE ALSO

L<Nearcall::Resident>

=cut
