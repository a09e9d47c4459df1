#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include "client.h"

#define HEAD_BYTES_MAX (NC_FRAME_HEADER_BYTES + NC_EXTENSION_HEADER_BYTES + NC_FUNCTION_NAME_BYTES_MAX)
/* To copy so many behind the head costs less than what the kernel does for two parts. */
#define JOINED_BYTES_MAX 512

/* What is waiting in the input was sent before the peer went away: replies and
 * DRAIN decide outcomes, so they are read before the connection is given up. */
static void sending_failed(nearcall_client *client, int error)
{
    struct nc_connection *connection = &client->connection;
    struct nc_loss loss = {-NEARCALL_E_UNAVAILABLE, true,
                           error == ECONNRESET ? NC_RESET_BY_SERVER : NC_ENDED_HERE};
    while (connection->state == NC_READY && nc_receive_socket(client, MSG_DONTWAIT) == NC_RECEIVED)
        ;
    nc_drain_memory(client);
    if (connection->state == NC_READY)
        nc_connection_lost(client, &loss, "the connection to %s was lost: %s",
                           client->address_text, strerror(error));
}

/* What is in one piece and comes alone goes a shorter way in the kernel. */
static ssize_t give(int fd, const struct msghdr *message)
{
    const struct iovec *first = message->msg_iov;
    int flags = MSG_NOSIGNAL | MSG_DONTWAIT;
    if (message->msg_iovlen == 1 && !message->msg_control)
        return send(fd, first->iov_base, first->iov_len, flags);
    return sendmsg(fd, message, flags);
}

/* Gives the kernel what it takes at once. The number of bytes, or -1 when the
 * connection was lost. */
ssize_t nc_send_now(nearcall_client *client, struct iovec *parts, size_t count)
{
    struct msghdr message = {.msg_iov = parts, .msg_iovlen = (uint8_t)count};
    struct nc_call *with_files = NULL;
    union nc_control control;
    if (!nc_connection_is_ours(client))
        return -1;
    if (client->connection.has_files)
        with_files = nc_files_in_message(client, &message, &control);
    if (nc_forked_inside(client)) /* asked last: a handler may fork at any system call */
        return -1; /* the connection is the parent's */
    ssize_t sent = give(client->connection.fd, &message);
    if (sent >= 0) {
        client->connection.written += (uint64_t)sent;
        if (with_files)
            nc_files_are_sent(with_files);
        return sent;
    }
    if (errno == ETOOMANYREFS) {
        nc_send_later(client);
        return 0;
    }
    if (errno == EAGAIN || errno == EINTR)
        return 0;
    sending_failed(client, errno);
    return -1;
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
    (void)nc_queue(client, bytes, NC_FRAME_HEADER_BYTES + connection->pong_bytes);
}

static void consume_output(nearcall_client *client, size_t sent)
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

void nc_flush(nearcall_client *client)
{
    struct nc_connection *connection = &client->connection;
    struct iovec parts[2];
    size_t count = 0;
    if (nc_buffer_bytes(&connection->out))
        parts[count++] = (struct iovec){connection->out.data + connection->out.start,
                                        nc_buffer_bytes(&connection->out)};
    if (connection->borrowed_bytes)
        parts[count++] = (struct iovec){(void *)(uintptr_t)connection->borrowed,
                                        connection->borrowed_bytes};
    ssize_t sent = nc_send_now(client, parts, count);
    if (sent > 0) {
        connection->moved_ns = client->now_ns;
        consume_output(client, (size_t)sent);
    }
}

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

/* Appends to the output what must not be lost when memory is short; false then. */
bool nc_queue(nearcall_client *client, const void *data, size_t bytes)
{
    struct nc_connection *connection = &client->connection;
    if (connection->borrowed_bytes && nc_output_own(client) < 0)
        return false;
    return nc_buffer_append(&connection->out, data, bytes) == NEARCALL_OK;
}

/* The frame will not be answered, as the server never sees it. */
static void uncount(struct nc_connection *connection, const struct nc_call *call)
{
    if (call->type != NC_PING && connection->unanswered > 0)
        connection->unanswered--;
}

/* Takes a frame of which the kernel has nothing yet out of the output. Frames
 * behind it move forward. */
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

/* Without memory for the rest of a frame that was begun there is no connection any more. */
void nc_output_lost(nearcall_client *client)
{
    struct nc_loss loss = {-NEARCALL_E_RESOURCE_EXHAUSTED, false, NC_ENDED_HERE};
    nc_connection_lost(client, &loss, "no memory for the rest of a frame to %s", client->address_text);
}

/* A call that has ended while its frame is half sent: the rest goes on, and the caller may
 * forget what it is made of. */
void nc_output_go_on(nearcall_client *client, const struct nc_call *call)
{
    if (nc_output_own(client) == NEARCALL_OK)
        nc_output_forsake(client, call);
    else
        nc_output_lost(client);
}

/* The rest of the call's frame goes on without it. */
void nc_output_forsake(nearcall_client *client, const struct nc_call *call)
{
    client->connection.forsaken_end = call->frame_end;
    client->connection.moved_ns = client->now_ns;
}

