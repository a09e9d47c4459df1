#!/usr/bin/perl
# The client in Perl without any library, in the simple protocol:
#     perl client_plain.pl /tmp/hello/nearcall.sock
use v5.26;
use warnings;
use IO::Socket::UNIX;
use JSON::PP;

my $socket = IO::Socket::UNIX->new(Peer => $ARGV[0]) or die "$ARGV[0]: $!\n";

sub call {
    my ($function, @arguments) = @_;
    $socket->print(pack 'N/a*', encode_json({f => $function, a => \@arguments}));
    $socket->flush;
    $socket->read(my $length, 4) == 4 or die "the server closed the connection\n";
    $socket->read(my $answer, unpack 'N', $length);
    return decode_json($answer);
}

say 'greet: ', call(greet => 'World')->{r};
say sprintf 'divide: %d, remainder %d', @{call(divide => 17, 5)->{r}};
say 'visit: ', call(visit => '/')->{r};
say 'error: ', join ', ', call(divide => 1, 0)->{e}->@{qw(name outcome message)};
