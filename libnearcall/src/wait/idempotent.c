/* Whether a function may run twice is asked of each server before a call that may be sent again goes to it: another
 * may have taken the place of the one that was asked before. */
#include "calls/calls.h"
#include "functions/functions.h"
#include "wait/wait.h"

/* What keeps the description from being known ends the call as well. */
static void fail_like(nearcall_client *client, struct nc_call *call, struct nc_call *find)
{
    if (find->code == 0 || call->state != NC_CALL_PENDING)
        return;
    nc_call_finish(client, call, find->code, NEARCALL_OUTCOME_NOT_EXECUTED, find->what);
    nc_buffer_swap(&call->store, &find->store); /* what the message may lie in */
    call->data = find->data;
    call->data_bytes = find->data_bytes;
    call->retryable = find->retryable;
    call->untouched = find->untouched;
}

static int ask(nearcall_client *client, struct nc_call *call)
{
    struct nc_call *find = nc_call_new(client, NC_RESOLVE, call->function, call->deadline_ns);
    if (!find) {
        nc_call_finish(client, call, -NEARCALL_E_RESOURCE_EXHAUSTED, NEARCALL_OUTCOME_NOT_EXECUTED,
                       "no call is left, or no memory, to ask whether the function is idempotent "
                       "(option calls_in_flight_max)");
        return NEARCALL_OK;
    }
    find->synchronous = true;
    find->payload = (const uint8_t *)call->function->name;
    find->payload_bytes = call->function->name_bytes;
    int r = nc_send_once(client, find);
    if (r == NEARCALL_OK)
        r = nc_wait(client, find);
    if (r < 0) {
        nc_call_give_up(client, find);
        return r;
    }
    fail_like(client, call, find);
    nc_call_free(client, find);
    return NEARCALL_OK;
}

int nc_check_idempotent(nearcall_client *client, struct nc_call *call)
{
    while (call->state == NC_CALL_PENDING && !nc_function_is_described(client, call->function)) {
        int r = nc_make_ready(client, call); /* which may be all that was missing */
        if (r == NEARCALL_OK && call->state == NC_CALL_PENDING && !nc_function_is_described(client, call->function))
            r = ask(client, call);
        if (r < 0)
            return r;
    }
    if (call->state == NC_CALL_PENDING && !call->function->description->is_idempotent)
        nc_call_finish(client, call, -NEARCALL_E_FAILED_PRECONDITION, NEARCALL_OUTCOME_NOT_EXECUTED,
                       "the function is not registered as idempotent (in Go server.Idempotent), so a call of "
                       "it cannot ask to be sent again when nobody knows whether it ran (retry_unknown)");
    return NEARCALL_OK;
}
