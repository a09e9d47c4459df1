#include "connect/connect.h"

#include <errno.h>
#include <netdb.h>
#include <poll.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/random.h"
#include "calls/calls.h"
#include "connect/endpoints.h"
#include "connect/greeting.h"
#include "connect/secure.h"
#include "connection/connection.h"
#include "connection/endpoint.h"
#include "connection/output.h"
#include "receive/receive.h"
#include "send/send.h"
#include "transport/transport.h"

#define INPUT_CAPACITY 16384
#define BACKLOG_TRIES_OF_LONGEST_PAUSE 5

/* ---- Connecting ---- */

static int code_of_errno(int error)
{
    switch (error) {
    case EACCES:
    case EPERM:
        return -NEARCALL_E_PERMISSION_DENIED;
    case EMFILE:
    case ENFILE:
    case ENOMEM:
    case ENOBUFS:
        return -NEARCALL_E_RESOURCE_EXHAUSTED;
    default:
        return -NEARCALL_E_UNAVAILABLE;
    }
}

static const char *advice(const nearcall_client *client, int error)
{
    bool is_embedded = client->address.kind == NC_ADDRESS_EMBED;
    switch (error) {
    case ENOENT:
        if (is_embedded)
            return "; somebody has removed the socket of the process that loaded the library, "
                   "start that again";
        return "; is the server running, and is this its address?";
    case ECONNREFUSED:
        if (is_embedded)
            return "; the process that loaded the library has ended, start it again";
        return "; is the server running, and is this its address?";
    case EACCES:
        return "; this user may not connect, see the socket's mode and group";
    case EMFILE:
        return "; this process has too many open files, see ulimit -n";
    default:
        return "";
    }
}

/* That a resolver does not answer may be over in a moment; what it says holds longer. */
static void lookup_failed(nearcall_client *client, int result)
{
    struct nc_loss loss = {-NEARCALL_E_UNAVAILABLE, result == EAI_AGAIN, NC_ENDED_HERE};
    nc_connection_lost(client, &loss, "cannot connect to %s: the name %s cannot be looked up: %s",
                       client->address_text, client->address.host, gai_strerror(result));
}

static void connect_failed(nearcall_client *client, int error)
{
    if (error < NC_LOOKUP_FAILED) {
        lookup_failed(client, error - NC_LOOKUP_FAILED);
        return;
    }
    int code = code_of_errno(error);
    struct nc_loss loss = {code, code == -NEARCALL_E_UNAVAILABLE, NC_ENDED_HERE};
    client->nobody_listens = error == ECONNREFUSED || error == ENOENT;
    nc_connection_lost(client, &loss, "cannot connect to %s: %s%s", client->address_text,
                       strerror(error), advice(client, error));
}

static bool user_is_listed(const struct nc_options *options, uid_t user)
{
    for (uint32_t i = 0; i < options->server_user_ids_count; i++)
        if (options->server_user_ids[i] == user)
            return true;
    return false;
}

static void refuse_server_user(nearcall_client *client, uid_t user)
{
    struct nc_loss loss = {-NEARCALL_E_PERMISSION_DENIED, false, NC_ENDED_HERE};
    nc_connection_lost(client, &loss,
                       "the server at %s runs as user id %u, which is neither root, nor this "
                       "user, nor the owner of the socket's directory; list it in "
                       "server_user_ids (in Perl and Python server_users) if it is to be trusted",
                       client->address_text, (unsigned)user);
}

/* Before the first byte is sent: a false server must not even learn that we
 * called. False when the connection was dropped. */
static bool check_server_user(nearcall_client *client)
{
    struct nc_connection *connection = &client->connection;
    uid_t user, owner;
    bool has_owner;
    if (!connection->transport->server_user || client->options.flags & NEARCALL_ANY_SERVER_USER)
        return true;
    int error = connection->transport->server_user(&client->address, connection->fd, &user,
                                                   &has_owner, &owner);
    if (error != 0) {
        connect_failed(client, error);
        return false;
    }
    if (user == 0 || user == geteuid() || (has_owner && user == owner) ||
        user_is_listed(&client->options, user))
        return true;
    refuse_server_user(client, user);
    return false;
}

