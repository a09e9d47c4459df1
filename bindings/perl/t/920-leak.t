use strict;
use warnings;

use Test::More;
use FindBin ();
use lib "$FindBin::Bin/lib";
use TestServer;
use TestTools qw(descriptors rss_kib);

use Test::LeakTrace;
use Time::HiRes ();

use Nearcall;

my $server = TestServer->start;
my $address = $server->address;
my $go = Nearcall->new( $address, timeout => 10 );
my $ack = $go->function('ack');

my %work = (
    'calls by name'      => sub { $go->call( ack => 1, 1 ) },
    'proxies'            => sub { $go->ack( 1, 1 ) },
    'function objects'   => sub { $ack->( 1, 1 ) },
    'raw calls'          => sub { $go->call_raw( echo => 'x' x 100 ) },
    'new functions'      => sub { $go->function('ack')->( 1, 1 ) },
    'views'              => sub { $go->with( timeout => 1 )->ack( 1, 1 ) },
    'several results'    => sub { my @results = $go->divmod( 7, 2 ) },
    'a reference to them' => sub { my $results = $go->divmod( 7, 2 ) },
    'structs'            => sub { $go->greet( { name => 'Ada', age => 1, tags => ['a'] } ) },
    'nested values'      => sub { $go->identity( [ 1, { a => [ undef, "\x{263a}" ] } ] ) },
    'maps'               => sub { $go->word_count('to be or not to be') },
    'calls in flight'    => sub { $go->begin( ack => 1, 1 )->wait },
    'dropped calls'      => sub { $go->begin( ack => 1, 1 ) },
    'cancelled calls'    => sub { $go->begin( ack => 1, 1 )->cancel },
    'errors of functions' => sub { eval { $go->fail( 5, 'x' ) } },
    'errors in flight'   => sub { my $call = $go->begin( fail => 5, 'x' ); eval { $call->wait } },
    'refused arguments'  => sub { eval { $go->ack( 'x', 1 ) } },
    'refused fields'     => sub { eval { $go->greet( { nmae => 'Ada', tags => [ 1, 2 ] } ) } },
    'refused elements'   => sub { eval { $go->greet( { name => 'A', tags => [ 'a', [] ] } ) } },
    'unknown functions'  => sub { eval { $go->call('nonesuch') } },
    'unknown methods'    => sub { eval { $go->nonesuch } },
    'too many arguments' => sub { eval { $go->ack( 1 .. 9 ) } },
    'mistakes'           => sub { eval { $go->with( timeout => -1 ) } },
    'upgraded strings'   => sub { $go->upper("caf\xe9") },
    'downgraded bytes'   => sub { my $text = "caf\xe9"; utf8::upgrade($text); $go->echo($text) },
    'time objects'       => sub { $go->later( Leak::Moment->new, 1 ) },
    'handles'            => sub { Nearcall->new($address)->ack( 1, 1 ) },
    'handles unused'     => sub { Nearcall->new($address) },
    'handles refused'    => sub { eval { Nearcall->new('nowhere') } },
    'handlers that die'  => sub {
        local $SIG{ALRM} = sub { die "late\n" };
        Time::HiRes::ualarm(2_000);
        eval { $go->sleep(1_000) };
    },
    'options' => sub {
        my $view = $go->with( metadata => { a => [ 'b', 'c' ] }, reply_metadata => \my $metadata );
        $view->metadata_answer( 10, 0 );
        $view->function('metadata_answer')->begin( 10, 0 )->wait;
        eval { $view->metadata_answer( 10, 1 ) };
    },
    'options that are refused' => sub { eval { $go->with( metadata => { A => 'b' } ) }; eval { $go->with( timout => 1 ) } },
);

{
    package Leak::Moment;
    sub new   { bless {}, shift }
    sub epoch { 1_700_000_000 }
}

for my $name ( sort keys %work ) {
    $work{$name}->() for 1 .. 3;    # methods and plans are made once
    no_leaks_ok { $work{$name}->() } $name;
}

subtest 'memory and descriptors stay flat' => sub {
    my @names = grep { !/handlers that die/ } sort keys %work;
    my $round = sub { for my $name (@names) { $work{$name}->() } };
    $round->() for 1 .. 200;
    my ( $rss, $descriptors ) = ( rss_kib(), descriptors() );
    $round->() for 1 .. 600;
    my $growth = rss_kib() - $rss;
    cmp_ok( $growth, '<', 256, "after 18,000 more of them: $growth KiB" );
    is( descriptors(), $descriptors, 'no descriptor more' );
};

done_testing;
