use strict;
use warnings;

use Test::More;
use FindBin ();
use lib "$FindBin::Bin/lib";
use LyingServer qw(msgpack);
use TestTools qw(error_of rss_kib);

use Time::HiRes qw(ualarm);

use Nearcall;

# So many lists take a tenth of a second at least.
use constant { COUNT => 150_000, INVALID_ARGUMENT => 3, PATIENCE => 20 };
use constant LISTS => "\xdd" . pack( 'N', COUNT ) . ( "\x91" x 9 . "\x90" ) x COUNT;

# Callers that give up close their connection while the server writes.
$SIG{PIPE} = 'IGNORE';

my $described = msgpack( { name => 'lie', params => [], results => ['any'] } );
my $server    = LyingServer->start( $described, LISTS );
my $refusing = LyingServer->start( $described,
    sub { ( "\x92\xa1x\xdd" . pack( 'N', COUNT * 5 ) . "\x92\xa1t\x80" x ( COUNT * 5 ), INVALID_ARGUMENT ) } );

sub begun {
    my ($timeout) = @_;
    my $go   = Nearcall->new( $server->address, timeout => $timeout, nonblocking => 1 );
    my $call = $go->begin('lie');
    until ( $go->process ) { }
    return $call->error;
}

# Runs the block with times that grow, until one is enough for the reply to come and too little for what it holds.
sub growing {
    my ( $time, $block ) = @_;
    for ( ; $time < 5 ; $time *= 1.3 ) { return $time if $block->($time) }
    return 0;
}

sub is_late {
    my ( $error, $name ) = @_;
    return 0 if !$error || "$error" !~ /while the result was decoded/;
    is( $error->name, 'DEADLINE_EXCEEDED', "$name: code" );
    ok( $error->result_lost, "$name: it ran, and the result is lost" );
    return 1;
}

subtest 'the deadline passes while a result is decoded' => sub {
    my $go = Nearcall->new( $server->address, timeout => PATIENCE );
    is( scalar @{ $go->lie }, COUNT, 'there is time for all of it' );
    ok( growing( 0.005, sub { my ($time) = @_; is_late( error_of { $go->with( timeout => $time )->lie; die "in time\n" }, 'a call' ) } ),
        'a call ends' );
    is( scalar @{ $go->lie }, COUNT, 'the handle can be used' );
    $go->close; # the server has one caller at a time
    ok( growing( 0.005, sub { is_late( begun( $_[0] ), 'in process' ) } ), 'process goes on' );
};

subtest 'the deadline passes while details of an error are decoded' => sub {
    my $go    = Nearcall->new( $refusing->address, timeout => PATIENCE );
    my $error = error_of { $go->lie };
    is( scalar @{ $error->details }, COUNT * 5, 'there is time for all of them' );
    my $some = growing( 0.005, sub {
        my ($time) = @_;
        $error = error_of { $go->with( timeout => $time )->lie; die "in time\n" };
        return ref $error && $error->name eq 'INVALID_ARGUMENT' && @{ $error->details } < COUNT * 5;
    } );
    ok( $some, 'the error comes with fewer' );
    ok( $error->not_executed, 'and is the same otherwise' );
};

subtest 'signals while a result is decoded' => sub {
    my %use = ( closes => sub { $_[0]->close }, processes => sub { $_[0]->process } );
    my $after;
    for my $does ( sort keys %use ) {
        $after = growing( 0.005, sub {
            my ($time) = @_;
            my $go = Nearcall->new( $server->address, timeout => PATIENCE );
            local $SIG{ALRM} = sub { $use{$does}->($go) };
            my $error = error_of { ualarm( 1e6 * $time ); $go->lie; ualarm(0); die "in time\n" };
            return ref $error && $error->name eq 'CANCELLED' && $error->result_lost;
        } );
        ok( $after, "a handler that $does the handle ends the call" );
    }
    my $go = Nearcall->new( $server->address, timeout => PATIENCE );
    my ( $died, $before ) = ( 0, rss_kib() );
    local $SIG{ALRM} = sub { die "rung\n" };
    for ( 1 .. 30 ) {
        my $error = error_of { ualarm( 1e6 * ( $after + 0.03 ) ); $go->lie; ualarm(0); die "in time\n" };
        $died++ if "$error" eq "rung\n";
    }
    cmp_ok( $died, '>', 0, 'a handler that dies ends it' );
    cmp_ok( rss_kib() - $before, '<', 150_000, 'and what was decoded is freed' );
    my $runs = 0;
    local $SIG{ALRM} = sub { $runs++ };
    ualarm( 20_000, 20_000 );
    is( scalar @{ $go->lie }, COUNT, 'others let it go on' );
    ualarm(0);
    cmp_ok( $runs, '>', 0, "and $runs ran" );
};

done_testing;
