use strict;
use warnings;

# A row is a few bytes of the request. What its code gave, and what the encoder needed for it, is memory
# that the next row can use: it was some hundred bytes of each until all were written.

use Test::More;
use FindBin ();
use lib "$FindBin::Bin/lib";
use TestServer;
use TestTools qw(error_of in_child rss_kib);
use Hostile qw(text tied_value tied_hash);

use Nearcall;

my $server = TestServer->start( arguments => [ '-generation', 1 ] );
my $rows   = 200_000;
my $go;

# What the memory grows by while a block runs, as text, in a child that has none to spare.
sub growth(&) {
    my ($block) = @_;
    return in_child {
        alarm 120;
        $go = Nearcall->new( $server->address, timeout => 60 );
        $go->one;
        return sprintf 'grew by %d KiB', $block->();
    };
}

# Elements that are one and the same variable.
sub aliases { return \@_ }

# Between the tenth value that is asked and the last.
my ( $asked, @noted ) = 0;
sub noted { my ($value) = @_; push @noted, rss_kib() if ++$asked == 10 || $asked == $rows; return $value }

{
    package Row;
    sub TO_JSON { return main::noted( { a => 1 } ) }
}

my ( $row, $one ) = ( bless( {}, 'Row' ), text( sub { noted(1) } ) );

sub tied_in_hash { my %hash; tied_value( $hash{a}, sub { noted(1) } ); return \%hash }

my %sent = (
    'objects with TO_JSON'     => sub { $go->identity( aliases( ($row) x $rows ) ) },
    'hashes with an object'    => sub { my $hash = { a => $one }; $go->identity( aliases( ($hash) x $rows ) ) },
    'lists with an object'     => sub { my $list = [$one]; $go->identity( aliases( ($list) x $rows ) ) },
    'hashes with a tied value' => sub { my $hash = tied_in_hash(); $go->identity( aliases( ($hash) x $rows ) ) },
    'tied hashes'              => sub {
        my $hash = tied_hash( next => sub { @_ ? undef : 'a' }, fetch => sub { noted(1) } );
        $go->identity( aliases( ($hash) x $rows ) );
    },
    'a map of objects'         => sub { my %map; $map{$_} = $row for 1 .. $rows; $go->identity( \%map ) },
    'arguments'                => sub { $go->sum( ($one) x $rows ) },
);

subtest 'values with code' => sub {
    for my $what ( sort keys %sent ) {
        like( growth { $sent{$what}->(); return $noted[1] - $noted[0] }, qr/\Agrew by -?\d{1,4} KiB\z/, $what );
    }
};

# Code that cannot be sent ends these when all others are written.
my %plain = (
    'numbers as text' => sub { my $seven = 7; my $list = aliases( ($seven) x $rows, sub { } ); return sub { $go->bag( $list, {} ) } },
    'names of a map'  => sub { my %map; $map{$_} = undef for 1 .. $rows; return sub { $go->identity( [ \%map, sub { } ] ) } },
);

subtest 'values without' => sub {
    for my $what ( sort keys %plain ) {
        like( growth {
            my $call   = $plain{$what}->();
            my $before = rss_kib();
            error_of { $call->() };
            return rss_kib() - $before;
        }, qr/\Agrew by -?\d{1,4} KiB\z/, $what );
    }
};

done_testing;
