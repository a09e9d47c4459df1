#include "connection/output.h"

#include <string.h>

#include "base/base.h"
#include "calls/calls.h"
#include "connection/connection.h"
#include "wire/wire.h"

/* ---- Bytes ---- */

int nc_output_own(nearcall_client *client)
{
    struct nc_connection *connection = &client->connection;
    int r = nc_buffer_append(&connection->out, connection->borrowed, connection->borrowed_bytes);
    if (r < 0)
        return r;
    connection->borrowed = NULL;
    connection->borrowed_bytes = 0;
    return NEARCALL_OK;
}

bool nc_output_append(nearcall_client *client, const void *data, size_t bytes)
{
    struct nc_connection *connection = &client->connection;
    if (connection->borrowed_bytes && nc_output_own(client) < 0)
        return false;
    return nc_buffer_append(&connection->out, data, bytes) == NEARCALL_OK;
}

/* One pong at a time is in the output, and one waits for its end: a server that pings
 * and does not read makes nothing grow. */
static void queue_pong(nearcall_client *client)
{
    struct nc_connection *connection = &client->connection;
    uint8_t bytes[NC_FRAME_HEADER_BYTES + NC_PING_BYTES_MAX];
    struct nc_frame frame = {.type = NC_PONG, .length = connection->pong_bytes};
    nc_frame_encode(bytes, &frame);
    memcpy(bytes + NC_FRAME_HEADER_BYTES, connection->pong, connection->pong_bytes);
    connection->pong_waits = false;
    (void)nc_output_append(client, bytes, NC_FRAME_HEADER_BYTES + connection->pong_bytes);
}

/* ---- Holes: frames that were taken back. Each keeps its header, with a type that no frame has, so that
 * frames can be counted off from any hole to the end. What is borrowed lies behind no hole: it
 * begins only in an empty output. ---- */

#define HOLE 0
#define TYPE_AT 4

static uint8_t *at_position(const struct nc_connection *connection, uint64_t position)
{
    return connection->out.data + connection->out.start + (size_t)(position - connection->written);
}

static size_t frame_bytes(const uint8_t *header)
{
    struct nc_frame frame;
    nc_frame_decode(&frame, header);
    return NC_FRAME_HEADER_BYTES + (size_t)frame.length;
}

static void forget_holes_alone(struct nc_connection *connection)
{
    struct nc_buffer *out = &connection->out;
    if (connection->hole_bytes && connection->hole_bytes == nc_buffer_bytes(out))
        out->start = out->end = connection->hole_bytes = 0;
}

void nc_output_skip_holes(struct nc_connection *connection)
{
    struct nc_buffer *out = &connection->out;
    while (connection->hole_bytes && connection->hole_start == connection->written) {
        size_t bytes = frame_bytes(out->data + out->start);
        nc_buffer_consume(out, bytes);
        connection->written += bytes;
        connection->hole_bytes -= bytes;
        connection->hole_start = connection->written;
        while (connection->hole_bytes && at_position(connection, connection->hole_start)[TYPE_AT] != HOLE)
            connection->hole_start += frame_bytes(at_position(connection, connection->hole_start));
    }
}

/* Of the call, if there still is one, whose frame that is: a CANCEL begins elsewhere than its request. */
static void move_call(nearcall_client *client, const uint8_t *header, uint64_t position, uint64_t bytes)
{
    bool is_ping = header[TYPE_AT] == NC_PING;
    struct nc_call *call = nc_call_by_id(client, nc_get_u64(header + (is_ping ? NC_FRAME_HEADER_BYTES : 8)));
    if (call && nc_call_is_on_connection(call) && !call->by_memory && call->frame_start == position) {
        call->frame_start -= bytes;
        call->frame_end -= bytes;
    }
}

static void close_holes(nearcall_client *client)
{
    struct nc_connection *connection = &client->connection;
    struct nc_buffer *out = &connection->out;
    uint64_t position = connection->hole_start, closed = 0;
    size_t left = out->end - out->start - (size_t)(position - connection->written);
    for (size_t bytes; left > 0; left -= bytes, position += bytes) {
        uint8_t *header = at_position(connection, position);
        bytes = frame_bytes(header);
        if (header[TYPE_AT] == HOLE) {
            closed += bytes;
        } else {
            move_call(client, header, position, closed);
            memmove(header - closed, header, bytes);
        }
    }
    out->end -= (size_t)closed;
    connection->hole_bytes = 0;
}

