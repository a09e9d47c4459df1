use strict;
use warnings;
use utf8;

# Numbers as text under `use locale`, where perl takes what the locale has for a point as well.

use Test::More;
use FindBin ();
use lib "$FindBin::Bin/lib";
use TestServer;
use TestTools qw(error_of);

use File::Temp ();
use POSIX qw(setlocale LC_NUMERIC);

use Nearcall;

my $locales = File::Temp->newdir( 'nearcall-perl-XXXXXXXX', TMPDIR => 1 );
local $ENV{LOCPATH} = "$locales";

# A locale with nothing of its own but the point.
sub use_point {
    my ( $name, $point ) = @_;
    open my $source, '>', "$locales/$name.txt" or die "$locales/$name.txt: $!";
    print {$source} qq{LC_NUMERIC\ndecimal_point "$point"\nthousands_sep ""\ngrouping -1\nEND LC_NUMERIC\n};
    close $source or die "$locales/$name.txt: $!";
    my $said = `localedef --force --inputfile=$locales/$name.txt --charmap=UTF-8 $locales/$name 2>&1`;
    is( setlocale( LC_NUMERIC, $name ), $name, "a locale with a $name" ) or BAIL_OUT($said);
    return;
}

my $server = TestServer->start;
my $go = Nearcall->new( $server->address, timeout => 10 );

for my $locale ( [ comma => '<U002C>', ',' ], [ momayyez => '<U066B>', "\N{U+066B}" ] ) {
    my ( $name, $code, $point ) = @$locale;
    use_point( $name, $code );
    utf8::encode($point);
    use locale;

    for my $text ( "1${point}5", "${point}5", "0${point}1234567890123456" ) {
        my $error = error_of { $go->sum($text) };
        is( ref $error && $error->name, 'INVALID_ARGUMENT', "$text is no whole number" );
    }
    is( $go->sum("1${point}0"),  1,  'a whole number with a point' );
    is( $go->sum("1${point}5e1"), 15, '... and an exponent' );
    cmp_ok( $go->add( "1${point}5", 1 ), '==', 2.5, 'a number' );
    cmp_ok( $go->add( "0${point}1234567890123456", 0 ), '==', '0.1234567890123456', 'one with all digits that it may have' );
    my $error = error_of { $go->add( "0${point}10000000000000001", 0 ) };
    is( ref $error && $error->name, 'INVALID_ARGUMENT', 'one with more' );
    cmp_ok( $go->add( '1.5', 1 ), '==', 2.5, 'a number as everywhere else' );
}

done_testing;
