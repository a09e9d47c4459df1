/* Reading from the socket, and taking the input apart into frames. */
#include "receive/receive.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>

#include "calls/calls.h"
#include "connection/connection.h"
#include "connection/stores.h"
#include "memory/memory.h"
#include "receive/frames.h"
#include "transport/files.h"

#define INPUT_ROOM 4096
/* What is found out about a connection that has been in use since then is no news. */
#define RESTED_NS NC_NS_PER_MS
/* As many pings as a server sends while a handle rests, or the last words of one that stops. */
#define LOOKS_FIRST_MAX 8

/* ---- Taking the input apart ---- */

static void consume(struct nc_connection *connection, size_t bytes)
{
    connection->taken += bytes;
    nc_buffer_consume(&connection->in, bytes);
}

/* Those of a frame whose rest is dropped; misplaced ones are found when somebody looks next. */
static void skip_descriptors(struct nc_connection *connection, const struct nc_frame *frame)
{
    struct nc_fault fault;
    (void)nc_take_descriptors(connection, frame, &fault);
    nc_descriptors_drop(&connection->descriptors);
}

/* The rest of an answer that nobody waits for is dropped as it arrives. */
static void skip_if_given_up(nearcall_client *client, const struct nc_frame *frame, size_t arrived)
{
    struct nc_connection *connection = &client->connection;
    if ((frame->type != NC_REPLY && frame->type != NC_ERROR) || frame->call_id == 0 ||
        frame->call_id > connection->last_id || frame->call_id < connection->first_id)
        return;
    struct nc_call *call = nc_call_by_id(client, frame->call_id);
    if (call && nc_call_is_on_connection(call))
        return;
    nc_answer_came(connection, frame);
    connection->skip_bytes = NC_FRAME_HEADER_BYTES + (size_t)frame->length - arrived;
    skip_descriptors(connection, frame);
    consume(connection, arrived);
}

/* A store is given back even if nobody waits for what lies there. */
static bool may_name_store(const nearcall_client *client, const struct nc_frame *frame)
{
    return frame->extension_bytes && nc_stores_are_agreed(client);
}

/* True when a whole frame was handled and another may follow. */
static bool dispatch_one(nearcall_client *client)
{
    struct nc_buffer *in = &client->connection.in;
    size_t arrived = nc_buffer_bytes(in);
    struct nc_frame frame;
    struct nc_fault fault;
    if (arrived < NC_FRAME_HEADER_BYTES)
        return false;
    nc_frame_decode(&frame, in->data + in->start);
    if (!nc_frame_is_plain_reply(&frame, client->options.frame_bytes_max) &&
        nc_frame_check(&frame, NC_FROM_SERVER, client->connection.welcome.features,
                       client->options.frame_bytes_max, &fault) < 0) {
        nc_protocol_error(client, &frame, &fault);
        return false;
    }
    if (arrived - NC_FRAME_HEADER_BYTES < frame.length) {
        if (!may_name_store(client, &frame))
            skip_if_given_up(client, &frame, arrived);
        return false;
    }
    const uint8_t *body = in->data + in->start + NC_FRAME_HEADER_BYTES;
    if (nc_take_descriptors(&client->connection, &frame, &fault) < 0 ||
        nc_handle_frame(client, &frame, body, &fault) < 0) {
        nc_protocol_error(client, &frame, &fault);
        return false;
    }
    nc_descriptors_drop(&client->connection.descriptors);
    if (client->connection.state != NC_READY)
        return false;
    consume(&client->connection, NC_FRAME_HEADER_BYTES + (size_t)frame.length);
    return true;
}

void nc_dispatch(nearcall_client *client)
{
    struct nc_connection *connection = &client->connection;
    while (dispatch_one(client))
        ;
    if (connection->draining && nc_connection_is_over(client))
        nc_connection_close(client);
}

/* ---- Reading ---- */

/* Bytes still missing of the frame at the input's start; 0 when it is not known. */
static size_t missing_bytes(const struct nc_buffer *in)
{
    size_t arrived = nc_buffer_bytes(in);
    if (arrived < NC_FRAME_HEADER_BYTES)
        return 0;
    size_t total = NC_FRAME_HEADER_BYTES + (size_t)nc_get_u32(in->data + in->start);
    return total > arrived ? total - arrived : 0;
}

/* Room grows with what has arrived, never with what was only announced. */
static int make_room(struct nc_buffer *in)
{
    size_t arrived = nc_buffer_bytes(in);
    size_t missing = missing_bytes(in);
    size_t wanted = arrived > INPUT_ROOM ? arrived : INPUT_ROOM;
    if (arrived == 0)
        in->start = in->end = 0;
    if (missing && missing < wanted)
        wanted = missing;
    return nc_buffer_reserve(in, wanted);
}

