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

Nearcall::Resident::Installed - keep a Perl program ready without changing it

=head1 SYNOPSIS

    nearcall resident install exiftool --preload Image::ExifTool

=head1 DESCRIPTION

C<nearcall resident install> starts a program as C<perl -MNearcall::Resident::Installed PROGRAM>.
The program is compiled once, with the modules that it loads by C<use>. Each run is a forked child that
begins where the program would begin: with its first statement that is not a C<use> and not in a C<BEGIN>
block. Everything that L<Nearcall::Resident> says about runs applies. The modules that are listed behind an
equals sign are loaded as well; these are modules that the program would load by C<require> while it runs.
Words such as C<-watch=/etc/exiftool.conf> and C<-same_directory=1> are the options with these names of
L<Nearcall::Resident/resident>.

=head1 SEE ALSO

L<Nearcall::Resident>, nearcall-run(1)

=cut
