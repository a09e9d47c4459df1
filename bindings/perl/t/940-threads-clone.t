use strict;
use warnings;

use Test::More;
use FindBin ();
use lib "$FindBin::Bin/lib";
use TestServer;
use TestTools qw(descriptors in_child);
use Config;
use JSON::PP ();

use Nearcall;

# Who installs the distribution, which carries the C client, may have any perl; in
# the repository a perl without threads is a missing tool, and fails.
if ( !$Config{useithreads} ) {
    die "this perl is built without threads; build and test with one that has them, as Debian's\n"
        if !-e "$FindBin::Bin/../libnearcall/include/nearcall.h";
    plan( skip_all => 'this perl is built without threads; there is nothing to clone' );
}
require threads;
require threads::shared;

my $server = TestServer->start;
my $address = $server->address;
my $go = Nearcall->new( $address, timeout => 10, name => 'threads', server_users => [0] );
my $quick = $go->with( timeout => 5 );
my $ack = $go->function('ack');
my $unused = $go->function('sum');
my $over = $go->begin( ack => 1, 1 );
$over->wait;
my $failed = $go->begin( fail => 5, 'no such order' );
eval { $failed->wait };
my $given_up = $go->begin( sleep => 60_000 );
$given_up->cancel;
my $call = $go->begin( sleep => 100 );
my $tenant = $go->with( metadata => { tenant => 'acme' } );
my $seen = $tenant->function('metadata_seen');
is( $go->ack( 1, 1 ), 3, 'the first thread calls' );
is( $ack->( 1, 1 ), 3, 'and by its function object' );

sub in_thread { my ($block) = @_; return threads->create( { context => 'scalar' }, $block )->join }

subtest 'a new thread has the same objects' => sub {
    is( in_thread( sub { $go->ack( 2, 2 ) } ), 7, 'a handle' );
    is( in_thread( sub { $quick->ack( 2, 2 ) } ), 7, 'with another timeout' );
    is( in_thread( sub { $ack->( 2, 2 ) } ), 7, 'a function that was used' );
    is( in_thread( sub { $tenant->metadata_seen } ), ' map["tenant":["acme"]] []', 'with options of its calls' );
    is( in_thread( sub { $seen->() } ), ' map["tenant":["acme"]] []', 'and a function with them' );
    is( in_thread( sub { $unused->( 2, 2 ) } ), 4, 'and one that was not' );
    is( in_thread( sub { $go->begin( ack => 2, 2 )->wait } ), 7, 'calls in flight' );
    is( in_thread( sub { in_thread( sub { $go->ack( 2, 3 ) } ) } ), 9, 'in a thread of a thread' );
    is( in_thread( sub { in_child { $go->ack( 2, 3 ) } } ), 9, 'in a child of a thread' );
    is( in_thread( sub { Nearcall->new( $address, timeout => 10 )->ack( 2, 2 ) } ), 7, 'a handle of its own' );
};

subtest 'objects that share a handle share its copy' => sub {
    my $both = in_thread( sub {
        my $before = descriptors();
        $go->ack( 1, 1 );
        my $one = descriptors() - $before;
        $_->ack( 1, 1 ) for $quick, $go->with( timeout => 1 );
        $ack->( 1, 1 );
        return $one > 0 && descriptors() - $before == $one;
    } );
    ok( $both, 'one connection for all' );
};

subtest 'calls in a new thread' => sub {
    is( in_thread( sub { $over->wait } ), 3, 'one that is over keeps its result' );
    is( in_thread( sub { eval { $failed->wait }; $@->name } ), 'NOT_FOUND', 'or its error' );
    is( in_thread( sub { eval { $given_up->wait }; join ' ', $@->name, $@->outcome_text } ), 'CANCELLED unknown',
        'one that was cancelled keeps its outcome' );
    is( in_thread( sub { eval { $call->wait }; join ' ', $@->name, $@->outcome_text } ), 'UNAVAILABLE unknown',
        'one in flight is not this thread\'s' );
    is( in_thread( sub { $call->cancel; $call->ready ? 'over' : 'in flight' } ), 'over', 'to be cancelled neither' );
};

