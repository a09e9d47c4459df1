use strict;
use warnings;

use Test::More;
use FindBin ();
use lib "$FindBin::Bin/lib";
use LyingServer qw(msgpack);
use TestServer;
use TestTools qw(error_of);

use Digest::MD5 ();
use Encode ();

use Nearcall;

my $server = TestServer->start;
my $go = Nearcall->new( $server->address, timeout => 10 );

# The same string in both forms that Perl keeps strings in.
sub both_forms {
    my ($string) = @_;
    my ( $narrow, $wide ) = ( $string, $string );
    utf8::upgrade($wide);
    utf8::downgrade($narrow);
    return ( $narrow, $wide );
}

subtest 'characters' => sub {
    for my $text ( both_forms("caf\xe9 \xff\x80"), "\x{263a}", "\x{1f600}", "a\x{0}b", '', "\x{ffff}", "e\x{301}" ) {
        is( $go->identity($text), $text, 'as any' );
        is_deeply( $go->identity( { $text => $text } ), { $text => $text }, 'as a key and a value' );
        is( $go->greet( { name => $text } ), "Hello, $text", 'in a struct' );
    }
    is( $go->md5($_), Digest::MD5::md5_hex( Encode::encode( 'UTF-8', $_ ) ), 'what arrives is UTF-8' )
        for both_forms("caf\xe9"), "\x{263a}";
    is( length $go->identity("\x{263a}"), 1, 'one character' );
};

subtest 'bytes' => sub {
    my $every = join '', map { chr } 0 .. 255;
    for my $bytes ( both_forms($every) ) {
        is( $go->echo($bytes), $every, 'raw' );
        is( $go->call_raw( echo => $bytes ), $every, 'call_raw' );
        is( $go->kinds( 1, 0, 0, 0, 0, 0, 0, '', $bytes )->[8], $every, 'in MessagePack' );
    }
    ok( !utf8::is_utf8( $go->echo("\x80") ), 'bytes come back as bytes' );
    my ( $before, $copy ) = ("\xe9") x 2;
    utf8::upgrade($before);
    $go->echo($before);
    ok( utf8::is_utf8($before), 'the caller\'s string keeps its form' );
};

subtest 'what is neither' => sub {
    like( error_of { $go->echo("\x{100}") }->message, qr/argument 1 \(data\): .*above 255/, 'a character that is no byte' );
    my $surrogate = do { no warnings; chr 0xd800 };
    like( error_of { $go->upper($surrogate) }->message, qr/argument 1 \(text\): .*not Unicode/, 'a surrogate' );
    my $beyond = do { no warnings; chr 0x110000 };
    like( error_of { $go->upper($beyond) }->message, qr/not Unicode/, 'beyond Unicode' );
};

# Anybody can set the flag: what has it and is no UTF-8 is shown as the bytes that it is.
subtest 'what only claims to be characters' => sub {
    my @warnings;
    local $SIG{__WARN__} = sub { push @warnings, @_ };
    my $flagged = sub { my ($bytes) = @_; Encode::_utf8_on($bytes); return $bytes };
    my %shown = (
        "\x80" => '"\\200"', "\xff\x80a" => '"\\377\\200a"', "caf\xe9" => '"caf\\351"', "\xe2\x98" => '"\\342\\230"',
        "\xf0\x9f\x98\x80\xc0\x80" => '"\\360\\237\\230\\200\\300\\200"',
    );
    for my $bytes ( sort keys %shown ) {
        my $text = $flagged->($bytes);
        is( error_of { $go->sum($text) }->message, "argument 1 (numbers): expected int64 (-9223372036854775808 to 9223372036854775807), got $shown{$bytes}", "no number: $shown{$bytes}" );
        is( error_of { $go->greet( { $text => 1 } ) }->message, "argument 1 (person): Person has no field $shown{$bytes}; it has name, age, tags", 'no field' );
        like( error_of { $go->identity( { $text => 1 } ) }->message, qr/\Aargument 1 \(value\), \Q$shown{$bytes}\E: the string holds/, 'no key' );
        like( error_of { $go->$_($text) }->message, qr/argument 1 \(\w+\): /, "not for $_" ) for 'upper', 'echo', 'identity';
    }
    is( "@warnings", '', 'nobody is warned' );
};

subtest 'names' => sub {
    my $error = error_of { $go->call("caf\xe9") };
    is( $error->function, "caf\xe9", 'of functions are characters' );
    is( $error->name, 'UNIMPLEMENTED', 'and looked up as UTF-8' );
    $error = error_of { $go->greet( { "\x{263a}" => 1 } ) };
    like( $error->message, qr/no field "\x{263a}"/, 'of fields too' );
};

subtest 'names with the same bytes' => sub {
    my $asked = 0; # in the process of the server
    my $liar = LyingServer->start(
        sub { $asked++; msgpack( { name => 'lie', params => [], results => ['int64'] } ) },
        sub { msgpack($asked) } );
    my $go = Nearcall->new( $liar->address, timeout => 10 );
    my ( $narrow, $wide ) = both_forms("\xe9");
    my $bytes = "\xc3\xa9";
    is( $go->call($wide), 1, 'one function is looked up' );
    is( $go->call($_), 1, 'and known in either form' ) for $narrow, $wide;
    is( $go->call($bytes), 2, 'what has the bytes of its name is another' );
    is( $go->call($_), 2, 'and both are known' ) for $wide, $bytes;
};

done_testing;
