/* Calls in flight: Nearcall::Call objects, and the loop that finishes them. */
#include "nearcall_perl.h"

static bool in_flight(const ncp_call *call)
{
    return call->state == NCP_RESOLVING || call->state == NCP_SENT;
}

/* ---- Life ---- */

static void unlist(ncp_call *call)
{
    ncp_calls *list = call->list;

    if (!list)
        return;
    *(call->previous ? &call->previous->next : &list->first) = call->next;
    *(call->next ? &call->next->previous : &list->last) = call->previous;
    call->list = NULL;
    call->next = call->previous = NULL;
}

static void enlist(ncp_call *call, ncp_calls *list)
{
    if (call->list == list)
        return;
    unlist(call);
    call->list = list;
    call->previous = list->last;
    *(list->last ? &list->last->next : &list->first) = call;
    list->last = call;
}

static void set_in_flight(ncp_call *call, ncp_call_state state)
{
    call->state = state;
    enlist(call, &call->handle->in_flight);
}

static void set_over(ncp_call *call, ncp_call_state state)
{
    call->state = state;
    if (call->reported || state == NCP_CANCELLED)
        unlist(call);
    else
        enlist(call, &call->handle->finished);
}

/* What is RESOLVING was not sent, or was refused. */
static void set_cancelled(ncp_call *call)
{
    call->cancelled_outcome = call->state == NCP_SENT ? NEARCALL_OUTCOME_UNKNOWN
                                                      : NEARCALL_OUTCOME_NOT_EXECUTED;
    set_over(call, NCP_CANCELLED);
}

/* While its arguments are encoded the library has no call of that id any more. */
void ncp_call_cancel(pTHX_ ncp_call *call)
{
    if (!in_flight(call))
        return;
    set_cancelled(call);
    if (call->handle->client && !call->is_encoding) {
        ncp_handle_abandon(aTHX_ call->handle);
        call->handle->requests++;
        nearcall_cancel(call->handle->client, call->id);
    }
}

static int call_free(pTHX_ SV *object, MAGIC *magic)
{
    ncp_call *call = (ncp_call *)magic->mg_ptr;
    dSAVE_ERRNO;

    PERL_UNUSED_ARG(object);
    if (!call)
        return 0;
    ncp_call_cancel(aTHX_ call);
    unlist(call);
    ncp_handle_release(aTHX_ call->handle);
    SvREFCNT_dec(call->name);
    SvREFCNT_dec(call->options);
    SvREFCNT_dec(call->callable);
    SvREFCNT_dec((SV *)call->arguments);
    SvREFCNT_dec((SV *)call->plan_memory);
    SvREFCNT_dec(call->refusal);
    SvREFCNT_dec((SV *)call->results);
    SvREFCNT_dec(call->error);
    Safefree(call);
    RESTORE_ERRNO;
    return 0;
}

static const MGVTBL call_magic = { .svt_free = call_free, .svt_dup = ncp_call_dup };

static ncp_call *call_new(pTHX_ const ncp_invocation *from, SV **ret_object)
{
    SV *object = newSV_type(SVt_PVMG);
    ncp_call *call;

    Newxz(call, 1, ncp_call);
    call->handle = from->handle;
    call->handle->references++;
    call->object = object;
    call->name = newSVsv(from->name);
    call->options = SvREFCNT_inc(from->options);
    call->origin = from->origin;
    call->callable = from->origin ? SvREFCNT_inc(from->object) : NULL;
    call->timeout_ms = from->timeout_ms;
    call->began_ms = ncp_coarse_now_ms();
    call->attempts_left = ncp_attempts_max(from);
    call->state = NCP_CANCELLED;
    sv_magicext(object, NULL, PERL_MAGIC_ext, &call_magic, (char *)call, 0)->mg_flags |= MGf_DUP;
    *ret_object = sv_2mortal(sv_bless(newRV_noinc(object), gv_stashpvs("Nearcall::Call", GV_ADD)));
    return call;
}

static void fail(ncp_call *call, SV *error)
{
    set_over(call, NCP_FAILED);
    call->error = error;
}

