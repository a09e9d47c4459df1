# A server that is replaced by one that declares its functions otherwise: arguments that
# are not what they were are not sent to it.

use strict;
use warnings;

use Test::More;

use FindBin;
use lib "$FindBin::Bin/lib";

use Hostile;
use LyingServer qw(msgpack);
use Nearcall;
use TestServer;
use TestTools qw(signal_when_asleep);

my $server = TestServer->start( arguments => ['-generation=1'] );

sub history { return Nearcall->new( $server->address )->call('history') }

# A client that has called everything, and whose server is another since.
sub outdated {
    my (%options) = @_;
    $server->restart('-generation=1');
    my $nc = Nearcall->new( $server->address, %options );
    for my $call ( [ 'transfer', 'alice', 'bob' ], [ 'tag', 'x' ], [ 'total', [1] ], [ 'totals', [ [1] ] ] ) {
        $nc->begin( @{$call} )->wait;
    }
    $server->restart('-generation=2');
    return $nc;
}

# A call that is begun is sent once: a server that is leaving may say so.
sub begun {
    my ( $nc, @arguments ) = @_;
    my $call = eval { $nc->begin(@arguments) };
    return $call if $call;
    die $@ unless $@->is('UNAVAILABLE') && $@->not_executed;
    return $nc->begin(@arguments);
}

sub is_refused {
    my ( $error, $what ) = @_;
    is eval { $error->name }, 'ABORTED', $what or diag $error;
    is $error->outcome_text, 'not executed', '... not executed';
    like $error->message, qr/call again/, '... and says what to do';
    is_deeply history(), [], '... and nothing ran';
    return;
}

subtest 'a tied argument is asked once' => sub {
    my $asked = 0;
    Hostile::tied_value( my $source, sub { return 'source ' . ++$asked } );
    is outdated()->transfer( 'bob', $source ), 'source 1 to bob', 'for the next server as well';
    is $asked, 1;
    Hostile::tied_value( my $text, sub { $asked++; return "\x{263a}" } );
    is outdated()->tag($text), "text \x{263a}", 'also where the former description refuses it';
    is $asked, 2;
};

subtest 'what perl keeps is sent as it was' => sub {
    my $nc = outdated();
    'carol' =~ /(.*)/ or die;
    is $nc->transfer( 'bob', $1 ), 'carol to bob';
    is_deeply history(), ['carol to bob'];
};

subtest 'arguments that a handler of signals drops' => sub {
    my $nc = outdated( timeout => 30 );
    my @names = ( 'bob', 'alice' );
    $server->signal('STOP');
    local $SIG{USR1} = sub { @names = (); Hostile::litter(); $server->signal('CONT') };
    my $signals = signal_when_asleep('USR1');
    is eval { $nc->transfer(@names) } // $@, 'alice to bob', 'are encoded again as they were';
    waitpid $signals, 0;
    is_deeply \@names, [], 'and were dropped before';
    is_deeply history(), ['alice to bob'], 'nothing else ran';
};

my $asked = 0;
my %with_code = (
    'overloaded text' => [ transfer => 'bob', Hostile::text( sub { return 'source ' . ++$asked } ) ],
    'text that the former description refuses' => [ tag => Hostile::text( sub { $asked++; return "\x{263a}" } ) ],
    'an overloaded list' => [ total => Hostile::list_of( sub { return [ ++$asked ] } ) ],
    'a tied list' => [ total => Hostile::tied_list( size => sub { return 1 }, fetch => sub { return ++$asked } ) ],
    'a list within' => [ totals => [ Hostile::list_of( sub { return [ ++$asked ] } ) ] ],
);

for my $what ( sort keys %with_code ) {
    subtest "$what is not asked again" => sub {
        my ( $name, @arguments ) = @{ $with_code{$what} };
        my $nc = outdated();
        $asked = 0;
        is eval { $nc->call( $name, @arguments ) }, undef;
        is_refused( $@, 'the call is refused' );
        is $asked, 1, 'its code ran once';
        ok defined $nc->call( $name, @arguments ), 'the next call is encoded by what the server says now';
    };
}

# Refuses the first request, and describes its function otherwise since.
sub changing {
    my ( $generation, $requests ) = ( 1, 0 );
    my $describe = sub {
        return msgpack( { name => 'f', params => [ { name => 'pair', type => { struct => 'Pair' } } ], results => ['int64'],
            types => { Pair => { fields => [ { name => 'a', type => 'int64' } ] } }, hash => "0000000$generation" . 'a' x 56 } );
    };
    my $answer = sub {
        return msgpack(7) if $requests++;
        $generation = 2;
        return msgpack( [ 'refused', [] ] ), 10;
    };
    return LyingServer->start( $describe, $answer, 1, LyingServer::DESCRIPTIONS );
}

subtest 'an object is encoded again if it has no code' => sub {
    { package With::Method; sub a { return 1 } }
    my ( $with, $without ) = ( changing(), changing() );
    is eval { Nearcall->new( $without->address, timeout => 30 )->call( f => bless { a => 1 }, 'Without::Code' ) } // $@, 7, 'keys alone';
    is eval { Nearcall->new( $with->address, timeout => 30 )->call( f => bless {}, 'With::Method' ) }, undef;
    is $@->name, 'ABORTED', 'a method is not asked again' or diag $@;
};

