/* Sending through shared memory. What does not fit there goes over the socket. */
#include <sys/socket.h>

#include "base/limits_gen.h"
#include "connection/connection.h"
#include "connection/output.h"
#include "memory/arena.h"
#include "memory/memory.h"
#include "memory/shared_copy.h"
#include "memory/spin.h"
#include "receive/receive.h"
#include "send/frames.h"
#include "wire/wire.h"

/* A server that sleeps is woken by the frame itself, on the socket. From here on
 * copying the body twice through the kernel costs more than the WAKE that lets the
 * server find it in the ring. */
#define WORTH_A_WAKE_BYTES 16384

/* Output that waits for room in the socket wakes the server as well. */
static void send_wake(nearcall_client *client)
{
    uint8_t bytes[NC_FRAME_HEADER_BYTES];
    struct nc_frame frame = {.type = NC_WAKE};
    struct iovec part = {bytes, sizeof(bytes)};
    if (nc_output_bytes(&client->connection))
        return;
    nc_frame_encode(bytes, &frame);
    ssize_t sent = nc_send_now(client, &part, 1);
    if (sent >= 0 && (size_t)sent < sizeof(bytes) &&
        !nc_output_append(client, bytes + sent, sizeof(bytes) - (size_t)sent))
        nc_output_lost(client);
}

static void publish(nearcall_client *client)
{
    if (nc_memory_publish(&client->connection.memory))
        send_wake(client);
    if (client->calls.used_count > 1) /* after the fence: it would hold up the frame */
        nc_memory_expect(&client->connection.memory);
}

/* What was sent before the end hides it. A server that sends more than this does not end. */
#define READS_TO_THE_END_MAX 16

static void read_to_the_end(nearcall_client *client)
{
    for (int i = 0; i < READS_TO_THE_END_MAX; i++)
        if (nc_receive_socket(client, MSG_DONTWAIT) != NC_RECEIVED)
            return;
}

/* A side that stays awake would not notice that the connection has ended, so it looks
 * at the socket now and then; best before it gives away a request. */
static bool look_at_socket(nearcall_client *client)
{
    struct nc_connection *connection = &client->connection;
    if (client->now_ns - connection->looked_ns < NC_SOCKET_LOOK_US * 1000LL)
        return true;
    read_to_the_end(client);
    nc_input_trim(connection); /* small calls may never again come by the socket */
    connection->looked_ns = client->now_ns;
    if (!nc_connection_usable(client) || !nc_memory_is_used(&connection->memory))
        return false;
    if (!nc_forked(&client->guard))
        nc_spinning_publish_cpu(&connection->memory);
    return true;
}

/* False in a child. */
static bool fill(nearcall_client *client, struct nc_call *call, uint8_t *header, uint8_t *body,
                 size_t extension_bytes)
{
    nc_encode_head(client, call, header, body);
    if (call->payload_bytes == 0 || body + extension_bytes == call->payload)
        return true;
    (void)nc_shared_copy(&client->connection.memory, &client->guard, body + extension_bytes,
                         call->payload, call->payload_bytes);
    return call->payload_bytes < NC_SHIELDED_BYTES_MIN || !nc_forked_inside(client);
}

/* From these the server tells what its sleep has cost, and whether both share a CPU. */
static void tell_sleeper(nearcall_client *client)
{
    struct nc_memory *memory = &client->connection.memory;
    if (nc_forked(&client->guard))
        return;
    atomic_store_explicit(memory->caller_sent, (uint64_t)client->now_ns, memory_order_relaxed);
    nc_spinning_publish_cpu(memory);
}

/* One that was never awake may not look at its ring yet. */
static bool is_worth_a_wake(const struct nc_memory *memory, const struct nc_call *call)
{
    return call->payload_bytes >= WORTH_A_WAKE_BYTES && nc_memory_peer_was_awake(memory);
}

bool nc_send_by_memory(nearcall_client *client, struct nc_call *call)
{
    struct nc_memory *memory = &client->connection.memory;
    uint8_t *header, *body;
    if (nc_memory_peer_sleeps(memory)) {
        tell_sleeper(client);
        if (!is_worth_a_wake(memory, call))
            return false;
    }
    if (call->files)
        return false;
    if (!look_at_socket(client))
        return !nc_connection_usable(client); /* pending, for another connection */
    if (nc_forked_inside(client))
        return true; /* the child's copy of the call has ended */
    /* Only now: what came over the socket may have told the function's number. */
    size_t extension_bytes = nc_extension_bytes(client, call);
    size_t bytes = extension_bytes + call->payload_bytes;
    bool in_place = extension_bytes == 0 && nc_arena_is_open_at(&memory->arena, call->payload);
    if (!nc_memory_begin(memory, bytes, in_place ? call->payload : NULL, &header, &body))
        return false;
    if (nc_forked_inside(client) || !fill(client, call, header, body, extension_bytes))
        return true;
    call->by_memory = true;
    nc_mark_as_sent(client, call);
    publish(client);
    return true;
}

/* A CANCEL goes the way its request went: overtaking that it would be for nobody. */
bool nc_cancel_by_memory(nearcall_client *client, const struct nc_call *call)
{
    struct nc_memory *memory = &client->connection.memory;
    struct nc_frame frame = {.type = NC_CANCEL, .call_id = call->id};
    uint8_t *header, *body;
    if (nc_forked_inside(client))
        return true; /* the call is the parent's */
    if (nc_memory_peer_sleeps(memory) || !nc_memory_begin(memory, 0, NULL, &header, &body))
        return false;
    nc_frame_encode(header, &frame);
    publish(client);
    return true;
}
