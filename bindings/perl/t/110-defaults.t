use strict;
use warnings;

use Test::More;
use File::Temp ();
use Time::HiRes qw(time);
use FindBin ();
use lib "$FindBin::Bin/lib";
use TestTools qw(error_of timed);

use Nearcall;

subtest 'without a server' => sub {
    my $go = Nearcall->new( 'unix:/nonexistent/nearcall.sock', timeout => 2 );
    for my $way ( sub { $go->one }, sub { $go->call('one') }, sub { $go->call_raw( echo => 'x' ) },
        sub { $go->ping }, sub { $go->connect }, sub { $go->function('one')->() },
        sub { $go->begin('one') } )
    {
        my $error = error_of { $way->() };
        isa_ok( $error, 'Nearcall::Error' );
        is( $error->name, 'UNAVAILABLE', 'unavailable' );
        ok( $error->not_executed, 'not executed' );
        is( $error->file, $0, 'where it happened' );
    }
};

subtest 'a server that never answers costs the timeout and no more' => sub {
    my $directory = File::Temp->newdir;
    require IO::Socket::UNIX;
    my $listener = IO::Socket::UNIX->new( Local => "$directory/mute.sock", Listen => 5 )
        or die "listen: $!";
    my $go = Nearcall->new("unix:$directory/mute.sock")->with( timeout => 0.2 );
    my ( $began, $error, $took ) = time;
    my $own = timed { $error = error_of { $go->one }; $took = time - $began };
    is( $error->name, 'DEADLINE_EXCEEDED', 'late' );
    ok( $error->not_executed, 'not executed' );
    cmp_ok( $took, '>=', 0.2, 'not before the deadline' );
    cmp_ok( $own, '<', 0.5, 'and soon after it' );
};

done_testing;
