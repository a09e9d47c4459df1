#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include "client.h"

#define INPUT_ROOM 4096
#define REPLY_ID_BYTES 16 /* of a header: enough to know what and whose it is */

/* What a handler says: 0, or -1 with the fault filled. */
typedef int handler(nearcall_client *client, const struct nc_frame *frame, const uint8_t *payload,
                    size_t bytes, struct nc_fault *fault);

static int refuse(struct nc_fault *fault, const char *subject, const char *field, uint64_t value,
                  const char *allowed)
{
    *fault = (struct nc_fault){-NEARCALL_E_INVALID_ARGUMENT, subject, field, value, allowed};
    return -1;
}

/* A reply that is illegal says all the same that its function has run. */
static void lose_illegal_reply(nearcall_client *client, const struct nc_frame *frame,
                               const struct nc_fault *fault)
{
    struct nc_call *call = nc_call_by_id(client, frame->call_id);
    if (frame->type != NC_REPLY || !call || call->state != NC_CALL_SENT ||
        call->type != NC_REQUEST || !nc_frame_is_written(client, call))
        return;
    if (fault->code == -NEARCALL_E_RESOURCE_EXHAUSTED)
        nc_call_finish(client, call, fault->code, NEARCALL_OUTCOME_EXECUTED_RESULT_LOST,
                       "the reply is larger than this handle accepts; its option frame_bytes_max "
                       "raises that to at most " NC_TEXT(NC_FRAME_BYTES_MAX_CEILING));
    else
        nc_call_finish(client, call, -NEARCALL_E_INTERNAL, NEARCALL_OUTCOME_EXECUTED_RESULT_LOST,
                       client->lost_text);
}

/* frame is NULL when what came is no frame at all. */
void nc_protocol_error(nearcall_client *client, const struct nc_frame *frame,
                           const struct nc_fault *fault)
{
    struct nc_loss loss = {-NEARCALL_E_INTERNAL, false, NC_ENDED_HERE};
    nc_calls_keep_what(client);
    if (frame)
        lose_illegal_reply(client, frame, fault); /* with the text that follows */
    client->connection.in.start = client->connection.in.end = 0; /* proves nothing about others */
    nc_connection_lost(client, &loss,
                       "the server at %s broke the protocol: %s of a %s frame is %llu (0x%llx), "
                       "allowed: %s",
                       client->address_text, fault->field, fault->subject,
                       (unsigned long long)fault->value, (unsigned long long)fault->value,
                       fault->allowed);
}

/* ---- Replies and errors ---- */

static int known_outcome(uint32_t status)
{
    int outcome = (int)(status >> 8 & 0xFF);
    if (outcome < NEARCALL_OUTCOME_NOT_EXECUTED || outcome > NEARCALL_OUTCOME_EXECUTED)
        return NEARCALL_OUTCOME_UNKNOWN;
    return outcome;
}

/* A server that has no room for a request refuses it by its head alone. */
static bool may_be_answered(const nearcall_client *client, const struct nc_call *call,
                            const struct nc_frame *frame)
{
    return nc_frame_is_written(client, call) ||
           (frame->type == NC_ERROR && known_outcome(frame->status) == NEARCALL_OUTCOME_NOT_EXECUTED &&
            !nc_frame_is_untouched(client, call));
}

/* The call a reply or error is for; NULL with 0 returned: it was given up. */
static int find_call(nearcall_client *client, const struct nc_frame *frame, const char *subject,
                     struct nc_call **ret_call, struct nc_fault *fault)
{
    const struct nc_connection *connection = &client->connection;
    struct nc_call *call = nc_call_by_id(client, frame->call_id);
    *ret_call = NULL;
    if (connection->first_id == 0 || frame->call_id < connection->first_id ||
        frame->call_id > connection->last_id)
        return refuse(fault, subject, "call id", frame->call_id, "ids of calls that were sent");
    if (!call || !nc_call_is_on_connection(call))
        return 0;
    if (call->type == NC_PING || !may_be_answered(client, call, frame))
        return refuse(fault, subject, "call id", frame->call_id, "ids of calls that were sent");
    *ret_call = call;
    return 0;
}

