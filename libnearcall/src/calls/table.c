/* The table of calls: chunks that are made as they are needed, and the lists that keep
 * every walk to the calls it is about. */
#include "calls/calls.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "functions/functions.h"
#include "transport/files.h"

/* ---- Lists ---- */

static void join(struct nc_queue *queue, struct nc_call *call)
{
    call->queue = queue;
    call->queue_next = NULL;
    call->queue_former = queue->last;
    if (queue->last)
        queue->last->queue_next = call;
    else
        queue->first = call;
    queue->last = call;
    if (!queue->untold)
        queue->untold = call;
    queue->count++;
}

void nc_queue_remove(struct nc_call *call)
{
    struct nc_queue *queue = call->queue;
    if (call->queue_former)
        call->queue_former->queue_next = call->queue_next;
    else
        queue->first = call->queue_next;
    if (call->queue_next)
        call->queue_next->queue_former = call->queue_former;
    else
        queue->last = call->queue_former;
    if (queue->untold == call)
        queue->untold = call->queue_next;
    queue->count--;
    call->queue = NULL;
}

/* Numbers are used in turn, so that ids rise by one as long as few calls are in use. */
static void add_free(struct nc_calls *calls, struct nc_call *call)
{
    call->next = NULL;
    if (calls->free)
        calls->free_last->next = call;
    else
        calls->free = call;
    calls->free_last = call;
}

static void begin_use(struct nc_calls *calls, struct nc_call *call)
{
    call->former = NULL;
    call->next = calls->used;
    if (calls->used)
        calls->used->former = call;
    calls->used = call;
    calls->used_count++;
}

static void end_use(struct nc_calls *calls, struct nc_call *call)
{
    if (call->former)
        call->former->next = call->next;
    else
        calls->used = call->next;
    if (call->next)
        call->next->former = call->former;
    add_free(calls, call);
    if (--calls->used_count == 0)
        calls->timer_ns = NC_NEVER;
}

/* ---- Chunks ---- */

static void number_chunk(struct nc_call *chunk, uint32_t first)
{
    for (uint32_t i = 0; i < NC_CALLS_IN_CHUNK; i++)
        chunk[i].number = first + i;
}

void nc_calls_init(struct nc_calls *calls)
{
    number_chunk(calls->first_chunk, 0);
    for (size_t i = 1; i <= NC_CALLS_IN_CHUNK; i++) /* the first id is 1 */
        add_free(calls, &calls->first_chunk[i % NC_CALLS_IN_CHUNK]);
    calls->chunks[0] = calls->first_chunk;
    calls->timer_ns = NC_NEVER;
}

/* False: there is no memory. */
static bool add_chunk(struct nc_calls *calls)
{
    size_t at = 0;
    while (at < NC_CALLS / NC_CALLS_IN_CHUNK && calls->chunks[at])
        at++;
    struct nc_call *chunk = at < NC_CALLS / NC_CALLS_IN_CHUNK
                                ? calloc(NC_CALLS_IN_CHUNK, sizeof(*chunk))
                                : NULL;
    if (!chunk)
        return false;
    number_chunk(chunk, (uint32_t)at * NC_CALLS_IN_CHUNK);
    atomic_thread_fence(memory_order_release); /* a fork finds it whole, or not at all */
    calls->chunks[at] = chunk;
    for (size_t i = 0; i < NC_CALLS_IN_CHUNK; i++)
        add_free(calls, &chunk[i]);
    return true;
}

void nc_calls_free(struct nc_calls *calls)
{
    for (size_t at = 0; at < NC_CALLS / NC_CALLS_IN_CHUNK && calls->chunks[at]; at++) {
        for (size_t i = 0; i < NC_CALLS_IN_CHUNK; i++) {
            struct nc_call *call = &calls->chunks[at][i];
            nc_buffer_free(&call->store);
            nc_call_let_go(call);
        }
        if (at > 0)
            free(calls->chunks[at]);
    }
}

/* ---- A call's life ---- */

