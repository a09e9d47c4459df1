# A web server in Perl with a certificate of its own. `nearcall receive` runs it for
# each connection that the front gives, with the connection as descriptor 3.
use v5.26;
use warnings;

use IO::Socket::INET;
use IO::Socket::SSL;

my $certificate = shift // die "usage: shop.pl CERTIFICATE\n";
my $connection  = IO::Socket::INET->new_from_fd(3, 'r+') or die "descriptor 3 is no connection: $!\n";
my $client      = join ':', $connection->peerhost, $connection->peerport;

IO::Socket::SSL->start_SSL($connection, SSL_server => 1, SSL_cert_file => $certificate, SSL_key_file => $certificate)
    or die "$client: $SSL_ERROR\n";

# Until the client closes; it may keep the connection for several requests.
while (defined(my $line = <$connection>)) {
    my (undef, $target) = split ' ', $line;
    while (defined(my $field = <$connection>)) {
        last if $field =~ /^\r?\n$/;
    }
    my $text = "Perl, process $$: $target for $client\n";
    print $connection "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: ${\ length $text}\r\n\r\n$text";
}
