/* View: the options of single calls that Client.with_options() gives, checked and encoded once. */
#include "core.h"

#include "limits_gen.h"

#include <string.h>

/* Says what is wrong with options: it never connects. */
static nearcall_client *judge_of(core_state *state)
{
    if (state->judge == NULL)
        (void)nearcall_open(&state->judge, "unix:/", NULL);
    if (state->judge == NULL)
        PyErr_NoMemory();
    return state->judge;
}

/* The pairs as the library takes them, pointing into the tuple; the caller frees them, by PyMem_Free(). */
static nearcall_metadata *pairs_from(PyObject *tuple)
{
    Py_ssize_t i, count = PyTuple_Size(tuple), bytes;
    nearcall_metadata *pairs = PyMem_Calloc((size_t)count + 1, sizeof(*pairs));

    if (pairs == NULL) {
        PyErr_NoMemory();
        return NULL;
    }
    for (i = 0; i < count; i++) {
        PyObject *key, *value;
        char *data;

        if (!PyArg_ParseTuple(PyTuple_GetItem(tuple, i), "US", &key, &value)
            || (pairs[i].key = core_text_from(key, "a key of metadata")) == NULL
            || PyBytes_AsStringAndSize(value, &data, &bytes) < 0) {
            PyMem_Free(pairs);
            return NULL;
        }
        pairs[i].value = data;
        pairs[i].value_bytes = (size_t)bytes;
    }
    return pairs;
}

static nearcall_view *options_from(core_state *state, const core_view *former,
                                   nearcall_call_options *options, PyObject *tuple)
{
    nearcall_client *judge = judge_of(state);
    nearcall_metadata *pairs = judge == NULL ? NULL : pairs_from(tuple);
    nearcall_view *view = NULL;
    int r;

    if (pairs == NULL)
        return NULL;
    options->metadata = pairs;
    options->metadata_count = (size_t)PyTuple_Size(tuple);
    r = nearcall_view_new(judge, former == NULL ? NULL : former->options, options, &view);
    if (r < 0)
        core_raise(state, judge, r);
    PyMem_Free(pairs);
    return view;
}

static PyObject *make(PyTypeObject *type, const core_view *former, nearcall_view *options, uint32_t attempts_max,
                      PyObject *reply_metadata, int gives_buffers)
{
    allocfunc alloc = (allocfunc)PyType_GetSlot(type, Py_tp_alloc);
    core_view *view = options == NULL ? NULL : (core_view *)alloc(type, 0);

    if (view == NULL) {
        nearcall_view_free(options);
        return NULL;
    }
    view->options = options;
    view->attempts_max = attempts_max;
    view->reply_metadata = NULL;
    view->gives_buffers = gives_buffers;
    view->retries_unknown = former != NULL && former->retries_unknown;
    if (former != NULL) {
        view->gives_buffers |= former->gives_buffers;
        view->attempts_max = attempts_max ? attempts_max : former->attempts_max;
        view->reply_metadata = Py_XNewRef(former->reply_metadata);
    }
    if (reply_metadata != Py_None) {
        Py_XDECREF(view->reply_metadata);
        view->reply_metadata = Py_NewRef(reply_metadata);
    }
    return (PyObject *)view;
}

/* View(former, attempts, backoff_first_us, backoff_most_us, wait_for_ready, retry_unknown, traceparent,
 * idempotency_key, pairs, reply_metadata, buffers): 0, False and None are what the former has. */
static PyObject *view_new(PyTypeObject *type, PyObject *args, PyObject *Py_UNUSED(kwargs))
{
    core_state *state = core_state_of(type);
    nearcall_call_options options = NEARCALL_CALL_OPTIONS_INIT;
    core_number attempts = {state, "attempts", 0, NC_ATTEMPTS_MAX_CEILING, 0};
    long long first_us, most_us;
    int wait_for_ready, retry_unknown, buffers;
    const char *traceparent, *key;
    PyObject *former, *pairs, *reply_metadata, *view;
    Py_ssize_t key_bytes;

    if (state == NULL
        || !PyArg_ParseTuple(args, "OO&LLppzz#O!Op", &former, core_number_parse, &attempts, &first_us, &most_us,
                             &wait_for_ready, &retry_unknown, &traceparent, &key, &key_bytes, &PyTuple_Type, &pairs,
                             &reply_metadata, &buffers))
        return NULL;
    if ((former != Py_None && Py_TYPE(former) != type)
        || (reply_metadata != Py_None && !PyDict_Check(reply_metadata))) {
        PyErr_SetString(PyExc_TypeError, "reply_metadata is a dict, to which the metadata of each reply go");
        return NULL;
    }
    if (key != NULL && key_bytes != NEARCALL_IDEMPOTENCY_KEY_BYTES) {
        core_raise_format(state, NEARCALL_E_INVALID_ARGUMENT, NEARCALL_OUTCOME_NOT_EXECUTED,
                          "idempotency_key has %zd bytes, 16 are expected, as in uuid.uuid4().bytes", key_bytes);
        return NULL;
    }
    options.attempts_max = attempts.value;
    options.backoff_first_us = first_us;
    options.backoff_most_us = most_us;
    options.flags = (wait_for_ready ? NEARCALL_CALL_WAIT_FOR_READY : 0)
                    | (retry_unknown ? NEARCALL_CALL_RETRY_UNKNOWN : 0);
    options.trace_parent = traceparent;
    options.idempotency_key = (const uint8_t *)key;
    former = former == Py_None ? NULL : former;
    view = make(type, (core_view *)former, options_from(state, (core_view *)former, &options, pairs), attempts.value,
                reply_metadata, buffers);
    if (view != NULL && retry_unknown)
        ((core_view *)view)->retries_unknown = 1;
    return view;
}

