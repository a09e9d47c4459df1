/* The call that is waited for from its beginning, and sent once more where that is certain to run it once. */
#include "base/clock.h"
#include "base/random.h"
#include "calls/calls.h"
#include "connect/endpoints.h"
#include "connection/output.h"
#include "receive/receive.h"
#include "request/request.h"
#include "send/send.h"
#include "wait/wait.h"

/* A wait for a server that is not ready ends before the deadline only when it is about to pass. */
#define PAUSE_LEAST_NS NC_NS_PER_MS

static int64_t draw_pause_ns(nearcall_client *client, const struct nc_call *call)
{
    const nearcall_view *view = call->view;
    int64_t left_ns = call->deadline_ns - client->now_ns;
    int64_t pause_ns = nc_random_pause_ns(&client->random, client->sync.attempts + client->sync.waits,
                                          view ? view->backoff_first_ns : NC_PAUSE_FIRST_NS,
                                          view ? view->backoff_most_ns : NC_PAUSE_MOST_NS);
    if (left_ns > PAUSE_LEAST_NS && nc_call_asks(call, NEARCALL_CALL_WAIT_FOR_READY))
        pause_ns = nc_earlier(pause_ns, left_ns - left_ns / 4);
    return pause_ns;
}

/* Counts the attempt that follows. A call that waits for its server waits through what was
 * certainly none. */
static bool is_attempt_left(nearcall_client *client, const struct nc_call *call)
{
    struct nc_sync *sync = &client->sync;
    if (nc_call_asks(call, NEARCALL_CALL_WAIT_FOR_READY) && call->outcome == NEARCALL_OUTCOME_NOT_EXECUTED) {
        sync->waits++;
        return true;
    }
    if (sync->attempts >= nc_attempts_max(client, call->view))
        return false;
    sync->attempts++;
    return true;
}

static void log_again(nearcall_client *client, const struct nc_call *call)
{
    const nearcall_function *function = call->function;
    int64_t pause_ns = client->sync.pause_until_ns - client->now_ns;
    nc_log(client, NEARCALL_LOG_INFO, "%.*s is sent again in %lld ms: %s, %s",
           function ? (int)function->name_bytes : 4, function ? function->name : "ping",
           (long long)(pause_ns > 0 ? pause_ns / NC_NS_PER_MS : 0), nearcall_code_name(call->code),
           nearcall_outcome_text(call->outcome));
}

/* Decides about a finished call. Only a connection that broke or drained is reason enough to
 * send it once more. */
static bool may_try_again(nearcall_client *client, struct nc_call *call)
{
    struct nc_sync *sync = &client->sync;
    if (call->code == 0 || !call->retryable)
        return false;
    client->now_ns = nc_now_ns();
    if (sync->stale_connection) {
        /* It had ended while nobody looked: that says nothing about the server
         * that listens now, so there is no pause, and what the kernel never took
         * was no sending. */
        sync->stale_connection = false;
        sync->pause_until_ns = 0;
        if (call->untouched && client->now_ns < call->deadline_ns)
            return true;
    } else {
        sync->pause_until_ns = client->now_ns + draw_pause_ns(client, call);
    }
    if (sync->pause_until_ns >= call->deadline_ns || !is_attempt_left(client, call))
        return false;
    log_again(client, call);
    return true;
}

static int pause_before_retry(nearcall_client *client)
{
    while (client->now_ns < client->sync.pause_until_ns) {
        int r = nc_pause(client, client->sync.pause_until_ns);
        if (r < 0)
            return r;
    }
    client->sync.pause_until_ns = 0;
    return NEARCALL_OK;
}

int nc_send_once(nearcall_client *client, struct nc_call *call)
{
    while (call->state == NC_CALL_PENDING) {
        int r = nc_may_send(client, call) ? NEARCALL_OK : nc_make_ready(client, call);
        if (r < 0)
            return r;
        if (call->state == NC_CALL_PENDING)
            nc_send_call(client, call);
    }
    return NEARCALL_OK;
}

/* The handle must not hold on to the caller's memory when control goes back, nor to
 * what is not its own any more. */
static bool let_go(nearcall_client *client)
{
    if (!nc_request_settle(client))
        return false;
    return client->connection.borrowed_bytes == 0 || nc_output_own(client) == NEARCALL_OK;
}

/* What came of earlier attempts counts: that the last one was not executed says nothing about
 * them. */
static int worse_outcome(const nearcall_client *client, int outcome)
{
    bool is_sure = outcome != NEARCALL_OUTCOME_NOT_EXECUTED;
    return is_sure ? outcome : client->sync.former_outcome;
}

static int interrupted(nearcall_client *client, int r)
{
    return nc_fail(client, r, NEARCALL_OUTCOME_NONE, "a signal arrived while waiting; nearcall_resume() goes on");
}

