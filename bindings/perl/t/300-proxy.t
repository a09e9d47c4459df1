use strict;
use warnings;

use Test::More;
use FindBin ();
use lib "$FindBin::Bin/lib";
use TestServer;
use TestTools qw(error_of);

use Scalar::Util ();

use Nearcall;

my $server = TestServer->start;
my $go = Nearcall->new( $server->address, timeout => 10 );

subtest 'methods' => sub {
    ok( !Nearcall->can('ack'), 'no method before the first call' );
    is( $go->ack( 2, 3 ), 9, 'the first call' );
    ok( Nearcall->can('ack'), 'a method afterwards' );
    is( $go->ack( 1, 1 ), 3, 'the second call' );
    is_deeply( [ $go->divmod( 9, 4 ) ], [ 2, 1 ], 'in list context' );
    my $method = 'upper';
    is( $go->$method('x'), 'X', 'by a name in a variable' );
    my $code = $go->can('ack');
    is( $go->$code( 0, 1 ), 2, 'by reference' );
};

subtest 'a method belongs to no server' => sub {
    my $other_server = TestServer->start;
    my $other = Nearcall->new( $other_server->address, timeout => 10 );
    $go->count for 1 .. 5;
    is( $other->count, 1, 'another handle calls its own server' );
    like( error_of { Nearcall::ack() }, qr/Usage/, 'as a function' );
    like( error_of { Nearcall->ack( 1, 2 ) }, qr/not an object that Nearcall->new/, 'as a class method' );
};

subtest 'AUTOLOAD leaves Perl\'s own names alone' => sub {
    my @warnings;
    local $SIG{__WARN__} = sub { push @warnings, @_ };
    { my $scratch = Nearcall->new( $server->address ); $scratch->one; }
    ok( !$go->can($_), "can('$_')" ) for qw(TO_JSON FREEZE import);
    ok( $go->isa('Nearcall'), 'isa' );
    ok( $go->DOES('Nearcall'), 'DOES' );
    is( $go->VERSION, $Nearcall::VERSION, 'VERSION' );
    is_deeply( \@warnings, [], 'no warnings' );
};

subtest 'function objects' => sub {
    my $ack = $go->function('ack');
    isa_ok( $ack, 'Nearcall::Function' );
    is( Scalar::Util::reftype($ack), 'CODE', 'it is code' );
    is( $ack->( 2, 3 ), 9, 'called' );
    is( &$ack( 1, 1 ), 3, 'called the old way' );
    is_deeply( [ map { $ack->( 0, $_ ) } 1 .. 5 ], [ 2 .. 6 ], 'in a loop' );
    is_deeply( [ $go->function('divmod')->( 9, 4 ) ], [ 2, 1 ], 'in list context' );
    my $orphan = Nearcall->new( $server->address )->function('upper');
    is( $orphan->('x'), 'X', 'it keeps its handle' );
    is( error_of { $ack->( 9, 9 ) }->function, 'ack', 'its errors have its name' );
    my $unsent = Nearcall->new('unix:/nonexistent/nearcall.sock')->function('ack');
    ok( $unsent, 'nothing is sent before the first call' );
    is( error_of { $unsent->( 1, 1 ) }->name, 'UNAVAILABLE', 'but then' );
};

subtest 'a subclass' => sub {
    {
        package My::Client;
        our @ISA = ('Nearcall');
        sub upper { my $self = shift; return '<' . $self->SUPER::upper(@_) . '>' }
    }
    my $mine = My::Client->new( $server->address, timeout => 10 );
    is( $mine->ack( 1, 1 ), 3, 'a proxy' );
    is( $mine->upper('x'), '<X>', 'its own method over a proxy' );
};

done_testing;