/* A server that does not accept this side's certificate says so when its handshake is over, and goes. */
static void hear_why(nearcall_client *client)
{
    client->connection.state = NC_HELLO;
    nc_welcome_receive(client);
}

/* error is that of the step before. */
static void say_hello(nearcall_client *client, int error)
{
    if (error == 0) {
        error = nc_hello_send(client);
        if (error != 0 && client->connection.tls)
            hear_why(client);
    }
    if (error != 0 && error != EINPROGRESS && client->connection.state != NC_CLOSED)
        connect_failed(client, error);
}

static void connected(nearcall_client *client)
{
    if (check_server_user(client) && nc_secure_check_plain(client))
        say_hello(client, client->connection.transport->is_secure ? nc_secure_begin(client) : 0);
}

/* Makes client->opening the connection's, and remembers which socket the number means; see
 * nc_connection_orphan(). */
static bool adopt(nearcall_client *client)
{
    struct nc_connection *connection = &client->connection;
    struct stat status;
    int fd = client->opening;
    if (fstat(fd, &status) != 0) {
        int error = errno;
        client->opening = -1;
        close(fd);
        connect_failed(client, error);
        return false;
    }
    connection->device = status.st_dev;
    connection->inode = status.st_ino;
    atomic_signal_fence(memory_order_seq_cst); /* a handler that leaves here finds the number with what it means */
    connection->fd = fd;
    if (client->endpoints)
        nc_endpoint_keep_socket(client);
    atomic_signal_fence(memory_order_seq_cst); /* and finds it in one place at least */
    client->opening = -1;
    nc_identity_begin(client);
    return true;
}

static void backlog_is_full(nearcall_client *client)
{
    struct nc_connection *connection = &client->connection;
    connection->state = NC_BACKLOG_FULL;
    if (connection->backlog_tries < BACKLOG_TRIES_OF_LONGEST_PAUSE)
        connection->backlog_tries++;
    connection->retry_ns =
        nc_now_ns() + nc_random_pause_ns(&client->random, connection->backlog_tries, NC_PAUSE_FIRST_NS, NC_PAUSE_MOST_NS);
}

/* Goes through the address's candidates until one takes up the connection. */
static void try_candidates(nearcall_client *client, int error)
{
    struct nc_connection *connection = &client->connection;
    for (;; connection->candidate++) {
        int r = connection->transport->connect(&client->address, connection->candidate, &client->opening);
        if (r == NC_NO_FURTHER_ADDRESS) {
            connect_failed(client, error);
            return;
        }
        if (r == EAGAIN) {
            backlog_is_full(client);
            return;
        }
        if (r == 0 || r == EINPROGRESS) {
            connection->state = NC_CONNECTING;
            if (adopt(client) && r == 0)
                connected(client);
            return;
        }
        error = r;
    }
}

static void limit(nearcall_client *client, int64_t deadline_ns)
{
    if (!client->endpoints) {
        nc_connection_limit(client, deadline_ns);
        return;
    }
    client->endpoints->at[client->endpoints->active]->given_up = false;
    nc_endpoints_limit(client, deadline_ns);
}

void nc_connection_begin(nearcall_client *client, int64_t deadline_ns)
{
    struct nc_connection *connection = &client->connection;
    limit(client, deadline_ns);
    connection->candidate = 0;
    connection->backlog_tries = 0;
    connection->welcome_patience_ns = NC_WELCOME_TIMEOUT_MS * NC_NS_PER_MS;
    connection->state = NC_CONNECTING;
    if (connection->in.capacity < INPUT_CAPACITY &&
        nc_buffer_reserve(&connection->in, INPUT_CAPACITY) < 0) {
        connect_failed(client, ENOMEM);
        return;
    }
    try_candidates(client, ECONNREFUSED);
}

void nc_connection_start(nearcall_client *client, int64_t deadline_ns)
{
    client->now_ns = nc_now_ns();
    client->nobody_listens = false;
    if (client->endpoints)
        nc_endpoints_start(client, deadline_ns);
    else
        nc_connection_begin(client, deadline_ns);
}