static void keep_result(nearcall_client *client, struct nc_call *call, const uint8_t *data,
                        size_t bytes)
{
    call->data = data;
    call->data_bytes = bytes;
    if (call == client->waiting)
        return;
    nc_buffer_empty(&call->store);
    if (nc_buffer_append(&call->store, data, bytes) == NEARCALL_OK) {
        call->data = call->store.data;
        return;
    }
    if (call->code == 0) {
        call->code = -NEARCALL_E_RESOURCE_EXHAUSTED;
        call->outcome = NEARCALL_OUTCOME_EXECUTED_RESULT_LOST;
    }
    call->what = "no memory to keep the reply";
}

/* The deadline is final: of an answer that came after it only that the function did
 * not run, or that its result is gone, is worth telling. */
static void finish_too_late(nearcall_client *client, struct nc_call *call, int outcome)
{
    if (outcome != NEARCALL_OUTCOME_NOT_EXECUTED &&
        outcome != NEARCALL_OUTCOME_EXECUTED_RESULT_LOST)
        outcome = NEARCALL_OUTCOME_UNKNOWN;
    nc_call_finish(client, call, -NEARCALL_E_DEADLINE_EXCEEDED, outcome,
                   "the deadline passed before the reply came");
}

static void finish_find(nearcall_client *client, struct nc_call *call, const uint8_t *payload,
                        size_t bytes)
{
    nc_call_finish(client, call, 0, NEARCALL_OUTCOME_NONE, NULL);
    if (nc_function_learn(client, call->function, payload, bytes) < 0)
        nc_call_finish(client, call, -NEARCALL_E_RESOURCE_EXHAUSTED, NEARCALL_OUTCOME_NOT_EXECUTED,
                       "no memory for the function's description");
    else
        keep_result(client, call, payload, bytes);
}

static int on_reply(nearcall_client *client, const struct nc_frame *frame, const uint8_t *payload,
                    size_t bytes, struct nc_fault *fault)
{
    struct nc_call *call;
    if (find_call(client, frame, "REPLY", &call, fault) < 0)
        return -1;
    if (!call)
        return 0;
    if (call->function_id && call->function_id != frame->function_id)
        return refuse(fault, "REPLY", "function id", frame->function_id, "the request's");
    if (frame->codec != (call->type == NC_REQUEST ? call->codec : NEARCALL_CODEC_MSGPACK))
        return refuse(fault, "REPLY", "codec", frame->codec, "the request's");
    call->function->id = frame->function_id;
    call->function->id_hash = client->connection.welcome.schema_hash;
    call->reply_codec = frame->codec;
    if (call->state == NC_CALL_CANCELLING) {
        finish_too_late(client, call, NEARCALL_OUTCOME_UNKNOWN);
    } else if (call->type == NC_RESOLVE) {
        finish_find(client, call, payload, bytes);
    } else if (nc_keep_files(client, call)) {
        nc_call_finish(client, call, 0, NEARCALL_OUTCOME_NONE, NULL);
        keep_result(client, call, payload, bytes);
    }
    return 0;
}

/* Its code is about the connection, and says nothing about any one call of it. */
static void connection_error(nearcall_client *client, const uint8_t *payload, size_t bytes)
{
    struct nc_loss loss = {-NEARCALL_E_UNAVAILABLE, true, NC_ENDED_HERE};
    nearcall_reader reader = {payload, payload + bytes};
    nearcall_value message;
    (void)nearcall_read(&reader, &message); /* the array's head; it was checked */
    (void)nearcall_read(&reader, &message);
    nc_connection_lost(client, &loss, "the server at %s ended the connection: %.*s",
                       client->address_text, (int)message.count, (const char *)message.as.data);
}

static int known_code(uint32_t status)
{
    int code = (int)(status & 0xFF);
    return code <= -NEARCALL_E_UNAUTHENTICATED ? code : -NEARCALL_E_UNKNOWN;
}

static int on_error(nearcall_client *client, const struct nc_frame *frame, const uint8_t *payload,
                    size_t bytes, struct nc_fault *fault)
{
    struct nc_call *call;
    int code = known_code(frame->status);
    int outcome = known_outcome(frame->status);
    if (!nc_error_payload_is_valid(payload, bytes))
        return refuse(fault, "ERROR", "payload's first byte", payload[0],
                      "MessagePack of [message, [[type, value], ...]]");
    if (frame->call_id == 0) {
        connection_error(client, payload, bytes);
        return 0;
    }
    if (find_call(client, frame, "ERROR", &call, fault) < 0)
        return -1;
    if (!call)
        return 0;
    if (call->state == NC_CALL_CANCELLING) {
        finish_too_late(client, call, outcome);
        return 0;
    }
    nc_call_finish(client, call, code, outcome, NULL);
    call->retryable = code == -NEARCALL_E_UNAVAILABLE && outcome == NEARCALL_OUTCOME_NOT_EXECUTED;
    nc_description_refused(client, call);
    keep_result(client, call, payload, bytes);
    if (!nc_frame_is_written(client, call))
        nc_output_go_on(client, call);
    return 0;
}