sub json { return JSON::PP->new->canonical->encode( $_[0] ) }

subtest 'shared variables' => sub {
    my $person = threads::shared::shared_clone( { name => 'Ada', age => 36, tags => [ 'x', 'y' ] } );
    my $deep = threads::shared::shared_clone( { list => [ 1, [ 'two', { three => 3 } ], undef ], none => [], empty => {} } );
    my $object = threads::shared::shared_clone( bless { name => 'Ada', tags => ['x'], _id => 7 }, 'Person' );
    my $sparse = threads::shared::shared_clone( [1] );
    $#$sparse = 2;
    my $used = threads::shared::shared_clone( { keep => 1 } );
    my %check = (
        'a scalar'          => sub { threads::shared::share( \my $n ); $n = 5; return $go->sum( $n, 1 ) == 6 },
        'a list'            => sub { $go->greet( { name => 'Ada', tags => $person->{tags} } ) eq 'Hello, Ada [x,y]' },
        'a struct'          => sub { $go->greet($person) eq 'Hello, Ada, 36 [x,y]' },
        'an object'         => sub { $go->greet($object) eq 'Hello, Ada [x]' },
        'any'               => sub { json( $go->identity($deep) ) eq '{"empty":{},"list":[1,["two",{"three":3}],null],"none":[]}' },
        'holes'             => sub { json( $go->identity($sparse) ) eq '[1,null,null]' },
        'a call in flight'  => sub { json( $go->begin( identity => $deep->{list} )->wait ) eq '[1,["two",{"three":3}],null]' },
        'it stays in place' => sub { $go->identity($used); delete $used->{keep}; $used->{keep} = 1 },
        'a misnamed field'  => sub { eval { $go->greet( threads::shared::shared_clone( { nmae => 1 } ) ) }; $@->message =~ /has no field "nmae"/ },
        'many'              => sub { @{ $go->identity( threads::shared::shared_clone( [ map { { n => $_ } } 1 .. 2000 ] ) ) } == 2000 },
    );
    for my $what ( sort keys %check ) {
        ok( eval { $check{$what}->() }, $what ) or diag $@;
        ok( in_thread( sub { eval { $check{$what}->() } } ), "$what, in another thread" );
    }
};

subtest 'threads side by side' => sub {
    my @threads = map {
        my $n = $_;
        threads->create( sub { return scalar grep { $go->sum( $n, $_ ) == $n + $_ } 1 .. 500 } )
    } 1 .. 4;
    my $mine = grep { $go->sum( 0, $_ ) == $_ } 1 .. 500;
    is( $_->join, 500, 'a thread' ) for @threads;
    is( $mine, 500, 'and the first, with the same handle' );
};

subtest 'closing' => sub {
    is( in_thread( sub { $go->close; eval { $go->ack( 1, 1 ) }; $@ =~ /closed/ ? 'closed' : $@ } ), 'closed', 'a copy' );
    is( $go->ack( 1, 1 ), 3, 'is not the handle' );
    my $closed = Nearcall->new($address);
    $closed->close;
    is( in_thread( sub { eval { $closed->ack( 1, 1 ) }; $@ =~ /closed/ ? 'closed' : $@ } ), 'closed', 'a closed one stays closed' );
};

my $returned = threads->create( { context => 'scalar' }, sub { my $theirs = Nearcall->new( $address, timeout => 10 ); $theirs->one; $theirs } )->join;
is( $returned->ack( 2, 2 ), 7, 'a handle that a thread returns' );

is( $call->wait, 100, 'the first thread\'s call in flight is undisturbed' );
is( $ack->( 2, 2 ), 7, 'and its function object' );

my $before = descriptors();
in_thread( sub { $go->ack( 1, 1 ) } ) for 1 .. 20;
is( descriptors(), $before, 'threads that ended leave nothing' );

done_testing;
