/* Client: the base of nearcall.Client. */
#include "core.h"

#define NANOSECONDS_PER_SECOND 1e9
#define MILLISECONDS_PER_SECOND 1e3

int core_client_check(core_client *client)
{
    if (client->pool != NULL)
        return 0;
    PyErr_SetString(PyExc_RuntimeError, "Client.__init__() was not called");
    return -1;
}

static int client_init(PyObject *self, PyObject *args, PyObject *Py_UNUSED(kwargs))
{
    core_client *client = (core_client *)self;

    if (client->pool != NULL) {
        PyErr_SetString(PyExc_RuntimeError, "Client.__init__() was called already");
        return -1;
    }
    client->state = core_state_of(Py_TYPE(self));
    if (client->state == NULL || (client->entries = PyDict_New()) == NULL
        || (client->proxies = PyDict_New()) == NULL)
        return -1;
    client->pool = core_pool_from_arguments(client->state, args, NEARCALL_INTERRUPTIBLE,
                                            &client->timeout_ms);
    return client->pool == NULL ? -1 : 0;
}

static void client_dealloc(PyObject *self)
{
    core_client *client = (core_client *)self;
    PyTypeObject *type = Py_TYPE(self);
    freefunc release = (freefunc)PyType_GetSlot(type, Py_tp_free);

    core_pool_drop(client->pool);
    core_entry_drop(client->recent);
    Py_XDECREF(client->view);
    Py_XDECREF(client->entries);
    Py_XDECREF(client->proxies);
    release(self);
    Py_DECREF(type);
}

/* ---- Calling by name ---- */

static void remember(core_client *client, core_entry *entry)
{
    core_entry *former = client->recent;

    client->recent = core_entry_keep(entry);
    core_entry_drop(former);
}

/* The entry of a name that none is known by, or that is of a subclass. */
static core_entry *entry_by_exact(core_client *client, PyObject *name)
{
    PyObject *exact = core_exact_name(client->state, name);
    core_entry *entry = exact == NULL ? NULL : core_entry_lookup(client->entries, exact);

    if (entry != NULL)
        core_entry_keep(entry);
    else if (!PyErr_Occurred())
        entry = core_entry_new(exact);
    Py_XDECREF(exact);
    return entry;
}

core_entry *core_client_entry(core_client *client, PyObject *name)
{
    core_entry *entry = NULL;

    if (core_client_check(client) < 0)
        return NULL;
    if (client->recent != NULL && client->recent->name == name)
        return core_entry_keep(client->recent);
    if (PyUnicode_CheckExact(name))
        entry = core_entry_lookup(client->entries, name);
    if (entry == NULL)
        return entry_by_exact(client, name);
    remember(client, entry);
    return core_entry_keep(entry);
}

static int check_has_name(Py_ssize_t count)
{
    if (count > 0)
        return 0;
    PyErr_SetString(PyExc_TypeError, "the function's name is missing");
    return -1;
}

static PyObject *client_call(PyObject *self, PyObject *const *args, Py_ssize_t count,
                             PyObject *names)
{
    core_client *client = (core_client *)self;
    core_arguments arguments;
    core_scratch scratch;
    PyObject *result = NULL;
    core_entry *entry;

    if (check_has_name(count) < 0 || (entry = core_client_entry(client, args[0])) == NULL)
        return NULL;
    if (core_arguments_set(client->state, &arguments, args + 1, count - 1, names, &scratch) == 0)
        result = core_entry_call(client, entry, &arguments);
    core_scratch_clear(&scratch);
    core_entry_drop(entry);
    return result;
}

static PyObject *begin(core_client *client, core_entry *entry, const core_arguments *arguments,
                       core_channel *channel)
{
    core_attempt attempt = {.attempts_left = core_client_attempts(client)};
    int64_t started_ms = core_monotonic_ms(), timeout_ms;

    if (core_timeout_ms(client->state, arguments->timeout, client->timeout_ms, &timeout_ms) < 0
        || core_entry_attempt(client, entry, channel, arguments, timeout_ms, &attempt) < 0)
        return NULL;
    return core_call_new(client, entry, channel, arguments, timeout_ms, started_ms, &attempt);
}

