use strict;
use warnings;

use Odd;

sub check {
    my ( $got, $want ) = @_;
    $got eq $want or die "got $got, want $want\n";
    return;
}

my $odd = Odd->new( $ARGV[0] );
check( $odd->tree_depth( { next => { children => [ {}, {} ] } } ), 3 );
check( $odd->tree_same( { odd => { 'a field' => 5, class => 6 } } )->{odd}{'a field'}, 5 );
check( scalar @{ $odd->tree_same_2('x') }, 0 );
check( join( ',', ( $odd->new_( 1, 2 ) )[ 0, 1 ] ), '1,two' );
check( $odd->class( 'x', { x => 1 } ), 1 );
$odd->it_s;
open my $script, '<', $0 or die "$0: $!\n";
my ( $same, $many, $no_connection ) = $odd->file( $script, [ $script, $script ], undef );
check( scalar( readline $same ) =~ /\A(?:#|use )/ ? 1 : 0, 1 );
check( scalar @$many, 2 );
check( defined $no_connection ? 1 : 0, 0 );
print "ok\n";
