/* Call: a call that was begun and whose reply is fetched later. */
#include "core.h"

typedef struct core_call {
    PyObject_HEAD
    core_client *client;
    core_channel *channel; /* of the client's pool */
    core_entry *entry;
    core_attempt attempt;
    core_kept kept;        /* until it is finished */
    PyObject *refusal;     /* of the server, which knows another description: to be begun again */
    int64_t timeout_ms;    /* since started_ms */
    int64_t started_ms;
    uint64_t generation;   /* the process that began it */
    PyObject *result;      /* one of these two is set when it is finished */
    PyObject *error;
} core_call;

static int is_pending(const core_call *call)
{
    return call->result == NULL && call->error == NULL;
}

static int is_own(const core_call *call)
{
    return call->generation == call->client->state->fork_generation;
}

static void let_channel_go(core_call *call)
{
    core_pool_check_process(call->client->pool);
    if (is_own(call))
        call->channel->calls_in_flight--;
}

/* Takes over what the call ended with, unless it has ended before. */
static void end(core_call *call, PyObject *result, PyObject *error)
{
    if (!is_pending(call)) {
        Py_XDECREF(result);
        Py_XDECREF(error);
        return;
    }
    let_channel_go(call);
    call->result = result;
    call->error = error;
    Py_CLEAR(call->refusal);
    core_kept_clear(&call->kept);
}

/* Ends the call with the exception that is set now, which is set no more. -1 for one that is
 * of a signal's handler or an argument's own code: it stays set, and the call goes on. */
static int end_with_own_exception(core_call *call)
{
    if (!PyErr_ExceptionMatches(call->client->state->error_class))
        return -1;
    end(call, NULL, core_exception_take());
    return 0;
}

/* After a refusal: encodes and sends once more by what the server says now, unless the
 * arguments may be others by now than those that the call was begun with. */
static int try_again(core_call *call, const core_kept *kept, core_attempt *attempt)
{
    int64_t left_ms = core_milliseconds_left(call->timeout_ms, call->started_ms);

    core_exception_set(Py_NewRef(call->refusal));
    if (!core_entry_has_changed(call->client, call->entry, call->channel, left_ms, attempt))
        return -1;
    if (!kept->is_constant) {
        core_raise_format(call->client->state, NEARCALL_E_ABORTED, NEARCALL_OUTCOME_NOT_EXECUTED,
                          "the server was replaced by one that describes %U otherwise, and arguments that a "
                          "program can change are not encoded again once a call was begun: call again",
                          call->entry->name);
        return -1;
    }
    left_ms = core_milliseconds_left(call->timeout_ms, call->started_ms);
    return core_entry_attempt(call->client, call->entry, call->channel, &kept->arguments, left_ms, attempt);
}

/* The call is in flight afterwards, or has ended, or an exception is set that is not its own:
 * then what was begun here is begun once more when the call is asked for again. */
static void begin_again(core_call *call)
{
    core_attempt attempt = call->attempt;
    core_kept kept = call->kept;
    int r;

    /* Another thread may end the call meanwhile, which frees what it has. */
    call->kept = (core_kept){.values = NULL};
    call->channel->handler_raised = 0;
    r = try_again(call, &kept, &attempt);
    if (is_pending(call))
        call->kept = kept;
    else
        core_kept_clear(&kept);
    if (r < 0) {
        if (!call->channel->handler_raised)
            (void)end_with_own_exception(call);
    } else if (is_pending(call)) {
        core_plan *former = call->attempt.plan;

        call->attempt = attempt;
        core_plan_drop(former);
        Py_CLEAR(call->refusal);
    } else {
        core_channel_abandon(call->client->pool, call->channel, attempt.id);
        core_plan_drop(attempt.plan);
    }
}