static PyObject *client_begin(PyObject *self, PyObject *const *args, Py_ssize_t count,
                              PyObject *names)
{
    core_client *client = (core_client *)self;
    core_arguments arguments;
    core_scratch scratch;
    PyObject *call = NULL;
    core_channel *channel;
    core_entry *entry;

    if (check_has_name(count) < 0 || (entry = core_client_entry(client, args[0])) == NULL)
        return NULL;
    if (core_arguments_set(client->state, &arguments, args + 1, count - 1, names, &scratch) == 0
        && (channel = core_channel_take(client->pool, 1)) != NULL) {
        call = begin(client, entry, &arguments, channel);
        core_channel_release(client->pool, channel);
    }
    core_scratch_clear(&scratch);
    core_entry_drop(entry);
    return call;
}

static PyObject *call_raw(core_client *client, const char *name, const Py_buffer *data,
                          int64_t timeout_ms)
{
    core_channel *channel = core_channel_take(client->pool, 0);
    PyObject *result = NULL;
    nearcall_reply reply;
    int r;

    if (channel == NULL)
        return NULL;
    r = core_channel_use(channel, client->view);
    if (r == NEARCALL_OK)
        r = core_wait_raw(channel, name, data->buf, (size_t)data->len, timeout_ms, &reply);
    if (r != CORE_RAISED && core_view_take_metadata(client->view, channel->handle) < 0)
        r = CORE_RAISED;
    if (r == NEARCALL_OK)
        result = PyBytes_FromStringAndSize((const char *)reply.data, (Py_ssize_t)reply.bytes);
    else if (r != CORE_RAISED)
        core_raise(client->state, channel->handle, r);
    if (result != NULL && core_pool_warn_of_plain(client->pool, channel) < 0)
        Py_CLEAR(result);
    core_channel_release(client->pool, channel);
    return result;
}

static PyObject *client_call_raw(PyObject *self, PyObject *const *args, Py_ssize_t count,
                                 PyObject *names)
{
    core_client *client = (core_client *)self;
    PyObject *result = NULL;
    core_arguments arguments;
    core_scratch scratch;
    PyObject *exact;
    const char *name;
    Py_buffer data;
    int64_t timeout_ms;

    if (core_client_check(client) < 0)
        return NULL;
    if (core_arguments_set(client->state, &arguments, args, count, names, &scratch) < 0
        || arguments.names != NULL || count != 2) {
        core_scratch_clear(&scratch);
        PyErr_SetString(PyExc_TypeError, "call_raw(name, data, /, *, timeout=None)");
        return NULL;
    }
    exact = core_exact_name(client->state, args[0]);
    name = exact == NULL ? NULL : core_text_from(exact, "a function's name");
    if (name != NULL
        && core_timeout_ms(client->state, arguments.timeout, client->timeout_ms, &timeout_ms) == 0
        && core_bytes_of(client->state, args[1], &data) == 0) {
        result = call_raw(client, name, &data, timeout_ms);
        PyBuffer_Release(&data);
    }
    Py_XDECREF(exact);
    return result;
}

/* ---- Functions as objects ---- */

static PyObject *client_function(PyObject *self, PyObject *name)
{
    core_client *client = (core_client *)self;
    core_entry *entry = core_client_entry(client, name);
    int64_t timeout_ms = client->timeout_ms;
    PyObject *function = NULL;
    core_channel *channel;

    if (entry == NULL)
        return NULL;
    channel = core_channel_take(client->pool, 0);
    if (channel != NULL) {
        if (core_entry_slot(client, entry, channel, 1, &timeout_ms) != NULL)
            function = core_function_new(client, entry);
        core_channel_release(client->pool, channel);
    }
    core_entry_drop(entry);
    return function;
}

/* Of generated code: the function has an entry of its own. */
static core_entry *entry_of_description(core_state *state, PyObject *name, PyObject *hash,
                                        PyObject *description, int warns)
{
    PyObject *exact = core_exact_name(state, name);
    core_entry *entry = NULL;

    if (exact != NULL && core_text_from(hash, "a description's hash") != NULL
        && core_text_from(description, "a description") != NULL)
        entry = core_entry_new(exact);
    Py_XDECREF(exact);
    if (entry == NULL)
        return NULL;
    entry->hash = Py_NewRef(hash);
    entry->description = Py_NewRef(description);
    entry->warns = warns;
    return entry;
}

