/* Giving the kernel bytes. */
#include <errno.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include "connection/connection.h"
#include "connection/output.h"
#include "receive/receive.h"
#include "send/frames.h"
#include "send/send.h"
#include "transport/files.h"

/* What is waiting in the input was sent before the peer went away: replies and
 * DRAIN decide outcomes, so they are read before the connection is given up. What
 * comes meanwhile is not: a server that only reads no more may send without an end. (Sealed bytes
 * open to fewer, so over TLS that is read until nothing is left, or a little more.) */
static void read_what_waits(nearcall_client *client)
{
    struct nc_connection *connection = &client->connection;
    int waiting = 0;
    if (ioctl(connection->fd, FIONREAD, &waiting) < 0)
        return;
    uint64_t end = connection->received + (uint64_t)waiting;
    while (connection->state == NC_READY && connection->received < end &&
           nc_receive_socket(client, MSG_DONTWAIT) == NC_RECEIVED)
        ;
}

static void sending_failed(nearcall_client *client, int error)
{
    struct nc_connection *connection = &client->connection;
    struct nc_loss loss = {-NEARCALL_E_UNAVAILABLE, true,
                           error == ECONNRESET ? NC_RESET_BY_SERVER : NC_ENDED_HERE};
    read_what_waits(client);
    nc_drain_memory(client);
    /* A server that has told that it stops may read no more, and still answers what it has. */
    if (connection->state != NC_READY || connection->draining)
        return;
    const char *what = nc_connection_what_failed(client, error, &loss);
    nc_connection_lost(client, &loss, "the connection to %s was lost: %s", client->address_text, what);
}

/* What is in one piece and comes alone goes a shorter way in the kernel. */
static ssize_t give(int fd, const struct msghdr *message)
{
    const struct iovec *first = message->msg_iov;
    int flags = MSG_NOSIGNAL | MSG_DONTWAIT;
    if (message->msg_iovlen == 1 && !message->msg_control)
        return send(fd, first->iov_base, first->iov_len, flags);
    return sendmsg(fd, message, flags);
}

int nc_send_sealed(nearcall_client *client)
{
    struct nc_connection *connection = &client->connection;
    size_t bytes;
    const void *sealed = nc_tls_sealed(connection->tls, &bytes);
    if (bytes == 0 || nc_tls_send_error(connection->tls))
        return nc_tls_send_error(connection->tls);
    ssize_t sent = send(connection->fd, sealed, bytes, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent < 0 && (errno == EAGAIN || errno == EINTR))
        return 0;
    if (sent < 0) {
        nc_tls_stop_sending(connection->tls, errno);
        return nc_tls_send_error(connection->tls);
    }
    nc_tls_sent(connection->tls, (size_t)sent);
    return 0;
}

/* Seals no more than the kernel takes at once, except for the last piece. A piece of which the kernel
 * has refused all never counts as taken, and nothing is sent after it. There is no TLS any more when this
 * has become a child. */
static ssize_t give_sealed(nearcall_client *client, const struct msghdr *message)
{
    const struct nc_connection *connection = &client->connection;
    ssize_t taken = 0;
    int error = nc_send_sealed(client);
    while (error == 0 && !nc_forked_inside(client) && !nc_tls_keeps(connection->tls)) {
        ssize_t sealed = nc_tls_seal(connection->tls, message->msg_iov, (size_t)message->msg_iovlen, (size_t)taken);
        if (sealed == 0)
            break;
        error = sealed < 0 ? errno : nc_send_sealed(client);
        if (error == 0)
            taken += sealed;
    }
    if (taken > 0)
        return taken;
    errno = error ? error : EAGAIN;
    return -1;
}

/* The same over TLS, where no descriptors travel. */
static __attribute__((noinline)) ssize_t send_sealed_now(nearcall_client *client, const struct msghdr *message)
{
    ssize_t sent = give_sealed(client, message);
    if (!client->connection.tls)
        return -1; /* the connection is the parent's */
    if (sent >= 0)
        client->connection.written += (uint64_t)sent;
    if (sent >= 0 || errno == EAGAIN)
        return sent >= 0 ? sent : 0;
    sending_failed(client, errno);
    return -1;
}

ssize_t nc_send_now(nearcall_client *client, struct iovec *parts, size_t count)
{
    struct msghdr message = {.msg_iov = parts, .msg_iovlen = (uint8_t)count};
    struct nc_call *with_files = NULL;
    union nc_control control;
    if (!nc_connection_is_ours(client))
        return -1;
    if (client->connection.has_files)
        with_files = nc_files_in_message(client, &message, &control);
    if (nc_forked_inside(client)) /* asked last: a handler may fork at any system call */
        return -1; /* the connection is the parent's */
    if (__builtin_expect(client->connection.tls != NULL, 0))
        return send_sealed_now(client, &message);
    ssize_t sent = give(client->connection.fd, &message);
    if (sent >= 0) {
        client->connection.written += (uint64_t)sent;
        if (with_files)
            nc_files_are_sent(with_files);
        return sent;
    }
    if (errno == ETOOMANYREFS) {
        nc_send_later(client);
        return 0;
    }
    if (errno == EAGAIN || errno == EINTR)
        return 0;
    sending_failed(client, errno);
    return -1;
}

void nc_flush(nearcall_client *client)
{
    struct nc_connection *connection = &client->connection;
    struct iovec parts[2];
    size_t count = 0;
    nc_output_skip_holes(connection);
    if (nc_buffer_bytes(&connection->out))
        parts[count++] = (struct iovec){connection->out.data + connection->out.start,
                                        nc_output_owned_bytes(connection)};
    if (connection->borrowed_bytes)
        parts[count++] = (struct iovec){(void *)(uintptr_t)connection->borrowed,
                                        connection->borrowed_bytes};
    ssize_t sent = nc_send_now(client, parts, count);
    if (sent > 0) {
        connection->moved_ns = client->now_ns;
        nc_output_consume(client, (size_t)sent);
    }
}
