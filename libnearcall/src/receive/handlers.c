/* What each type of frame that a server sends does. */
#include "receive/frames.h"

#include "base/base.h"
#include "base/clock.h"
#include "calls/calls.h"
#include "connection/connection.h"
#include "connection/output.h"
#include "connection/stores.h"
#include "functions/functions.h"
#include "memory/memory.h"
#include "msgpack/msgpack.h"

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
    if (nc_call_asks_for_store(call))
        nc_call_finish(client, call, -NEARCALL_E_INTERNAL, NEARCALL_OUTCOME_NOT_EXECUTED, client->lost_text);
    else if (fault->code == -NEARCALL_E_RESOURCE_EXHAUSTED)
        nc_call_finish(client, call, fault->code, NEARCALL_OUTCOME_EXECUTED_RESULT_LOST,
                       "the reply is larger than this handle accepts; its option frame_bytes_max "
                       "raises that to at most " NC_TEXT(NC_FRAME_BYTES_MAX_CEILING));
    else
        nc_call_finish(client, call, -NEARCALL_E_INTERNAL, NEARCALL_OUTCOME_EXECUTED_RESULT_LOST,
                       client->lost_text);
}

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

/* The answer to an ASK: how far each of its calls came. */
static int on_asked(nearcall_client *client, struct nc_call *call, const struct nc_frame *frame,
                    const uint8_t *payload, size_t bytes, struct nc_fault *fault)
{
    if (frame->function_id != 0)
        return refuse(fault, "REPLY to ASK", "function id", frame->function_id, "0");
    if (frame->codec != NEARCALL_CODEC_RAW || frame->extension_bytes != 0)
        return refuse(fault, "REPLY to ASK", "codec or extension bytes", frame->codec, "0");
    if (bytes != (call->payload_bytes - NC_CONNECTION_KEY_BYTES) / NC_ASKED_CALL_BYTES)
        return refuse(fault, "REPLY to ASK", "payload bytes", bytes, "1 for each call");
    nc_call_finish(client, call, 0, NEARCALL_OUTCOME_NONE, NULL);
    keep_result(client, call, payload, bytes);
    nc_asking_look(client);
    return 0;
}

static int on_reply(nearcall_client *client, const struct nc_frame *frame, const uint8_t *payload,
                    size_t bytes, struct nc_fault *fault)
{
    struct nc_call *call;
    if (find_call(client, frame, "REPLY", &call, fault) < 0)
        return -1;
    if (!call)
        return 0;
    if (call->type == NC_ASK)
        return on_asked(client, call, frame, payload, bytes, fault);
    if (nc_call_asks_for_store(call)) {
        nc_on_store_given(client, call);
        return 0;
    }
    if (frame->function_id == 0)
        return refuse(fault, "REPLY", "function id", 0, "1 and above");
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
    } else if (frame->extension_bytes && client->connection.stores.came.named) {
        nc_read_stored(client, call);
    } else if (nc_keep_files(client, call)) {
        nc_call_finish(client, call, 0, NEARCALL_OUTCOME_NONE, NULL);
        keep_result(client, call, payload, bytes);
    }
    if (nc_store_stage_of(call) == NC_STORE_NAMED) /* a long call is no time in which the store was idle */
        nc_stores_used(client, call->storing->stored.place);
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

/* Pauses before a store is asked for again while the server has given out all that it may. */
#define STORE_PAUSE_MIN_NS NC_NS_PER_MS
#define STORE_PAUSE_MAX_NS (50 * NC_NS_PER_MS)

static bool is_crowded(int code, const uint8_t *payload, size_t bytes)
{
    return code == -NEARCALL_E_RESOURCE_EXHAUSTED && nc_error_names_limit(payload, bytes, "stores_per_direction");
}

/* An error for a call whose request travels in a store. False: there will be a store for it as soon as another
 * call has ended. */
static bool on_error_of_stored(nearcall_client *client, struct nc_call *call, int code, int *outcome,
                               const uint8_t *payload, size_t bytes)
{
    struct nc_storing *storing = call->storing;
    if (storing->stage == NC_STORE_NAMED) {
        if (*outcome == NEARCALL_OUTCOME_NOT_EXECUTED) /* one that the server has back already is not touched by that */
            nc_stores_release(client, &storing->stored);
        return true;
    }
    *outcome = NEARCALL_OUTCOME_NOT_EXECUTED;
    if (storing->stage != NC_STORE_ASKED || !is_crowded(code, payload, bytes))
        return true;
    storing->pause_ns = nc_earlier(storing->pause_ns ? 2 * storing->pause_ns : STORE_PAUSE_MIN_NS, STORE_PAUSE_MAX_NS);
    storing->ask_again_ns = nc_now_ns() + storing->pause_ns;
    storing->stage = NC_STORE_CROWDED;
    client->calls.looks_at_all = true;
    nc_calls_look_by(client, storing->ask_again_ns);
    return false;
}