/* An exception that is set afterwards is not the call's own. */
static void finish(core_call *call, int r, const nearcall_reply *reply)
{
    const core_bounds bounds = core_bounds_from_now(call->started_ms, call->timeout_ms, call->channel);
    int refused = core_is_refused(call->channel, r);
    core_ending ending;

    if (core_view_take_metadata(call->client->view, call->channel->handle) < 0) {
        end(call, NULL, core_exception_take());
        return;
    }
    ending = core_ending_of(call->client->state, call->channel->handle, call->client->view, r, call->attempt.plan,
                            reply, &bounds);
    if (!is_pending(call) || !refused) {
        end(call, ending.result, ending.error);
    } else {
        call->refusal = ending.error;
        if (ending.others == NULL)
            begin_again(call);
    }
    core_exception_set(ending.others);
}

/* A call that this process can no longer wait for ends here. -1 with an exception that is not its own. */
static int end_unless_reachable(core_call *call)
{
    core_state *state = call->client->state;

    if (core_is_child(state, call->generation)) {
        /* In the child this frees the call's place and sends nothing. */
        core_channel_abandon(call->client->pool, call->channel, call->attempt.id);
    } else if (call->channel->handle == NULL) {
        core_raise_format(state, NEARCALL_E_CANCELLED, NEARCALL_OUTCOME_UNKNOWN,
                          "the client was closed before the reply came");
    } else {
        return 0;
    }
    return end_with_own_exception(call);
}

static PyObject *outcome_of(core_call *call)
{
    if (call->result != NULL)
        return Py_NewRef(call->result);
    PyErr_SetObject((PyObject *)Py_TYPE(call->error), call->error);
    return NULL;
}

/* Waits until the call has finished, one way or another. */
static void wait_and_finish(core_call *call)
{
    nearcall_reply reply;
    int r;

    if (call->refusal != NULL)
        begin_again(call);
    while (is_pending(call) && !PyErr_Occurred()) {
        Py_BEGIN_ALLOW_THREADS
        r = nearcall_wait(call->channel->handle, call->attempt.id, &reply);
        Py_END_ALLOW_THREADS
        if (r == NEARCALL_E_INTERRUPTED && PyErr_CheckSignals() < 0)
            return;
        /* The signal's handler, or another thread, may have cancelled it. */
        if (r != NEARCALL_E_INTERRUPTED && is_pending(call))
            finish(call, r, &reply);
    }
}

static void look_and_finish(core_call *call)
{
    nearcall_reply reply;
    int r;

    if (call->refusal != NULL) {
        begin_again(call);
        return;
    }
    /* Its result concerns the connection; what became of this call, poll tells. */
    (void)nearcall_process(call->channel->handle);
    r = nearcall_poll(call->channel->handle, call->attempt.id, &reply);
    if (r != NEARCALL_E_AGAIN)
        finish(call, r, &reply);
}

/* Asks what became of a call that is pending. -1 with an exception that is not its own. */
static int ask(core_call *call, void (*look)(core_call *call))
{
    core_pool *pool = call->client->pool;

    if (end_unless_reachable(call) < 0)
        return -1;
    if (is_pending(call)) {
        if (core_channel_take_this(pool, call->channel) < 0)
            return -1;
        look(call);
        core_channel_release(pool, call->channel);
    }
    return PyErr_Occurred() ? -1 : 0;
}

static PyObject *call_wait(PyObject *self, PyObject *Py_UNUSED(unused))
{
    core_call *call = (core_call *)self;

    if (is_pending(call) && ask(call, wait_and_finish) < 0)
        return NULL;
    return outcome_of(call);
}

static PyObject *call_ready(PyObject *self, PyObject *Py_UNUSED(unused))
{
    core_call *call = (core_call *)self;

    if (is_pending(call) && ask(call, look_and_finish) < 0)
        return NULL;
    return PyBool_FromLong(!is_pending(call));
}

static PyObject *call_cancel(PyObject *self, PyObject *Py_UNUSED(unused))
{
    core_call *call = (core_call *)self;

    if (!is_pending(call))
        Py_RETURN_FALSE;
    core_raise_format(call->client->state, NEARCALL_E_CANCELLED, NEARCALL_OUTCOME_UNKNOWN,
                      "the call was cancelled by its caller");
    if (end_with_own_exception(call) < 0)
        return NULL;
    core_channel_abandon(call->client->pool, call->channel, call->attempt.id);
    Py_RETURN_TRUE;
}