/* ---- Signs of life, draining ---- */

static int on_ping(nearcall_client *client, const struct nc_frame *frame, const uint8_t *payload,
                   size_t bytes, struct nc_fault *fault)
{
    (void)frame;
    (void)fault;
    nc_send_pong(client, payload, bytes);
    return 0;
}

/* A ping's payload is its id, so that the pong of one that was given up is told
 * from that of the next. */
static int on_pong(nearcall_client *client, const struct nc_frame *frame, const uint8_t *payload,
                   size_t bytes, struct nc_fault *fault)
{
    (void)frame;
    uint64_t id = bytes == sizeof(id) ? nc_get_u64(payload) : 0;
    if (id == 0 || id > client->connection.last_ping_id || id < client->connection.first_ping_id)
        return refuse(fault, "PONG", "payload", id, "that of a PING that was sent");
    struct nc_call *call = nc_call_by_id(client, id);
    if (call && call->type == NC_PING && nc_call_is_on_connection(call))
        nc_call_finish(client, call, 0, NEARCALL_OUTCOME_NONE, NULL);
    return 0;
}

/* What is queued has higher ids than any the server accepted. */
static int on_drain(nearcall_client *client, const struct nc_frame *frame, const uint8_t *payload,
                    size_t bytes, struct nc_fault *fault)
{
    (void)payload;
    (void)bytes;
    (void)fault;
    struct nc_connection *connection = &client->connection;
    connection->draining = true;
    connection->out.start = connection->out.end = 0;
    connection->borrowed = NULL;
    connection->borrowed_bytes = 0;
    connection->forsaken_end = connection->written;
    nc_calls_drain(client, frame->call_id);
    return 0;
}

/* That it came is all. */
static int on_wake(nearcall_client *client, const struct nc_frame *frame, const uint8_t *payload,
                   size_t bytes, struct nc_fault *fault)
{
    (void)frame;
    (void)payload;
    (void)bytes;
    (void)fault;
    struct nc_memory *memory = &client->connection.memory;
    if (nc_memory_is_used(memory) && !nc_forked(&client->guard))
        nc_memory_awake(memory); /* one WAKE for each sleep */
    return 0;
}

static handler *const handlers[] = {
    [NC_REPLY] = on_reply,
    [NC_ERROR] = on_error,
    [NC_PING] = on_ping,
    [NC_PONG] = on_pong,
    [NC_DRAIN] = on_drain,
    [NC_WAKE] = on_wake,
    [NC_MEMORY] = nc_on_memory,
};

/* ---- Taking the input apart ---- */

static void consume(struct nc_connection *connection, size_t bytes)
{
    connection->taken += bytes;
    nc_buffer_consume(&connection->in, bytes);
}

/* Those of a frame whose rest is dropped; misplaced ones are found by who looks next. */
static void skip_descriptors(struct nc_connection *connection, const struct nc_frame *frame)
{
    struct nc_fault fault;
    (void)nc_take_descriptors(connection, frame, &fault);
    nc_descriptors_drop(&connection->descriptors);
}

/* The rest of a reply that nobody waits for is dropped as it arrives. */
static void skip_if_given_up(nearcall_client *client, const struct nc_frame *frame, size_t arrived)
{
    struct nc_connection *connection = &client->connection;
    if (frame->type != NC_REPLY || frame->call_id > connection->last_id ||
        frame->call_id < connection->first_id)
        return;
    struct nc_call *call = nc_call_by_id(client, frame->call_id);
    if (call && nc_call_is_on_connection(call))
        return;
    nc_answer_came(connection, frame);
    connection->skip_bytes = NC_FRAME_HEADER_BYTES + (size_t)frame->length - arrived;
    skip_descriptors(connection, frame);
    consume(connection, arrived);
}

/* A reply that must be understood in a way this version does not know. */
static bool refuse_extension(nearcall_client *client, const struct nc_frame *frame,
                             const struct nc_fault *fault)
{
    struct nc_call *call = nc_call_by_id(client, frame->call_id);
    if (fault->code != -NEARCALL_E_UNIMPLEMENTED)
        return false;
    if (call && call->state == NC_CALL_SENT && nc_frame_is_written(client, call))
        nc_call_finish(client, call, -NEARCALL_E_UNIMPLEMENTED, NEARCALL_OUTCOME_EXECUTED_RESULT_LOST,
                       "the reply carries an extension that this version does not know");
    return true;
}