struct nc_call *nc_call_new(nearcall_client *client, enum nc_frame_type type,
                            nearcall_function *function, int64_t deadline_ns)
{
    struct nc_calls *calls = &client->calls;
    if (calls->used_count >= calls->used_max ||
        (!calls->free && !add_chunk(calls)))
        return NULL;
    struct nc_call *call = calls->free;
    if (client->connection.state != NC_READY)
        nc_connection_expect(client, deadline_ns);
    calls->free = call->next;
    begin_use(calls, call);
    /* Field by field: clearing all of it would cost more than all else here. What is
     * not set is not looked at before it is, or is 0 in a free call. */
    call->state = NC_CALL_PENDING;
    call->type = type;
    call->synchronous = call->known = call->by_memory = call->untouched = false;
    call->retryable = false;
    call->codec = 0;
    call->function = function;
    call->encoding = (struct nc_encoding){0};
    call->deadline_ns = deadline_ns;
    call->frame_start = call->frame_end = 0;
    call->payload = NULL;
    call->payload_bytes = 0;
    call->files_sent = false;
    call->code = 0;
    nc_calls_look_by(client, deadline_ns);
    return call;
}

void nc_call_draw_id(nearcall_client *client, struct nc_call *call)
{
    uint64_t next = client->last_id + 1;
    client->last_id = call->id = next + (call->number - next) % NC_CALLS;
}

struct nc_call *nc_call_by_known_id(const nearcall_client *client, nearcall_call_id id)
{
    struct nc_call *chunk = client->calls.chunks[id % NC_CALLS / NC_CALLS_IN_CHUNK];
    struct nc_call *call = chunk ? &chunk[id % NC_CALLS_IN_CHUNK] : NULL;
    bool has_another = call && id != 0 && call->state != NC_CALL_FREE && nc_store_stage_of(call) != NC_STORE_NONE &&
                       call->storing->known_id == id;
    return has_another ? call : nc_call_by_id(client, id);
}

void nc_call_wait_its_turn(nearcall_client *client, struct nc_call *call)
{
    join(&client->calls.pending, call);
}

/* Its user may fetch it. */
static void announce(nearcall_client *client, struct nc_call *call)
{
    nc_call_leave_queue(call);
    join(&client->calls.finished, call);
    client->calls.unreported = true;
}

void nc_call_finish(nearcall_client *client, struct nc_call *call, int code, int outcome,
                    const char *what)
{
    if (nc_store_stage_of(call) != NC_STORE_NONE && call->storing->known_id)
        call->id = call->storing->known_id;
    bool is_news = !call->synchronous && call->state != NC_CALL_FINISHED;
    call->state = NC_CALL_FINISHED;
    call->code = code;
    call->outcome = outcome;
    call->what = what;
    call->retryable = false;
    call->data = NULL;
    call->data_bytes = 0;
    if (is_news)
        announce(client, call);
}

void nc_call_begin_again(struct nc_call *call)
{
    nc_call_leave_queue(call);
    if (call->has_more) /* what was answered before is no answer any more */
        nc_metadata_free(&call->metadata);
    if (nc_store_stage_of(call) != NC_STORE_NONE)
        call->storing->stage = NC_STORE_NONE;
    call->state = NC_CALL_PENDING;
}

/* Its text is needed no longer; that of a call of which the server is asked is. */
static bool may_be_sent_again(const nearcall_client *client, const struct nc_call *call)
{
    bool is_asked = call == client->sync.call && client->sync.asking.is_possible;
    return call->synchronous && call->retryable && !is_asked;
}

void nc_calls_keep_what(nearcall_client *client)
{
    char *text = client->lost_text;
    if (!*text)
        return;
    for (struct nc_call *call = client->calls.used; call; call = call->next) {
        if (call->state != NC_CALL_FINISHED || call->what != text || may_be_sent_again(client, call))
            continue;
        nc_buffer_empty(&call->store);
        call->what = nc_buffer_append(&call->store, text, strlen(text) + 1) == 0
                         ? (const char *)call->store.data
                         : "the connection was lost; no memory was left to keep why";
    }
    *text = '\0';
}

void nc_call_free(nearcall_client *client, struct nc_call *call)
{
    nearcall_function *function = call->function;
    nc_buffer_empty(&call->store);
    if (call->has_more)
        nc_call_let_go(call);
    if (client->waiting == call)
        client->waiting = NULL;
    nc_call_leave_queue(call);
    call->state = NC_CALL_FREE;
    call->id = 0;
    call->function = NULL;
    end_use(&client->calls, call);
    if (function && function->revision == 0 && function->id == 0)
        nc_function_forget_if_unused(client, function);
}

