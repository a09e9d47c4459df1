/* Sending a call, over the socket or through shared memory, and those that have waited for their turn. */
#include "send/send.h"

#include <string.h>
#include <sys/uio.h>

#include "base/base.h"
#include "base/clock.h"
#include "connection/output.h"
#include "connection/stores.h"
#include "functions/functions.h"
#include "memory/memory.h"
#include "send/frames.h"
#include "wire/wire.h"

#define HEAD_BYTES_MAX (NC_FRAME_HEADER_BYTES + NC_EXTENSION_BYTES_MAX)
/* To copy so many behind the head costs less than what the kernel does for two parts. */
#define JOINED_BYTES_MAX 512

/* Ends a call that is outdated so. It was no sending. */
static void end_outdated(nearcall_client *client, struct nc_call *call)
{
    nc_call_finish(client, call, -NEARCALL_E_ABORTED, NEARCALL_OUTCOME_NOT_EXECUTED,
                   "the request was encoded by the description of a server that another has "
                   "replaced since, and was not sent; find the function again and encode anew");
    if (call->synchronous)
        client->sync.attempts--;
    if (call->encoding.schema_hash == call->function->description_hash)
        call->function->is_refused = call->function->was_unsent = true;
}

static bool fits_frame(const nearcall_client *client, const struct nc_call *call)
{
    return call->payload_bytes + nc_extension_bytes(client, call) <= client->connection.welcome.frame_bytes_max;
}

/* Which limit a request exceeds that no frame holds and that cannot travel in a store. */
static const char *limit_of(const nearcall_client *client, const struct nc_call *call)
{
    bool larger_are_taken = client->connection.stores.value_bytes_max > client->connection.welcome.frame_bytes_max;
    if (!larger_are_taken || call->files)
        return "the request is larger than the largest frame the server takes (limit "
               "frame_bytes_max); split it, or raise the limit by the server's option "
               "WithFrameBytesMax, to at most " NC_TEXT(NC_FRAME_BYTES_MAX_CEILING) ", or let larger ones travel "
               "in stores, which takes the option value_bytes_max here and the server's WithValueBytesMax";
    if (call->payload_bytes > client->options.value_bytes_max)
        return "the request is larger than this handle lets values be; its option value_bytes_max raises that to at "
               "most " NC_TEXT(NC_VALUE_BYTES_MAX_CEILING);
    return "the request is larger than the largest value the server takes (limit value_bytes_max); split it, "
           "or raise the limit by the server's option WithValueBytesMax, to at most " NC_TEXT(NC_VALUE_BYTES_MAX_CEILING);
}

/* Of a request that no frame holds. False: the call has ended, and the message says which limit was reached. */
static bool may_be_stored(nearcall_client *client, struct nc_call *call)
{
    const char *what = NULL;
    if (!nc_stores_take(client, call))
        what = limit_of(client, call);
    else if (nc_extension_bytes(client, call) + NC_EXTENSION_HEADER_BYTES + NC_STORED_BYTES > NC_EXTENSION_BYTES_MAX)
        what = "the metadata take more than " NC_TEXT(NC_EXTENSION_BYTES_MAX) " bytes with the function's name and the "
               "name of a store (limit extension_bytes_max, which is fixed)";
    if (what)
        nc_call_finish(client, call, -NEARCALL_E_RESOURCE_EXHAUSTED, NEARCALL_OUTCOME_NOT_EXECUTED, what);
    return what == NULL;
}

/* A call the connection will not take; nothing was sent. */
static bool refuse(nearcall_client *client, struct nc_call *call)
{
    const struct nc_welcome *welcome = &client->connection.welcome;
    if (!fits_frame(client, call) && !may_be_stored(client, call))
        return true;
    if (call->files && !(welcome->features & NC_FEATURE_DESCRIPTORS)) {
        nc_call_finish(client, call, -NEARCALL_E_PERMISSION_DENIED, NEARCALL_OUTCOME_NOT_EXECUTED,
                       "the server does not let this process pass files or connections; they "
                       "need a local socket, and a server that allows it");
        return true;
    }
    if (nc_encoding_is_outdated(client, &call->encoding)) {
        end_outdated(client, call);
        return true;
    }
    return false;
}

static void no_memory(nearcall_client *client, struct nc_call *call)
{
    if (client->connection.written > call->frame_start)
        nc_output_lost(client);
    else
        nc_call_finish(client, call, -NEARCALL_E_RESOURCE_EXHAUSTED, NEARCALL_OUTCOME_NOT_EXECUTED,
                       "no memory to send the request");
}

/* Sends straight from the caller's memory, or, where that is little, from behind the head;
 * what the kernel does not take now stays borrowed until nc_output_own(). */
static void send_direct(nearcall_client *client, struct nc_call *call, uint8_t *head,
                        size_t head_bytes)
{
    struct nc_connection *connection = &client->connection;
    struct iovec parts[2] = {
        {head, head_bytes},
        {(void *)(uintptr_t)call->payload, call->payload_bytes},
    };
    bool joined = call->payload_bytes <= JOINED_BYTES_MAX;
    if (joined && call->payload_bytes) {
        memcpy(head + head_bytes, call->payload, call->payload_bytes);
        parts[0].iov_len += call->payload_bytes;
    }
    ssize_t r = nc_send_now(client, parts, joined ? 1 : 2);
    if (r < 0)
        return;
    size_t sent = (size_t)r;
    if (sent == head_bytes + call->payload_bytes)
        return;
    if (sent < head_bytes && !nc_output_append(client, head + sent, head_bytes - sent)) {
        no_memory(client, call);
        return;
    }
    size_t from = sent > head_bytes ? sent - head_bytes : 0;
    connection->borrowed = call->payload + from;
    connection->borrowed_bytes = call->payload_bytes - from;
}