/* The server counts the request no longer, whether somebody waits for it or not. */
void nc_answer_came(struct nc_connection *connection, const struct nc_frame *frame)
{
    bool ends_call = frame->type == NC_REPLY || (frame->type == NC_ERROR && frame->call_id != 0);
    if (ends_call && connection->unanswered > 0)
        connection->unanswered--;
}

int nc_handle_frame(nearcall_client *client, const struct nc_frame *frame, const uint8_t *body,
                    struct nc_fault *fault)
{
    nc_answer_came(&client->connection, frame);
    if (frame->extension_bytes &&
        nc_extensions_check(body, frame->extension_bytes, "REPLY", fault) < 0)
        return refuse_extension(client, frame, fault) ? 0 : -1;
    return handlers[frame->type](client, frame, body + frame->extension_bytes,
                                 frame->length - frame->extension_bytes, fault);
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
    if (nc_frame_check(&frame, NC_FROM_SERVER, client->connection.welcome.features,
                       client->options.frame_bytes_max, &fault) < 0) {
        nc_protocol_error(client, &frame, &fault);
        return false;
    }
    if (arrived - NC_FRAME_HEADER_BYTES < frame.length) {
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

bool nc_reply_has_begun(const nearcall_client *client, const struct nc_call *call)
{
    const struct nc_buffer *in = &client->connection.in;
    const uint8_t *header = in->data + in->start;
    return client->connection.state == NC_READY && nc_buffer_bytes(in) >= REPLY_ID_BYTES &&
           header[4] == NC_REPLY && nc_get_u64(header + 8) == call->id;
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

/* The reply, or the error's words, cannot be kept: the call ends with what the
 * header says. */
void nc_lose_answer(nearcall_client *client, const struct nc_frame *frame)
{
    struct nc_call *call = nc_call_by_id(client, frame->call_id);
    int code = -NEARCALL_E_RESOURCE_EXHAUSTED;
    int outcome = NEARCALL_OUTCOME_EXECUTED_RESULT_LOST;
    nc_answer_came(&client->connection, frame);
    if (!call || !nc_call_is_on_connection(call))
        return;
    if (frame->type == NC_ERROR) {
        code = known_code(frame->status);
        outcome = known_outcome(frame->status);
    }
    nc_call_finish(client, call, code, outcome, "no memory to keep what the server answered");
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

/* Gives a large buffer back once frames are small again. */
static void trim(struct nc_buffer *in)
{
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
    if (error)
        nc_connection_lost(client, &loss, "the connection to %s was lost: %s",
                           client->address_text, strerror(error));
    else
        nc_connection_lost(client, &loss, "%s closed the connection", client->address_text);
}

/* The result that lies in the input or in shared memory must outlive further reading. */
void nc_keep_waiting_result(nearcall_client *client)
{
    struct nc_call *call = client->waiting;
    client->waiting = NULL;
    if (call && call->state == NC_CALL_FINISHED && call->what == NULL && call->data_bytes)
        keep_result(client, call, call->data, call->data_bytes);
    if (call && call->state != NC_CALL_FINISHED)
        client->waiting = call;
    else if (call && client->connection.memory.held && !nc_forked(&client->guard))
        nc_memory_release(&client->connection.memory);
}

static void refuse_descriptors(nearcall_client *client)
{
    struct nc_fault fault;
    (void)refuse(&fault, "server's", "descriptors", 1, "0, as they were not agreed to");
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
    connection->looked_ns = client->now_ns;
    if (connection->skip_bytes)
        skip(connection);
    trim(in);
    nc_dispatch(client);
    if (nc_descriptors_are_misplaced(connection))
        refuse_descriptors(client);
    return NC_RECEIVED;
}

/* Reads once and handles what is complete. NC_RECEIVED, NC_NOTHING when nothing
 * came or the connection is gone, NEARCALL_E_INTERRUPTED. */
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

/* The same for the socket alone: a ring that is never empty must not hide it. */
int nc_receive_socket(nearcall_client *client, int flags)
{
    if (nc_forked_inside(client))
        return NC_NOTHING;
    nc_keep_waiting_result(client);
    return read_socket(client, flags);
}
