package Nearcall::Resident::Notes;

# Tells 'nearcall resident check' what a program touches before its runs, and what a run
# loads. Only in residents, and only where the variable names a file to write to:
# spec/resident.md. Perl's own operations are noted by notes.c.

use strict;
use warnings;

our $VERSION = 'v0.1.0';

my $path = '';

sub begin {
    ($path) = ( $ENV{NEARCALL_RESIDENT_NOTES} // '' ) =~ m{\A(/.*)\z}s;
    $path //= '';
    _begin() if length $path;
    return;
}

sub enter { return _enter(1) }

# When everything is loaded.
sub leave {
    _enter(0);
    return _write( 'before', grep { !_is_of_programs($_) } _found() );
}

# What lies beside modules changes when they do.
sub _is_of_programs {
    my ( $kind, undef, $name ) = split /\t/, $_[0], 3;
    return $kind eq 'file' && grep { !ref && m{\A/.} && index( $name, "$_/" ) == 0 } @INC;
}

# C takes no NUL, and no variable of a process has one in its name.
sub variable { my ($name) = @_; return length $path && _note( 'variable', _who(), $name =~ tr/\0/?/r ) }

sub directory { return length $path && _note( 'directory', _who(), '' ) }

sub _who {
    for ( my $i = 1 ; my ( $package, $file, $line ) = caller $i ; $i++ ) {
        return "$file:$line" if $package !~ /\ANearcall::Resident::/;
    }
    return '';
}

# From here on it is a run.
sub run { return _run() }

sub tell_run {
    my @loaded;
    for my $note ( _found() ) {
        my ( undef, undef, $file ) = split /\t/, $note, 3;
        next if !$INC{$file};
        my $module = $file =~ s{[.]pm\z}{}r =~ s{/}{::}gr;
        push @loaded, "module\t\t$module";
    }
    return _write( 'run', @loaded );
}

# In one piece: other runs may write, too.
sub _write {
    my ( $when, @notes ) = @_;
    return if !length $path || !@notes;
    local ( $!, $@, $? );
    my $text = '';
    for my $note (@notes) {
        my $line = "$when\t$note";
        utf8::encode($line) if utf8::is_utf8($line);
        $line =~ s/[^\t -\xff]/?/g;
        $text .= "$line\n";
    }
    open my $file, '>>', $path or return warn "nearcall: $path: $!\n";
    syswrite $file, $text;
    return close $file;
}

1;

__END__

=encoding utf-8

=head1 NAME

Nearcall::Resident::Notes - notes what a program touches before its runs

=head1 DESCRIPTION

This is a part of L<Nearcall::Resident>. It works for C<nearcall resident check>, which shows what it has
noted, and does nothing unless that command asks for it. Programs do not use it.

=head1 SEE ALSO

L<Nearcall::Resident>

=cut
