/* Calls whose time has passed, and calls that are given up: what is on its way is taken back, or
 * cancelled. */
#include "base/clock.h"
#include "base/limits_gen.h"
#include "calls/calls.h"
#include "connection/connection.h"
#include "connection/output.h"
#include "send/send.h"
#include "wait/wait.h"
#include "wire/wire.h"

/* ---- Deadlines ---- */

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

/* What a STORE has brought, or will bring, is given back. */
static void expire_asking(nearcall_client *client, struct nc_call *call)
{
    if (nc_store_stage_of(call) == NC_STORE_ASKED)
        nc_send_cancel(client, call);
    nc_store_give_back(client, call);
    nc_call_finish(client, call, -NEARCALL_E_DEADLINE_EXCEEDED, NEARCALL_OUTCOME_NOT_EXECUTED,
                   "the deadline passed before the server had a store for the request");
}

static void expire_sent(nearcall_client *client, struct nc_call *call)
{
    if (nc_call_asks_for_store(call))
        expire_asking(client, call);
    else if (call->type == NC_REQUEST)
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
    nc_store_give_back(client, call);
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
    if (call->type == NC_ASK) /* no user fetches it */
        nc_call_leave_queue(call);
}

void nc_call_expire(nearcall_client *client, struct nc_call *call)
{
    if (call->state == NC_CALL_ASKING)
        nc_call_end_unknown(client, call);
    else if (nc_store_stage_of(call) == NC_STORE_CROWDED && client->now_ns < call->deadline_ns)
        nc_store_ask_again(client, call);
    else if (call->state == NC_CALL_PENDING)
        expire_pending(client, call);
    else if (call->state == NC_CALL_CANCELLING)
        finish_expired(client, call, nc_outcome_of_expiry(client, call));
    else if (nc_frame_is_untouched(client, call))
        expire_untouched(client, call);
    else if (!nc_frame_is_written(client, call))
        expire_begun(client, call);
    else
        expire_sent(client, call);
}

int64_t nc_call_timer_ns(const struct nc_call *call)
{
    if (call->state == NC_CALL_FINISHED)
        return NC_NEVER;
    if (nc_store_stage_of(call) == NC_STORE_CROWDED)
        return nc_earlier(call->storing->ask_again_ns, call->deadline_ns);
    return call->state == NC_CALL_CANCELLING ? call->grace_ns : call->deadline_ns;
}

void nc_call_expire_all(nearcall_client *client)
{
    int64_t next_ns = NC_NEVER;
    if (client->now_ns < client->calls.timer_ns)
        return;
    client->calls.looks_at_all = false;
    for (struct nc_call *call = client->calls.used; call; call = call->next) {
        if (client->now_ns >= nc_call_timer_ns(call))
            nc_call_expire(client, call);
        if (nc_store_stage_of(call) == NC_STORE_CROWDED)
            client->calls.looks_at_all = true;
        next_ns = nc_earlier(next_ns, nc_call_timer_ns(call));
    }
    client->calls.timer_ns = next_ns;
    if (client->calls.lost)
        nc_ask_go_on(client);
}

/* ---- Giving up ---- */

/* A STORE was, and nothing was sent since. */
static bool was_answered(const struct nc_call *call)
{
    return nc_call_asks_for_store(call) && nc_store_stage_of(call) != NC_STORE_ASKED;
}

/* What of it is not on its way yet; what is, is told that nobody waits. */
void nc_call_take_back(nearcall_client *client, struct nc_call *call)
{
    nc_store_give_back(client, call);
    if (nc_frame_is_untouched(client, call)) {
        nc_output_remove(client, call);
        return;
    }
    if (!nc_frame_is_written(client, call))
        nc_output_forsake(client, call);
    if (call->type == NC_REQUEST && !was_answered(call))
        nc_send_cancel(client, call);
}

void nc_call_give_up(nearcall_client *client, struct nc_call *call)
{
    if (call->state == NC_CALL_SENT)
        nc_call_take_back(client, call);
    else if (call->state == NC_CALL_ASKING)
        nc_call_stop_asking(client, call);
    nc_call_free(client, call);
}