/* The rest is dropped as it comes. */
static void drop_for_want_of_memory(nearcall_client *client)
{
    struct nc_connection *connection = &client->connection;
    struct nc_buffer *in = &connection->in;
    struct nc_frame frame;
    nc_frame_decode(&frame, in->data + in->start);
    nc_lose_answer(client, &frame);
    connection->skip_bytes = missing_bytes(in);
    skip_descriptors(connection, &frame);
    consume(connection, nc_buffer_bytes(in));
}

static void skip(struct nc_connection *connection)
{
    size_t bytes = nc_buffer_bytes(&connection->in);
    if (bytes > connection->skip_bytes)
        bytes = connection->skip_bytes;
    connection->skip_bytes -= bytes;
    consume(connection, bytes);
}

void nc_input_trim(struct nc_connection *connection)
{
    struct nc_buffer *in = &connection->in;
    if (in->capacity > NC_BUFFER_KEEP_BYTES &&
        missing_bytes(in) + in->end <= NC_BUFFER_KEEP_BYTES)
        nc_buffer_trim(in);
}

static enum nc_end end_of(int error)
{
    if (error == 0)
        return NC_CLOSED_BY_SERVER;
    return error == ECONNRESET ? NC_RESET_BY_SERVER : NC_ENDED_HERE;
}

static void receiving_failed(nearcall_client *client, int error)
{
    struct nc_loss loss = {-NEARCALL_E_UNAVAILABLE, true, end_of(error)};
    nc_drain_memory(client);
    if (client->connection.state != NC_READY)
        return;
    if (error) {
        const char *what = nc_connection_what_failed(client, error, &loss);
        nc_connection_lost(client, &loss, "the connection to %s was lost: %s", client->address_text, what);
    } else {
        nc_connection_lost(client, &loss, "%s closed the connection", client->address_text);
    }
}

static void refuse_descriptors(nearcall_client *client)
{
    const struct nc_fault fault = {-NEARCALL_E_INVALID_ARGUMENT, "server's", "descriptors", 1,
                                   "0, as they were not agreed to"};
    nc_protocol_error(client, NULL, &fault);
}

static int read_socket(nearcall_client *client, int flags)
{
    struct nc_connection *connection = &client->connection;
    struct nc_buffer *in = &connection->in;
    if (connection->state != NC_READY || !nc_connection_is_ours(client))
        return NC_NOTHING;
    if (make_room(in) < 0) {
        drop_for_want_of_memory(client);
        return NC_RECEIVED;
    }
    if (nc_forked_inside(client)) /* asked last: a handler may fork at any system call */
        return NC_NOTHING; /* what comes is the parent's */
    bool descriptors;
    ssize_t received = nc_receive_bytes(client, flags, &descriptors);
    if (received <= 0) {
        int error = received < 0 ? errno : 0;
        if (error == EINTR)
            return NEARCALL_E_INTERRUPTED;
        if (error != EAGAIN)
            receiving_failed(client, error);
        return NC_NOTHING;
    }
    if (descriptors) {
        refuse_descriptors(client);
        return NC_NOTHING;
    }
    in->end += (size_t)received;
    connection->received += (uint64_t)received;
    connection->looked_ns = client->now_ns;
    if (connection->skip_bytes)
        skip(connection);
    nc_input_trim(connection);
    nc_dispatch(client);
    if (nc_descriptors_are_misplaced(connection))
        refuse_descriptors(client);
    return NC_RECEIVED;
}

int nc_receive(nearcall_client *client, int flags)
{
    const struct nc_memory *memory = &client->connection.memory;
    if (nc_forked_inside(client))
        return NC_NOTHING; /* what comes is the parent's */
    nc_keep_waiting_result(client);
    if (nc_memory_is_used(memory) && nc_receive_memory(client) == NC_RECEIVED)
        return NC_RECEIVED;
    return read_socket(client, flags);
}

int nc_receive_socket(nearcall_client *client, int flags)
{
    if (nc_forked_inside(client))
        return NC_NOTHING;
    nc_keep_waiting_result(client);
    return read_socket(client, flags);
}

void nc_look_first(nearcall_client *client)
{
    const struct nc_connection *connection = &client->connection;
    if (connection->state != NC_READY || client->now_ns - connection->looked_ns < RESTED_NS ||
        nc_calls_on_connection(client) > 0)
        return;
    for (int i = 0; i < LOOKS_FIRST_MAX && nc_receive_socket(client, MSG_DONTWAIT) == NC_RECEIVED; i++)
        ;
}
