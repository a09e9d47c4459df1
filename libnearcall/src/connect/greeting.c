/* The hello that begins a connection, and the welcome that answers it. */
#include "connect/greeting.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/rights.h"
#include "connection/connection.h"
#include "connection/endpoint.h"
#include "connection/stores.h"
#include "memory/memory.h"
#include "receive/receive.h"
#include "send/send.h"
#include "wire/wire.h"

/* ---- The hello ---- */

static uint64_t features_offered(const nearcall_client *client)
{
    bool local = client->connection.transport->is_local;
    bool memory = local && !client->address.shared_memory_off &&
                  !(client->options.flags & NEARCALL_NO_SHARED_MEMORY) && nc_memory_is_possible();
    return NC_FEATURE_DESCRIPTIONS | NC_FEATURE_PACKED_LISTS | NC_FEATURE_ASKS |
           (memory ? NC_FEATURE_SHARED_MEMORY : 0) |
           (memory && client->options.value_bytes_max ? NC_FEATURE_STORES : 0) |
           (local ? NC_FEATURE_SHARED_CLOCK | NC_FEATURE_DESCRIPTORS : 0);
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
    if (hello.features_offered & NC_FEATURE_STORES) {
        uint8_t most[NC_VALUE_BYTES_MAX_BYTES];
        nc_put_u64(most, client->options.value_bytes_max);
        extension_bytes += nc_extension_encode(out + NC_HELLO_HEADER_BYTES + extension_bytes,
                                               NC_EXTENSION_VALUE_BYTES_MAX, most, sizeof(most));
    }
    nc_hello_encode(out, &hello, extension_bytes);
    return NC_HELLO_HEADER_BYTES + extension_bytes;
}

static void await_welcome(struct nc_connection *connection)
{
    connection->welcome_limit_ns = connection->hello_ns + connection->welcome_patience_ns;
    connection->welcome_patience_ns *= 2;
}

/* What the kernel does not take of it at once goes when it does. */
static ssize_t send_sealed(nearcall_client *client, void *hello, size_t bytes)
{
    struct iovec part = {hello, bytes};
    ssize_t sealed = nc_tls_seal(client->connection.tls, &part, 1, 0);
    int error = sealed < 0 ? errno : nc_send_sealed(client);
    errno = error;
    return error ? -1 : sealed;
}

/* A fresh socket takes a whole hello; one that does not is not worth waiting for. */
int nc_hello_send(nearcall_client *client)
{
    uint8_t hello[NC_HELLO_HEADER_BYTES + 2 * NC_EXTENSION_HEADER_BYTES + NC_SOFTWARE_NAME_BYTES_MAX +
                  NC_VALUE_BYTES_MAX_BYTES];
    size_t bytes = encode_hello(client, hello);
    if (nc_forked_inside(client))
        return 0; /* the socket is the parent's */
    ssize_t sent = client->connection.tls
                       ? send_sealed(client, hello, bytes)
                       : send(client->connection.fd, hello, bytes, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent != (ssize_t)bytes)
        return sent < 0 ? errno : EAGAIN;
    client->connection.state = NC_HELLO;
    await_welcome(&client->connection);
    return 0;
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
    connection->looked_ns = client->now_ns;
    nc_log(client, NEARCALL_LOG_INFO, "connected to %s, process %u", client->address_text,
           connection->welcome.process_id);
    nc_silence_begin(client);
    if (client->endpoints)
        nc_endpoint_welcomed(client);
    bool is_beside = client->endpoints && client->endpoints->is_beside;
    if (!is_beside)
        client->connects = false;
    set_mode(client);
    nc_stores_agree(client);
    nc_agree_on_descriptors(client);
    nc_dispatch(client);
    if (!is_beside)
        nc_send_pending(client);
}

static ssize_t receive(nearcall_client *client)
{
    struct nc_connection *connection = &client->connection;
    const struct nc_buffer *in = &connection->in;
    if (connection->tls)
        return nc_receive_sealed(client, in->data + in->end, in->capacity - in->end, MSG_DONTWAIT);
    return nc_rights_receive(connection->fd, in->data + in->end, in->capacity - in->end, MSG_DONTWAIT);
}

void nc_welcome_receive(nearcall_client *client)
{
    struct nc_connection *connection = &client->connection;
    struct nc_buffer *in = &connection->in;
    struct nc_loss loss = {-NEARCALL_E_UNAVAILABLE, true, NC_ENDED_HERE};
    ssize_t received = receive(client);
    if (received > 0) {
        in->end += (size_t)received;
        read_welcome(client);
    } else if (received == 0) {
        nc_connection_lost(client, &loss, "%s closed the connection before it welcomed it",
                           client->address_text);
    } else if (errno != EAGAIN && errno != EINTR) {
        const char *what = nc_connection_what_failed(client, errno, &loss);
        nc_connection_lost(client, &loss, "the connection to %s was lost before the welcome: %s",
                           client->address_text, what);
    }
}