static int on_error(nearcall_client *client, const struct nc_frame *frame, const uint8_t *payload,
                    size_t bytes, struct nc_fault *fault)
{
    struct nc_call *call = NULL;
    int code = known_code(frame->status);
    int outcome = known_outcome(frame->status);
    if (frame->call_id && find_call(client, frame, "ERROR", &call, fault) < 0)
        return -1;
    if (call && call->state == NC_CALL_CANCELLING)
        finish_too_late(client, call, outcome);
    if (!nc_payload_is_read(client, frame))
        return 0;
    if (!nc_error_payload_is_valid(payload, bytes))
        return refuse(fault, "ERROR", "payload's first byte", payload[0],
                      "MessagePack of [message, [[type, value], ...]]");
    if (!call) { /* the id is 0: otherwise nobody would read it */
        connection_error(client, payload, bytes);
        return 0;
    }
    if (nc_store_stage_of(call) != NC_STORE_NONE && !on_error_of_stored(client, call, code, &outcome, payload, bytes))
        return 0;
    if (call->type == NC_ASK)
        nc_asking_look(client);
    nc_call_finish(client, call, code, outcome, NULL);
    call->retryable = code == -NEARCALL_E_UNAVAILABLE && nc_outcome_permits_again(call, outcome);
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
    nc_output_answer_ping(client, payload, bytes);
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

/* What is queued has higher ids than any the server accepted. Nothing is sent after the first, so a
 * further one has nothing to say. */
static int on_drain(nearcall_client *client, const struct nc_frame *frame, const uint8_t *payload,
                    size_t bytes, struct nc_fault *fault)
{
    (void)payload;
    (void)bytes;
    (void)fault;
    struct nc_connection *connection = &client->connection;
    if (connection->draining)
        return 0;
    connection->draining = true;
    connection->out.start = connection->out.end = connection->hole_bytes = 0;
    connection->borrowed = NULL;
    connection->borrowed_bytes = 0;
    connection->forsaken_end = connection->written;
    nc_log(client, NEARCALL_LOG_INFO,
           "the server at %s is stopping; it answers what it has accepted, and the next call takes another connection",
           client->address_text);
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

/* ---- Any frame ---- */

static bool is_answer(const struct nc_frame *frame)
{
    return frame->type == NC_REPLY || (frame->type == NC_ERROR && frame->call_id != 0);
}

void nc_answer_came(struct nc_connection *connection, const struct nc_frame *frame)
{
    if (is_answer(frame) && connection->unanswered > 0)
        connection->unanswered--;
}

static int outcome_of_lost_reply(const struct nc_call *call)
{
    return nc_call_asks_for_store(call) ? NEARCALL_OUTCOME_NOT_EXECUTED : NEARCALL_OUTCOME_EXECUTED_RESULT_LOST;
}

static int outcome_by_head(const struct nc_call *call, const struct nc_frame *frame)
{
    return frame->type == NC_ERROR && !nc_call_asks_for_store(call) ? known_outcome(frame->status)
                                                                    : outcome_of_lost_reply(call);
}

/* code: what a reply ends with that cannot be handed on. */
static int code_by_head(const struct nc_frame *frame, int code)
{
    return frame->type == NC_ERROR ? known_code(frame->status) : code;
}

bool nc_payload_is_read(const nearcall_client *client, const struct nc_frame *frame)
{
    if (frame->type == NC_DRAIN)
        return false; /* its text is for people */
    if (frame->call_id == 0)
        return true;
    const struct nc_call *call = nc_call_by_id(client, frame->call_id);
    return call && call->state == NC_CALL_SENT;
}

/* A reply that must be understood in a way this version does not know. */
static bool refuse_extension(nearcall_client *client, const struct nc_frame *frame,
                             const struct nc_fault *fault)
{
    struct nc_call *call = nc_call_by_id(client, frame->call_id);
    if (fault->code != -NEARCALL_E_UNIMPLEMENTED)
        return false;
    if (call && call->state == NC_CALL_SENT && nc_frame_is_written(client, call))
        nc_call_finish(client, call, -NEARCALL_E_UNIMPLEMENTED, outcome_of_lost_reply(call),
                       "the reply carries an extension that this version does not know");
    return true;
}

/* The metadata of an answer that has just ended its call. An error counts for more than they do. */
static void keep_metadata(nearcall_client *client, struct nc_call *call, const uint8_t *extensions, size_t bytes)
{
    call->has_more = true;
    if (!nc_metadata_keep(&call->metadata, extensions, bytes) && call->code == 0)
        nc_call_finish(client, call, -NEARCALL_E_RESOURCE_EXHAUSTED, NEARCALL_OUTCOME_EXECUTED_RESULT_LOST,
                       "no memory to keep the metadata of the reply");
}

static int handle_with_extensions(nearcall_client *client, const struct nc_frame *frame, const uint8_t *body,
                                  struct nc_fault *fault)
{
    const uint8_t *payload = body + frame->extension_bytes;
    struct nc_call *call = nc_call_by_id(client, frame->call_id);
    bool is_awaited = call && call->state == NC_CALL_SENT && call->type == NC_REQUEST;
    uint64_t features = client->connection.welcome.features;
    if (nc_extensions_check(body, frame->extension_bytes, features, frame->type == NC_ERROR ? "ERROR" : "REPLY", fault) < 0)
        return refuse_extension(client, frame, fault) ? 0 : -1;
    if (frame->type == NC_REPLY && nc_stores_are_agreed(client) && nc_stores_find(client, frame, body, fault) < 0)
        return -1;
    int r = handlers[frame->type](client, frame, payload, frame->length - frame->extension_bytes, fault);
    if (r == 0 && is_awaited && call->state == NC_CALL_FINISHED)
        keep_metadata(client, call, body, frame->extension_bytes);
    return r == 0 ? nc_stores_end_reply(client, is_awaited, fault) : r;
}

int nc_handle_frame(nearcall_client *client, const struct nc_frame *frame, const uint8_t *body,
                    struct nc_fault *fault)
{
    nc_answer_came(&client->connection, frame);
    if (__builtin_expect(frame->extension_bytes != 0, 0))
        return handle_with_extensions(client, frame, body, fault);
    return handlers[frame->type](client, frame, body, frame->length, fault);
}

/* ---- Answers of which only the head counts ---- */

int nc_handle_head(nearcall_client *client, const struct nc_frame *frame, struct nc_fault *fault)
{
    struct nc_call *call;
    nc_answer_came(&client->connection, frame);
    if (!is_answer(frame))
        return 0;
    if (find_call(client, frame, frame->type == NC_REPLY ? "REPLY" : "ERROR", &call, fault) < 0)
        return -1;
    if (!call)
        return 0;
    if (call->state == NC_CALL_CANCELLING)
        finish_too_late(client, call, frame->type == NC_ERROR ? known_outcome(frame->status) : NEARCALL_OUTCOME_UNKNOWN);
    else
        nc_call_finish(client, call, code_by_head(frame, -NEARCALL_E_UNAVAILABLE), outcome_by_head(call, frame),
                       "the connection ended with more in its memory than there was time to read");
    return 0;
}

/* ---- Results, and what is left of them ---- */

void nc_lose_answer(nearcall_client *client, const struct nc_frame *frame)
{
    struct nc_call *call = nc_call_by_id(client, frame->call_id);
    nc_answer_came(&client->connection, frame);
    if (!call || !nc_call_is_on_connection(call))
        return;
    nc_call_finish(client, call, code_by_head(frame, -NEARCALL_E_RESOURCE_EXHAUSTED), outcome_by_head(call, frame),
                   "no memory to keep what the server answered");
}

void nc_keep_waiting_result(nearcall_client *client)
{
    struct nc_call *call = client->waiting;
    client->waiting = NULL;
    if (call && call->state == NC_CALL_FINISHED && call->what == NULL && call->data_bytes && call->data != call->store.data)
        keep_result(client, call, call->data, call->data_bytes);
    if (call && call->state != NC_CALL_FINISHED)
        client->waiting = call;
    else if (call && client->connection.memory.held && !nc_forked(&client->guard))
        nc_memory_release(&client->connection.memory);
}
