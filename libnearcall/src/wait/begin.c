/* Calls that are begun, and that nobody waits for from their beginning. */
#include "base/clock.h"
#include "calls/calls.h"
#include "connect/connect.h"
#include "connect/endpoints.h"
#include "connection/connection.h"
#include "connection/output.h"
#include "receive/receive.h"
#include "request/request.h"
#include "send/send.h"
#include "wait/wait.h"
#include "wire/wire.h"

/* Lets the call go on without its caller: what it borrowed becomes the handle's. */
static void keep_payload(nearcall_client *client, struct nc_call *call)
{
    if (call->type != NC_REQUEST)
        return; /* a function's name lives as long as its function */
    size_t bytes = call->payload_bytes;
    if (nc_request_own(client) < 0) {
        nc_call_finish(client, call, -NEARCALL_E_RESOURCE_EXHAUSTED, NEARCALL_OUTCOME_NOT_EXECUTED,
                       "no memory to keep the request until there is a connection");
        return;
    }
    nc_buffer_swap(&call->store, &client->request.buffer);
    call->payload = bytes ? call->store.data + call->store.start : NULL;
}

/* It is sent by whichever function finds the connection, and the server's leave. */
static void line_up(nearcall_client *client, struct nc_call *call)
{
    keep_payload(client, call);
    if (call->state != NC_CALL_PENDING)
        return;
    nc_call_draw_id(client, call);
    nc_call_wait_its_turn(client, call);
}

static void own_output(nearcall_client *client, struct nc_call *call)
{
    if (client->connection.borrowed_bytes == 0 || nc_output_own(client) == NEARCALL_OK)
        return;
    if (client->connection.written > call->frame_start) {
        nc_output_lost(client);
        return;
    }
    nc_output_remove(client, call);
    nc_call_finish(client, call, -NEARCALL_E_RESOURCE_EXHAUSTED, NEARCALL_OUTCOME_NOT_EXECUTED,
                   "no memory to send the request");
}

/* Whether a connection that stood when the call was begun had ended while nobody looked, and took
 * nothing of the call: then that is made again, and was not sent. */
static bool begin_again(bool stood, struct nc_call *call)
{
    if (!stood || call->state != NC_CALL_FINISHED || !call->retryable || !call->untouched)
        return false;
    nc_call_begin_again(call);
    return true;
}

/* A call that learns by being sent that the server is stopping ends as one whose request came too late.
 * Only calls that begin after that wait for the end of the others. */
static void end_untaken(nearcall_client *client, struct nc_call *call)
{
    if (call->state == NC_CALL_PENDING && client->connection.draining && !nc_connection_is_over(client))
        nc_call_finish(client, call, -NEARCALL_E_UNAVAILABLE, NEARCALL_OUTCOME_NOT_EXECUTED,
                       "the server is stopping and did not take the call");
}

static void begin_without_blocking(nearcall_client *client, struct nc_call *call)
{
    bool stood = client->connection.state == NC_READY;
    nc_send_pending(client);
    if (nc_may_send(client, call)) {
        nc_send_call(client, call);
        end_untaken(client, call);
    }
    (void)begin_again(stood, call);
    if (call->state == NC_CALL_SENT)
        own_output(client, call);
    if (call->state != NC_CALL_PENDING)
        return;
    line_up(client, call);
    if (client->connection.state == NC_CLOSED && call->state == NC_CALL_PENDING)
        nc_connection_start(client, call->deadline_ns);
}

/* What is sealed counts as written before the kernel has it. */
static bool is_with_kernel(const nearcall_client *client, const struct nc_call *call)
{
    return nc_frame_is_written(client, call) && !nc_connection_keeps(&client->connection);
}

/* Sends all of the frame, reading meanwhile, so that two sides that both write do
 * not wait for each other. */
static int send_whole(nearcall_client *client, struct nc_call *call)
{
    while (call->state == NC_CALL_SENT && !is_with_kernel(client, call)) {
        int r = nc_pump(client, call->deadline_ns);
        if (call->state == NC_CALL_SENT && !is_with_kernel(client, call) &&
            client->now_ns >= call->deadline_ns)
            nc_call_expire(client, call);
        if (r < 0 && nc_output_own(client) == NEARCALL_OK)
            return r; /* without memory it waits through the signal */
    }
    return NEARCALL_OK;
}