static void view_dealloc(PyObject *self)
{
    core_view *view = (core_view *)self;
    PyTypeObject *type = Py_TYPE(self);
    freefunc release = (freefunc)PyType_GetSlot(type, Py_tp_free);

    nearcall_view_free(view->options);
    Py_XDECREF(view->reply_metadata);
    release(self);
    Py_DECREF(type);
}

/* ---- Calls through one ---- */

int core_channel_use(core_channel *channel, const core_view *view)
{
    nearcall_view *options = view == NULL ? NULL : view->options;
    int r;

    if (channel->view == options)
        return NEARCALL_OK;
    r = nearcall_use_view(channel->handle, options);
    if (r == NEARCALL_OK)
        channel->view = options; /* stays what it is for as long as the handle uses it */
    return r;
}

/* The list under a key; what else the program's code has put there meanwhile is replaced. New reference. */
static PyObject *list_under(PyObject *metadata, PyObject *key)
{
    PyObject *values = Py_XNewRef(PyDict_GetItemWithError(metadata, key));

    if (values != NULL && !PyList_Check(values))
        Py_CLEAR(values);
    return values;
}

static int add_pair(PyObject *metadata, const nearcall_metadata *pair)
{
    PyObject *key = PyUnicode_DecodeUTF8(pair->key, (Py_ssize_t)strlen(pair->key), "backslashreplace");
    PyObject *value = PyBytes_FromStringAndSize(pair->value, (Py_ssize_t)pair->value_bytes);
    PyObject *values = key == NULL ? NULL : list_under(metadata, key);
    int r = -1;

    if (values == NULL && key != NULL && !PyErr_Occurred() && (values = PyList_New(0)) != NULL
        && PyDict_SetItem(metadata, key, values) < 0)
        Py_CLEAR(values);
    if (values != NULL && value != NULL)
        r = PyList_Append(values, value);
    Py_XDECREF(key);
    Py_XDECREF(value);
    Py_XDECREF(values);
    return r;
}

int core_view_take_metadata(const core_view *view, const nearcall_client *handle)
{
    core_state *state;
    nearcall_metadata pair;
    size_t position = 0;
    PyObject *metadata;
    uint64_t generation;
    int r = 0;

    if (view == NULL || view->reply_metadata == NULL)
        return 0;
    state = core_state_of(Py_TYPE((PyObject *)view));
    if (state == NULL)
        return -1;
    generation = state->fork_generation;
    metadata = Py_NewRef(view->reply_metadata); /* whose former values may have code that runs when they go */
    PyDict_Clear(metadata);
    while (r == 0 && nearcall_reply_metadata(handle, NULL, &position, &pair))
        r = add_pair(metadata, &pair);
    Py_DECREF(metadata);
    return r == 0 && core_is_child(state, generation) ? -1 : r;
}

uint32_t core_client_attempts(const core_client *client)
{
    uint32_t of_view = client->view == NULL ? 0 : client->view->attempts_max;

    return of_view ? of_view : client->pool->options.attempts_max;
}

/* ---- The type ---- */

static PyType_Slot view_slots[] = {
    {Py_tp_doc, "Options of single calls, in the form the library takes."},
    {Py_tp_new, view_new},
    {Py_tp_dealloc, view_dealloc},
    {0, NULL},
};

PyType_Spec core_view_spec = {
    .name = "nearcall._core.View",
    .basicsize = sizeof(core_view),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_IMMUTABLETYPE,
    .slots = view_slots,
};
