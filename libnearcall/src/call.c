#include <string.h>

#include "client.h"

unsigned nc_calls_on_connection(const nearcall_client *client)
{
    unsigned count = 0;
    for (const struct nc_call *call = client->calls.used; call; call = call->next)
        count += nc_call_is_on_connection(call);
    return count;
}

/* ---- Outcomes ---- */

/* Whether the end of the connection proves that the call's frame was not read:
 * the rule of ECONNRESET in spec/call-semantics.md. With shared memory the start
 * marks tell more, and the socket's bytes are not all that was sent. */
static bool reset_proves_unread(const nearcall_client *client, const struct nc_call *call,
                                const struct nc_loss *loss)
{
    const struct nc_connection *connection = &client->connection;
    return loss->end == NC_RESET_BY_SERVER && connection->transport->reset_shows_unread &&
           !nc_memory_is_used(&connection->memory) &&
           call->frame_end == connection->written && nc_calls_on_connection(client) == 1;
}

static enum nc_mark mark_of(const nearcall_client *client, const struct nc_call *call)
{
    const struct nc_memory *memory = &client->connection.memory;
    return nc_memory_is_used(memory) ? nc_memory_mark(memory, call->id) : NC_MARK_UNKNOWN;
}

static int outcome_of_loss(const nearcall_client *client, const struct nc_call *call,
                           const struct nc_loss *loss)
{
    if (call->type != NC_REQUEST || !nc_frame_is_written(client, call))
        return NEARCALL_OUTCOME_NOT_EXECUTED;
    if (nc_reply_has_begun(client, call))
        return NEARCALL_OUTCOME_EXECUTED_RESULT_LOST;
    if (reset_proves_unread(client, call, loss))
        return NEARCALL_OUTCOME_NOT_EXECUTED;
    if (loss->code == -NEARCALL_E_INTERNAL)
        return NEARCALL_OUTCOME_UNKNOWN; /* who breaks the protocol may mark wrongly, too */
    switch (mark_of(client, call)) {
    case NC_MARK_NONE:
    case NC_MARK_RECEIVED:
        return loss->end == NC_ENDED_HERE ? NEARCALL_OUTCOME_UNKNOWN
                                          : NEARCALL_OUTCOME_NOT_EXECUTED;
    case NC_MARK_FINISHED:
        return NEARCALL_OUTCOME_EXECUTED_RESULT_LOST;
    default:
        return NEARCALL_OUTCOME_UNKNOWN;
    }
}

static void lose(nearcall_client *client, struct nc_call *call, const struct nc_loss *loss)
{
    int outcome = outcome_of_loss(client, call, loss);
    bool too_late = call->state == NC_CALL_CANCELLING;
    call->untouched = call->by_memory ? loss->end != NC_ENDED_HERE &&
                                            mark_of(client, call) == NC_MARK_NONE
                                      : nc_frame_is_untouched(client, call);
    nc_call_finish(client, call, too_late ? -NEARCALL_E_DEADLINE_EXCEEDED : loss->code, outcome,
                   client->lost_text);
    call->retryable =
        loss->retryable && !too_late && outcome == NEARCALL_OUTCOME_NOT_EXECUTED;
}

/* Finishes what the lost connection carried, and, if it never stood, what waited
 * for it. Outcomes are decided before any call changes its state, because each
 * looks at the others. */
void nc_calls_lose(nearcall_client *client, const struct nc_loss *loss, bool before_welcome)
{
    struct nc_loss seen = *loss;
    if (seen.end == NC_RESET_BY_SERVER && nc_calls_on_connection(client) > 1)
        seen.end = NC_CLOSED_BY_SERVER;
    for (struct nc_call *call = client->calls.used; call; call = call->next) {
        if (nc_call_is_on_connection(call)) {
            lose(client, call, &seen);
        } else if (call->state == NC_CALL_PENDING && before_welcome) {
            nc_call_finish(client, call, loss->code, NEARCALL_OUTCOME_NOT_EXECUTED, client->lost_text);
            call->retryable = loss->retryable;
        }
    }
}

/* The server serves nothing above the id it names, and nothing it has not got,
 * whatever it names. */
void nc_calls_drain(nearcall_client *client, uint64_t last_served_id)
{
    for (struct nc_call *call = client->calls.used; call; call = call->next) {
        bool taken = call->id <= last_served_id && nc_frame_is_written(client, call);
        bool too_late = call->state == NC_CALL_CANCELLING;
        if (!nc_call_is_on_connection(call) || taken)
            continue;
        nc_call_finish(client, call, too_late ? -NEARCALL_E_DEADLINE_EXCEEDED : -NEARCALL_E_UNAVAILABLE,
                       NEARCALL_OUTCOME_NOT_EXECUTED,
                       "the server is stopping and did not take the call");
        call->retryable = !too_late;
    }
}

/* ---- Deadlines ---- */

/* A reply of which something is there, or a mark, says that the function has run. */
static int outcome_of_expiry(const nearcall_client *client, const struct nc_call *call)
{
    return nc_reply_has_begun(client, call) || mark_of(client, call) == NC_MARK_FINISHED
               ? NEARCALL_OUTCOME_EXECUTED_RESULT_LOST
               : NEARCALL_OUTCOME_UNKNOWN;
}

static void finish_expired(nearcall_client *client, struct nc_call *call, int outcome)
{
    nc_call_finish(client, call, -NEARCALL_E_DEADLINE_EXCEEDED, outcome,
                   nc_frame_is_written(client, call)
                       ? "the deadline passed before the reply came"
                       : "the deadline passed before the request was sent");
}

