/* Call: a call that was begun and whose reply is fetched later. */
#include "core.h"

typedef struct core_call {
    PyObject_HEAD
    core_client *client;
    core_channel *channel; /* of the client's pool */
    nearcall_call_id id;
    core_plan *plan;
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
    }
    PyErr_Restore(type, error, traceback);
}

static void finish(core_call *call, int r, const nearcall_reply *reply)
{
    core_state *state = call->client->state;
    PyObject *result = NULL;

    if (r == NEARCALL_OK)
        result = core_decode_reply(state, call->channel->handle, call->plan, reply);
    else
        core_raise(state, call->channel->handle, r);
    if (result == NULL) {
        finish_with_current_error(call);
        return;
    }
    let_channel_go(call);
    call->result = result;
}

/* A call that this process can no longer wait for ends here. */
static int check_can_wait(core_call *call)
{
    core_state *state = call->client->state;

    if (!is_own(call)) {
        /* In the child this frees the call's place and sends nothing. */
        core_channel_abandon(call->client->pool, call->channel, call->id);
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
        r = nearcall_wait(call->channel->handle, call->id, &reply);
        Py_END_ALLOW_THREADS
        if (r == NEARCALL_E_INTERRUPTED && PyErr_CheckSignals() < 0)
            return;
        /* The signal's handler, or another thread, may have cancelled it. */
    } while (r == NEARCALL_E_INTERRUPTED && is_pending(call));
    if (is_pending(call))
        finish(call, r, &reply);
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
    r = nearcall_poll(call->channel->handle, call->id, &reply);
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
    core_channel_abandon(call->client->pool, call->channel, call->id);
    core_raise_format(call->client->state, NEARCALL_E_CANCELLED, NEARCALL_OUTCOME_UNKNOWN,
                      "the call was cancelled by its caller");
    finish_with_current_error(call);
    PyErr_Clear();
    Py_RETURN_TRUE;
}

/* ---- The type ---- */

PyObject *core_call_new(core_client *client, core_channel *channel, nearcall_call_id id,
                        core_plan *plan)
{
    core_call *call = PyObject_GC_New(core_call, client->state->call_type);

    if (call == NULL) {
        core_channel_abandon(client->pool, channel, id);
        return NULL;
    }
    call->client = (core_client *)Py_NewRef((PyObject *)client);
    call->channel = channel;
    call->id = id;
    call->plan = core_plan_keep(plan);
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

    Py_VISIT(Py_TYPE(self));
    Py_VISIT(call->client);
    Py_VISIT(call->result);
    Py_VISIT(call->error);
    return 0;
}

static int call_clear(PyObject *self)
{
    core_call *call = (core_call *)self;

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
        core_channel_abandon(call->client->pool, call->channel, call->id);
        let_channel_go(call);
    }
    Py_XDECREF(call->result);
    Py_XDECREF(call->error);
    core_plan_drop(call->plan);
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