/* What came with the reply besides its payload lives as long as that. */
static void lend_more(nearcall_client *client, struct nc_call *call)
{
    client->lends_more = true;
    nc_files_release(&client->lent_files);
    client->lent_files = call->reply_files;
    call->reply_files = NULL;
    nc_metadata_free(&client->lent_metadata);
    client->lent_metadata = call->metadata;
    call->metadata = NULL;
}

static const uint8_t nothing[1];

int nc_call_deliver(nearcall_client *client, struct nc_call *call, nearcall_reply *ret_reply)
{
    int r = NEARCALL_OK;
    if (call->code != 0) {
        r = nc_fail_as_call(client, call);
    } else if (ret_reply) {
        ret_reply->data = call->data_bytes ? call->data : nothing;
        ret_reply->bytes = call->data_bytes;
        ret_reply->codec = call->reply_codec;
    }
    if (call->has_more)
        lend_more(client, call);
    if (nc_buffer_bytes(&call->store)) /* result or details: they live until the next function */
        nc_buffer_swap(&call->store, &client->lent);
    nc_call_free(client, call);
    return r;
}

/* ---- Forks ---- */

static void leave_to_parent(nearcall_client *client, struct nc_call *call)
{
    nc_call_finish(client, call, -NEARCALL_E_UNAVAILABLE, NEARCALL_OUTCOME_UNKNOWN,
                   "the call belongs to the parent of this forked process");
}

void nc_calls_after_fork(nearcall_client *client)
{
    nc_lost_free_all(client); /* a child does not ask: its parent may send the calls again */
    for (struct nc_call *call = client->calls.used; call; call = call->next) {
        if (call->state != NC_CALL_FINISHED)
            leave_to_parent(client, call);
    }
}

/* Gives the call an end in place of its own. */
typedef void put_end(nearcall_client *client, struct nc_call *call);

static void take_over(nearcall_client *client, struct nc_call *call, put_end *end)
{
    call->queue = NULL;
    if (call->state != NC_CALL_FREE && call->known) {
        memset(&call->store, 0, sizeof(call->store));
        call->view = NULL;
        call->metadata = NULL;
        if (nc_store_stage_of(call) != NC_STORE_NONE && call->storing->known_id)
            call->id = call->storing->known_id;
        call->storing = NULL;
        call->state = NC_CALL_PENDING; /* it may be half finished */
        begin_use(&client->calls, call);
        end(client, call);
        return;
    }
    uint32_t number = call->number;
    memset(call, 0, sizeof(*call));
    call->number = number;
    add_free(&client->calls, call);
}

static void make_anew(nearcall_client *client, put_end *end)
{
    struct nc_calls *calls = &client->calls;
    calls->free = calls->used = NULL;
    calls->used_count = 0;
    calls->used_max = client->options.calls_in_flight_max;
    calls->lost = NULL; /* it may be half made */
    calls->pending = calls->finished = (struct nc_queue){0};
    for (size_t at = 0; at < NC_CALLS / NC_CALLS_IN_CHUNK && calls->chunks[at]; at++)
        for (size_t i = 0; i < NC_CALLS_IN_CHUNK; i++)
            take_over(client, &calls->chunks[at][i], end);
    calls->timer_ns = NC_NEVER;
}

void nc_calls_after_busy_fork(nearcall_client *client)
{
    make_anew(client, leave_to_parent);
}

/* ---- Functions that a signal's handler has left ---- */

static void leave_behind(nearcall_client *client, struct nc_call *call)
{
    nc_call_finish(client, call, -NEARCALL_E_UNAVAILABLE,
                   call->type == NC_REQUEST ? NEARCALL_OUTCOME_UNKNOWN : NEARCALL_OUTCOME_NOT_EXECUTED,
                   "the connection was closed by " NC_ABANDONED);
}

void nc_calls_after_leaving(nearcall_client *client)
{
    make_anew(client, leave_behind);
}

void nc_calls_free_unknown(nearcall_client *client)
{
    struct nc_call *next;
    for (struct nc_call *call = client->calls.used; call; call = next) {
        next = call->next;
        if (!call->known)
            nc_call_free(client, call);
    }
}