static void ask_whether_it_began(nearcall_client *client, struct nc_call *call)
{
    if (nc_reply_has_begun(client, call)) {
        finish_expired(client, call, NEARCALL_OUTCOME_EXECUTED_RESULT_LOST);
    } else if (!nc_connection_usable(client)) {
        finish_expired(client, call, NEARCALL_OUTCOME_UNKNOWN);
    } else {
        call->state = NC_CALL_CANCELLING;
        call->grace_ns = nc_after_ms(client->now_ns, NC_CANCEL_GRACE_MS);
        nc_calls_look_by(client, call->grace_ns);
        nc_send_cancel(client, call);
    }
}

static void expire_sent(nearcall_client *client, struct nc_call *call)
{
    if (call->type == NC_REQUEST)
        ask_whether_it_began(client, call);
    else
        finish_expired(client, call, NEARCALL_OUTCOME_NOT_EXECUTED);
}

/* A frame that was begun cannot be taken back. The rest of it goes on, and the caller
 * may forget what it is made of. */
static void expire_begun(nearcall_client *client, struct nc_call *call)
{
    if (nc_output_own(client) == NEARCALL_OK) {
        nc_output_forsake(client, call);
        expire_sent(client, call);
        return;
    }
    finish_expired(client, call, NEARCALL_OUTCOME_NOT_EXECUTED);
    nc_output_lost(client);
}

static void expire_untouched(nearcall_client *client, struct nc_call *call)
{
    nc_output_remove(client, call);
    finish_expired(client, call, NEARCALL_OUTCOME_NOT_EXECUTED);
}

/* Nothing of it was given to the connection. */
static void expire_pending(nearcall_client *client, struct nc_call *call)
{
    bool is_full = nc_connection_usable(client) && !nc_connection_has_room(client);
    nc_call_finish(client, call, -NEARCALL_E_DEADLINE_EXCEEDED, NEARCALL_OUTCOME_NOT_EXECUTED,
                   is_full ? "the deadline passed while the server ran as many calls of this "
                             "connection as it allows; see its option calls_in_flight_max"
                           : "the deadline passed before there was a connection to the server");
}

/* The call's deadline, or its grace, has passed. */
void nc_call_expire(nearcall_client *client, struct nc_call *call)
{
    if (call->state == NC_CALL_PENDING)
        expire_pending(client, call);
    else if (call->state == NC_CALL_CANCELLING)
        finish_expired(client, call, outcome_of_expiry(client, call));
    else if (nc_frame_is_untouched(client, call))
        expire_untouched(client, call);
    else if (!nc_frame_is_written(client, call))
        expire_begun(client, call);
    else
        expire_sent(client, call);
}

/* Whether one could make use of a connection. */
bool nc_calls_wait_for_connection(const nearcall_client *client)
{
    const struct nc_call *call = client->calls.used;
    while (call && call->state != NC_CALL_PENDING)
        call = call->next;
    return call != NULL;
}

/* The latest deadline of the calls that wait for a connection; 0 when none does. */
int64_t nc_calls_pending_deadline_ns(const nearcall_client *client)
{
    int64_t latest_ns = 0;
    for (const struct nc_call *call = client->calls.used; call; call = call->next)
        if (call->state == NC_CALL_PENDING && call->deadline_ns > latest_ns)
            latest_ns = call->deadline_ns;
    return latest_ns;
}

static int64_t timer_of(const struct nc_call *call)
{
    if (call->state == NC_CALL_FINISHED)
        return NC_NEVER;
    return call->state == NC_CALL_CANCELLING ? call->grace_ns : call->deadline_ns;
}

void nc_call_expire_all(nearcall_client *client)
{
    int64_t next_ns = NC_NEVER;
    if (client->now_ns < client->calls.timer_ns)
        return;
    for (struct nc_call *call = client->calls.used; call; call = call->next) {
        if (client->now_ns >= timer_of(call))
            nc_call_expire(client, call);
        next_ns = nc_earlier(next_ns, timer_of(call));
    }
    client->calls.timer_ns = next_ns;
}

/* ---- Giving up, forking, handing out ---- */

/* What of it is not on its way yet; what is, is told that nobody waits. */
static void take_back(nearcall_client *client, struct nc_call *call)
{
    if (nc_frame_is_untouched(client, call)) {
        nc_output_remove(client, call);
        return;
    }
    if (!nc_frame_is_written(client, call))
        nc_output_forsake(client, call);
    if (call->type == NC_REQUEST)
        nc_send_cancel(client, call);
}

void nc_call_give_up(nearcall_client *client, struct nc_call *call)
{
    if (call->state == NC_CALL_SENT)
        take_back(client, call);
    nc_call_free(client, call);
}

void nc_leave_to_parent(nearcall_client *client, struct nc_call *call)
{
    nc_call_finish(client, call, -NEARCALL_E_UNAVAILABLE, NEARCALL_OUTCOME_UNKNOWN,
                   "the call belongs to the parent of this forked process");
}

/* In a child: what was in flight is the parent's. */
void nc_calls_after_fork(nearcall_client *client)
{
    for (struct nc_call *call = client->calls.used; call; call = call->next) {
        if (call->state != NC_CALL_FINISHED)
            nc_leave_to_parent(client, call);
    }
}

static const uint8_t nothing[1];

/* Ends a finished call: its result to the user, its slot back to the table. */
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
    if (call->reply_files) {
        nc_files_release(&client->lent_files);
        client->lent_files = call->reply_files;
        call->reply_files = NULL;
    }
    if (nc_buffer_bytes(&call->store)) /* result or details: they live until the next function */
        nc_buffer_swap(&call->store, &client->lent);
    nc_call_free(client, call);
    return r;
}