static PyObject *client_unasked_function(PyObject *self, PyObject *args)
{
    core_client *client = (core_client *)self;
    PyObject *name, *hash = NULL, *description = NULL, *function;
    core_entry *entry;
    int warns = 0;

    if (!PyArg_ParseTuple(args, "U|UUp", &name, &hash, &description, &warns)
        || core_client_check(client) < 0)
        return NULL;
    if (description == NULL || PyUnicode_GetLength(description) == 0)
        entry = core_client_entry(client, name);
    else
        entry = entry_of_description(client->state, name, hash, description, warns);
    function = entry == NULL ? NULL : core_function_new(client, entry);
    core_entry_drop(entry);
    return function;
}

/* Names that begin with an underscore are Python's own: a server's function of
 * such a name is reached by call(). */
static int may_be_function(PyObject *name)
{
    return PyUnicode_GetLength(name) > 0 && PyUnicode_ReadChar(name, 0) != '_';
}

static PyObject *make_proxy(core_client *client, PyObject *name)
{
    core_entry *entry = core_client_entry(client, name);
    PyObject *function = NULL;
    int exists;

    if (entry == NULL)
        return NULL;
    exists = core_entry_lookup(client->entries, name) == entry;
    if (!exists || core_entry_store(client->proxies, entry) == 0)
        function = core_function_new(client, entry);
    core_entry_drop(entry);
    return function;
}

/* The function that was asked for by that attribute before. NULL, perhaps with an exception. */
static core_entry *find_proxy(const core_client *client, PyObject *name)
{
    if (client->proxies == NULL || PyDict_Size(client->proxies) == 0)
        return NULL;
    return core_entry_lookup(client->proxies, name);
}

static PyObject *attribute(core_client *client, PyObject *name)
{
    core_entry *entry = find_proxy(client, name);
    PyObject *value;

    if (entry != NULL)
        return core_function_new(client, entry);
    if (PyErr_Occurred())
        return NULL;
    value = PyObject_GenericGetAttr((PyObject *)client, name);
    if (value != NULL || client->pool == NULL || !PyErr_ExceptionMatches(PyExc_AttributeError)
        || !may_be_function(name))
        return value;
    PyErr_Clear();
    return make_proxy(client, name);
}

/* Names are looked up by exact ones: those of a subclass may say that they are others. */
static PyObject *client_getattro(PyObject *self, PyObject *name)
{
    PyObject *exact, *value;

    if (PyUnicode_CheckExact(name))
        return attribute((core_client *)self, name);
    exact = PyUnicode_FromObject(name);
    value = exact == NULL ? NULL : attribute((core_client *)self, exact);
    Py_XDECREF(exact);
    return value;
}

/* What a program sets itself hides a function of that name. */
static int client_setattro(PyObject *self, PyObject *name, PyObject *value)
{
    PyObject *proxies = ((core_client *)self)->proxies, *exact = PyUnicode_FromObject(name);
    int r = exact == NULL ? -1 : PyObject_GenericSetAttr(self, exact, value);

    if (r == 0 && proxies != NULL && PyDict_Contains(proxies, exact) == 1)
        r = PyDict_DelItem(proxies, exact);
    Py_XDECREF(exact);
    return r;
}

/* ---- The connection ---- */

static int parse_timeout(core_client *client, PyObject *args, PyObject *kwargs,
                         int64_t *ret_timeout_ms)
{
    static char *names[] = {"timeout", NULL};
    PyObject *timeout = NULL;

    if (core_client_check(client) < 0
        || !PyArg_ParseTupleAndKeywords(args, kwargs, "|O", names, &timeout))
        return -1;
    return core_timeout_ms(client->state, timeout, client->timeout_ms, ret_timeout_ms);
}