static void finish_connect(nearcall_client *client)
{
    struct nc_connection *connection = &client->connection;
    int error = 0;
    socklen_t bytes = sizeof(error);
    if (getsockopt(connection->fd, SOL_SOCKET, SO_ERROR, &error, &bytes) != 0)
        error = errno;
    if (error == 0) {
        connected(client);
        return;
    }
    nc_connection_close_socket(client);
    connection->candidate++;
    try_candidates(client, error);
}

/* Whoever has this connection, or nobody yet, may be a process that was stopped, while another one
 * that serves the address would answer. A server that is merely slow is given twice as long each time. */
static void connect_anew(nearcall_client *client)
{
    struct nc_connection *connection = &client->connection;
    nc_log(client, NEARCALL_LOG_INFO, "%s did not send its welcome yet; connecting anew", client->address_text);
    nc_connection_close_socket(client);
    connection->in.start = connection->in.end = 0;
    connection->candidate = 0;
    try_candidates(client, ECONNREFUSED);
}

static void secure_anew(nearcall_client *client)
{
    client->connection.welcome_patience_ns *= 2; /* as it grows with each hello */
    connect_anew(client);
}

/* What was sealed of it. */
static void send_rest_of_hello(nearcall_client *client)
{
    int error = client->connection.tls ? nc_send_sealed(client) : 0;
    if (error)
        nc_welcome_receive(client);
    if (error && client->connection.state == NC_HELLO)
        connect_failed(client, error);
}

/* ---- Progress ---- */

static void check_connect_deadline(nearcall_client *client)
{
    struct nc_loss loss = {-NEARCALL_E_DEADLINE_EXCEEDED, false, NC_ENDED_HERE};
    static const char *const stages[] = {
        [NC_BACKLOG_FULL] = "its queue of connections was full",
        [NC_CONNECTING] = "it did not answer",
        [NC_SECURING] = "it did not go on with the handshake of TLS",
        [NC_HELLO] = "it did not send its welcome",
    };
    if (client->now_ns < client->connection.connect_deadline_ns)
        return;
    if (client->endpoints) { /* calls that wait have deadlines of their own */
        client->endpoints->was_silent = true;
        loss = (struct nc_loss){-NEARCALL_E_UNAVAILABLE, true, NC_ENDED_HERE};
    }
    nc_connection_lost(client, &loss, "no connection to %s in time: %s", client->address_text,
                       stages[client->connection.state]);
}

static bool share_is_over(const nearcall_client *client)
{
    const struct nc_endpoints *endpoints = client->endpoints;
    return endpoints && !endpoints->is_beside && client->now_ns >= endpoints->share_until_ns;
}

void nc_connection_advance(nearcall_client *client, int events)
{
    struct nc_connection *connection = &client->connection;
    if (nc_forked_inside(client) || !nc_connection_is_ours(client))
        return;
    switch (connection->state) {
    case NC_CLOSED:
        return;
    case NC_READY:
        if ((events & POLLOUT || nc_may_send_again(client)) && nc_output_waits(connection))
            nc_flush(client);
        if (connection->state == NC_READY && events & (POLLIN | POLLHUP | POLLERR))
            (void)nc_receive(client, MSG_DONTWAIT);
        nc_output_lose_stuck(client);
        return;
    case NC_BACKLOG_FULL:
        if (client->now_ns >= connection->retry_ns)
            try_candidates(client, EAGAIN);
        break;
    case NC_CONNECTING:
        if (events & (POLLOUT | POLLHUP | POLLERR))
            finish_connect(client);
        break;
    case NC_SECURING:
        if (events & (POLLIN | POLLOUT | POLLHUP | POLLERR))
            say_hello(client, nc_secure_advance(client));
        else if (client->now_ns >= connection->welcome_limit_ns)
            secure_anew(client);
        break;
    case NC_HELLO:
        if (events & POLLOUT)
            send_rest_of_hello(client);
        if (connection->state != NC_HELLO)
            return;
        if (events & (POLLIN | POLLHUP | POLLERR))
            nc_welcome_receive(client);
        else if (client->now_ns >= connection->welcome_limit_ns)
            connect_anew(client);
        break;
    }
    if (connection->state != NC_READY && connection->state != NC_CLOSED)
        check_connect_deadline(client);
    if (connection->state != NC_READY && connection->state != NC_CLOSED && share_is_over(client))
        nc_endpoints_give_up(client);
}
