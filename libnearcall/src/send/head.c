/* The head of a call's frame, and what is noted of a frame that is on its way. */
#include <string.h>

#include "base/clock.h"
#include "calls/calls.h"
#include "connection/connection.h"
#include "send/frames.h"
#include "transport/files.h"
#include "wire/wire.h"

uint32_t nc_deadline_field(const nearcall_client *client, const struct nc_call *call)
{
    if (call->deadline_ns == NC_NEVER)
        return 0;
    int64_t remaining_ns = call->deadline_ns - client->now_ns;
    int64_t theirs_ns = call->deadline_ns + client->connection.clock_ahead_ns;
    return nc_deadline_encode((theirs_ns + NC_NS_PER_MS - 1) / NC_NS_PER_MS,
                              (remaining_ns + NC_NS_PER_MS - 1) / NC_NS_PER_MS,
                              client->connection.welcome.features & NC_FEATURE_SHARED_CLOCK);
}

static bool id_is_known(const nearcall_client *client, const nearcall_function *function)
{
    return function->id && function->id_hash == client->connection.welcome.schema_hash;
}

size_t nc_extension_bytes(const nearcall_client *client, const struct nc_call *call)
{
    if (call->type != NC_REQUEST)
        return 0;
    size_t bytes = call->view ? call->view->extension_bytes : 0;
    if (nc_store_stage_of(call) >= NC_STORE_NAMING)
        bytes += NC_EXTENSION_HEADER_BYTES + NC_STORED_BYTES;
    if (id_is_known(client, call->function))
        return bytes;
    return bytes + NC_EXTENSION_HEADER_BYTES + (size_t)call->function->name_bytes;
}

static uint32_t name_store(const struct nc_call *call, uint8_t *extensions)
{
    uint8_t content[NC_STORED_BYTES];
    nc_stored_encode(content, &call->storing->stored);
    return (uint32_t)nc_extension_encode(extensions, NC_EXTENSION_STORED, content, sizeof(content));
}

void nc_encode_head(nearcall_client *client, struct nc_call *call, uint8_t *header,
                    uint8_t *extensions)
{
    const nearcall_function *function = call->function;
    struct nc_frame frame = {.type = (uint8_t)call->type};
    if (call->type != NC_PING) {
        frame.call_id = call->id;
        frame.deadline_ms = nc_deadline_field(client, call);
    }
    if (call->type == NC_REQUEST) {
        frame.codec = call->codec;
        if (client->connection.welcome.features & NC_FEATURE_DESCRIPTIONS)
            frame.status = call->encoding.check;
        frame.descriptors = call->files ? (uint8_t)call->files->count : 0;
        if (id_is_known(client, function))
            frame.function_id = function->id;
        else
            frame.extension_bytes = (uint32_t)nc_extension_encode(
                extensions, NC_EXTENSION_FUNCTION_NAME, function->name, function->name_bytes);
        if (__builtin_expect(call->view != NULL, 0)) {
            memcpy(extensions + frame.extension_bytes, call->view->extensions, call->view->extension_bytes);
            frame.extension_bytes += (uint32_t)call->view->extension_bytes;
        }
        if (nc_store_stage_of(call) >= NC_STORE_NAMING)
            frame.extension_bytes += name_store(call, extensions + frame.extension_bytes);
    }
    call->function_id = frame.function_id;
    frame.length = frame.extension_bytes + (uint32_t)call->payload_bytes;
    nc_frame_encode(header, &frame);
}

void nc_mark_as_sent(nearcall_client *client, struct nc_call *call)
{
    struct nc_connection *connection = &client->connection;
    nc_call_leave_queue(call);
    call->state = NC_CALL_SENT;
    if (nc_store_stage_of(call) == NC_STORE_NAMING)
        call->storing->stage = NC_STORE_NAMED;
    if (connection->unanswered == 0)
        nc_silence_wait(client);
    if (call->type == NC_PING)
        return; /* it has no id on the wire, and may overtake requests that wait */
    if (connection->first_id == 0)
        connection->first_id = call->id;
    connection->last_id = call->id;
    connection->unanswered++;
}
