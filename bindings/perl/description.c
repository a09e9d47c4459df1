/* A server may come in the place of another and describe a function otherwise. What was
 * encoded for the former one does not run on it. */
#include "nearcall_perl.h"

bool ncp_is_refused(const nearcall_client *client, int r)
{
    return (r == NEARCALL_E_ABORTED || r == NEARCALL_E_INVALID_ARGUMENT)
        && nearcall_error_outcome(client) == NEARCALL_OUTCOME_NOT_EXECUTED;
}

bool ncp_has_changed(pTHX_ ncp_invocation *call, uint32_t revision)
{
    return nearcall_function_revision(ncp_find_waiting(aTHX_ call)) != revision;
}

/* Without blocking: what is not known now is asked for, and known to a later call. */
static bool is_described(const ncp_invocation *call, const char *name, STRLEN bytes)
{
    nearcall_client *client = call->handle->client;
    nearcall_function *function;
    nearcall_call_id id;

    if (!call->handle->nonblocking)
        return nearcall_find(client, name, bytes, call->timeout_ms, &function) == NEARCALL_OK;
    return nearcall_find_begin(client, name, bytes, call->timeout_ms, &id) == NEARCALL_OK
        && nearcall_poll(client, id, NULL) == NEARCALL_OK;
}

SV *ncp_unless_outdated(pTHX_ const ncp_invocation *call, SV *error)
{
    const ncp_function *function = call->function;
    uint32_t revision;
    STRLEN bytes;
    const char *name;

    if (!call->handle->client || !function || !function->plan) /* closing frees functions */
        return error;
    revision = function->plan->revision;
    call->handle->requests++;
    name = SvPVutf8(function->name, bytes);
    (void)nearcall_process(call->handle->client); /* notices that the connection has ended */
    if (!is_described(call, name, bytes)
        || nearcall_function_revision(function->function) == revision)
        return error;
    SvREFCNT_dec(error);
    return ncp_error_new(aTHX_ -NEARCALL_E_ABORTED, NEARCALL_OUTCOME_NOT_EXECUTED, call->name,
        newSVpvs("the arguments do not fit what the server had described before it was replaced "
                 "by another; what that describes is known now: call again"), NULL);
}
