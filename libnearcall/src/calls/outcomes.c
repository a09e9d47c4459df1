/* What became of a call when its connection, or its time, has ended. Outcomes are decided here and by
 * the server, and nowhere else: spec/call-semantics.md. */
#include "calls/calls.h"

#include <string.h>

#include "base/clock.h"
#include "base/limits_gen.h"
#include "memory/memory.h"
#include "wire/wire.h"

#define REPLY_ID_BYTES 16 /* of a header: enough to know what and whose it is */

bool nc_reply_has_begun(const nearcall_client *client, const struct nc_call *call)
{
    const struct nc_buffer *in = &client->connection.in;
    const uint8_t *header = in->data + in->start;
    return client->connection.state == NC_READY && nc_buffer_bytes(in) >= REPLY_ID_BYTES &&
           header[4] == NC_REPLY && nc_get_u64(header + 8) == call->id;
}

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
    if (call->type != NC_REQUEST || nc_call_asks_for_store(call) || !nc_frame_is_written(client, call))
        return NEARCALL_OUTCOME_NOT_EXECUTED;
    if (nc_reply_has_begun(client, call))
        return NEARCALL_OUTCOME_EXECUTED_RESULT_LOST;
    if (reset_proves_unread(client, call, loss))
        return NEARCALL_OUTCOME_NOT_EXECUTED;
    if (loss->code == -NEARCALL_E_INTERNAL)
        return NEARCALL_OUTCOME_UNKNOWN; /* a server that breaks the protocol may mark wrongly, too */
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

/* Of the call that is waited for from its beginning. */
static void note_for_asking(nearcall_client *client, const struct nc_call *call, const struct nc_loss *loss)
{
    const struct nc_welcome *welcome = &client->connection.welcome;
    struct nc_asking *asking = &client->sync.asking;
    *asking = (struct nc_asking){.is_possible = true,
                                 .retryable = loss->retryable,
                                 .call_id = call->id,
                                 .endpoint = client->endpoints ? client->endpoints->active : 0,
                                 .server_instance = welcome->server_instance,
                                 .until_ns = nc_after_ms(nc_now_ns(), NC_ENDED_CONNECTION_MS)};
    memcpy(asking->payload, welcome->key, NC_CONNECTION_KEY_BYTES);
    nc_put_u64(asking->payload + NC_CONNECTION_KEY_BYTES, call->id);
}

static bool is_untouched(const nearcall_client *client, const struct nc_call *call, const struct nc_loss *loss)
{
    if (call->by_memory)
        return loss->end != NC_ENDED_HERE && mark_of(client, call) == NC_MARK_NONE;
    return nc_frame_is_untouched(client, call);
}

bool nc_calls_are_touched(const nearcall_client *client, const struct nc_loss *loss)
{
    for (const struct nc_call *call = client->calls.used; call; call = call->next)
        if (nc_call_is_on_connection(call) && !is_untouched(client, call, loss))
            return true;
    return false;
}

/* Whether the call goes on, as one of which the server is asked. lost stands for its connection, once there is such
 * a call. A handle with several endpoints goes on to others instead of waiting for the one that was lost. */
static bool asks(nearcall_client *client, struct nc_call *call, struct nc_lost **lost)
{
    if (call->synchronous || client->endpoints)
        return false;
    if (!*lost)
        *lost = nc_lost_begin(client);
    if (*lost)
        nc_call_begin_asking(*lost, call);
    return *lost;
}

static void lose(nearcall_client *client, struct nc_call *call, const struct nc_loss *loss, struct nc_lost **lost)
{
    int outcome = outcome_of_loss(client, call, loss);
    bool too_late = call->state == NC_CALL_CANCELLING;
    bool can_ask = outcome == NEARCALL_OUTCOME_UNKNOWN && !too_late && nc_loss_can_be_asked_about(client, loss);
    if (can_ask && asks(client, call, lost))
        return;
    call->untouched = is_untouched(client, call, loss);
    nc_call_finish(client, call, too_late ? -NEARCALL_E_DEADLINE_EXCEEDED : loss->code, outcome,
                   client->lost_text);
    call->retryable = loss->retryable && !too_late && nc_outcome_permits_again(call, outcome);
    if (can_ask && call == client->sync.call)
        note_for_asking(client, call, loss);
}

/* Outcomes are decided before any call changes its state, because each looks at the others. */
void nc_calls_lose(nearcall_client *client, const struct nc_loss *loss, bool before_welcome)
{
    struct nc_loss seen = *loss;
    struct nc_lost *lost = NULL;
    if (seen.end == NC_RESET_BY_SERVER && nc_calls_on_connection(client) > 1)
        seen.end = NC_CLOSED_BY_SERVER;
    for (struct nc_call *call = client->calls.used; call; call = call->next) {
        if (nc_call_is_on_connection(call)) {
            lose(client, call, &seen, &lost);
        } else if (call->state == NC_CALL_PENDING && before_welcome) {
            nc_call_finish(client, call, loss->code, NEARCALL_OUTCOME_NOT_EXECUTED, client->lost_text);
            call->retryable = loss->retryable;
            if (call->type == NC_ASK) /* no user fetches it */
                nc_call_leave_queue(call);
        }
    }
    nc_asking_look(client);
}

void nc_calls_drain(nearcall_client *client, uint64_t last_served_id)
{
    for (struct nc_call *call = client->calls.used; call; call = call->next) {
        /* A question above that is answered too if the server has read it. If not, the end of the connection tells. */
        bool is_served = call->id <= last_served_id || call->type == NC_ASK;
        bool taken = is_served && nc_frame_is_written(client, call) && !nc_call_asks_for_store(call);
        bool too_late = call->state == NC_CALL_CANCELLING;
        if (!nc_call_is_on_connection(call) || taken)
            continue;
        nc_call_finish(client, call, too_late ? -NEARCALL_E_DEADLINE_EXCEEDED : -NEARCALL_E_UNAVAILABLE,
                       NEARCALL_OUTCOME_NOT_EXECUTED,
                       "the server is stopping and did not take the call");
        call->retryable = !too_late;
    }
    nc_asking_look(client);
}

/* A reply of which something is there, or a mark, says that the function has run. */
int nc_outcome_of_expiry(const nearcall_client *client, const struct nc_call *call)
{
    return nc_reply_has_begun(client, call) || mark_of(client, call) == NC_MARK_FINISHED
               ? NEARCALL_OUTCOME_EXECUTED_RESULT_LOST
               : NEARCALL_OUTCOME_UNKNOWN;
}
