package Nearcall::Resident::Installed;

use strict;
use warnings;

use Nearcall::Resident ();

our $VERSION = 'v0.1.0';

my %option;

# Names of modules, and -OPTION=VALUE.
sub import {
    my ( undef, @words ) = @_;
    for my $word (@words) {
        if ( $word =~ /\A-(watch|environment|reread)=(.+)\z/s ) {
            push @{ $option{$1} }, $2;
            next;
        }
        if ( $word =~ /\A-(same_directory|early_input)=([01])\z/ ) {
            $option{$1} = $2;
            next;
        }
        my $file = "$word.pm";
        $file =~ s{::}{/}g;
        require $file;
    }
    return;
}

# The program is compiled, with all that it uses, and has not begun: what each run goes on
# with is the program itself.
INIT { Nearcall::Resident::_begin_program( \%option ) }

1;

__END__

=encoding utf-8

=head1 NAME

Nearcall::Resident::Installed - keep a Perl program ready that knows nothing of it

=head1 SYNOPSIS

    nearcall resident install exiftool --preload Image::ExifTool

=head1 DESCRIPTION

C<nearcall resident install> starts a program as C<perl -MNearcall::Resident::Installed PROGRAM>.
The program, and what it says C<use> of, is compiled once; each run is a forked child that
begins where the program would begin: with its first statement that is no C<use> and in no C<BEGIN>
block. Everything that L<Nearcall::Resident> says of runs holds. The modules that are named behind the
equals sign, which the program would load by C<require> while it runs, are loaded as well. Words
such as C<-watch=/etc/exiftool.conf> and C<-same_directory=1> are the options of L<Nearcall::Resident/resident>
of these names.

=head1 SEE ALSO

L<Nearcall::Resident>, nearcall-run(1)

=cut
