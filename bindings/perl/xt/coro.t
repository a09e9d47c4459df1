use strict;
use warnings;

# Coroutines whose arguments let others run: encodings end in another order than they began.

use Test::More;
use FindBin ();
use lib "$FindBin::Bin/../t/lib";
use TestServer;
use Hostile qw(text tied_value);

use Coro;
use Nearcall;

my $server = TestServer->start;
my $go = Nearcall->new( $server->address, timeout => 30 );

# The first ends first, though the second began within it.
sub both {
    my ($sum) = @_;
    my @said;
    my @begun = map { my $n = $_; async { push @said, eval { $sum->($n) } // "$@" } } 1, 2;
    $_->join for @begun;
    return join ' ', @said;
}

sub letting { my ($n) = @_; return sub { cede; cede if $n == 2; $n } }

my %said;
$said{ both( sub { tied_value( my $value, letting( $_[0] ) ); $go->sum( $value, 10 ) } ) }++ for 1 .. 200;
is_deeply( \%said, { '11 12' => 200 }, 'two by one handle, as often as they like' );

%said = ();
$said{ both( sub { my $own = $go->with( timeout => 30 ); $own->sum( text( letting( $_[0] ) ), 10 ) } ) =~ s/ at \S+ line.*?(?= |\z)//gr }++ for 1 .. 100;
is( scalar( grep { !/used the handle/ } keys %said ), 0, 'while one is written the other uses the handle: it is said so' ) or diag explain \%said;

for ( 1 .. 200 ) {
    my $begun = async { $go->sum( text( sub { cede; cede; 1 } ), 10 ) };
    cede;
    $begun->cancel;
}
is( $go->sum( text( sub { 1 } ), 2 ), 3, 'those that are cancelled leave nothing' );

done_testing;