static void send_behind(nearcall_client *client, struct nc_call *call, const uint8_t *head,
                        size_t head_bytes)
{
    struct nc_buffer *out = &client->connection.out;
    size_t former_bytes = nc_buffer_bytes(out) + client->connection.borrowed_bytes;
    if (nc_output_append(client, head, head_bytes) &&
        nc_output_append(client, call->payload, call->payload_bytes))
        return;
    /* nc_output_append() adds all or nothing, so at most the head has to go again */
    if (nc_output_bytes(&client->connection) > former_bytes)
        out->end = out->start + former_bytes;
    no_memory(client, call);
}

static void prepare_ping(nearcall_client *client, struct nc_call *call)
{
    nc_put_u64(call->ping_payload, call->id);
    call->payload = call->ping_payload;
    call->payload_bytes = sizeof(call->ping_payload);
    call->sent_ns = nc_now_ns();
    if (client->connection.first_ping_id == 0)
        client->connection.first_ping_id = call->id;
    client->connection.last_ping_id = call->id;
}

static void send_by_socket(nearcall_client *client, struct nc_call *call)
{
    struct nc_connection *connection = &client->connection;
    uint8_t head[HEAD_BYTES_MAX + JOINED_BYTES_MAX];
    if (nc_output_bytes(connection)) {
        nc_flush(client);
        if (!nc_connection_usable(client))
            return; /* the call is still pending */
    }
    size_t head_bytes = NC_FRAME_HEADER_BYTES + nc_extension_bytes(client, call);
    nc_encode_head(client, call, head, head + NC_FRAME_HEADER_BYTES);
    call->by_memory = false;
    call->files_sent = false;
    connection->has_files = connection->has_files || call->files;
    call->frame_start = connection->written + nc_output_bytes(connection);
    call->frame_end = call->frame_start + head_bytes + call->payload_bytes;
    nc_mark_as_sent(client, call);
    if (nc_output_bytes(connection))
        send_behind(client, call, head, head_bytes);
    else
        send_direct(client, call, head, head_bytes);
}

void nc_send_frame(nearcall_client *client, struct nc_call *call)
{
    if (nc_memory_is_used(&client->connection.memory) && nc_send_by_memory(client, call))
        return;
    send_by_socket(client, call);
}

void nc_send_call(nearcall_client *client, struct nc_call *call)
{
    if (!call->queue) /* it has not waited in line */
        nc_call_draw_id(client, call);
    if (refuse(client, call))
        return;
    if (__builtin_expect(call->type == NC_REQUEST && !fits_frame(client, call), 0)) {
        nc_store_ask(client, call);
        return;
    }
    if (call->type == NC_PING)
        prepare_ping(client, call);
    nc_send_frame(client, call);
}

void nc_send_cancel(nearcall_client *client, const struct nc_call *call)
{
    uint8_t bytes[NC_FRAME_HEADER_BYTES];
    struct nc_frame frame = {.type = NC_CANCEL, .call_id = call->id};
    if (!nc_connection_usable(client))
        return;
    if (call->by_memory && nc_cancel_by_memory(client, call))
        return;
    nc_frame_encode(bytes, &frame);
    if (nc_output_append(client, bytes, sizeof(bytes)))
        nc_flush(client);
}

/* The answer is that of a ping that was given up. */
void nc_send_ping(nearcall_client *client)
{
    struct nc_connection *connection = &client->connection;
    uint8_t bytes[NC_FRAME_HEADER_BYTES + sizeof(uint64_t)];
    struct nc_frame frame = {.type = NC_PING, .length = sizeof(uint64_t)};
    uint64_t id = ++client->last_id;
    nc_frame_encode(bytes, &frame);
    nc_put_u64(bytes + NC_FRAME_HEADER_BYTES, id);
    if (connection->first_ping_id == 0)
        connection->first_ping_id = id;
    connection->last_ping_id = id;
    if (nc_output_append(client, bytes, sizeof(bytes)))
        nc_flush(client);
}

/* Another process that serves the address knows nothing. What is asked about several calls is to be answered at once,
 * however long they wait for it. */
static void send_question(nearcall_client *client, struct nc_call *question)
{
    const struct nc_welcome *welcome = &client->connection.welcome;
    const struct nc_lost *lost = nc_lost_of_question(client, question);
    int64_t deadline_ns = question->deadline_ns;
    if (!welcome->has_key || welcome->server_instance != lost->server_instance) {
        nc_call_finish(client, question, -NEARCALL_E_FAILED_PRECONDITION, NEARCALL_OUTCOME_NOT_EXECUTED,
                       "another server has taken the place of the one that was to be asked");
    } else {
        question->deadline_ns = lost->alone ? deadline_ns : client->now_ns;
        nc_send_call(client, question);
        question->deadline_ns = deadline_ns;
    }
    if (question->state != NC_CALL_FINISHED)
        return;
    nc_call_leave_queue(question);
    nc_asking_look(client);
}

static void send_first(nearcall_client *client, struct nc_call *call)
{
    if (__builtin_expect(call->type == NC_ASK, 0))
        send_question(client, call);
    else
        nc_send_call(client, call);
}

void nc_send_line(nearcall_client *client)
{
    while (nc_may_send_pending(client)) {
        struct nc_call *call = client->calls.pending.first;
        send_first(client, call);
        if (client->connection.borrowed_bytes && nc_output_own(client) < 0) {
            if (nc_frame_is_untouched(client, call))
                nc_output_remove(client, call);
            no_memory(client, call);
        }
        if (call->state == NC_CALL_SENT && !nc_call_asks_for_store(call))
            nc_buffer_empty(&call->store);
    }
}