ncp_call *ncp_call_of(pTHX_ SV *object)
{
    MAGIC *magic = NULL;
    ncp_call *call;

    if (SvROK(object) && SvTYPE(SvRV(object)) >= SVt_PVMG)
        magic = mg_findext(SvRV(object), PERL_MAGIC_ext, &call_magic);
    if (!magic || !magic->mg_ptr)
        croak("Nearcall: this is not an object that begin returned");
    call = (ncp_call *)magic->mg_ptr;
    if (UNLIKELY(call->state == NCP_LEFT))
        fail(call, ncp_error_new(aTHX_ -NEARCALL_E_UNAVAILABLE, NEARCALL_OUTCOME_UNKNOWN, call->name,
            newSVpvs("the call is in flight in the thread that began it"), NULL));
    return call;
}

SV *ncp_call_error(pTHX_ const ncp_call *call)
{
    return call->state == NCP_FAILED ? ncp_error_copy(aTHX_ call->error) : newSV(0);
}

/* The library's ids end with the client; objects outlive it. */
void ncp_calls_closed(pTHX_ ncp_handle *handle)
{
    PERL_UNUSED_CONTEXT;
    while (handle->in_flight.first)
        set_cancelled(handle->in_flight.first);
}

/* ---- Beginning ---- */

static ncp_invocation invocation_of(const ncp_call *call)
{
    ncp_invocation invocation = {
        .handle = call->handle, .object = call->object, .timeout_ms = call->timeout_ms,
        .function = call->function, .name = call->name, .list = call->arguments,
        .origin = call->origin, .options = call->options, .attempts_left = call->attempts_left, .is_begun = true,
        .arguments_count = call->arguments ? (I32)(AvFILLp(call->arguments) + 1) : 0,
    };
    return invocation;
}

/* Results are read by the plan that the arguments were encoded by, whatever the function
 * has by then. */
static void keep_plan(pTHX_ ncp_call *call)
{
    AV *former = call->plan_memory;

    call->plan = call->function->plan;
    call->plan_memory = (AV *)SvREFCNT_inc((SV *)call->plan->memory);
    SvREFCNT_dec((SV *)former);
}

/* What has passed counts: neither looking up nor being refused makes a call longer. */
static void take_off_time(ncp_call *call)
{
    int64_t now_ms = ncp_coarse_now_ms();
    ncp_invocation rest = { .timeout_ms = call->timeout_ms };

    ncp_shorten_timeout(&rest, now_ms - call->began_ms);
    call->timeout_ms = rest.timeout_ms;
    call->began_ms = now_ms;
}

static void begin_find(pTHX_ ncp_call *call, ncp_invocation *from)
{
    STRLEN bytes;
    const char *name;

    if (!call->handle->client)
        croak("Nearcall: the handle was closed by an argument's own code");
    name = ncp_name_text(aTHX_ call->name, &bytes);
    call->handle->requests++;
    if (nearcall_find_begin(call->handle->client, name, bytes, call->timeout_ms, &call->id)
        != NEARCALL_OK)
        ncp_throw_client(aTHX_ from);
    set_in_flight(call, NCP_RESOLVING);
}

/* False: there is nothing to be sent. The arguments' own code has cancelled the call, or the
 * function is looked up again first. */
static bool encode(pTHX_ ncp_call *call, ncp_invocation *invocation)
{
    bool was_in_flight = in_flight(call);
    bool is_encoded;

    call->is_encoding = true;
    is_encoded = ncp_encode_request(aTHX_ invocation);
    call->is_encoding = false;
    keep_plan(aTHX_ call);
    call->attempts_left = invocation->attempts_left;
    call->refusal = invocation->refusal;
    if (was_in_flight && !in_flight(call))
        return false;
    if (is_encoded)
        return true;
    call->timeout_ms = invocation->timeout_ms;
    call->began_ms = ncp_coarse_now_ms();
    begin_find(aTHX_ call, invocation);
    return false;
}

/* After a signal. As long as nothing is sent the request stays whole, unless a handler used the
 * handle. One of which a part is sent may run whatever becomes of it here, and has its deadline. */
static int go_on_sending(pTHX_ ncp_call *call, ncp_invocation *invocation, int64_t began_ms)
{
    nearcall_client *client = call->handle->client;
    bool is_unsent = nearcall_error_outcome(client) == NEARCALL_OUTCOME_NOT_EXECUTED;

    ncp_run_signal_handlers(aTHX_ invocation, is_unsent ? NEARCALL_OUTCOME_NOT_EXECUTED
                                                        : NEARCALL_OUTCOME_UNKNOWN);
    return nearcall_request_send(client, is_unsent ? ncp_remaining_ms(aTHX_ invocation, began_ms)
                                                   : invocation->timeout_ms, &call->id);
}