/* Frames move only when more goes than stays: so whoever takes back many, in whatever order, moves
 * fewer bytes than were taken back. */
static void make_hole(nearcall_client *client, const struct nc_call *call)
{
    struct nc_connection *connection = &client->connection;
    at_position(connection, call->frame_start)[TYPE_AT] = HOLE;
    if (connection->hole_bytes == 0 || call->frame_start < connection->hole_start)
        connection->hole_start = call->frame_start;
    connection->hole_bytes += (size_t)(call->frame_end - call->frame_start);
    forget_holes_alone(connection);
    if (connection->hole_bytes > nc_output_bytes_to_send(connection))
        close_holes(client);
}

/* ---- What the kernel has taken, and answers ---- */

void nc_output_consume(nearcall_client *client, size_t sent)
{
    struct nc_connection *connection = &client->connection;
    size_t owned = nc_buffer_bytes(&connection->out);
    size_t from_owned = sent < owned ? sent : owned;
    nc_buffer_consume(&connection->out, from_owned);
    if (sent > from_owned) {
        connection->borrowed += sent - from_owned;
        connection->borrowed_bytes -= sent - from_owned;
    }
    forget_holes_alone(connection);
    if (nc_output_bytes(connection) == 0) {
        connection->borrowed = NULL;
        nc_buffer_trim(&connection->out);
        if (connection->pong_waits)
            queue_pong(client);
    }
}

void nc_output_answer_ping(nearcall_client *client, const uint8_t *payload, size_t payload_bytes)
{
    struct nc_connection *connection = &client->connection;
    if (!nc_connection_usable(client))
        return;
    connection->pong_waits = true;
    connection->pong_bytes = (uint8_t)payload_bytes;
    memcpy(connection->pong, payload, payload_bytes);
    if (nc_output_bytes(connection) == 0)
        queue_pong(client);
}

/* ---- Frames of calls ---- */

/* The frame will not be answered, as the server never sees it. */
static void uncount(struct nc_connection *connection, const struct nc_call *call)
{
    if (call->type != NC_PING && connection->unanswered > 0)
        connection->unanswered--;
}

void nc_output_remove(nearcall_client *client, struct nc_call *call)
{
    struct nc_connection *connection = &client->connection;
    struct nc_buffer *out = &connection->out;
    uncount(connection, call);
    if (connection->borrowed_bytes) { /* what is borrowed is the tail of the last frame */
        connection->borrowed = NULL;
        connection->borrowed_bytes = 0;
        out->end = out->start + (size_t)(call->frame_start - connection->written);
        return;
    }
    make_hole(client, call);
}

void nc_output_lost(nearcall_client *client)
{
    struct nc_loss loss = {-NEARCALL_E_RESOURCE_EXHAUSTED, false, NC_ENDED_HERE};
    nc_connection_lost(client, &loss, "no memory for the rest of a frame to %s", client->address_text);
}

void nc_output_go_on(nearcall_client *client, const struct nc_call *call)
{
    if (nc_output_own(client) == NEARCALL_OK)
        nc_output_forsake(client, call);
    else
        nc_output_lost(client);
}

void nc_output_forsake(nearcall_client *client, const struct nc_call *call)
{
    client->connection.forsaken_end = call->frame_end;
    client->connection.moved_ns = client->now_ns;
}

void nc_output_lose_stuck(nearcall_client *client)
{
    struct nc_loss loss = {-NEARCALL_E_UNAVAILABLE, true, NC_ENDED_HERE};
    if (client->connection.state == NC_READY &&
        client->now_ns >= nc_output_stuck_ns(&client->connection))
        nc_connection_lost(client, &loss,
                           "the connection to %s was dropped because the server has taken nothing "
                           "of a request for " NC_TEXT(NC_FRAME_SILENCE_MS) " ms",
                           client->address_text);
}
