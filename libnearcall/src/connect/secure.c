/* The handshake of TLS, and what is said of connections without it. */
#include "connect/secure.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "connection/connection.h"
#include "send/send.h"
#include "transport/tls.h"

/* ---- Plain TCP ---- */

#define LOOPBACK_FIRST_BYTE 127

/* Where the kernel does not tell, the peer is elsewhere. */
static bool is_on_loopback(int fd)
{
    union {
        struct sockaddr any;
        struct sockaddr_in four;
        struct sockaddr_in6 six;
    } peer;
    socklen_t bytes = sizeof(peer);
    memset(&peer, 0, sizeof(peer));
    if (getpeername(fd, &peer.any, &bytes) != 0)
        return true; /* it has ended, and carries nothing any more */
    if (peer.any.sa_family == AF_INET)
        return ntohl(peer.four.sin_addr.s_addr) >> 24 == LOOPBACK_FIRST_BYTE;
    if (IN6_IS_ADDR_V4MAPPED(&peer.six.sin6_addr))
        return peer.six.sin6_addr.s6_addr[12] == LOOPBACK_FIRST_BYTE;
    return IN6_IS_ADDR_LOOPBACK(&peer.six.sin6_addr);
}

bool nc_secure_is_exposed(const nearcall_client *client)
{
    return client->connection.state == NC_READY && client->address.kind == NC_ADDRESS_TCP &&
           client->address.plain != NC_PLAIN_QUIET && !is_on_loopback(client->connection.fd);
}

static void refuse_plain(nearcall_client *client)
{
    struct nc_loss loss = {-NEARCALL_E_FAILED_PRECONDITION, false, NC_ENDED_HERE};
    nc_connection_lost(client, &loss,
                       "%s is not on this machine, and this handle refuses plain TCP to other machines "
                       "(plain=refuse in the address, or NEARCALL_NO_PLAIN_TCP; in Perl and Python plain_tcp); "
                       "use a tls: address",
                       client->address_text);
}

bool nc_secure_check_plain(nearcall_client *client)
{
    bool refuses = client->address.plain == NC_PLAIN_REFUSE || client->options.flags & NEARCALL_NO_PLAIN_TCP;
    bool is_told = client->plain_told || client->address.plain == NC_PLAIN_QUIET;
    if (client->address.kind != NC_ADDRESS_TCP || (is_told && !refuses) || is_on_loopback(client->connection.fd))
        return true;
    if (refuses) {
        refuse_plain(client);
        return false;
    }
    client->plain_told = client->hooks.log != NULL;
    nc_log(client, NEARCALL_LOG_WARNING,
           "%s is not on this machine: whoever is on the way to it can read calls over plain TCP, and change "
           "them; use a tls: address, or say plain=quiet if the way is safe",
           client->address_text);
    return true;
}

/* ---- TLS ---- */

/* Certificates that have changed are read again. If they cannot be, the ones of before are as good as they were. */
static int renew(nearcall_client *client)
{
    char words[NC_TLS_WORDS_BYTES];
    if (nc_tls_renew(client->tls, words, sizeof(words)) == 0)
        return 0;
    if (nc_tls_is_usable(client->tls)) {
        nc_log(client, NEARCALL_LOG_WARNING, "certificates were not read again: %s", words);
        return 0;
    }
    struct nc_loss loss = {-NEARCALL_E_INVALID_ARGUMENT, false, NC_ENDED_HERE};
    if (!nc_forked_inside(client))
        nc_connection_lost(client, &loss, "cannot connect to %s: %s", client->address_text, words);
    return EINPROGRESS;
}

int nc_secure_begin(nearcall_client *client)
{
    struct nc_connection *connection = &client->connection;
    int error = renew(client);
    if (error || nc_forked_inside(client)) /* files were read */
        return error ? error : EINPROGRESS;
    connection->tls = nc_tls_stream_new(client->tls, client->address.host);
    if (!connection->tls)
        return ENOMEM;
    connection->state = NC_SECURING;
    connection->welcome_limit_ns = nc_now_ns() + connection->welcome_patience_ns;
    return nc_secure_advance(client);
}

/* Gives the handshake what has arrived. 0, EAGAIN, or an errno; ECONNRESET at the end as well. EINPROGRESS:
 * the connection is the parent's. */
static int receive(nearcall_client *client)
{
    struct nc_connection *connection = &client->connection;
    size_t bytes;
    void *room = nc_tls_room(connection->tls, &bytes);
    ssize_t received = recv(connection->fd, room, bytes, MSG_DONTWAIT);
    int error = received < 0 ? errno : 0;
    if (nc_forked_inside(client))
        return EINPROGRESS;
    if (received > 0)
        nc_tls_arrived(connection->tls, (size_t)received);
    if (received == 0)
        return ECONNRESET;
    return error == EINTR ? EAGAIN : error;
}

/* What the server has said before it closed comes before what the kernel says of that. */
static int step(nearcall_client *client)
{
    int greeted = nc_tls_greet(client->connection.tls);
    int error = nc_send_sealed(client);
    if (nc_forked_inside(client))
        return EINPROGRESS; /* the connection is the parent's */
    if (greeted != EAGAIN)
        return greeted; /* what could not be sent is found by the hello */
    int received = receive(client);
    if (received == 0)
        return EAGAIN;
    if (received == EINPROGRESS || (received == EAGAIN && !error))
        return EINPROGRESS;
    return error ? error : received;
}

static void handshake_failed(nearcall_client *client, int error)
{
    struct nc_loss loss = {-NEARCALL_E_UNAVAILABLE, error != EPROTO, NC_ENDED_HERE};
    const char *what = nc_connection_what_failed(client, error, &loss);
    if (error == ECONNRESET || error == EPIPE)
        what = "it closed the connection during the handshake of TLS; is it a server for tls: addresses?";
    nc_connection_lost(client, &loss, "cannot connect to %s: %s", client->address_text, what);
}

int nc_secure_advance(nearcall_client *client)
{
    int r;
    do
        r = step(client);
    while (r == EAGAIN);
    if (r == 0)
        nc_log(client, NEARCALL_LOG_DEBUG, "TLS with %s: %s", client->address_text,
               nc_tls_is_resumed(client->connection.tls) ? "session resumed" : "new session");
    if (r == 0 || r == EINPROGRESS || r == ENOMEM)
        return r;
    handshake_failed(client, r);
    return EINPROGRESS;
}