static void send_request(pTHX_ ncp_call *call, ncp_invocation *invocation)
{
    int64_t began_ms;
    int r;

    call->function = invocation->function;
    if (!encode(aTHX_ call, invocation))
        return;
    began_ms = ncp_now_ms();
    ncp_use_options(invocation);
    r = nearcall_request_send(call->handle->client, invocation->timeout_ms, &call->id);
    while (r == NEARCALL_E_INTERRUPTED)
        r = go_on_sending(aTHX_ call, invocation, began_ms);
    if (r != NEARCALL_OK)
        ncp_throw_client(aTHX_ invocation);
    set_in_flight(call, NCP_SENT);
}

/* Throws when the library would have to ask the server for the function again:
 * an event loop must not be blocked. */
static void require_described(pTHX_ const ncp_invocation *invocation)
{
    nearcall_client *client = invocation->handle->client;
    nearcall_call_id id;
    STRLEN bytes;
    const char *name = ncp_name_text(aTHX_ invocation->name, &bytes);
    int r;

    invocation->handle->requests++;
    r = nearcall_find_begin(client, name, bytes, invocation->timeout_ms, &id);
    if (r == NEARCALL_OK)
        r = nearcall_poll(client, id, NULL);
    if (r == NEARCALL_OK)
        return;
    if (r != NEARCALL_E_AGAIN)
        ncp_throw_client(aTHX_ invocation);
    nearcall_cancel(client, id);
    ncp_throw(aTHX_ ncp_error_new(aTHX_ -NEARCALL_E_UNAVAILABLE, NEARCALL_OUTCOME_NOT_EXECUTED,
        invocation->name, newSVpvs("another server came while the function was looked up; "
                                   "call again"), NULL));
}

/* The second step of a call that had to learn its function first. */
void ncp_call_send(pTHX_ ncp_call *call)
{
    ncp_invocation invocation;

    take_off_time(call);
    invocation = invocation_of(call);
    if (!ncp_find_known(aTHX_ &invocation) && !invocation.function) {
        require_described(aTHX_ &invocation);
        ncp_find(aTHX_ &invocation);
    }
    send_request(aTHX_ call, &invocation);
}

static bool has_magic(pTHX_ const ncp_invocation *from)
{
    I32 i;

    for (i = 0; i < from->arguments_count; i++)
        if (SvGMAGICAL(ncp_argument(aTHX_ from, i)))
            return true;
    return false;
}

/* The code of tied ones may change and drop others, and take the time of the call. */
static void copy_arguments(pTHX_ ncp_call *call, ncp_invocation *from)
{
    bool has_code = has_magic(aTHX_ from);
    int64_t began_ms = has_code ? ncp_now_ms() : 0;
    I32 i;

    if (has_code)
        ncp_keep(aTHX_ from);
    from->copied_bytes = 0;
    call->arguments = newAV();
    call->is_constant = true;
    for (i = 0; i < from->arguments_count; i++) {
        SV *argument = ncp_argument(aTHX_ from, i);
        SV *copy = newSV(0);
        av_push(call->arguments, copy);
        if (SvGMAGICAL(argument)) {
            mg_get(argument);
            (void)ncp_left_ms(aTHX_ from, began_ms, NCP_CODE_TOOK_ALL);
        }
        if (!ncp_fits_copied(from, &from->copied_bytes, argument))
            ncp_throw_too_large(aTHX_ from);
        sv_setsv_flags(copy, argument, SV_DO_COW_SVSETSV | SV_NOSTEAL);
        call->is_constant = call->is_constant && !SvROK(copy) && !isGV(copy);
    }
}

/* The server refused the encoding: the function is looked up again, and the call sent
 * once more if its description has changed. */
void ncp_call_find(pTHX_ ncp_call *call)
{
    ncp_invocation invocation = invocation_of(call);

    begin_find(aTHX_ call, &invocation);
}

/* Encoded when the description has come, which references given to begin are kept for only where
 * it is the first: if the server has refused the former, it has refused this call as well. */
