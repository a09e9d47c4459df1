/* Where a request is built: in memory of the handle's own, and once it is large in
 * the arena of shared memory, so that sending it only publishes what is there. Small
 * requests are not built in their slot: the server looks at its line all the time, and
 * each byte that is put would have to fetch the line back. */
#include "request/request.h"

#include "calls/calls.h"
#include "handle/handle.h"
#include "memory/arena.h"
#include "memory/memory.h"
#include "memory/shared_copy.h"

const char *nc_request_is_too_large(const nearcall_client *owner)
{
    if (nc_request_bytes_max(owner) > NC_FRAME_BYTES_MAX_CEILING)
        return "the request is larger than the handle's option value_bytes_max says (limit value_bytes_max, at "
               "most " NC_TEXT(NC_VALUE_BYTES_MAX_CEILING) ")";
    return "the request is larger than the " NC_TEXT(NC_FRAME_BYTES_MAX_CEILING) " bytes that any frame may have (limit "
           "frame_bytes_max); the option value_bytes_max lets larger ones travel in stores";
}

static struct nc_arena *arena_of(nearcall_client *client)
{
    return &client->connection.memory.arena;
}

bool nc_request_moves(const nearcall_client *client, size_t bytes)
{
    return bytes >= NC_IN_ARENA_BYTES_MIN && !client->request.in_arena &&
           nc_memory_is_used(&client->connection.memory);
}

static bool enter_arena(nearcall_client *client, size_t bytes)
{
    struct nc_writer *writer = &client->request;
    struct nc_buffer *buffer = &writer->buffer;
    size_t total = buffer->end + bytes;
    if (!nc_request_moves(client, total) || total > UINT32_MAX)
        return false;
    uint8_t *body = nc_memory_open_body(&client->connection.memory, (uint32_t)total);
    if (nc_forked_inside(client) || !body)
        return false;
    if (buffer->end && !nc_shared_copy(&client->connection.memory, &client->guard, body, buffer->data, buffer->end))
        return false;
    size_t end = buffer->end;
    writer->private_buffer = *buffer;
    writer->private_buffer.end = 0;
    *buffer = (struct nc_buffer){.data = body, .end = end, .capacity = total};
    writer->in_arena = true;
    return true;
}

static bool grow_in_arena(nearcall_client *client, size_t bytes)
{
    struct nc_buffer *buffer = &client->request.buffer;
    size_t total = buffer->end + bytes;
    if (total > UINT32_MAX || !nc_arena_grow(arena_of(client), (uint32_t)total))
        return false;
    buffer->capacity = total;
    return true;
}

void nc_request_leave_arena(nearcall_client *client)
{
    struct nc_writer *writer = &client->request;
    if (!writer->in_arena)
        return;
    if (nc_arena_is_open_at(arena_of(client), writer->buffer.data))
        nc_arena_drop(arena_of(client));
    writer->buffer = writer->private_buffer;
    writer->private_buffer = (struct nc_buffer){0};
    writer->in_arena = false;
}

/* The call that sends this request goes on with the copy, or cannot be sent again. */
static void repoint(nearcall_client *client, const uint8_t *from, const uint8_t *to)
{
    for (struct nc_call *call = client->calls.used; call; call = call->next) {
        if (call->payload != from || !from)
            continue;
        call->payload = to;
        if (to)
            continue;
        call->retryable = false;
        if (call->state == NC_CALL_PENDING)
            nc_call_finish(client, call, -NEARCALL_E_RESOURCE_EXHAUSTED, NEARCALL_OUTCOME_NOT_EXECUTED,
                           "no memory to keep the request until there is a connection");
    }
}

int nc_request_own(nearcall_client *client)
{
    struct nc_writer *writer = &client->request;
    struct nc_buffer *own = &writer->private_buffer;
    const uint8_t *body = writer->buffer.data;
    if (!writer->in_arena)
        return NEARCALL_OK;
    int r = nc_shared_append(&client->connection.memory, &client->guard, own, body, writer->buffer.end);
    if (r < 0 && nc_forked_inside(client))
        return r; /* the request has been given up already */
    if (r < 0 && !writer->failure) {
        writer->failure = r;
        writer->what = "no memory for the request";
    }
    nc_request_leave_arena(client);
    repoint(client, body, r < 0 ? NULL : writer->buffer.data);
    return r;
}

bool nc_request_settle(nearcall_client *client)
{
    struct nc_writer *writer = &client->request;
    if (!writer->in_arena || nc_arena_is_open_at(arena_of(client), writer->buffer.data))
        return true;
    return nc_buffer_reserve(&writer->private_buffer, writer->buffer.end) == NEARCALL_OK &&
           nc_request_own(client) == NEARCALL_OK; /* for which there is room now */
}

int nc_request_reserve(nearcall_client *client, size_t bytes)
{
    struct nc_writer *writer = &client->request;
    if (writer->in_arena) {
        bool has_grown = grow_in_arena(client, bytes);
        if (nc_forked_inside(client)) /* in what the kernel was asked for */
            return writer->failure;
        if (has_grown)
            return NEARCALL_OK;
        int r = nc_request_own(client);
        if (r < 0)
            return r;
    } else if (enter_arena(client, bytes)) {
        return NEARCALL_OK;
    }
    if (writer->failure)
        return writer->failure; /* that of a child */
    return nc_buffer_reserve(&writer->buffer, bytes ? bytes : 1); /* so that data is never NULL */
}

void nc_request_after_fork(nearcall_client *client)
{
    struct nc_writer *writer = &client->request;
    if (!writer->in_arena)
        return;
    nc_request_leave_arena(client);
    writer->failure = NEARCALL_E_FAILED_PRECONDITION;
    writer->what = "the request was begun before this process was forked, in memory that only "
                   "the parent has; begin it again with nearcall_request()";
}