/* ---- The type ---- */

PyObject *core_call_new(core_client *client, core_entry *entry, core_channel *channel,
                        const core_arguments *arguments, int64_t timeout_ms,
                        int64_t started_ms, core_attempt *attempt)
{
    core_kept kept = {.values = NULL};
    core_call *call = NULL;

    if (core_kept_set(client->state, &kept, arguments) == 0)
        call = PyObject_GC_New(core_call, client->state->call_type);
    if (call == NULL) {
        core_kept_clear(&kept);
        core_channel_abandon(client->pool, channel, attempt->id);
        core_plan_drop(attempt->plan);
        return NULL;
    }
    call->client = (core_client *)Py_NewRef((PyObject *)client);
    call->channel = channel;
    call->entry = core_entry_keep(entry);
    call->attempt = *attempt;
    call->kept = kept;
    call->timeout_ms = timeout_ms;
    call->started_ms = started_ms;
    call->generation = client->state->fork_generation;
    call->refusal = NULL;
    call->result = NULL;
    call->error = NULL;
    channel->calls_in_flight++;
    PyObject_GC_Track(call);
    return (PyObject *)call;
}

static int call_traverse(PyObject *self, visitproc visit, void *arg)
{
    core_call *call = (core_call *)self;
    Py_ssize_t i;

    Py_VISIT(Py_TYPE(self));
    Py_VISIT(call->client);
    Py_VISIT(call->result);
    Py_VISIT(call->error);
    Py_VISIT(call->refusal);
    for (i = 0; i < call->kept.value_count; i++)
        Py_VISIT(call->kept.values[i]);
    return 0;
}

static int call_clear(PyObject *self)
{
    core_call *call = (core_call *)self;

    core_kept_clear(&call->kept);
    Py_CLEAR(call->refusal);
    /* A cycle goes through what a finished call ended with. The place is taken
     * by None, because a call without either counts as pending. */
    if (!is_pending(call)) {
        PyObject *result = call->result, *error = call->error;

        call->result = Py_NewRef(Py_None);
        call->error = NULL;
        Py_XDECREF(result);
        Py_XDECREF(error);
    }
    return 0;
}

static void call_dealloc(PyObject *self)
{
    core_call *call = (core_call *)self;
    PyTypeObject *type = Py_TYPE(self);

    PyObject_GC_UnTrack(self);
    if (is_pending(call)) {
        core_channel_abandon(call->client->pool, call->channel, call->attempt.id);
        let_channel_go(call);
    }
    Py_XDECREF(call->result);
    Py_XDECREF(call->error);
    Py_XDECREF(call->refusal);
    core_kept_clear(&call->kept);
    core_plan_drop(call->attempt.plan);
    core_entry_drop(call->entry);
    Py_DECREF((PyObject *)call->client);
    PyObject_GC_Del(self);
    Py_DECREF(type);
}

static PyMethodDef call_methods[] = {
    {"wait", call_wait, METH_NOARGS,
     "wait($self, /)\n--\n\nWait for the reply and return it. It may be called again."},
    {"ready", call_ready, METH_NOARGS,
     "ready($self, /)\n--\n\nReturn whether wait() would return at once."},
    {"cancel", call_cancel, METH_NOARGS,
     "cancel($self, /)\n--\n\nGive the call up. Return False if it had already finished."},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot call_slots[] = {
    {Py_tp_doc, "A call that was begun with Client.begin(). Dropping it cancels it."},
    {Py_tp_dealloc, call_dealloc},
    {Py_tp_traverse, call_traverse},
    {Py_tp_clear, call_clear},
    {Py_tp_methods, call_methods},
    {0, NULL},
};

PyType_Spec core_call_spec = {
    .name = "nearcall.Call",
    .basicsize = sizeof(core_call),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_DISALLOW_INSTANTIATION
             | Py_TPFLAGS_IMMUTABLETYPE,
    .slots = call_slots,
};