static void begin_unknown(pTHX_ ncp_call *call, ncp_invocation *from)
{
    ncp_function *former = from->function;

    copy_arguments(aTHX_ call, from);
    take_off_time(call);
    begin_find(aTHX_ call, from); /* throws where code of the arguments has closed the handle */
    if (!former || !former->plan || call->is_constant)
        return;
    call->function = former;
    keep_plan(aTHX_ call);
    call->refusal = ncp_not_again(aTHX_ call->name);
}

SV *ncp_call_begin(pTHX_ ncp_invocation *from)
{
    ncp_invocation copied;
    SV *object;
    ncp_call *call;

    ncp_settle_name(aTHX_ from);
    if (from->handle->nonblocking && !ncp_find_known(aTHX_ from)) {
        call = call_new(aTHX_ from, &object);
        begin_unknown(aTHX_ call, from);
        return object;
    }
    if (!from->function)
        ncp_find(aTHX_ from);
    call = call_new(aTHX_ from, &object);
    call->function = from->function;
    copy_arguments(aTHX_ call, from);
    if (!call->handle->client)
        croak("Nearcall: the handle was closed by an argument's own code");
    take_off_time(call);
    copied = invocation_of(call); /* code of the arguments has run, and runs once */
    send_request(aTHX_ call, &copied);
    return object;
}

/* ---- Finishing ---- */

/* Runs a method of the call that can throw, here where nobody catches it; on a stack of its
 * own, as all that may run user code. A call that was cancelled meanwhile stays that. What is thrown
 * is taken before any temporary is freed, whose destructor may clear it. */
static void attempt(pTHX_ ncp_call *call, const char *method)
{
    dSP;

    ENTER;
    SAVETMPS;
    save_scalar(PL_errgv);
    PUSHSTACKi(PERLSI_MAGIC);
    PUSHMARK(SP);
    XPUSHs(sv_2mortal(newRV_inc(call->object)));
    PUTBACK;
    call_method(method, G_EVAL | G_VOID);
    POPSTACK;
    /* The truth of an object is user code. */
    if ((SvROK(ERRSV) || SvTRUE_nomg(ERRSV)) && call->state != NCP_CANCELLED)
        fail(call, newSVsv(ERRSV));
    FREETMPS;
    LEAVE;
}

static SV *error_of(pTHX_ const ncp_call *call)
{
    const ncp_bounds bounds = ncp_bounds_begun(call->began_ms, call->timeout_ms);

    return ncp_error_from_client(aTHX_ call->handle->client, call->name, &bounds);
}

static void keep_results(pTHX_ ncp_call *call, const nearcall_reply *reply)
{
    const ncp_bounds bounds = ncp_bounds_begun(call->began_ms, call->timeout_ms);
    SV *error = NULL;
    AV *results = ncp_decode_results(aTHX_ call->handle, call->options, call->function->name, call->plan, reply,
                                     &bounds, &error);

    if (!results) {
        fail(call, error);
        return;
    }
    set_over(call, NCP_SUCCEEDED);
    call->results = (AV *)SvREFCNT_inc((SV *)results);
}

/* What references lead to is the caller's again since begin returned. */
static void send_resolved(pTHX_ ncp_call *call)
{
    SV *refusal = call->refusal;

    call->refusal = NULL;
    if (refusal && nearcall_function_revision(call->function->function) == call->plan->revision) {
        fail(call, refusal);
        return;
    }
    if (refusal && !call->is_constant) {
        SvREFCNT_dec(refusal);
        fail(call, ncp_not_again(aTHX_ call->name));
        return;
    }
    SvREFCNT_dec(refusal);
    ncp_keep_object(aTHX_ call->object);
    attempt(aTHX_ call, "_send");
}

/* Their own code may run when they are dropped: at the end of the statement. */
static void forget_arguments(pTHX_ ncp_call *call)
{
    if (call->arguments)
        sv_2mortal((SV *)call->arguments);
    call->arguments = NULL;
}

static void find_again(pTHX_ ncp_call *call)
{
    call->refusal = error_of(aTHX_ call);
    take_off_time(call);
    ncp_keep_object(aTHX_ call->object);
    attempt(aTHX_ call, "_find");
}

