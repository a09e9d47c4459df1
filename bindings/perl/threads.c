/* Perl's threads: a new one has copies of all objects. A copy of a handle opens a connection
 * of its own when it is first used, as after a fork; nothing is shared with the thread that
 * it came from. Only C memory and perl's own cloning are touched while perl clones. */
#include "nearcall_perl.h"

#include <string.h>

#ifdef USE_ITHREADS

static ncp_opening *opening_clone(pTHX_ const ncp_opening *from)
{
    ncp_opening *to;

    Newx(to, 1, ncp_opening);
    *to = *from;
    ncp_opening_own(aTHX_ to);
    return to;
}

/* Objects that share a handle share its copy. */
static ncp_handle *handle_clone(pTHX_ ncp_handle *from)
{
    ncp_handle *to = (ncp_handle *)ptr_table_fetch(PL_ptr_table, from);

    if (to)
        return to;
    Newxz(to, 1, ncp_handle);
    to->opening = opening_clone(aTHX_ from->opening);
    to->is_closed = from->is_closed;
    to->json_booleans = from->json_booleans;
    to->attempts_max = from->attempts_max;
    to->nonblocking = from->nonblocking;
    to->embedded = from->embedded;
    to->block_signals = from->block_signals;
    ptr_table_store(PL_ptr_table, from, to);
    return to;
}

int ncp_view_dup(pTHX_ MAGIC *magic, CLONE_PARAMS *params)
{
    const ncp_view *from = (const ncp_view *)magic->mg_ptr;
    ncp_view *to;

    if (!from)
        return 0;
    Newx(to, 1, ncp_view);
    to->handle = handle_clone(aTHX_ from->handle);
    to->handle->references++;
    to->timeout_ms = from->timeout_ms;
    to->options = sv_dup_inc(from->options, params);
    magic->mg_ptr = (char *)to;
    return 0;
}

int ncp_callable_dup(pTHX_ MAGIC *magic, CLONE_PARAMS *params)
{
    const ncp_callable *from = (const ncp_callable *)magic->mg_ptr;
    ncp_callable *to;

    if (!from)
        return 0;
    Newxz(to, 1, ncp_callable);
    to->view.handle = handle_clone(aTHX_ from->view.handle);
    to->view.handle->references++;
    to->view.timeout_ms = from->view.timeout_ms;
    to->view.options = sv_dup_inc(from->view.options, params);
    to->name = sv_dup_inc(from->name, params);
    if (from->origin) {
        Newxz(to->origin, 1, ncp_origin);
        to->origin->hash = sv_dup_inc(from->origin->hash, params);
        to->origin->description = sv_dup_inc(from->origin->description, params);
        to->origin->warns = from->origin->warns;
    }
    magic->mg_ptr = (char *)to;
    return 0;
}

/* What a call has come to is known here too; one in flight is the other thread's. */
int ncp_call_dup(pTHX_ MAGIC *magic, CLONE_PARAMS *params)
{
    const ncp_call *from = (const ncp_call *)magic->mg_ptr;
    ncp_call *to;

    if (!from)
        return 0;
    Newxz(to, 1, ncp_call);
    to->handle = handle_clone(aTHX_ from->handle);
    to->handle->references++;
    to->name = sv_dup_inc(from->name, params);
    to->results = (AV *)sv_dup_inc((SV *)from->results, params);
    to->error = sv_dup_inc(from->error, params);
    to->state = from->state == NCP_RESOLVING || from->state == NCP_SENT ? NCP_LEFT : from->state;
    to->cancelled_outcome = from->cancelled_outcome;
    to->reported = true;
    magic->mg_ptr = (char *)to;
    return 0;
}

#else

static int not_cloned(MAGIC *magic)
{
    magic->mg_ptr = NULL;
    return 0;
}

int ncp_view_dup(pTHX_ MAGIC *magic, CLONE_PARAMS *params)
{
    PERL_UNUSED_ARG(params);
    return not_cloned(magic);
}

int ncp_callable_dup(pTHX_ MAGIC *magic, CLONE_PARAMS *params)
{
    PERL_UNUSED_ARG(params);
    return not_cloned(magic);
}

int ncp_call_dup(pTHX_ MAGIC *magic, CLONE_PARAMS *params)
{
    PERL_UNUSED_ARG(params);
    return not_cloned(magic);
}

#endif
