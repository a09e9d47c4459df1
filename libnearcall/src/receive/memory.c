/* Receiving through shared memory: frames from the ring. */
#include <stdlib.h>
#include <string.h>

#include "connection/connection.h"
#include "memory/memory.h"
#include "receive/frames.h"
#include "receive/receive.h"

/* What is taken before the clock is looked at again. */
#define FRAMES_AT_ONCE 64

/* A reply without extensions is only handed on or copied, DRAIN's text not read. What else is taken apart
 * here is copied before, so that the server cannot change it between two looks. */
static bool may_stay(const struct nc_frame *frame)
{
    return frame->length == 0 || frame->type == NC_DRAIN ||
           (frame->type == NC_REPLY && frame->extension_bytes == 0);
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
    uint8_t small[NC_MEMORY_INLINE_BYTES];
    uint8_t *copy = frame->length <= sizeof(small) ? small : malloc(frame->length);
    if (!copy) {
        nc_lose_answer(client, frame);
        return 0;
    }
    memcpy(copy, body, frame->length);
    client->waiting = NULL; /* its result must not stay in the copy */
    int r = nc_handle_frame(client, frame, copy, fault);
    client->waiting = waiting;
    if (copy != small)
        free(copy);
    return r;
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

static void take_one(nearcall_client *client)
{
    struct nc_memory *memory = &client->connection.memory;
    struct nc_frame frame;
    struct nc_fault fault;
    const uint8_t *body;
    int r = nc_memory_take(memory, client->options.frame_bytes_max, &frame, &body, &fault);
    if (r == 0)
        r = may_stay(&frame) ? handle_in_place(client, &frame, body, &fault)
                             : handle_copy(client, &frame, body, &fault);
    if (r < 0)
        nc_protocol_error(client, &frame, &fault);
    else
        give_back(client, &frame);
}

static bool waiting_is_over(const nearcall_client *client)
{
    return client->waiting && client->waiting->state == NC_CALL_FINISHED;
}

int nc_receive_memory(nearcall_client *client)
{
    struct nc_memory *memory = &client->connection.memory;
    int received = NC_NOTHING;
    for (int i = 0; i < FRAMES_AT_ONCE && nc_memory_is_used(memory) && nc_memory_is_ready(memory); i++) {
        if (nc_forked_inside(client))
            return NC_NOTHING; /* what comes is the parent's */
        take_one(client);
        received = NC_RECEIVED;
        if (waiting_is_over(client))
            break;
    }
    if (client->connection.draining && nc_connection_is_over(client))
        nc_connection_close(client);
    return received;
}

void nc_drain_memory(nearcall_client *client)
{
    struct nc_memory *memory = &client->connection.memory;
    uint32_t left = memory->slots_mask + 1;
    while (left-- > 0 && nc_memory_is_used(memory) && nc_memory_is_ready(memory)) {
        if (nc_forked_inside(client))
            return;
        nc_keep_waiting_result(client);
        take_one(client);
    }
}
