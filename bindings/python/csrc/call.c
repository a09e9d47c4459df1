/* Call: a call that was begun and whose reply is fetched later. */
#include "core.h"

typedef struct core_call {
    PyObject_HEAD
    core_client *client;
    core_channel *channel; /* of the client's pool */
    core_entry *entry;
    core_attempt attempt;
    core_kept kept;        /* until it is finished */
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

/* Keeps the exception that is set now as the call's end, and leaves it set. */
static void finish_with_current_error(core_call *call)
{
    PyObject *type, *error, *traceback;

    PyErr_Fetch(&type, &error, &traceback);
    PyErr_NormalizeException(&type, &error, &traceback);
    if (is_pending(call) && error != NULL) {
        let_channel_go(call);
        call->error = Py_NewRef(error);
        core_kept_clear(&call->kept);
    }
    PyErr_Restore(type, error, traceback);
}

/* The server refused the encoding, with an exception set: encodes and sends once more by
 * what it says now. The call is pending still, or an exception is set. */
static void begin_again(core_call *call)
{
    int64_t left_ms = core_milliseconds_left(call->timeout_ms, call->started_ms);
    core_attempt attempt = call->attempt;

    if (!core_entry_has_changed(call->client, call->entry, call->channel, left_ms, &attempt))
        return;
    left_ms = core_milliseconds_left(call->timeout_ms, call->started_ms);
    if (core_entry_attempt(call->client, call->entry, call->channel, &call->kept.arguments,
                           left_ms, &attempt) < 0)
        return;
    if (is_pending(call)) {
        core_plan *former = call->attempt.plan;

        call->attempt = attempt;
        core_plan_drop(former);
    } else { /* an argument's own code gave it up */
        core_channel_abandon(call->client->pool, call->channel, attempt.id);
        core_plan_drop(attempt.plan);
    }
}

static void finish(core_call *call, int r, const nearcall_reply *reply)
{
    core_state *state = call->client->state;
    PyObject *result = NULL;
    int refused;

    if (r == NEARCALL_OK) {
        result = core_decode_reply(state, call->channel->handle, call->attempt.plan, reply);
    } else {
        refused = core_is_refused(call->channel, r);
        core_raise(state, call->channel->handle, r);
        if (refused)
            begin_again(call);
    }
    if (result != NULL) {
        let_channel_go(call);
        call->result = result;
        core_kept_clear(&call->kept);
    } else if (PyErr_Occurred()) {
        finish_with_current_error(call);
    }
}

/* A call that this process can no longer wait for ends here. */
static int check_can_wait(core_call *call)
{
    core_state *state = call->client->state;

    if (!is_own(call)) {
        /* In the child this frees the call's place and sends nothing. */
        core_channel_abandon(call->client->pool, call->channel, call->attempt.id);
        core_raise_format(state, NEARCALL_E_UNAVAILABLE, NEARCALL_OUTCOME_UNKNOWN,
                          "the call was begun before the fork and belongs to the parent process");
    } else if (call->channel->handle == NULL) {
        core_raise_format(state, NEARCALL_E_CANCELLED, NEARCALL_OUTCOME_UNKNOWN,
                          "the client was closed before the reply came");
    } else {
        return 0;
    }
    finish_with_current_error(call);
    return -1;
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

    do {
        Py_BEGIN_ALLOW_THREADS
        r = nearcall_wait(call->channel->handle, call->attempt.id, &reply);
        Py_END_ALLOW_THREADS
        if (r == NEARCALL_E_INTERRUPTED && PyErr_CheckSignals() < 0)
            return;
        /* The signal's handler, or another thread, may have cancelled it. */
        if (r != NEARCALL_E_INTERRUPTED && is_pending(call))
            finish(call, r, &reply);
    } while (is_pending(call) && !PyErr_Occurred());
}

static PyObject *call_wait(PyObject *self, PyObject *Py_UNUSED(unused))
{
    core_call *call = (core_call *)self;
    core_pool *pool = call->client->pool;

    if (!is_pending(call))
        return outcome_of(call);
    if (check_can_wait(call) < 0 || core_channel_take_this(pool, call->channel) < 0)
        return NULL;
    wait_and_finish(call);
    core_channel_release(pool, call->channel);
    if (PyErr_Occurred())
        return NULL;
    return outcome_of(call);
}

static PyObject *call_ready(PyObject *self, PyObject *Py_UNUSED(unused))
{
    core_call *call = (core_call *)self;
    core_pool *pool = call->client->pool;
    nearcall_reply reply;
    int r;

    if (!is_pending(call))
        Py_RETURN_TRUE;
    if (check_can_wait(call) < 0) {
        PyErr_Clear(); /* wait() raises it */
        Py_RETURN_TRUE;
    }
    if (core_channel_take_this(pool, call->channel) < 0)
        return NULL;
    /* Its result concerns the connection; what became of this call, poll tells. */
    (void)nearcall_process(call->channel->handle);
    r = nearcall_poll(call->channel->handle, call->attempt.id, &reply);
    if (r != NEARCALL_E_AGAIN)
        finish(call, r, &reply);
    core_channel_release(pool, call->channel);
    PyErr_Clear();
    return PyBool_FromLong(!is_pending(call));
}

static PyObject *call_cancel(PyObject *self, PyObject *Py_UNUSED(unused))
{
    core_call *call = (core_call *)self;

    if (!is_pending(call))
        Py_RETURN_FALSE;
    core_channel_abandon(call->client->pool, call->channel, call->attempt.id);
    core_raise_format(call->client->state, NEARCALL_E_CANCELLED, NEARCALL_OUTCOME_UNKNOWN,
                      "the call was cancelled by its caller");
    finish_with_current_error(call);
    PyErr_Clear();
    Py_RETURN_TRUE;
}

/* ---- The type ---- */

PyObject *core_call_new(core_client *client, core_entry *entry, core_channel *channel,
                        const core_arguments *arguments, int64_t timeout_ms,
                        core_attempt *attempt)
{
    core_kept kept = {.values = NULL};
    core_call *call = NULL;

    if (core_kept_set(&kept, arguments) == 0)
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
    call->started_ms = core_monotonic_ms();
    call->generation = client->state->fork_generation;
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
    for (i = 0; i < call->kept.value_count; i++)
        Py_VISIT(call->kept.values[i]);
    return 0;
}

static int call_clear(PyObject *self)
{
    core_call *call = (core_call *)self;

    core_kept_clear(&call->kept);
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
    core_kept_clear(&call->kept);
    core_plan_drop(call->attempt.plan);
    core_entry_drop(call->entry);
    Py_DECREF((PyObject *)call->client);
    PyObject_GC_Del(self);
    Py_DECREF(type);
}

static PyMethodDef call_methods[] = {
    {"wait", call_wait, METH_NOARGS,
     "wait($self, /)\n--\n\nWait for the reply and return it. May be asked again."},
    {"ready", call_ready, METH_NOARGS,
     "ready($self, /)\n--\n\nWhether wait() will return without waiting."},
    {"cancel", call_cancel, METH_NOARGS,
     "cancel($self, /)\n--\n\nGive the call up. False if it had finished already."},
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
