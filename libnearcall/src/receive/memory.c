/* Receiving through shared memory: frames from the ring. */
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "connection/connection.h"
#include "memory/memory.h"
#include "receive/frames.h"
#include "receive/receive.h"

/* What is taken before the clock is looked at again, and how much of their bodies is read. */
#define FRAMES_AT_ONCE 64
#define BYTES_AT_ONCE ((size_t)256 << 10)

/* How much of the body somebody looks at. */
static size_t bytes_to_read(const nearcall_client *client, const struct nc_frame *frame)
{
    return nc_payload_is_read(client, frame) ? frame->length : frame->extension_bytes;
}

/* A reply without extensions is only handed on or copied. What else is read here is copied before, so
 * that the server cannot change it between two looks. */
static bool may_stay(const nearcall_client *client, const struct nc_frame *frame)
{
    return (frame->type == NC_REPLY && frame->extension_bytes == 0) || bytes_to_read(client, frame) == 0;
}

static int handle_in_place(nearcall_client *client, const struct nc_frame *frame,
                           const uint8_t *body, struct nc_fault *fault)
{
    struct nc_memory *memory = &client->connection.memory;
    int r = nc_handle_frame(client, frame, body, fault);
    const struct nc_call *call = client->waiting;
    if (call && call->state == NC_CALL_FINISHED && call->data == body && call->data_bytes)
        memory->held = true;
    return r;
}

static int handle_copy(nearcall_client *client, const struct nc_frame *frame, const uint8_t *body,
                       struct nc_fault *fault)
{
    struct nc_call *waiting = client->waiting;
    size_t bytes = bytes_to_read(client, frame);
    uint8_t small[NC_MEMORY_INLINE_BYTES];
    uint8_t *copy = bytes <= sizeof(small) ? small : malloc(bytes);
    if (!copy) {
        nc_lose_answer(client, frame);
        return 0;
    }
    memcpy(copy, body, bytes);
    client->waiting = NULL; /* its result must not stay in the copy */
    int r = nc_handle_frame(client, frame, copy, fault);
    client->waiting = waiting;
    if (copy != small)
        free(copy);
    return r;
}

static bool is_for_waiting(const nearcall_client *client, const struct nc_frame *frame)
{
    return client->waiting && client->waiting->id == frame->call_id;
}

/* A body may take long enough to copy for a signal's handler to fork meanwhile: then
 * there is nothing here to give back in. */
static void give_back(nearcall_client *client, const struct nc_frame *frame)
{
    struct nc_memory *memory = &client->connection.memory;
    if (nc_memory_is_used(memory) &&
        (frame->length <= NC_MEMORY_INLINE_BYTES || !nc_forked(&client->guard)))
        nc_memory_done(memory);
}

/* Bodies in slots are too small to be counted. */
static size_t take_one(nearcall_client *client, bool by_heads)
{
    struct nc_memory *memory = &client->connection.memory;
    struct nc_frame frame;
    struct nc_fault fault;
    const uint8_t *body;
    size_t bytes = 0;
    int r = nc_memory_take(memory, client->connection.welcome.features, client->options.frame_bytes_max, &frame,
                           &body, &fault);
    if (r == 0 && frame.length > NC_MEMORY_INLINE_BYTES)
        bytes = bytes_to_read(client, &frame);
    if (r == 0 && by_heads && bytes && !is_for_waiting(client, &frame))
        r = nc_handle_head(client, &frame, &fault);
    else if (r == 0)
        r = may_stay(client, &frame) ? handle_in_place(client, &frame, body, &fault)
                                     : handle_copy(client, &frame, body, &fault);
    if (r < 0)
        nc_protocol_error(client, &frame, &fault);
    else
        give_back(client, &frame);
    return bytes;
}

static bool waiting_is_over(const nearcall_client *client)
{
    return client->waiting && client->waiting->state == NC_CALL_FINISHED;
}

int nc_receive_memory(nearcall_client *client)
{
    struct nc_memory *memory = &client->connection.memory;
    size_t bytes_read = 0;
    int received = NC_NOTHING;
    for (int i = 0; i < FRAMES_AT_ONCE && bytes_read < BYTES_AT_ONCE && nc_memory_is_used(memory) &&
                    nc_memory_is_ready(memory);
         i++) {
        if (nc_forked_inside(client))
            return NC_NOTHING; /* what comes is the parent's */
        bytes_read += take_one(client, false);
        received = NC_RECEIVED;
        if (waiting_is_over(client))
            break;
    }
    if (client->connection.draining && nc_connection_is_over(client))
        nc_connection_close(client);
    return received;
}

/* ---- The end ---- */

/* Bodies do not overlap in the arena, so a server that is honest has left no more there. And nobody waits
 * longer for what others are told. */
static bool is_enough(const struct nc_memory *memory, size_t bytes_read, int64_t until_ns)
{
    if (bytes_read == 0)
        return false;
    return bytes_read > memory->server_bytes - memory->arena_offset || nc_now_ns() >= until_ns;
}

void nc_drain_memory(nearcall_client *client)
{
    struct nc_memory *memory = &client->connection.memory;
    uint32_t left = memory->slots_mask + 1;
    int64_t until_ns = client->waiting ? client->waiting->deadline_ns : NC_NEVER;
    size_t bytes_read = 0;
    bool by_heads = false;
    while (left-- > 0 && nc_memory_is_used(memory) && nc_memory_is_ready(memory)) {
        if (nc_forked_inside(client))
            return;
        nc_keep_waiting_result(client);
        bytes_read += take_one(client, by_heads);
        by_heads = by_heads || is_enough(memory, bytes_read, until_ns);
    }
}
