#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "client.h"
#include "rights.h"

#define INPUT_CAPACITY 16384
#define BACKLOG_TRIES_OF_LONGEST_PAUSE 5

/* ---- The end of a connection ---- */

static void reset(struct nc_connection *connection)
{
    connection->state = NC_CLOSED;
    connection->fd = -1;
    connection->in.start = connection->in.end = 0;
    connection->taken = 0;
    connection->skip_bytes = 0;
    connection->has_files = connection->refused = false;
    connection->out.start = connection->out.end = 0;
    connection->borrowed = NULL;
    connection->borrowed_bytes = 0;
    connection->written = connection->forsaken_end = 0;
    connection->first_id = connection->last_id = 0;
    connection->first_ping_id = connection->last_ping_id = 0;
    connection->unanswered = 0;
    connection->pong_waits = false;
    connection->draining = connection->reading_left = false;
    connection->receive_timeout_ns = 0;
    connection->memory_came = false;
    connection->spins = false;
}

/* Never closes what is somebody else's by now. */
static void close_socket(nearcall_client *client)
{
    struct nc_connection *connection = &client->connection;
    nc_watch_forget(client);
    if (nc_connection_has_its_socket(connection)) {
        if (client->address.kind != NC_ADDRESS_TCP)
            nc_rights_drain(connection->fd);
        close(connection->fd);
    }
    connection->fd = -1;
}

/* The input's memory stays: a reply the user is about to read may lie in it. */
void nc_connection_close(nearcall_client *client)
{
    struct nc_connection *connection = &client->connection;
    close_socket(client);
    nc_descriptors_close(&connection->descriptors);
    if (nc_memory_is_used(&connection->memory)) {
        (void)nc_request_own(client); /* it says itself what it lost */
        nc_memory_close(&connection->memory);
    }
    reset(connection);
    nc_buffer_trim(&connection->out);
}

void nc_connection_lost(nearcall_client *client, const struct nc_loss *loss, const char *format, ...)
{
    bool before_welcome = client->connection.state != NC_READY;
    va_list arguments;
    nc_calls_keep_what(client);
    va_start(arguments, format);
    vsnprintf(client->lost_text, sizeof(client->lost_text), format, arguments);
    va_end(arguments);
    client->lost_code = loss->code;
    client->connect_code = before_welcome ? loss->code : 0;
    client->lost_outcome = before_welcome ? NEARCALL_OUTCOME_NOT_EXECUTED : NEARCALL_OUTCOME_UNKNOWN;
    nc_calls_lose(client, loss, before_welcome);
    nc_connection_close(client);
}

/* The child's side of a fork: nothing is sent, nothing is shut down, and the
 * descriptor is closed only if its number still means the same socket. */
void nc_connection_orphan(nearcall_client *client, bool trust_memory)
{
    struct nc_connection *connection = &client->connection;
    if (nc_connection_has_its_socket(connection))
        close(connection->fd);
    nc_memory_orphan(&connection->memory, trust_memory);
    if (trust_memory)
        nc_descriptors_close(&connection->descriptors);
    connection->descriptors.waiting = connection->descriptors.frame.count = 0;
    if (!trust_memory) {
        memset(&connection->in, 0, sizeof(connection->in));
        memset(&connection->out, 0, sizeof(connection->out));
    }
    reset(connection);
}

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

static uint64_t features_offered(const nearcall_client *client)
{
    bool memory = client->address.kind != NC_ADDRESS_TCP && !client->address.shared_memory_off &&
                  !(client->options.flags & NEARCALL_NO_SHARED_MEMORY) && nc_memory_is_possible();
    bool local = client->address.kind != NC_ADDRESS_TCP;
    return NC_FEATURE_SHARED_CLOCK | NC_FEATURE_DESCRIPTIONS | (memory ? NC_FEATURE_SHARED_MEMORY : 0) |
           (local ? NC_FEATURE_DESCRIPTORS : 0);
}

static size_t encode_hello(nearcall_client *client, uint8_t *out)
{
    client->connection.hello_ns = nc_now_ns();
    struct nc_hello hello = {
        .version_lowest = NC_PROTOCOL_VERSION,
        .version_highest = NC_PROTOCOL_VERSION,
        .features_offered = features_offered(client),
        .process_id = (uint32_t)getpid(),
        .frame_bytes_max = client->options.frame_bytes_max,
        .clock_ns = (uint64_t)client->connection.hello_ns,
    };
    size_t extension_bytes =
        nc_extension_encode(out + NC_HELLO_HEADER_BYTES, NC_EXTENSION_SOFTWARE,
                            client->options.name, (uint16_t)strlen(client->options.name));
    nc_hello_encode(out, &hello, extension_bytes);
    return NC_HELLO_HEADER_BYTES + extension_bytes;
}

