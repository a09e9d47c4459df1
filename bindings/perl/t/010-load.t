use strict;
use warnings;

use Test::More;

use_ok('Nearcall');
use_ok('Nearcall::Error');
use_ok( 'Nearcall::Codes', ':all' );

like( Nearcall::_library_version(), qr/\A[0-9]+\.[0-9]+\.[0-9]+\z/, 'the library has a version' );
is( 'v' . Nearcall::_library_version(), $Nearcall::VERSION, 'and it is the module\'s' );

# A sub in this package hides the server's function of that name, so there are no
# others than the documented ones.
my @documented = qw(
    AUTOLOAD BEGIN DESTROY begin call call_raw close connect disconnect endpoint events fd
    function new ping process server_process_id timeout transport with
);
my @defined = grep { !/\A_/ && defined &{"Nearcall::$_"} } sort keys %Nearcall::;
is_deeply( [ grep { $_ ne 'BEGIN' } @defined ], [ grep { $_ ne 'BEGIN' } @documented ],
    'the package holds its documented methods alone' );

done_testing;
