/* What encoding takes of the call's time. It may be much and yet no bytes of the request: a
 * hash that was large and has been emptied, text that is read as a number, a container that
 * a list holds a thousand times. */
#include "encode.h"

/* One takes some 30 ns, where nothing of it is in the processor's caches. */
#define COPIES_GIVEN_BACK_PER_MS 32768

#define ENCODING_TOOK_ALL "encoding the arguments took all of the call's time; send less in one call, or give it " \
                          "more time"

static int64_t left_ms(pTHX_ const ncp_encoder *e, const char *reason)
{
    return ncp_left_ms(aTHX_ e->call, e->call->work_began_ms - e->copies / COPIES_GIVEN_BACK_PER_MS, reason);
}

void ncp_check_time(pTHX_ const ncp_encoder *e)
{
    (void)left_ms(aTHX_ e, e->runs > e->quiet_runs ? NCP_CODE_TOOK_ALL : ENCODING_TOOK_ALL);
}

/* Work that never comes to this is too short to count. */
static void begin_work(const ncp_encoder *e)
{
    if (!e->call->work_began_ms)
        e->call->work_began_ms = ncp_now_ms();
}

void ncp_look_up(pTHX_ ncp_encoder *e)
{
    e->work_left = NCP_WORK_BETWEEN_LOOKS;
    begin_work(e);
    ncp_check_time(aTHX_ e);
    if (e->plan)
        ncp_check_room(aTHX_ e);
}

void ncp_foresee_copies(pTHX_ ncp_encoder *e, SSize_t count)
{
    if (count < NCP_WORK_BETWEEN_LOOKS)
        return;
    begin_work(e);
    e->copies += count;
    (void)left_ms(aTHX_ e, ENCODING_TOOK_ALL);
    e->copies -= count;
}

/* They are not the arguments' own code, for which these may not be encoded again. */
void ncp_run_handlers(pTHX_ ncp_encoder *e)
{
    bool has_asked = e->call->has_asked;
    U32 runs = e->runs;

    e->is_interrupted = true;
    ncp_own(aTHX_ e);
    e->is_interrupted = false;
    if (e->runs == runs + 1) { /* no value with magic was asked */
        e->call->has_asked = has_asked;
        e->runs = runs;
    }
    ncp_run_signal_handlers(aTHX_ e->call, NEARCALL_OUTCOME_NOT_EXECUTED);
    ncp_check_time(aTHX_ e);
}

SV *ncp_run_handlers_before(pTHX_ ncp_encoder *e, SV *value)
{
    SV *kept;

    e->is_interrupted = true;
    kept = sv_2mortal(ncp_own_copy(aTHX_ e, value));
    ncp_run_handlers(aTHX_ e);
    ncp_hold(aTHX_ e, kept);
    return kept;
}

void ncp_settle(pTHX_ const ncp_encoder *e)
{
    ncp_invocation *call = e->call;

    if (UNLIKELY(call->work_began_ms))
        call->timeout_ms = left_ms(aTHX_ e, ENCODING_TOOK_ALL);
}