my %ends = (
    wait  => sub { my ( $nc, $call ) = @_; return $call->wait },
    ready => sub { my ( $nc, $call ) = @_; 1 until $call->ready; return $call->wait },
    process => sub {
        my ( $nc, $call ) = @_;
        until ( grep { $_ == $call } $nc->process ) { }
        return $call->wait;
    },
);

for my $end ( sort keys %ends ) {
    subtest "a call that was begun does not read its arguments again, $end" => sub {
        for my $case ( [ total => [ 1, 2, 3 ] ], [ totals => [ [1], [2] ] ] ) {
            my ( $name, $argument ) = @{$case};
            my $nc = outdated( nonblocking => $end eq 'process' );
            my $call = begun( $nc, $name, $argument );
            @{$argument} = ();
            is eval { $ends{$end}->( $nc, $call ) }, undef;
            is_refused( $@, $name );
            is $ends{$end}->( $nc, $nc->begin( $name, [] ) ), '[]', 'what the server says now is known';
        }
    };
}

# Refuses the first request, and says how it describes its function then only when it is told to.
# Returns the server, a handle that tells of requests and descriptions, and one to tell it.
sub hesitating {
    pipe my $told, my $tell or die "pipe: $!";
    pipe my $seen, my $see or die "pipe: $!";
    my ( $generation, $requests ) = ( 1, 0 );
    my $describe = sub {
        syswrite $see, 'd';
        sysread $told, my $go_on, 1 if $generation == 2;
        return msgpack( { name => 'f', params => [ { name => 'values', type => 'any' } ],
            results => ['int64'], hash => "0000000$generation" . 'a' x 56 } );
    };
    my $answer = sub {
        syswrite $see, 'r';
        return msgpack( $requests ) if $requests++;
        $generation = 2;
        return msgpack( [ 'refused', [] ] ), 10;
    };
    my $hesitating = LyingServer->start( $describe, $answer, 1, LyingServer::DESCRIPTIONS );
    return ( $hesitating, $seen, $tell );
}

# Runs the loop of the manual until the server has seen that.
sub process_until {
    my ( $nc, $seen, $what ) = @_;
    my $all = '';
    until ( $all eq $what ) {
        my $read = '';
        vec( $read, $_, 1 ) = 1 for fileno $seen, $nc->fd;
        select( $read, undef, undef, 30 ) or die "the server did not see $what within 30 s, but $all\n";
        $nc->process;
        sysread $seen, $all, 1, length $all if vec $read, fileno $seen, 1;
    }
    return;
}

for my $case ( [ 'with a reference', [1] ], [ 'without', 'text' ] ) {
    my ( $what, $argument ) = @{$case};
    subtest "a call $what that is begun while its function is looked up again" => sub {
        my ( $hesitating, $seen, $tell ) = hesitating();
        my $nc = Nearcall->new( $hesitating->address, nonblocking => 1, timeout => 30 );
        my $refused = $nc->begin( f => [] );
        process_until( $nc, $seen, 'drd' );
        my $call = $nc->begin( f => $argument );
        @{$argument} = (9) if ref $argument;
        syswrite $tell, 'xxx';
        if ( ref $argument ) {
            is eval { $call->wait }, undef;
            is $@->name, 'ABORTED', 'what the reference holds later is not sent' or diag $@;
            is $@->outcome_text, 'not executed', '... not executed';
            like $@->message, qr/call again/, '... and says what to do';
            is $nc->begin( f => [9] )->wait, 2, 'what the server says now is known, and only this was sent';
        }
        else {
            is $call->wait, 2, 'is encoded by what comes';
        }
    };
}

subtest 'a name that a handler of signals changes while its function is looked up again' => sub {
    my ( $seen, $described, $client ) = ( 0, 0, $$ );
    pipe my $handled, my $tell or die "pipe: $!";
    my $generation = sub { $seen < 2 ? 1 : 2 };
    my $describe = sub {
        if ( $described++ ) {
            kill USR1 => $client;
            sysread $handled, my $byte, 1;
        }
        return msgpack( { name => 'f', params => [], results => ['any'], hash => $generation->() . 'a' x 63 } );
    };
    my $answer = sub {
        $seen++;
        die "not read\n" if $seen == 2;
        return $seen == 3 ? ( msgpack( [ 'refused', [] ] ), 10 ) : msgpack($seen);
    };
    my $replaced = LyingServer->start( $describe, $answer, $generation, LyingServer::DESCRIPTIONS );
    my $nc = Nearcall->new( $replaced->address, timeout => 30 );
    # Of a length that perl copies, as there is no room for a count of those who share it.
    my $name = 'f' x 7;
    $name .= 'f' x 8;
    is $nc->call($name), 1, 'before';
    local $SIG{USR1} = sub { $name = 'other' x 1000; undef $name; Hostile::litter(); syswrite $tell, 'x' };
    is eval { $nc->call($name) } // $@, 4, 'the call goes on';
};

done_testing;
