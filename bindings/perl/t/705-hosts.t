use strict;
use warnings;

use FindBin;
use Test::More;

use Nearcall::Handoff;

# As the front compares them: the table is everybody's.
my $table = "$FindBin::Bin/../../../conformance/hosts.tsv";
plan skip_all => 'the table is in the repository' if !-e $table;

open my $rows, '<', $table or die "$table: $!";
while ( my $row = <$rows> ) {
    chomp $row;
    my ( $host, $pattern, $verdict ) = split /\t/, $row, -1;
    next if !defined $verdict;
    my $fits = Nearcall::Handoff::host_matches( $host, $pattern );
    is( $fits ? 'yes' : 'no', $verdict, "host '$host', pattern '$pattern'" );
}
ok( !Nearcall::Handoff::host_matches( undef, 'shop.example' ), 'no host' );
cmp_ok( Test::More->builder->current_test, '>', 15, 'rows' );

done_testing;
