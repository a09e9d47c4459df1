/* One call from its arguments to its results. */
#include "limits_gen.h"
#include "nearcall_perl.h"

#include <time.h>

SV *ncp_argument(pTHX_ const ncp_invocation *call, I32 index)
{
    SV **element;

    if (!call->list)
        return PL_stack_base[call->first_argument + index];
    element = av_fetch(call->list, index, 0);
    return element ? *element : &PL_sv_undef;
}

bool ncp_fits_copied(const ncp_invocation *call, size_t *copied_bytes, const SV *value)
{
    *copied_bytes += 1 + (SvPOK(value) ? SvCUR(value) : 0);
    return ncp_fits_bytes(call->handle->client, *copied_bytes);
}

void ncp_throw_too_large(pTHX_ const ncp_invocation *call)
{
    size_t most = nearcall_request_bytes_max(call->handle->client);
    SV *message = most > NC_FRAME_BYTES_MAX_CEILING
        ? newSVpvf("what the arguments hold is larger than the %" UVuf " bytes that values may have (option value_bytes_max)", (UV)most)
        : newSVpvs("what the arguments hold is larger than the "
                   STRINGIFY(NC_FRAME_BYTES_MAX_CEILING)
                   " bytes that any frame may have (limit frame_bytes_max)");

    ncp_throw_of(aTHX_ call, ncp_error_new(aTHX_ -NEARCALL_E_RESOURCE_EXHAUSTED,
        NEARCALL_OUTCOME_NOT_EXECUTED, call->name, message, NULL));
}

/* Those on perl's stack are counted by nobody, and are the program's own variables: from
 * here on they are what they are now. One that is being written goes on being read. What
 * fits no frame is not copied: the encoder refuses it, unless the call has been sent. */
static void keep_arguments(pTHX_ ncp_invocation *call)
{
    AV *list = newAV();
    I32 i;

    for (i = 0; i < call->arguments_count; i++) {
        SV *argument = ncp_argument(aTHX_ call, i);
        (void)sv_2mortal(SvREFCNT_inc_simple_NN(argument));
        av_push(list, ncp_fits_copied(call, &call->copied_bytes, argument) ? ncp_copy_of(aTHX_ argument)
                                                      : SvREFCNT_inc_simple_NN(argument));
    }
    call->list = list;
}

/* The name may be that of the function, which closing the handle frees. */
void ncp_keep(pTHX_ ncp_invocation *call)
{
    if (call->is_kept)
        return;
    call->is_kept = true;
    sv_2mortal(SvREFCNT_inc_simple_NN(call->object));
    if (call->list)
        (void)SvREFCNT_inc_simple_NN((SV *)call->list);
    else
        keep_arguments(aTHX_ call);
    (void)sv_2mortal((SV *)call->list);
    if (call->name && !ncp_has_code(call->name))
        call->name = ncp_mortal_copy(aTHX_ call->name);
}

void ncp_run_signal_handlers(pTHX_ ncp_invocation *call, int outcome)
{
    ncp_handle *handle = call->handle;
    U32 requests = handle->requests;
    U32 fetches = handle->fetches;
    bool is_decoding = outcome == NEARCALL_OUTCOME_EXECUTED_RESULT_LOST;

    ncp_keep(aTHX_ call);
    PERL_ASYNC_CHECK();
    if (handle->client && handle->requests == requests && !(is_decoding && handle->fetches != fetches))
        return;
    ncp_throw_of(aTHX_ call, ncp_error_new(aTHX_ -NEARCALL_E_CANCELLED, outcome, call->name,
        newSVpvs("a signal handler called or closed the same handle, which gave this call up; "
                 "give handlers a handle of their own"), NULL));
}

/* ---- Functions and their plans ---- */

