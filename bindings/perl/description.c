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

static int compare(pTHX_ ncp_invocation *call)
{
    const ncp_origin *origin = call->origin;
    int r;

    call->handle->requests++;
    while ((r = nearcall_compare(call->handle->client, call->function->function,
                                 SvPV_nolen(origin->hash), SvPV_nolen(origin->description),
                                 call->timeout_ms)) == NEARCALL_E_INTERRUPTED)
        ncp_run_signal_handlers(aTHX_ call, NEARCALL_OUTCOME_NOT_EXECUTED);
    return r;
}

/* What a handler of warnings throws sets the statement anew. */
static void warn_caller(pTHX_ const char *text)
{
    const COP *former = PL_curcop;

    PL_curcop = (COP *)ncp_caller(aTHX);
    Perl_warn(aTHX_ "%s", text);
    PL_curcop = (COP *)former;
}

void ncp_compare(pTHX_ ncp_invocation *call)
{
    ncp_origin *origin = call->origin;
    uint32_t revision = nearcall_function_revision(call->function->function);
    int r;

    if (LIKELY(origin->revision == revision))
        return;
    ncp_keep_object(aTHX_ call);
    r = compare(aTHX_ call);
    if (r != NEARCALL_OK && !(r == NEARCALL_E_FAILED_PRECONDITION && origin->warns))
        ncp_throw_client(aTHX_ call);
    origin->revision = revision;
    if (r != NEARCALL_OK)
        warn_caller(aTHX_ nearcall_error_message(call->handle->client));
}