/* Half a frame that nobody waits for holds up those behind it no longer than a server
 * bears with one; NC_NEVER where there is none. */
int64_t nc_output_stuck_ns(const struct nc_connection *connection)
{
    return connection->written < connection->forsaken_end
               ? nc_after_ms(connection->moved_ns, NC_FRAME_SILENCE_MS)
               : NC_NEVER;
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

/* ---- Frames ---- */

static uint32_t deadline_field(const nearcall_client *client, const struct nc_call *call)
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

/* Of the extension that names the function, if that is needed. */
size_t nc_extension_bytes(const nearcall_client *client, const struct nc_call *call)
{
    if (call->type != NC_REQUEST || id_is_known(client, call->function))
        return 0;
    return NC_EXTENSION_HEADER_BYTES + (size_t)call->function->name_bytes;
}

/* Writes header and extensions, for which there is room. */
void nc_encode_head(nearcall_client *client, struct nc_call *call, uint8_t *header,
                    uint8_t *extensions)
{
    const nearcall_function *function = call->function;
    struct nc_frame frame = {.type = (uint8_t)call->type};
    if (call->type != NC_PING) {
        frame.call_id = call->id;
        frame.deadline_ms = deadline_field(client, call);
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
    }
    call->function_id = frame.function_id;
    frame.length = frame.extension_bytes + (uint32_t)call->payload_bytes;
    nc_frame_encode(header, &frame);
}

/* A call the connection will not take; nothing was sent. */
static bool refuse(nearcall_client *client, struct nc_call *call)
{
    const struct nc_welcome *welcome = &client->connection.welcome;
    if (call->payload_bytes + nc_extension_bytes(client, call) > welcome->frame_bytes_max) {
        nc_call_finish(client, call, -NEARCALL_E_RESOURCE_EXHAUSTED, NEARCALL_OUTCOME_NOT_EXECUTED,
                       "the request is larger than the largest frame the server takes (limit "
                       "frame_bytes_max); split it, or raise the limit by the server's option "
                       "WithFrameBytesMax, to at most " NC_TEXT(NC_FRAME_BYTES_MAX_CEILING));
        return true;
    }
    if (call->files && !(welcome->features & NC_FEATURE_DESCRIPTORS)) {
        nc_call_finish(client, call, -NEARCALL_E_PERMISSION_DENIED, NEARCALL_OUTCOME_NOT_EXECUTED,
                       "the server does not let this process pass files or connections; they "
                       "need a local socket, and a server that allows it");
        return true;
    }
    if (nc_encoding_is_outdated(client, &call->encoding)) {
        nc_description_unsent(client, call);
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
    if (sent < head_bytes && !nc_queue(client, head + sent, head_bytes - sent)) {
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
    if (nc_queue(client, head, head_bytes) && nc_queue(client, call->payload, call->payload_bytes))
        return;
    /* nc_queue() adds all or nothing, so at most the head has to go again */
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

void nc_mark_as_sent(nearcall_client *client, struct nc_call *call)
{
    struct nc_connection *connection = &client->connection;
    nc_call_leave_queue(call);
    call->state = NC_CALL_SENT;
    if (call->type == NC_PING)
        return; /* it has no id on the wire, and may overtake requests that wait */
    if (connection->first_id == 0)
        connection->first_id = call->id;
    connection->last_id = call->id;
    connection->unanswered++;
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

/* The connection is ready and the call pending. Afterwards the call is sent, or
 * finished with its failure, or pending still on a connection that is lost or drains. */
void nc_send_call(nearcall_client *client, struct nc_call *call)
{
    if (call->synchronous)
        nc_call_draw_id(client, call);
    if (refuse(client, call))
        return;
    if (call->type == NC_PING)
        prepare_ping(client, call);
    if (nc_memory_is_used(&client->connection.memory) && nc_send_by_memory(client, call))
        return;
    send_by_socket(client, call);
}

/* Best effort: a call that cannot be cancelled runs on, and its reply is
 * dropped all the same. */
void nc_send_cancel(nearcall_client *client, const struct nc_call *call)
{
    uint8_t bytes[NC_FRAME_HEADER_BYTES];
    struct nc_frame frame = {.type = NC_CANCEL, .call_id = call->id};
    if (!nc_connection_usable(client))
        return;
    if (call->by_memory && nc_cancel_by_memory(client, call))
        return;
    nc_frame_encode(bytes, &frame);
    if (nc_queue(client, bytes, sizeof(bytes)))
        nc_flush(client);
}

/* Only queues: it is called while input is being taken apart. */
void nc_send_pong(nearcall_client *client, const uint8_t *payload, size_t payload_bytes)
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

/* Requests that waited for the connection, or for others to be answered, in the order of
 * their ids. */
void nc_send_line(nearcall_client *client)
{
    while (nc_may_send_pending(client)) {
        struct nc_call *call = client->calls.pending.first;
        nc_send_call(client, call);
        if (client->connection.borrowed_bytes && nc_output_own(client) < 0) {
            if (nc_frame_is_untouched(client, call))
                nc_output_remove(client, call);
            no_memory(client, call);
        }
        if (call->state == NC_CALL_SENT)
            nc_buffer_empty(&call->store);
    }
}
