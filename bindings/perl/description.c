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

/* Before anything is waited for while arguments are encoded: what that has taken is no longer there
 * to wait. */
static void take_encoding_off(ncp_invocation *call)
{
    int64_t now_ms = ncp_now_ms();

    if (!call->work_began_ms)
        return;
    ncp_shorten_timeout(call, now_ms - call->work_began_ms);
    call->work_began_ms = now_ms;
}

/* A call that does not wait is refused in its turn, and finds the function then. */
ncp_plan *ncp_plan_anew(pTHX_ ncp_invocation *call)
{
    if (!call->is_begun || !call->handle->nonblocking) {
        take_encoding_off(call);
        (void)ncp_find_waiting(aTHX_ call);
        if (call->work_began_ms)
            call->work_began_ms = ncp_now_ms();
    }
    return ncp_plan_current(aTHX_ call->function);
}

/* NEARCALL_E_AGAIN: the server has to be asked, and the call does not wait. */
static int look_again(const ncp_invocation *call, const char *name, STRLEN bytes)
{
    nearcall_client *client = call->handle->client;
    nearcall_function *function;
    nearcall_call_id id;
    int r;

    if (!call->is_begun || !call->handle->nonblocking)
        return nearcall_find(client, name, bytes, call->timeout_ms, &function);
    r = nearcall_find_begin(client, name, bytes, call->timeout_ms, &id);
    if (r == NEARCALL_OK)
        r = nearcall_poll(client, id, NULL);
    if (r == NEARCALL_E_AGAIN)
        nearcall_cancel(client, id);
    return r;
}

/* What the library has learned since it was encoded by is a new revision. */
static int look_for_newer(pTHX_ ncp_invocation *call)
{
    STRLEN bytes;
    const char *name = SvPVutf8(call->function->name, bytes);
    int64_t began_ms;
    int r;

    take_encoding_off(call);
    began_ms = ncp_now_ms();
    call->handle->requests++;
    (void)nearcall_process(call->handle->client); /* notices that the connection has ended */
    r = look_again(call, name, bytes);
    ncp_shorten_timeout(call, ncp_now_ms() - began_ms);
    return r;
}

/* The encoder owns nothing that perl does not free with its scopes. */
static void __attribute__((noreturn)) go_back(pTHX_ ncp_way_back *way_back)
{
    while (PL_scopestack_ix > way_back->scopes)
        LEAVE;
    longjmp(way_back->frame, 1);
}

SV *ncp_not_again(pTHX_ SV *name)
{
    return ncp_error_new(aTHX_ -NEARCALL_E_ABORTED, NEARCALL_OUTCOME_NOT_EXECUTED, name,
        newSVpvs("the server was replaced by one that describes the function otherwise, and "
                 "arguments with code of their own, or references given to begin, are not "
                 "encoded again: call again"), NULL);
}

SV *ncp_unless_outdated(pTHX_ ncp_invocation *call, SV *error)
{
    bool can_go_back = call->way_back && call->attempts_left > 0;
    int r;

    if (!call->handle->client || !call->function || !call->revision) /* closing frees functions */
        return error;
    r = look_for_newer(aTHX_ call);
    if (r == NEARCALL_E_AGAIN && can_go_back) {
        call->refusal = error;
        go_back(aTHX_ call->way_back);
    }
    if (r != NEARCALL_OK || nearcall_function_revision(call->function->function) == call->revision)
        return error;
    SvREFCNT_dec(error);
    if (can_go_back && !call->has_asked)
        go_back(aTHX_ call->way_back);
    return ncp_error_new(aTHX_ -NEARCALL_E_ABORTED, NEARCALL_OUTCOME_NOT_EXECUTED, call->name,
        newSVpvs("the arguments do not fit what the server had described before it was replaced "
                 "by another; what that describes is known now: call again"), NULL);
}

static int compare(pTHX_ ncp_invocation *call)
{
    const ncp_origin *origin = call->origin;
    int64_t began_ms = call->work_began_ms ? call->work_began_ms : ncp_now_ms();
    int r;

    call->handle->requests++;
    while ((r = nearcall_compare(call->handle->client, call->function->function,
                                 SvPV_nolen(origin->hash), SvPV_nolen(origin->description),
                                 ncp_remaining_ms(aTHX_ call, began_ms))) == NEARCALL_E_INTERRUPTED)
        ncp_run_signal_handlers(aTHX_ call, NEARCALL_OUTCOME_NOT_EXECUTED);
    if (!call->work_began_ms) /* else it is part of the time that arguments' code takes */
        ncp_shorten_timeout(call, ncp_now_ms() - began_ms);
    return r;
}

/* What a handler of warnings throws sets the statement anew. It may close the handle, which
 * frees its functions. */
void ncp_warn_caller(pTHX_ const ncp_invocation *call, const char *text)
{
    const COP *former = PL_curcop;

    PL_curcop = (COP *)ncp_caller(aTHX);
    Perl_warn(aTHX_ "%s", text);
    PL_curcop = (COP *)former;
    if (!call->handle->client)
        croak("Nearcall: the handle was closed by a handler of warnings");
}

/* Comparing may have found another description: what it ends with is what was compared.
 * Code of a handler of warnings may lead to yet another; where it dies, nobody was warned who goes on. */
void ncp_compare(pTHX_ ncp_invocation *call)
{
    ncp_origin *origin = call->origin;
    const nearcall_function *function = call->function->function;

    for (;;) {
        uint32_t revision = nearcall_function_revision(function);
        int r;

        if (LIKELY(revision != 0 && revision == origin->revision))
            return;
        ncp_keep(aTHX_ call);
        r = compare(aTHX_ call);
        if (r != NEARCALL_OK && !(r == NEARCALL_E_FAILED_PRECONDITION && origin->warns))
            ncp_throw_client(aTHX_ call);
        revision = nearcall_function_revision(function);
        if (r != NEARCALL_OK)
            ncp_warn_caller(aTHX_ call, nearcall_error_message(call->handle->client));
        origin->revision = revision;
        if (r == NEARCALL_OK)
            return;
    }
}
