# Values above the frame travel in files in memory, if both sides let them.

use strict;
use warnings;

use Encode ();
use POSIX ();
use Test::More;
use FindBin ();
use lib "$FindBin::Bin/lib";
use TestServer;
use TestTools qw(error_of);

use Nearcall;

my $server = TestServer->start( arguments => ['-value-bytes-max=67108864'] );
my $large = join '', map { chr( $_ % 251 ) } 1 .. 1000;
$large x= 20_000;

subtest 'there and back' => sub {
    my $go = Nearcall->new( $server->address, timeout => 60, value_bytes_max => 1 << 30 );
    for my $round ( 1 .. 3 ) {
        substr( $large, 12_345_678, 1 ) = chr $round;
        ok( $go->echo($large) eq $large, "an argument and a result of 20 MB, round $round" );
        ok( $go->call_raw( echo => $large ) eq $large, 'the same as bytes' );
    }
    is( length $go->fill( 30 << 20 ), 30 << 20, 'a large result alone' );
    ok( $go->identity( 'x' x ( 18 << 20 ) ) eq 'x' x ( 18 << 20 ), 'text' );
    my @calls = map { $go->begin( echo => "$_$large" ) } 1 .. 4;
    ok( $_->wait, 'several in flight' ) for @calls;
    is( $go->one, 1, 'small ones beside' );
};

subtest 'limits' => sub {
    my $without = Nearcall->new( $server->address, timeout => 60 );
    my $error = error_of { $without->echo($large) };
    ok( $error->is('RESOURCE_EXHAUSTED') && $error->not_executed, 'none without the option' ) or diag $error;
    my $small = Nearcall->new( $server->address, timeout => 60, value_bytes_max => 17 << 20 );
    $error = error_of { $small->echo($large) };
    ok( $error->is('RESOURCE_EXHAUSTED') && $error->not_executed, 'no argument beyond it' ) or diag $error;
    like( $error, qr/value_bytes_max/, 'which the message names' );
    $error = error_of { $small->fill( 18 << 20 ) };
    ok( $error->is('RESOURCE_EXHAUSTED') && $error->result_lost, 'no result beyond it' ) or diag $error;
    my $more = Nearcall->new( $server->address, timeout => 60, value_bytes_max => 1 << 30 );
    $error = error_of { $more->call_raw( echo => 'x' x ( 65 << 20 ) ) };
    ok( $error->is('RESOURCE_EXHAUSTED') && $error->not_executed, 'nor beyond the server\'s' ) or diag $error;
    like( $error, qr/WithValueBytesMax/, 'which the message names' );
    is( $_->one, 1, 'the handle goes on' ) for $without, $small, $more;
};

subtest 'in a child' => sub {
    my $go = Nearcall->new( $server->address, timeout => 60, value_bytes_max => 1 << 30 );
    ok( $go->echo($large) eq $large, 'in the parent' );
    my $pid = fork // die "fork: $!";
    if ( !$pid ) {
        my $same = eval { $go->echo("child$large") eq "child$large" };
        POSIX::_exit( $same ? 0 : 1 );
    }
    ok( $go->echo("parent$large") eq "parent$large", 'in the parent meanwhile' );
    waitpid $pid, 0;
    is( $?, 0, 'in the child' );
};

subtest 'text and bytes of every kind' => sub {
    my $go = Nearcall->new( $server->address, timeout => 60, value_bytes_max => 1 << 30 );
    my %text = (
        'plain'                        => 'plain ' x ( 1 << 20 ),
        'of one byte a character'      => "na\xEFve " x 900_000,
        'of several bytes a character' => "\x{1F600}na\xEFve\x{20AC}" x 500_000,
    );
    for my $kind ( sort keys %text ) {
        ok( $go->identity( $text{$kind} ) eq $text{$kind}, "text $kind" );
        ok( $go->identity("a$text{$kind}") eq "a$text{$kind}", 'the same at another place' );
    }
    my $upgraded = $large;
    utf8::upgrade($upgraded);
    ok( $go->echo($upgraded) eq $large, 'bytes that were upgraded' );
    ok( $go->call_raw( echo => "a$upgraded" ) eq "a$large", 'the same as a raw request' );
    like( error_of { $go->echo("$upgraded\x{100}") }, qr/a character above 255/, 'a wide character at the end of bytes' );
    for my $octet ( "\x80", "\xC2", "\xC2\x41", "a\xC3" ) {
        my $malformed = $octet x ( 4 << 20 );
        Encode::_utf8_on($malformed);
        my $error = error_of { $go->echo($malformed) };
        like( $error, qr/a character above 255/, 'bytes that say they are UTF-8, and are not' );
        $error = error_of { $go->call_raw( echo => $malformed ) };
        like( $error, qr/a character above 255/, 'the same as a raw request' );
    }
    my $surrogate = do { no warnings 'surrogate'; $text{'of several bytes a character'} . chr 0xD800 };
    like( error_of { $go->identity($surrogate) }, qr/not Unicode text/, 'a surrogate at the end of text' );
    is( $go->one, 1, 'the handle goes on' );
};

subtest 'the time is looked at while one value is written' => sub {
    my $most = TestServer->start( arguments => ['-value-bytes-max=1073741824'] );
    my $go = Nearcall->new( $most->address, timeout => 60, value_bytes_max => 1 << 30 );
    is( $go->one, 1, 'connected' );
    my %call = (
        'text to be widened' => [ upper => "\xE9" x ( 400 << 20 ) ],
        'bytes'              => [ echo  => 'x' x ( 800 << 20 ) ],
    );
    for my $what ( sort keys %call ) {
        my ( $name, $value ) = @{ delete $call{$what} };
        my ( $user, $system ) = times;
        my $error = error_of { $go->with( timeout => 0.05 )->call( $name, $value ) };
        my ( $user_after, $system_after ) = times;
        ok( $error->is('DEADLINE_EXCEEDED') && $error->not_executed, $what ) or diag $error;
        cmp_ok( $user_after + $system_after - $user - $system, '<', 0.25, 'seconds of the processor' );
    }
};

done_testing;
