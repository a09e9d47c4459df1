# A web server in Perl with a certificate of its own: one process of it, which serves
# one client at a time.
use v5.26;
use warnings;

use IO::Socket::SSL;
use Nearcall::Handoff;

my ($address, $certificate) = @ARGV;
die "usage: shop.pl ADDRESS CERTIFICATE, as unix:/run/site/shop.sock site.pem\n" unless defined $certificate;

my $listener = Nearcall::Handoff->new($address);
while (my $connection = $listener->accept) {
    # How long a client may be silent.
    $connection->timeout(5);
    my $client = join ':', $connection->peerhost, $connection->peerport;
    my $secure = IO::Socket::SSL->start_SSL($connection,
        SSL_server => 1, SSL_cert_file => $certificate, SSL_key_file => $certificate);
    $secure ? serve($secure, $client) : warn "$client: $SSL_ERROR\n";
    close $connection;
}

# Until the client closes; it may keep the connection for several requests.
sub serve {
    my ($connection, $client) = @_;
    local $SIG{ALRM} = sub { shutdown $connection, 2 };
    while (alarm(5), defined(my $line = <$connection>)) {
        my (undef, $target) = split ' ', $line;
        while (defined(my $field = <$connection>)) {
            last if $field =~ /^\r?\n$/;
        }
        my $text = "Perl, process $$: $target for $client\n";
        print $connection "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: ${\ length $text}\r\n\r\n$text";
    }
    alarm 0;
    return;
}