static PyObject *client_connect(PyObject *self, PyObject *args, PyObject *kwargs)
{
    core_client *client = (core_client *)self;
    core_channel *channel;
    int64_t timeout_ms;
    int r;

    if (parse_timeout(client, args, kwargs, &timeout_ms) < 0
        || (channel = core_channel_take(client->pool, 0)) == NULL)
        return NULL;
    r = core_wait_connect(channel, timeout_ms);
    if (r < 0)
        core_raise(client->state, channel->handle, r);
    core_channel_release(client->pool, channel);
    return r == NEARCALL_OK ? Py_NewRef(Py_None) : NULL;
}

static PyObject *client_ping(PyObject *self, PyObject *args, PyObject *kwargs)
{
    core_client *client = (core_client *)self;
    uint64_t round_trip_ns;
    core_channel *channel;
    int64_t timeout_ms;
    int r;

    if (parse_timeout(client, args, kwargs, &timeout_ms) < 0
        || (channel = core_channel_take(client->pool, 0)) == NULL)
        return NULL;
    r = core_wait_ping(channel, timeout_ms, &round_trip_ns);
    if (r < 0)
        core_raise(client->state, channel->handle, r);
    core_channel_release(client->pool, channel);
    return r == NEARCALL_OK ? PyFloat_FromDouble((double)round_trip_ns / NANOSECONDS_PER_SECOND)
                            : NULL;
}

static PyObject *client_close(PyObject *self, PyObject *Py_UNUSED(unused))
{
    core_client *client = (core_client *)self;

    if (client->pool != NULL)
        core_pool_close(client->pool);
    Py_RETURN_NONE;
}

/* The same client with another default timeout and other options; NULL: none. */
static PyObject *view_of(core_client *client, int64_t timeout_ms, core_view *options)
{
    allocfunc alloc = (allocfunc)PyType_GetSlot(Py_TYPE(client), Py_tp_alloc);
    core_client *view = (core_client *)alloc(Py_TYPE(client), 0);

    if (view == NULL)
        return NULL;
    view->state = client->state;
    view->pool = core_pool_keep(client->pool);
    view->timeout_ms = timeout_ms;
    view->view = (core_view *)Py_XNewRef((PyObject *)options);
    view->entries = Py_NewRef(client->entries);
    view->proxies = Py_NewRef(client->proxies);
    return (PyObject *)view;
}

static PyObject *client_with_timeout(PyObject *self, PyObject *timeout)
{
    core_client *client = (core_client *)self;
    int64_t timeout_ms;

    if (core_client_check(client) < 0
        || core_timeout_ms(client->state, timeout, NEARCALL_NO_TIMEOUT, &timeout_ms) < 0)
        return NULL;
    return view_of(client, timeout_ms, client->view);
}

static PyObject *client_with_view(PyObject *self, PyObject *args)
{
    core_client *client = (core_client *)self;
    PyObject *view, *timeout;
    int64_t timeout_ms;

    if (core_client_check(client) < 0
        || !PyArg_ParseTuple(args, "O!O", client->state->view_type, &view, &timeout)
        || core_timeout_ms(client->state, timeout, client->timeout_ms, &timeout_ms) < 0)
        return NULL;
    return view_of(client, timeout_ms, (core_view *)view);
}

static PyObject *get_timeout(PyObject *self, void *Py_UNUSED(closure))
{
    core_client *client = (core_client *)self;

    if (client->timeout_ms == NEARCALL_NO_TIMEOUT)
        Py_RETURN_NONE;
    return PyFloat_FromDouble((double)client->timeout_ms / MILLISECONDS_PER_SECOND);
}

static PyObject *get_closed(PyObject *self, void *Py_UNUSED(closure))
{
    core_client *client = (core_client *)self;

    return PyBool_FromLong(client->pool == NULL || client->pool->closed);
}

static PyObject *get_address(PyObject *self, void *Py_UNUSED(closure))
{
    core_client *client = (core_client *)self;

    return core_client_check(client) < 0 ? NULL : PyUnicode_FromString(client->pool->address);
}

/* ---- The type ---- */

/* What a handle says of the connection of this thread. */
static PyObject *ask_handle(core_client *client, const char *(*ask)(const nearcall_client *handle))
{
    core_channel *channel;
    PyObject *answer;

    if (core_client_check(client) < 0)
        return NULL;
    if (client->pool->closed)
        return PyUnicode_FromString("");
    if ((channel = core_channel_take(client->pool, 0)) == NULL)
        return NULL;
    answer = PyUnicode_FromString(ask(channel->handle));
    core_channel_release(client->pool, channel);
    return answer;
}

