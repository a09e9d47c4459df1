use strict;
use warnings;

use Test::More;
use FindBin ();
use lib "$FindBin::Bin/lib";
use TestServer;
use TestTools qw(in_child);

use POSIX ();

use Nearcall;

my $server = TestServer->start;

my $watch = Nearcall->new( $server->address, timeout => 10 );

subtest 'END and global destruction in a child' => sub {
    my $program = <<'PROGRAM';
use Nearcall;
use TestTools qw(sockets);
our $global = Nearcall->new( $ENV{ADDRESS}, timeout => 10 );
our $function = $global->function('ack');
our $call = $global->begin( sleep => 300 );
my $lexical = Nearcall->new( $ENV{ADDRESS}, timeout => 10 );
$lexical->one;
END { $global->one if $ENV{CALL_IN_END} }
my $sockets = sockets();
for ( 1 .. 3 ) {
    my $pid = fork // die;
    if ( !$pid ) { exit 0 }
    waitpid $pid, 0;
    die "child: $?" if $?;
}
die "no socket" if !$sockets;
die "moved" if sockets() ne $sockets;
die "call" if $call->wait != 300;
die "function" if $function->( 1, 1 ) != 3;
die "moved later" if sockets() ne $sockets;
print "right\n";
PROGRAM
    local $ENV{ADDRESS} = $server->address;
    for my $call_in_end ( 0, 1 ) {
        local $ENV{CALL_IN_END} = $call_in_end;
        open my $output, '-|', $^X, ( map { "-I$_" } @INC ), '-we', $program or die "perl: $!";
        my $said = do { local $/; readline $output };
        ok( close $output, 'the program ends well' );
        is( $said, "right\n", 'children that exit disturb nothing' . ( $call_in_end ? ', calls in END included' : '' ) );
    }
};

subtest 'the order in which objects go does not matter' => sub {
    my @orders = ( [ 0, 1, 2, 3 ], [ 3, 2, 1, 0 ], [ 1, 3, 0, 2 ] );
    for my $order (@orders) {
        my $handle = Nearcall->new( $server->address, timeout => 10 );
        my @objects = ( $handle, $handle->with( timeout => 1 ), $handle->function('one'), $handle->begin( sleep => 60_000 ) );
        undef $handle;
        undef $objects[$_] for @$order;
        pass("in the order @$order");
    }
    is( $watch->one, 1, 'and nothing broke' );
};

subtest 'an object that dies during a die' => sub {
    eval { my $handle = Nearcall->new( $server->address, timeout => 10 ); $handle->one; die "mine\n" };
    is( $@, "mine\n", 'leaves $@ alone' );
};

subtest 'reblessed, copied, forgotten' => sub {
    my $handle = Nearcall->new( $server->address, timeout => 10 );
    my $copy = $handle;
    undef $handle;
    is( $copy->one, 1, 'a copy of the reference' );
    bless $copy, 'Somewhere::Else';
    undef $copy;
    pass('an object of another class is freed as well');
};

done_testing;