/* A fresh socket takes a whole hello; one that does not is not worth waiting for. */
static void send_hello(nearcall_client *client)
{
    uint8_t hello[NC_HELLO_HEADER_BYTES + NC_EXTENSION_HEADER_BYTES + NC_SOFTWARE_NAME_BYTES_MAX];
    size_t bytes = encode_hello(client, hello);
    if (nc_forked_inside(client))
        return; /* the socket is the parent's */
    ssize_t sent = send(client->connection.fd, hello, bytes, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent == (ssize_t)bytes)
        client->connection.state = NC_HELLO;
    else
        connect_failed(client, sent < 0 ? errno : EAGAIN);
}

static void connected(nearcall_client *client)
{
    if (check_server_user(client))
        send_hello(client);
}

/* Remembers which socket the number means; see nc_connection_orphan(). */
static bool adopt(nearcall_client *client, int fd)
{
    struct stat status;
    if (fstat(fd, &status) != 0) {
        int error = errno;
        close(fd);
        connect_failed(client, error);
        return false;
    }
    client->connection.fd = fd;
    client->connection.device = status.st_dev;
    client->connection.inode = status.st_ino;
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
        nc_now_ns() + nc_random_pause_ns(client, connection->backlog_tries);
}

/* Goes through the address's candidates until one takes up the connection. */
static void try_candidates(nearcall_client *client, int error)
{
    struct nc_connection *connection = &client->connection;
    for (;; connection->candidate++) {
        int fd = -1;
        int r = connection->transport->connect(&client->address, connection->candidate, &fd);
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
            if (adopt(client, fd) && r == 0)
                connected(client);
            return;
        }
        error = r;
    }
}

static void limit_connecting(nearcall_client *client)
{
    int64_t connect_timeout_ms = client->options.connect_timeout_ms;
    client->connection.connect_limit_ns =
        connect_timeout_ms > 0 ? nc_after_ms(client->now_ns, connect_timeout_ms) : NC_NEVER;
}

static void wait_until(struct nc_connection *connection, int64_t deadline_ns)
{
    connection->connect_deadline_ns = nc_earlier(deadline_ns, connection->connect_limit_ns);
}

/* A further call will wait for the connection that is being made. Who began that may
 * have had less time, or have given up. */
void nc_connection_expect(nearcall_client *client, int64_t deadline_ns)
{
    struct nc_connection *connection = &client->connection;
    if (connection->state == NC_CLOSED || connection->state == NC_READY)
        return;
    if (!nc_calls_wait_for_connection(client))
        limit_connecting(client);
    if (deadline_ns > connection->connect_deadline_ns)
        wait_until(connection, deadline_ns);
}

void nc_connection_start(nearcall_client *client, int64_t deadline_ns)
{
    struct nc_connection *connection = &client->connection;
    int64_t pending_ns = nc_calls_pending_deadline_ns(client);
    client->now_ns = nc_now_ns();
    limit_connecting(client);
    wait_until(connection, pending_ns > deadline_ns ? pending_ns : deadline_ns);
    connection->candidate = 0;
    connection->backlog_tries = 0;
    connection->state = NC_CONNECTING;
    if (connection->in.capacity < INPUT_CAPACITY &&
        nc_buffer_reserve(&connection->in, INPUT_CAPACITY) < 0) {
        connect_failed(client, ENOMEM);
        return;
    }
    try_candidates(client, ECONNREFUSED);
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
    close_socket(client);
    connection->candidate++;
    try_candidates(client, error);
}

/* ---- The welcome ---- */

static const char *reason_of_refusal(const nearcall_client *client, int *ret_bytes)
{
    const struct nc_connection *connection = &client->connection;
    const uint8_t *extensions = connection->in.data + NC_HELLO_HEADER_BYTES;
    size_t bytes = connection->welcome.total_bytes - NC_HELLO_HEADER_BYTES;
    size_t offset = 0;
    struct nc_extension extension;
    while (nc_extension_next(extensions, bytes, &offset, &extension))
        if (extension.type == NC_EXTENSION_REFUSAL) {
            *ret_bytes = extension.bytes;
            return (const char *)extension.data;
        }
    static const char none[] = "without a reason";
    *ret_bytes = (int)sizeof(none) - 1;
    return none;
}

static void welcome_refuses(nearcall_client *client)
{
    int code = client->connection.welcome.status;
    if (code > -NEARCALL_E_UNAUTHENTICATED)
        code = -NEARCALL_E_UNKNOWN;
    struct nc_loss loss = {code, code == -NEARCALL_E_UNAVAILABLE, NC_ENDED_HERE};
    int bytes;
    const char *reason = reason_of_refusal(client, &bytes);
    nc_connection_lost(client, &loss, "the server at %s refuses the connection: %.*s",
                       client->address_text, bytes, reason);
}