static int begin_blocking(nearcall_client *client, struct nc_call *call)
{
    bool stood = client->connection.state == NC_READY;
    for (;;) {
        int r = nc_may_send(client, call) ? NEARCALL_OK : nc_make_ready(client, call);
        if (r < 0)
            return r;
        nc_send_pending(client);
        if (call->state == NC_CALL_PENDING && nc_may_send(client, call))
            nc_send_call(client, call);
        else if (call->state == NC_CALL_PENDING && nc_connection_usable(client))
            line_up(client, call);
        if (call->queue == &client->calls.pending)
            return NEARCALL_OK;
        if (call->state == NC_CALL_PENDING)
            continue;
        r = send_whole(client, call);
        if (r < 0 || !begin_again(stood, call))
            return r;
        stood = false;
    }
}

/* A request that is half sent cannot be taken back and would hold up all behind it, so the call goes on
 * with it. Of any other call nothing was sent. */
static int interrupt(nearcall_client *client, struct nc_call *call, int r)
{
    bool is_begun = call->state == NC_CALL_ASKING ||
                    (call->type == NC_REQUEST && call->state == NC_CALL_SENT && !nc_frame_is_untouched(client, call) &&
                     !nc_call_asks_for_store(call));
    if (!is_begun) {
        nc_call_give_up(client, call);
        return nc_fail(client, r, NEARCALL_OUTCOME_NOT_EXECUTED,
                       "a signal arrived before anything was sent; send again");
    }
    call->known = true;
    client->half_begun = call->id;
    return nc_fail(client, r, NEARCALL_OUTCOME_NONE,
                   "a signal arrived while the request was sent; nearcall_request_send() goes on");
}

/* The payload goes with the request, which is not sent yet. */
static int keep_for_store(nearcall_client *client, struct nc_call *call, int r)
{
    if (r < 0 || call->state != NC_CALL_SENT || !nc_call_asks_for_store(call))
        return r;
    keep_payload(client, call);
    return r;
}

static int end_beginning(nearcall_client *client, struct nc_call *call, int r, nearcall_call_id *ret_call)
{
    if (r < 0)
        return interrupt(client, call, r);
    if (call->state == NC_CALL_FINISHED && call->code != 0)
        return nc_call_deliver(client, call, NULL);
    call->known = true;
    *ret_call = call->id;
    return NEARCALL_OK;
}

int nc_begin(nearcall_client *client, struct nc_call *call, nearcall_call_id *ret_call)
{
    int r = NEARCALL_OK;
    nc_endpoints_begin(client, call);
    nc_identity_infer(client);
    if (__builtin_expect(client->connection.transport->looks_first, 0))
        nc_look_first(client);
    if (client->options.flags & NEARCALL_NONBLOCKING)
        begin_without_blocking(client, call);
    else
        r = begin_blocking(client, call);
    nc_identity_leave(client);
    return end_beginning(client, call, keep_for_store(client, call, r), ret_call);
}

int nc_begin_go_on(nearcall_client *client, nearcall_call_id *ret_call)
{
    struct nc_call *call = nc_call_by_known_id(client, client->half_begun);
    client->half_begun = 0;
    if (!call)
        return nc_fail(client, NEARCALL_E_CANCELLED, NEARCALL_OUTCOME_UNKNOWN,
                       "the interrupted call was fetched or cancelled before it had begun");
    call->known = false; /* until its id is given */
    client->now_ns = nc_now_ns();
    return end_beginning(client, call, send_whole(client, call), ret_call);
}

void nc_begin_abandon(nearcall_client *client)
{
    struct nc_call *call = client->half_begun ? nc_call_by_known_id(client, client->half_begun) : NULL;
    if (call) {
        nc_call_give_up(client, call);
        client->half_given_up = true;
    }
    client->half_begun = 0;
}