static int64_t nanoseconds_of(clockid_t clock)
{
    struct timespec now;

    clock_gettime(clock, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static int64_t milliseconds_of(clockid_t clock)
{
    return nanoseconds_of(clock) / 1000000;
}

int64_t ncp_now_ms(void)
{
    return milliseconds_of(CLOCK_MONOTONIC);
}

int64_t ncp_coarse_now_ms(void)
{
    return milliseconds_of(CLOCK_MONOTONIC_COARSE);
}

/* An error of finding the function has its time from here on. */
ncp_bounds ncp_bounds_of(const ncp_invocation *call)
{
    ncp_bounds bounds = {
        .began_ms = call->sent_ms ? call->sent_ms : ncp_coarse_now_ms(), .timeout_ms = call->timeout_ms,
    };

    return bounds;
}

ncp_bounds ncp_bounds_begun(int64_t began_ms, int64_t timeout_ms)
{
    int64_t now_ms = ncp_coarse_now_ms();
    bool is_over = timeout_ms > 0 && now_ms - began_ms >= timeout_ms;
    ncp_bounds bounds = { .began_ms = is_over ? now_ms : began_ms, .timeout_ms = timeout_ms };

    return bounds;
}

int64_t ncp_left_ms(pTHX_ const ncp_invocation *call, int64_t began_ms, const char *reason)
{
    int64_t left_ms;

    if (call->timeout_ms <= 0)
        return call->timeout_ms;
    left_ms = call->timeout_ms - (ncp_now_ms() - began_ms);
    if (left_ms <= 0)
        ncp_throw_of(aTHX_ call, ncp_error_new(aTHX_ -NEARCALL_E_DEADLINE_EXCEEDED,
            NEARCALL_OUTCOME_NOT_EXECUTED, call->name, newSVpv(reason, 0), NULL));
    return left_ms;
}

int64_t ncp_remaining_ms(pTHX_ const ncp_invocation *call, int64_t began_ms)
{
    return ncp_left_ms(aTHX_ call, began_ms, "no connection in time");
}

/* What is left of the call's own timeout, so that finding does not extend it. */
void ncp_shorten_timeout(ncp_invocation *call, int64_t elapsed_ms)
{
    if (call->timeout_ms <= 0)
        return;
    call->timeout_ms = elapsed_ms < call->timeout_ms ? call->timeout_ms - elapsed_ms : 1;
}

/* The server has answered. A handler of warnings may close the handle, which frees its functions, or die. */
static void warn_of_plain(pTHX_ const ncp_invocation *call)
{
    ncp_handle *handle = call->handle;

    if (!nearcall_is_exposed(handle->client))
        return; /* another endpoint of the address may be elsewhere */
    handle->warns_of_plain = FALSE;
    ncp_warn_caller(aTHX_ call, Perl_form(aTHX_ "%s is not on this machine: whoever is on the way to it can read calls over "
        "plain TCP, and change them; use a tls: address, or say plain=quiet if the way is safe", handle->opening->address));
}

static void tell_of_plain(pTHX_ const ncp_invocation *call)
{
    if (UNLIKELY(call->handle->warns_of_plain))
        warn_of_plain(aTHX_ call);
}

/* The name is a copy: signal handlers may change the program's. */
nearcall_function *ncp_find_waiting(pTHX_ ncp_invocation *call)
{
    nearcall_client *client = call->handle->client;
    nearcall_function *function = NULL;
    STRLEN bytes;
    const char *name = ncp_name_text(aTHX_ ncp_mortal_copy(aTHX_ call->name), &bytes);
    int64_t began_ms = ncp_now_ms();
    int r;

    call->handle->requests++;
    ncp_use_options(call);
    r = nearcall_find(client, name, bytes, call->timeout_ms, &function);
    while (r == NEARCALL_E_INTERRUPTED) {
        uint64_t interrupted = nearcall_interrupted(client);
        ncp_run_signal_handlers(aTHX_ call, NEARCALL_OUTCOME_NOT_EXECUTED);
        r = nearcall_resume(client, interrupted, NULL);
        if (r == NEARCALL_OK)
            r = nearcall_find(client, name, bytes, call->timeout_ms, &function);
    }
    if (r != NEARCALL_OK)
        ncp_throw_client(aTHX_ call);
    tell_of_plain(aTHX_ call);
    ncp_shorten_timeout(call, ncp_now_ms() - began_ms);
    return function;
}

/* A name's code runs here, before anything else is done. */
void ncp_settle_name(pTHX_ ncp_invocation *call)
{
    int64_t began_ms;

    if (LIKELY(!ncp_has_code(call->name)))
        return;
    began_ms = ncp_now_ms();
    ncp_keep(aTHX_ call);
    call->name = ncp_plain_text(aTHX_ call->name);
    if (!call->handle->client)
        croak("Nearcall: the handle was closed by the code of a function's name");
    call->timeout_ms = ncp_left_ms(aTHX_ call, began_ms, "code that belongs to the function's name "
                                   "took all of the call's time; run it before the call");
}

/* False also for some names that are the same, written otherwise. */
static bool is_plainly(const ncp_function *function, const SV *name)
{
    const SV *own = function->name;

    return SvPOK(name) && SvCUR(name) == SvCUR(own) && (function->is_ascii || SvUTF8(name))
        && memEQ(SvPVX_const(name), SvPVX_const(own), SvCUR(own));
}

static ncp_function *function_of_name(pTHX_ const ncp_invocation *call)
{
    ncp_function *last = call->handle->last_function;
    HE *known;

    if (LIKELY(last && is_plainly(last, call->name)))
        return last;
    known = hv_fetch_ent(call->handle->functions, call->name, 0, 0);
    if (known)
        call->handle->last_function = INT2PTR(ncp_function *, SvIVX(HeVAL(known)));
    return known ? call->handle->last_function : NULL;
}

bool ncp_find_known(pTHX_ ncp_invocation *call)
{
    if (!call->function)
        call->function = function_of_name(aTHX_ call);
    return call->function && nearcall_function_revision(call->function->function) != 0;
}

void ncp_find(pTHX_ ncp_invocation *call)
{
    nearcall_function *found;
    STRLEN bytes;

    ncp_settle_name(aTHX_ call);
    if (ncp_find_known(aTHX_ call))
        return;
    call->name = ncp_mortal_copy(aTHX_ call->name); /* signal handlers may change it */
    found = ncp_find_waiting(aTHX_ call);
    if ((call->function = function_of_name(aTHX_ call)) != NULL)
        return;
    Newxz(call->function, 1, ncp_function);
    call->function->name = newSVsv(call->name);
    (void)SvPVutf8(call->function->name, bytes);
    call->function->is_ascii = ncp_is_ascii((const U8 *)SvPVX(call->function->name), bytes);
    call->function->function = found;
    (void)hv_store_ent(call->handle->functions, call->name,
                       newSViv(PTR2IV(call->function)), 0);
}

static ncp_plan *recompile(pTHX_ ncp_function *function, uint32_t revision)
{
    size_t bytes = 0;
    const uint8_t *description = nearcall_function_schema(function->function, &bytes);
    ncp_plan *plan = ncp_plan_compile(aTHX_ function->name, description, bytes, revision);

    ncp_plan_free(aTHX_ function->plan);
    function->plan = plan;
    return plan;
}

ncp_plan *ncp_plan_current(pTHX_ ncp_function *function)
{
    uint32_t revision = nearcall_function_revision(function->function);

    if (LIKELY(function->plan && function->plan->revision == revision && revision != 0))
        return function->plan;
    return recompile(aTHX_ function, revision);
}

/* ---- Calling ---- */

/* The library sends again as well: all sendings are attempts. Without values there is a request. */
static int send_and_wait(pTHX_ ncp_invocation *call, const nearcall_value *values, U32 count,
                         nearcall_reply *ret_reply)
{
    nearcall_client *client = call->handle->client;
    U32 attempts_max = ncp_attempts_max(call);
    U32 sendings = attempts_max - call->attempts_left - 1;
    int r;

    ncp_protect_stack(aTHX_ call->handle);
    ncp_use_options(call);
    if (sendings > 0)
        (void)nearcall_request_sent(client, sendings);
    r = LIKELY(count > 0)
        ? nearcall_call_values(client, call->function->function, ncp_codec_of(call->function->plan), values,
                               count, call->timeout_ms, ret_reply)
        : nearcall_request_call(client, call->timeout_ms, ret_reply);
    while (r == NEARCALL_E_INTERRUPTED) {
        uint64_t interrupted = nearcall_interrupted(client);
        ncp_run_signal_handlers(aTHX_ call, NEARCALL_OUTCOME_UNKNOWN);
        r = nearcall_resume(client, interrupted, ret_reply);
    }
    ncp_take_metadata(aTHX_ call->options, client);
    sendings = r == NEARCALL_OK ? 0 : nearcall_sendings(client);
    if (sendings > attempts_max - call->attempts_left)
        call->attempts_left = sendings < attempts_max ? attempts_max - sendings : 0;
    return r;
}

/* Also where an earlier sending may have run the call, which its caller lets run again: the last has ended
 * because it does not fit the server that is there now. */
static bool is_refused(ncp_invocation *call, int r)
{
    const nearcall_client *client = call->handle->client;

    if (ncp_is_refused(client, r))
        return true;
    if ((r != NEARCALL_E_ABORTED && r != NEARCALL_E_INVALID_ARGUMENT)
        || nearcall_error_outcome(client) != NEARCALL_OUTCOME_UNKNOWN || !ncp_retries_unknown(call->options))
        return false;
    call->may_have_run = true;
    return true;
}

/* Compiling what cannot be read throws that nothing has run. */
static bool is_readable(const ncp_function *function)
{
    size_t bytes = 0;
    const uint8_t *description = nearcall_function_schema(function->function, &bytes);
    nearcall_schema *schema = NULL;
    const char *problem;
    int r = nearcall_schema_read(description, bytes, &schema, &problem);

    nearcall_schema_free(schema);
    return r == NEARCALL_OK;
}

/* Sent again only when a server refused what was encoded for another: nothing has run. */
void ncp_invoke(pTHX_ ncp_invocation *call, nearcall_reply *ret_reply)
{
    nearcall_value values[NCP_PLAIN_VALUES_MAX];
    U32 attempts_max = ncp_attempts_max(call);
    int r;

    call->attempts_left = attempts_max;
    if (!call->function)
        ncp_find(aTHX_ call);
    for (;;) {
        ncp_bounds bounds;
        SV *error;
        U32 count = call->attempts_left == attempts_max ? ncp_plain_values(aTHX_ call, values) : 0;

        /* What it takes to find, compare and encode has been taken off already. */
        if (UNLIKELY(count == 0))
            (void)ncp_encode_request(aTHX_ call);
        call->sent_ms = ncp_coarse_now_ms();
        r = send_and_wait(aTHX_ call, values, count, ret_reply);
        if (LIKELY(r == NEARCALL_OK))
            return;
        if (!is_refused(call, r) || call->attempts_left == 0)
            ncp_throw_client(aTHX_ call);
        bounds = ncp_bounds_of(call);
        error = sv_2mortal(ncp_error_from_client(aTHX_ call->handle->client, call->name, &bounds));
        ncp_shorten_timeout(call, ncp_coarse_now_ms() - call->sent_ms);
        call->sent_ms = 0;
        if (!ncp_has_changed(aTHX_ call, call->revision) || (call->may_have_run && !is_readable(call->function)))
            ncp_throw_of(aTHX_ call, SvREFCNT_inc_simple_NN(error));
        if (call->has_asked)
            ncp_throw_of(aTHX_ call, ncp_not_again(aTHX_ call->name));
    }
}

/* The bytes of an argument, safe from whatever a signal handler does to it. */
static SV *stable_bytes(pTHX_ ncp_invocation *call)
{
    SV *argument = ncp_argument(aTHX_ call, 0);
    SV *bytes;

    if (ncp_has_code(argument)) {
        int64_t began_ms = ncp_now_ms();
        ncp_keep(aTHX_ call);
        SvGETMAGIC(argument);
        call->timeout_ms = ncp_left_ms(aTHX_ call, began_ms, NCP_CODE_TOOK_ALL);
    }
    if (SvPOK(argument) && !ncp_fits_bytes(call->handle->client, SvCUR(argument) / 2))
        return argument; /* is refused for its length, however it is converted */
    bytes = ncp_mortal_copy(aTHX_ argument);
    if (!SvOK(bytes) || SvROK(bytes))
        croak("Nearcall: call_raw takes a function's name and a string of bytes");
    (void)SvPV_nolen(bytes);
    if (!sv_utf8_downgrade(bytes, TRUE))
        ncp_throw(aTHX_ ncp_error_new(aTHX_ -NEARCALL_E_INVALID_ARGUMENT,
            NEARCALL_OUTCOME_NOT_EXECUTED, call->name,
            newSVpvs("argument 1: expected bytes, got a string with a character above 255; "
                     "encode it first"), NULL));
    return bytes;
}

SV *ncp_invoke_raw(pTHX_ ncp_invocation *call)
{
    ncp_handle *handle = call->handle;
    nearcall_client *client;
    SV *bytes;
    STRLEN name_bytes;
    const char *name;
    nearcall_reply reply;
    SV *result;
    int r;

    ncp_settle_name(aTHX_ call);
    bytes = stable_bytes(aTHX_ call);
    client = handle->client;
    if (!client)
        croak("Nearcall: the handle was closed by the argument's own code");
    call->name = ncp_mortal_copy(aTHX_ call->name);
    name = ncp_name_text(aTHX_ call->name, &name_bytes);
    handle->requests++;
    call->sent_ms = ncp_coarse_now_ms();
    ncp_protect_stack(aTHX_ handle);
    ncp_use_options(call);
    r = nearcall_call(client, name, SvPVX(bytes), SvCUR(bytes), call->timeout_ms, &reply);
    while (r == NEARCALL_E_INTERRUPTED) {
        uint64_t interrupted = nearcall_interrupted(client);
        ncp_run_signal_handlers(aTHX_ call, NEARCALL_OUTCOME_UNKNOWN);
        r = nearcall_resume(client, interrupted, &reply);
    }
    ncp_take_metadata(aTHX_ call->options, client);
    if (r != NEARCALL_OK)
        ncp_throw_client(aTHX_ call);
    result = newSVpvn_flags((const char *)reply.data, reply.bytes, SVs_TEMP);
    tell_of_plain(aTHX_ call);
    return result;
}

/* ---- Connecting, sign of life ---- */

NV ncp_ping(pTHX_ ncp_invocation *call)
{
    nearcall_client *client = call->handle->client;
    int64_t began_ns = nanoseconds_of(CLOCK_MONOTONIC);
    uint64_t round_trip_ns = 0;
    int r;

    call->handle->requests++;
    r = nearcall_ping(client, call->timeout_ms, &round_trip_ns);
    while (r == NEARCALL_E_INTERRUPTED) {
        uint64_t interrupted = nearcall_interrupted(client);
        ncp_run_signal_handlers(aTHX_ call, NEARCALL_OUTCOME_UNKNOWN);
        r = nearcall_resume(client, interrupted, NULL);
        round_trip_ns = (uint64_t)(nanoseconds_of(CLOCK_MONOTONIC) - began_ns);
    }
    if (r != NEARCALL_OK)
        ncp_throw_client(aTHX_ call);
    tell_of_plain(aTHX_ call);
    return (NV)round_trip_ns / 1e9;
}

/* Connecting goes on where it was when it is asked for again. */
void ncp_connect(pTHX_ ncp_invocation *call)
{
    nearcall_client *client = call->handle->client;
    int64_t began_ms = ncp_now_ms();
    int r;

    call->handle->requests++;
    r = nearcall_connect(client, call->timeout_ms);
    while (r == NEARCALL_E_INTERRUPTED) {
        ncp_run_signal_handlers(aTHX_ call, NEARCALL_OUTCOME_NOT_EXECUTED);
        r = nearcall_connect(client, ncp_remaining_ms(aTHX_ call, began_ms));
    }
    if (r != NEARCALL_OK && r != NEARCALL_E_AGAIN)
        ncp_throw_client(aTHX_ call);
}

/* ---- Results ---- */

static void return_one(pTHX_ I32 ax, SV *result)
{
    SV **stack = PL_stack_base + ax;

    stack[0] = result;
    PL_stack_sp = stack;
}

/* An array in list context is its elements; in scalar context, nothing is
 * undef, one is itself, several are an array reference. */
void ncp_return_list(pTHX_ I32 ax, AV *results, bool is_kept)
{
    SSize_t count = av_len(results) + 1;
    SSize_t i;

    if (GIMME_V != G_ARRAY) {
        SV *single = count == 0 ? &PL_sv_undef
            : count == 1 ? sv_mortalcopy(*av_fetch(results, 0, 0))
            : is_kept ? sv_2mortal(newRV_noinc((SV *)av_make(count, AvARRAY(results))))
            : sv_2mortal(newRV_inc((SV *)results));
        return_one(aTHX_ ax, single);
        return;
    }
    PL_stack_sp = PL_stack_base + ax - 1;
    {
        dSP;
        EXTEND(SP, count);
        for (i = 0; i < count; i++)
            PUSHs(sv_mortalcopy(*av_fetch(results, i, 0)));
        PUTBACK;
    }
}

static void return_single(pTHX_ I32 ax, const ncp_invocation *call, const ncp_plan *plan,
                          const nearcall_reply *reply, const ncp_bounds *bounds)
{
    SV *error = NULL;
    SV *result = ncp_decode_single(aTHX_ call->handle, call->options, call->function->name, plan, reply,
                                   bounds, &error);

    if (!result)
        ncp_throw(aTHX_ error);
    return_one(aTHX_ ax, sv_2mortal(result));
}

static void return_several(pTHX_ I32 ax, const ncp_invocation *call, const ncp_plan *plan,
                           const nearcall_reply *reply, const ncp_bounds *bounds)
{
    SV *error = NULL;
    AV *results = ncp_decode_results(aTHX_ call->handle, call->options, call->function->name, plan, reply,
                                     bounds, &error);

    if (!results)
        ncp_throw(aTHX_ error);
    ncp_return_list(aTHX_ ax, results, false);
}

void ncp_return_reply(pTHX_ I32 ax, ncp_invocation *call, const nearcall_reply *reply)
{
    const ncp_plan *plan = ncp_plan_current(aTHX_ call->function);
    ncp_bounds bounds = ncp_bounds_of(call);

    bounds.call = call;

    if (reply->codec == NEARCALL_CODEC_RAW)
        return_one(aTHX_ ax, newSVpvn_flags((const char *)reply->data, reply->bytes, SVs_TEMP));
    else if (plan->results_count == 1)
        return_single(aTHX_ ax, call, plan, reply, &bounds);
    else
        return_several(aTHX_ ax, call, plan, reply, &bounds);
}
