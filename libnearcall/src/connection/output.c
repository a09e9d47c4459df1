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
    uint64_t bytes = call->frame_end - call->frame_start;
    uncount(connection, call);
    size_t from = out->start + (size_t)(call->frame_start - connection->written);
    if (connection->borrowed_bytes) { /* what is borrowed is the tail of the last frame */
        connection->borrowed = NULL;
        connection->borrowed_bytes = 0;
        out->end = from;
        return;
    }
    memmove(out->data + from, out->data + from + bytes, out->end - from - (size_t)bytes);
    out->end -= (size_t)bytes;
    for (struct nc_call *other = client->calls.used; other; other = other->next) {
        if (nc_call_is_on_connection(other) && !other->by_memory &&
            other->frame_start > call->frame_start) {
            other->frame_start -= bytes;
            other->frame_end -= bytes;
        }
    }
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