/* Only the server whose connection was lost knows. If there are others, it is not asked for long. */
static int ask(nearcall_client *client, struct nc_call *call)
{
    struct nc_asking *asking = &client->sync.asking;
    if (!asking->is_possible || !client->endpoints)
        return nc_ask(client, call);
    asking->until_ns = nc_earlier(asking->until_ns, nc_after_ms(nc_now_ns(), NC_TCP_SILENCE_MS));
    if (!nc_endpoints_pin(client, asking->endpoint))
        asking->is_possible = false;
    int r = nc_ask(client, call);
    nc_endpoints_release(client);
    return r;
}

/* Another endpoint takes the call, or the same connection has to be made anew. It is no attempt. */
static bool moves_on(nearcall_client *client, struct nc_call *call)
{
    struct nc_sync *sync = &client->sync;
    if (call->code == 0 || !client->endpoints || (sync->stale_connection && call->untouched) ||
        !nc_endpoints_move_on(client, call))
        return false;
    sync->stale_connection = client->connection.state == NC_READY;
    nc_choose_waiting(client);
    return true;
}

/* A further attempt may go to another endpoint. */
static void choose_again(nearcall_client *client, const struct nc_call *call)
{
    client->endpoints->chooses = false;
    nc_endpoints_choose(client, call->function, true);
    client->sync.stale_connection = client->connection.state == NC_READY;
    nc_choose_waiting(client);
}

static int attempt(nearcall_client *client, struct nc_call *call)
{
    int r = pause_before_retry(client);
    if (r == NEARCALL_OK && client->endpoints && client->endpoints->chooses)
        choose_again(client, call);
    if (r == NEARCALL_OK && nc_call_asks(call, NEARCALL_CALL_RETRY_UNKNOWN) && call->type == NC_REQUEST)
        r = nc_check_idempotent(client, call);
    if (r == NEARCALL_OK && call->state == NC_CALL_PENDING)
        r = nc_send_once(client, call);
    if (r == NEARCALL_OK)
        r = nc_wait(client, call);
    return r;
}

/* The call is to be sent once more. */
static void begin_again(nearcall_client *client, struct nc_call *call, bool is_attempt)
{
    if (call->outcome > client->sync.former_outcome)
        client->sync.former_outcome = call->outcome;
    nc_call_begin_again(call);
    if (client->endpoints)
        client->endpoints->chooses = is_attempt;
}

/* What the next call does may depend on what this one has found out about its server. */
static void stay_if_asked(nearcall_client *client, const struct nc_call *call)
{
    if (client->endpoints)
        client->endpoints->stays = call->type == NC_RESOLVE || call->code == -NEARCALL_E_ABORTED;
}

int nc_sync_run(nearcall_client *client, nearcall_reply *ret_reply)
{
    struct nc_sync *sync = &client->sync;
    struct nc_call *call = sync->call;
    for (;;) {
        int r = attempt(client, call);
        if (r < 0 && !let_go(client))
            continue; /* no memory to be interrupted with: wait through the signal */
        if (r < 0)
            return interrupted(client, r);
        r = ask(client, call);
        if (r < 0 && !let_go(client))
            continue;
        if (r < 0)
            return interrupted(client, r);
        if (moves_on(client, call))
            continue;
        bool is_attempt = !sync->stale_connection || !call->untouched;
        if (!may_try_again(client, call))
            break;
        begin_again(client, call, is_attempt);
    }
    stay_if_asked(client, call);
    if (call->code)
        call->outcome = worse_outcome(client, call->outcome);
    sync->call = NULL;
    return nc_call_deliver(client, call, ret_reply);
}

int nc_sync_call(nearcall_client *client, struct nc_call *call, unsigned sendings, nearcall_reply *ret_reply)
{
    struct nc_sync *sync = &client->sync;
    nc_endpoints_begin(client, call);
    if (__builtin_expect(client->connection.transport->looks_first, 0))
        nc_look_first(client);
    call->synchronous = true;
    sync->call = call;
    sync->sends_request = false;
    sync->token++;
    sync->stale_connection = client->connection.state == NC_READY;
    sync->attempts = sendings + 1;
    sync->waits = 0;
    sync->former_outcome = NEARCALL_OUTCOME_NOT_EXECUTED;
    sync->pause_until_ns = 0;
    sync->asking.is_possible = false;
    if (client->endpoints)
        client->endpoints->chooses = false;
    nc_choose_waiting(client);
    return nc_sync_run(client, ret_reply);
}

/* What is known of a call when its caller turns to another. */
static int outcome_when_abandoned(const nearcall_client *client, const struct nc_call *call)
{
    if (call->state == NC_CALL_FINISHED)
        return worse_outcome(client, call->outcome);
    if (call->state == NC_CALL_PENDING || nc_call_asks_for_store(call) || nc_frame_is_untouched(client, call))
        return client->sync.former_outcome;
    return NEARCALL_OUTCOME_UNKNOWN;
}

void nc_sync_abandon(nearcall_client *client)
{
    struct nc_sync *sync = &client->sync;
    if (!sync->call)
        return;
    sync->abandoned_token = sync->token;
    sync->abandoned_outcome = outcome_when_abandoned(client, sync->call);
    if (sync->sends_request)
        nc_writer_give_back(client);
    nc_call_give_up(client, sync->call);
    sync->call = NULL;
}