static PyObject *client_transport(PyObject *self, PyObject *Py_UNUSED(unused))
{
    return ask_handle((core_client *)self, nearcall_transport);
}

static PyObject *client_endpoint(PyObject *self, PyObject *Py_UNUSED(unused))
{
    return ask_handle((core_client *)self, nearcall_endpoint);
}

static PyMethodDef client_methods[] = {
    {"call", (PyCFunction)(void (*)(void))client_call, METH_FASTCALL | METH_KEYWORDS,
     "call($self, name, /, *args, timeout=None, **named)\n--\n\n"
     "Call a function of the server and return its result.\n\n"
     "timeout is in seconds and bounds the whole call; None means the client's default. If the\n"
     "function has a parameter with that name, timeout is refused; give the parameter as timeout_."},
    {"call_raw", (PyCFunction)(void (*)(void))client_call_raw, METH_FASTCALL | METH_KEYWORDS,
     "call_raw($self, name, data, /, *, timeout=None)\n--\n\n"
     "Call a function that takes and returns bytes, without encoding anything."},
    {"begin", (PyCFunction)(void (*)(void))client_begin, METH_FASTCALL | METH_KEYWORDS,
     "begin($self, name, /, *args, timeout=None, **named)\n--\n\n"
     "Send a call without waiting for its reply, and return it as a Call."},
    {"_function", client_unasked_function, METH_VARARGS,
     "_function($self, name, hash='', description='', warns=False, /)\n--\n\n"
     "Return a function without looking it up. Generated code passes what it was generated from."},
    {"function", client_function, METH_O,
     "function($self, name, /)\n--\n\n"
     "Return a function of the server as a callable. Fails at once if there is none."},
    {"connect", (PyCFunction)(void (*)(void))client_connect, METH_VARARGS | METH_KEYWORDS,
     "connect($self, /, timeout=None)\n--\n\n"
     "Connect now, to check the address early. Calls do it on their own."},
    {"ping", (PyCFunction)(void (*)(void))client_ping, METH_VARARGS | METH_KEYWORDS,
     "ping($self, /, timeout=None)\n--\n\n"
     "Ask the server for a sign of life, and return the time until its answer in seconds."},
    {"transport", client_transport, METH_NOARGS,
     "transport($self, /)\n--\n\n"
     "Return how this thread's calls travel at present: 'shared memory', 'unix socket', 'tcp',\n"
     "'same process', or '' if there is no connection."},
    {"endpoint", client_endpoint, METH_NOARGS,
     "endpoint($self, /)\n--\n\n"
     "Return the endpoint that this thread's connection leads to, as the address has it, or '' if\n"
     "there is no connection. It matters for an address that has several."},
    {"close", client_close, METH_NOARGS,
     "close($self, /)\n--\n\nClose the connections of this process, which clients of with_timeout() and with_options() share."},
    {"with_timeout", client_with_timeout, METH_O,
     "with_timeout($self, timeout, /)\n--\n\n"
     "Return the same client with another default timeout in seconds; None means no limit."},
    {"_with_view", client_with_view, METH_VARARGS,
     "_with_view($self, view, timeout, /)\n--\n\nReturn the same client with options for its calls."},
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef client_getset[] = {
    {"timeout", get_timeout, NULL, "The default timeout of calls in seconds, or None for no limit.", NULL},
    {"closed", get_closed, NULL, "Whether close() was called.", NULL},
    {"address", get_address, NULL, "The address of the server.", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyType_Slot client_slots[] = {
    {Py_tp_init, client_init},
    {Py_tp_dealloc, client_dealloc},
    {Py_tp_getattro, client_getattro},
    {Py_tp_setattro, client_setattro},
    {Py_tp_methods, client_methods},
    {Py_tp_getset, client_getset},
    {0, NULL},
};

PyType_Spec core_client_spec = {
    .name = "nearcall._core.Client",
    .basicsize = sizeof(core_client),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_IMMUTABLETYPE,
    .slots = client_slots,
};