static void finish(pTHX_ ncp_call *call, int r, const nearcall_reply *reply)
{
    if (call->state == NCP_SENT)
        ncp_take_metadata(aTHX_ call->options, call->handle->client);
    if (call->state == NCP_SENT && call->attempts_left > 0
        && ncp_is_refused(call->handle->client, r))
        find_again(aTHX_ call);
    else if (r != NEARCALL_OK)
        fail(call, error_of(aTHX_ call));
    else if (call->state == NCP_RESOLVING)
        send_resolved(aTHX_ call);
    else
        keep_results(aTHX_ call, reply);
    if (!in_flight(call))
        forget_arguments(aTHX_ call);
}

/* Of a call that is in flight the library knows nothing then, and it stays in flight. */
static void require_idle(pTHX_ const ncp_call *call, int r)
{
    bool is_sent = call->state == NCP_SENT;

    if (LIKELY(r != NEARCALL_E_MISUSE || nearcall_error_code(call->handle->client) != 0))
        return;
    ncp_throw(aTHX_ ncp_error_busy(aTHX_ is_sent ? NEARCALL_OUTCOME_UNKNOWN : NEARCALL_OUTCOME_NOT_EXECUTED,
                                   call->name));
}

/* Looks without waiting or reading; true when the call is over. It is not while its arguments
 * are encoded, whose code may ask. */
static bool look(pTHX_ ncp_call *call)
{
    nearcall_reply reply;
    int r;

    if (!in_flight(call))
        return true;
    if (call->is_encoding)
        return false;
    ncp_keep_object(aTHX_ call->object);
    ncp_handle_abandon(aTHX_ call->handle);
    call->handle->fetches++;
    r = nearcall_poll(call->handle->client, call->id, &reply);
    if (r == NEARCALL_E_AGAIN)
        return false;
    require_idle(aTHX_ call, r);
    finish(aTHX_ call, r, &reply);
    return !in_flight(call);
}

bool ncp_call_ready(pTHX_ ncp_call *call)
{
    if (look(aTHX_ call))
        return true;
    if (call->is_encoding)
        return false;
    call->handle->fetches++;
    (void)nearcall_process(call->handle->client);
    return look(aTHX_ call);
}

static void wait_once(pTHX_ ncp_call *call)
{
    nearcall_reply reply;
    int r;

    ncp_keep_object(aTHX_ call->object);
    ncp_handle_abandon(aTHX_ call->handle);
    call->handle->fetches++;
    while ((r = nearcall_wait(call->handle->client, call->id, &reply)) == NEARCALL_E_INTERRUPTED) {
        PERL_ASYNC_CHECK();
        if (!in_flight(call))
            return;
    }
    require_idle(aTHX_ call, r);
    finish(aTHX_ call, r, &reply);
}

AV *ncp_call_wait(pTHX_ ncp_call *call)
{
    while (in_flight(call)) {
        if (call->is_encoding)
            croak("Nearcall: an argument's own code waits for the call that it is an argument of");
        wait_once(aTHX_ call);
    }
    if (call->state == NCP_FAILED)
        ncp_throw(aTHX_ ncp_error_copy(aTHX_ call->error));
    if (call->state == NCP_CANCELLED)
        ncp_throw(aTHX_ ncp_error_new(aTHX_ -NEARCALL_E_CANCELLED, call->cancelled_outcome,
            call->name, newSVpvs("the call was cancelled, or its handle closed"), NULL));
    return call->results;
}

/* ---- Event loops ---- */

/* Most finish in about the order in which they began. */
static ncp_call *call_by_id(const ncp_handle *handle, nearcall_call_id id)
{
    ncp_call *call = handle->in_flight.first;

    while (call && call->id != id)
        call = call->next;
    return call;
}

/* A call that was resolved is sent, and goes on being in flight. */
static void finish_all(pTHX_ ncp_handle *handle)
{
    nearcall_call_id id;

    while (handle->client && (id = nearcall_next_finished(handle->client)) != 0) {
        ncp_call *call = call_by_id(handle, id);
        if (!call)
            nearcall_cancel(handle->client, id);
        else if (!look(aTHX_ call) && call->id == id)
            return;
    }
}

AV *ncp_process(pTHX_ ncp_handle *handle)
{
    AV *finished = (AV *)sv_2mortal((SV *)newAV());
    ncp_call *call;

    handle->fetches++;
    /* A lost connection finishes its calls with their own errors. */
    (void)nearcall_process(handle->client);
    finish_all(aTHX_ handle);
    while ((call = handle->finished.first) != NULL) {
        unlist(call);
        call->reported = true;
        av_push(finished, newRV_inc(call->object));
    }
    return finished;
}