static void welcome_is_wrong(nearcall_client *client, const struct nc_fault *fault)
{
    struct nc_loss loss = {-NEARCALL_E_INTERNAL, false, NC_ENDED_HERE};
    nc_connection_lost(client, &loss, "%s answered with a wrong %s: %s is %llu (0x%llx), "
                       "allowed: %s",
                       client->address_text, fault->subject, fault->field,
                       (unsigned long long)fault->value, (unsigned long long)fault->value,
                       fault->allowed);
}

/* Blocking mode lets a reply be awaited by one recv() with SO_RCVTIMEO. */
static void set_mode(nearcall_client *client)
{
    struct nc_connection *connection = &client->connection;
    connection->non_blocking = client->options.flags & NEARCALL_NONBLOCKING;
    if (!connection->non_blocking && fcntl(connection->fd, F_SETFL, 0) != 0)
        connection->non_blocking = true;
}

static void read_welcome(nearcall_client *client)
{
    struct nc_connection *connection = &client->connection;
    uint64_t former_hash = connection->welcome.schema_hash;
    struct nc_fault fault;
    int r = nc_welcome_decode(&connection->welcome, connection->in.data,
                              connection->in.end, features_offered(client), &fault);
    if (r <= 0 || connection->welcome.version == 0) {
        bool refused = r > 0;
        if (r < 0)
            welcome_is_wrong(client, &fault);
        else if (refused)
            welcome_refuses(client);
        connection->welcome.schema_hash = former_hash;
        return;
    }
    nc_buffer_consume(&connection->in, connection->welcome.total_bytes);
    connection->clock_ahead_ns =
        nc_clock_ahead_ns(connection->welcome.clock_ns, connection->hello_ns, nc_now_ns());
    connection->state = NC_READY;
    client->connects = false;
    set_mode(client);
    nc_agree_on_descriptors(client);
    nc_dispatch(client);
    nc_send_pending(client);
}

static void receive_welcome(nearcall_client *client)
{
    struct nc_connection *connection = &client->connection;
    struct nc_buffer *in = &connection->in;
    struct nc_loss loss = {-NEARCALL_E_UNAVAILABLE, true, NC_ENDED_HERE};
    ssize_t received = nc_rights_receive(connection->fd, in->data + in->end,
                                         in->capacity - in->end, MSG_DONTWAIT);
    if (received > 0) {
        in->end += (size_t)received;
        read_welcome(client);
    } else if (received == 0) {
        nc_connection_lost(client, &loss, "%s closed the connection before it welcomed it",
                           client->address_text);
    } else if (errno != EAGAIN && errno != EINTR) {
        nc_connection_lost(client, &loss, "the connection to %s was lost before the welcome: %s",
                           client->address_text, strerror(errno));
    }
}

/* ---- Progress ---- */

bool nc_connection_is_over(const nearcall_client *client)
{
    return client->connection.state == NC_READY && client->connection.draining &&
           nc_calls_on_connection(client) == 0;
}

static void check_connect_deadline(nearcall_client *client)
{
    struct nc_loss loss = {-NEARCALL_E_DEADLINE_EXCEEDED, false, NC_ENDED_HERE};
    static const char *const stages[] = {
        [NC_BACKLOG_FULL] = "its queue of connections was full",
        [NC_CONNECTING] = "it did not answer",
        [NC_HELLO] = "it did not send its welcome",
    };
    if (client->now_ns >= client->connection.connect_deadline_ns)
        nc_connection_lost(client, &loss, "no connection to %s in time: %s", client->address_text,
                           stages[client->connection.state]);
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
        if ((events & POLLOUT || nc_may_send_again(client)) && nc_output_bytes(connection))
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
    case NC_HELLO:
        if (events & (POLLIN | POLLHUP | POLLERR))
            receive_welcome(client);
        break;
    }
    if (connection->state != NC_READY && connection->state != NC_CLOSED)
        check_connect_deadline(client);
}

short nc_connection_events(const nearcall_client *client)
{
    const struct nc_connection *connection = &client->connection;
    switch (connection->state) {
    case NC_CONNECTING:
        return POLLOUT;
    case NC_HELLO:
        return POLLIN;
    case NC_READY:
        return (short)(nc_output_bytes(connection) && !connection->refused ? POLLIN | POLLOUT
                                                                           : POLLIN);
    default:
        return 0;
    }
}

int64_t nc_connection_timer_ns(const nearcall_client *client)
{
    const struct nc_connection *connection = &client->connection;
    switch (connection->state) {
    case NC_BACKLOG_FULL:
        return nc_earlier(connection->retry_ns, connection->connect_deadline_ns);
    case NC_CONNECTING:
    case NC_HELLO:
        return connection->connect_deadline_ns;
    case NC_READY:
        return nc_earlier(connection->refused ? connection->retry_ns : NC_NEVER,
                          nc_output_stuck_ns(connection));
    default:
        return NC_NEVER;
    }
}
