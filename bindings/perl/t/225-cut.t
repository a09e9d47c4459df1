use strict;
use warnings;

# Texts that C would cut at a NUL, and numbers that it would cut to its own: all are refused, and
# what is refused is named.

use Test::More;
use File::Temp ();
use FindBin ();
use lib "$FindBin::Bin/lib";
use TestServer;
use TestTools qw(error_of);
use Hostile qw(text);

use Nearcall;
use Nearcall::Handoff;

my $server    = TestServer->start;
my $address   = $server->address;
my $directory = File::Temp->newdir;

my @numbers = ( 2**32, 2**32 + 65536, 2**64, 1e300, -1, 1.5, 'inf', 'nan', '', 'many', "4\n", "4\0", '0x10', '1e3', [], \1, text( sub { 2**32 } ) );

subtest 'numbers of Nearcall->new' => sub {
    for my $option (qw(frame_bytes_max attempts calls_in_flight_max value_bytes_max)) {
        for my $number (@numbers) {
            my $error = error_of { Nearcall->new( $address, $option => $number ) };
            like( $error, qr/\ANearcall->new: $option is .*: it is out of range at \Q$0\E line/s, "$option $number" =~ s/[^ -~]/?/gr );
        }
        is( error_of { Nearcall->new( $address, $option => 2**31 ) }->name, 'INVALID_ARGUMENT', "$option of 2**31" );
        ok( Nearcall->new( $address, $option => undef ), "$option of the default" );
    }
    my $said = 0;
    is( Nearcall->new( $address, attempts => text( sub { $said++ ? 2**32 : 2 } ) )->one, 1, 'one with code says it once' );
};

subtest 'numbers of Nearcall::Handoff->new' => sub {
    for my $option (qw(mode window prefix_bytes_max message_bytes_max channels_max)) {
        for my $number (@numbers) {
            like( error_of { Nearcall::Handoff->new( "unix:$directory/handoff.sock", $option => $number ) },
                qr/\ANearcall::Handoff->new: $option is .*: it is out of range at \Q$0\E line/s, "$option $number" =~ s/[^ -~]/?/gr );
        }
    }
};

subtest 'users' => sub {
    for my $user ( 2**32, 2**32 + $<, '99999999999999999999' ) {
        like( error_of { Nearcall->new( $address, server_users => [$user] ) }, qr/a user of server_users is $user: it is out of range/, "user $user" );
        like( error_of { Nearcall::Handoff->new( "unix:$directory/handoff.sock", peer_users => [$user] ) }, qr/is $user: it is out of range/, 'of a handoff' );
    }
    for my $user ( "root\0", "root\0x", "0\0", "\0", -1, 1.5, 'inf', undef ) {
        like( error_of { Nearcall->new( $address, server_users => [$user] ) }, qr/there is no user/, 'no user: ' . ( $user // 'undef' ) =~ s/\0/?/gr );
    }
    my $said = 0;
    like( error_of { Nearcall->new( $address, server_users => [ text( sub { $said++ ? 0 : 'nobody at all' } ) ] ) },
        qr/no user nobody at all/, 'one with code says it once' );
};

sub is_nul {
    my ( $error, $what ) = @_;
    is( ref $error ? $error->name : $error, 'INVALID_ARGUMENT', $what );
    like( "$error", qr/NUL/, 'and says why' );
    ok( ref $error && $error->not_executed, 'nothing has run' );
    is( ref $error && $error->file, $0, 'the place is the caller\'s' );
    return;
}

subtest 'a NUL' => sub {
    my $go   = Nearcall->new($address);
    my $call = "upper\0x";
    is_nul( error_of { Nearcall->new("$address\0") },       'at the end of an address' );
    is_nul( error_of { Nearcall->new("$address\0.other") }, 'in an address' );
    is_nul( error_of { Nearcall->new( $address, name => "a\0b" ) }, 'in a program\'s name' );
    is_nul( error_of { Nearcall->new( $address, name => "\x{e9}\0" ) }, 'behind a character' );
    is_nul( error_of { $go->call( $call, 'a' ) }, 'in a function\'s name, call' );
    is_nul( error_of { $go->call_raw( "echo\0x", 'a' ) }, 'call_raw' );
    is_nul( error_of { $go->begin( $call, 'a' ) }, 'begin' );
    is_nul( error_of { $go->function($call)->('a') }, 'function' );
    is_nul( error_of { $go->$call('a') }, 'a method' );
    is_nul( error_of { Nearcall->new( $address, nonblocking => 1 )->begin( $call, 'a' ) }, 'begin, in an event loop' );
    is_nul( error_of { $go->with( "timeout\0x" => 1 ) }, 'in an option of with' );
    is_nul( error_of { $go->_generated( upper => '0' x 64, '{}', "ignore\0" ) }, 'in what a generated module says' );
    is_nul( error_of { $go->_generated( upper => "0\0", '{}', 'error' )->('a') }, 'in its hash' );
    is_nul( error_of { $go->_generated( upper => '0' x 64, "{}\0", 'error' )->('a') }, 'in its description' );
    is( $go->upper("a\0b"), "A\0B", 'arguments have as many as they like' );
    like( error_of { Nearcall->new( $address, "timeout\0" => 1 ) }, qr/no option/, 'an option that is none' );
    like( error_of { Nearcall->new( $address, spin => "off\0" ) }, qr/spin is auto, off or dedicated/, 'a word' );
};

subtest 'a NUL in handoffs' => sub {
    is_nul( error_of { Nearcall::Handoff->new("unix:$directory/handoff.sock\0x") }, 'in an address' );
    my $listener = Nearcall::Handoff->new("unix:$directory/handoff.sock");
    is_nul( error_of { $listener->drain("later\0") }, 'in the reason to drain' );
    is_nul( error_of { $listener->refuse( busy => "later\0" ) }, 'in the reason to refuse' );
};

done_testing;
