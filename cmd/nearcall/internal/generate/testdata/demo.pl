use strict;
use warnings;

use Demo;

sub check {
    my ( $got, $want ) = @_;
    $got eq $want or die "got $got, want $want\n";
    return;
}

my $demo = Demo->new( $ARGV[0], timeout => 5 );
check( $demo->ack( 2, 3 ), 9 );
check( $demo->sum( 1 .. 4 ), 10 );
check( join( ',', $demo->divmod( 17, 5 ) ), '3,2' );
check( $demo->optional_sum(5), 5 );
check( $demo->greet( { name => 'Ada', age => 36, tags => [ 'a', 'b' ] } ), 'Hello, Ada, 36 [a,b]' );
check( $demo->move( { x => 1, y => 2 }, { x => 3, y => 4 } )->{y}, 6 );
check( $demo->word_count('a b a')->{a}, 2 );
check( $demo->echo("\0\xff"), "\0\xff" );
check( $demo->client->call( ack => 0, 1 ), 2 );

eval { $demo->fail( 5, 'no' ) };
check( $@->code, 5 );
eval { $demo->with( timeout => 0.05 )->sleep(5000) };
check( $@->is('DEADLINE_EXCEEDED') ? 1 : 0, 1 );

check( Demo->new( Nearcall->new( $ARGV[0] ) )->one, 1 );
print "ok\n";
