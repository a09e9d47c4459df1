/* Engine: a handle that never blocks, for nearcall.AsyncClient. The event loop
 * is Python's; this only says what to wait for and does the work. */
#include "core.h"

#include <math.h>
#include <time.h>

typedef struct core_engine {
    PyObject_HEAD
    core_state *state;
    core_pool *pool;   /* of one channel */
    int64_t timeout_ms;
    PyObject *entries; /* name to capsule of core_entry: functions that were found */
    PyObject *plans;   /* id to capsule of core_plan: calls in flight */
} core_engine;

static int engine_init(PyObject *self, PyObject *args, PyObject *Py_UNUSED(kwargs))
{
    core_engine *engine = (core_engine *)self;

    if (engine->pool != NULL) {
        PyErr_SetString(PyExc_RuntimeError, "Engine.__init__() was called already");
        return -1;
    }
    engine->state = core_state_of(Py_TYPE(self));
    if (engine->state == NULL || (engine->entries = PyDict_New()) == NULL
        || (engine->plans = PyDict_New()) == NULL)
        return -1;
    engine->pool = core_pool_from_arguments(engine->state, args, NEARCALL_NONBLOCKING,
                                            &engine->timeout_ms);
    return engine->pool == NULL ? -1 : 0;
}

static void engine_dealloc(PyObject *self)
{
    core_engine *engine = (core_engine *)self;
    PyTypeObject *type = Py_TYPE(self);
    freefunc release = (freefunc)PyType_GetSlot(type, Py_tp_free);

    core_pool_drop(engine->pool);
    Py_XDECREF(engine->entries);
    Py_XDECREF(engine->plans);
    release(self);
    Py_DECREF(type);
}

/* The channel for the length of one method: an argument's own code may not
 * use the engine while it is being encoded. */
static core_channel *enter(core_engine *engine)
{
    core_channel *channel;

    if (engine->pool == NULL) {
        PyErr_SetString(PyExc_RuntimeError, "Engine.__init__() was not called");
        return NULL;
    }
    channel = engine->pool->channels[0];
    return core_channel_take_this(engine->pool, channel) < 0 ? NULL : channel;
}

static PyObject *leave(core_engine *engine, core_channel *channel, int r, PyObject *result)
{
    if (r < 0)
        core_raise(engine->state, channel->handle, r);
    core_channel_release(engine->pool, channel);
    return result;
}

/* ---- Calls ---- */

/* By which description begin() would encode; 0 for a function that was not found. */
static PyObject *engine_revision(PyObject *self, PyObject *name)
{
    core_engine *engine = (core_engine *)self;
    core_channel *channel = enter(engine);
    core_entry *entry = channel == NULL ? NULL : core_entry_lookup(engine->entries, name);
    uint32_t revision = 0;

    if (channel == NULL)
        return NULL;
    if (entry != NULL)
        revision = nearcall_function_revision(entry->slots[channel->index].function);
    core_channel_release(engine->pool, channel);
    return PyErr_Occurred() ? NULL : PyLong_FromUnsignedLong(revision);
}

static PyObject *engine_find(PyObject *self, PyObject *args)
{
    core_engine *engine = (core_engine *)self;
    nearcall_call_id id;
    core_channel *channel;
    PyObject *timeout, *result = NULL;
    int64_t timeout_ms;
    Py_ssize_t bytes;
    const char *name;
    int r;

    if (!PyArg_ParseTuple(args, "s#O", &name, &bytes, &timeout)
        || core_timeout_ms(engine->state, timeout, engine->timeout_ms, &timeout_ms) < 0
        || (channel = enter(engine)) == NULL)
        return NULL;
    r = nearcall_find_begin(channel->handle, name, (size_t)bytes, timeout_ms, &id);
    if (r == NEARCALL_OK)
        result = PyLong_FromUnsignedLongLong(id);
    return leave(engine, channel, r, result);
}

/* The function as the library knows it, without asking the server: that would block
 * the loop. -1 with an exception set. */
static int look_up(core_engine *engine, core_channel *channel, const core_entry *entry,
                   nearcall_function **ret_function)
{
    size_t bytes = (size_t)entry->text_bytes;
    nearcall_call_id id;
    int r = nearcall_find_begin(channel->handle, entry->text, bytes, engine->timeout_ms, &id);

    if (r == NEARCALL_OK)
        r = nearcall_poll(channel->handle, id, NULL);
    if (r == NEARCALL_E_AGAIN) {
        nearcall_cancel(channel->handle, id);
        core_raise_format(engine->state, NEARCALL_E_UNAVAILABLE, NEARCALL_OUTCOME_NOT_EXECUTED,
                          "another server came while %U was looked up; call again", entry->name);
        return -1;
    }
    if (r == NEARCALL_OK)
        r = nearcall_find(channel->handle, entry->text, bytes, engine->timeout_ms, ret_function);
    if (r < 0)
        core_raise(engine->state, channel->handle, r);
    return r < 0 ? -1 : 0;
}

/* Takes over what a find() that finished has learned: the library has it now. */
static PyObject *engine_found(PyObject *self, PyObject *name)
{
    core_engine *engine = (core_engine *)self;
    core_channel *channel = enter(engine);
    core_entry *entry = channel == NULL ? NULL : core_entry_lookup(engine->entries, name);
    nearcall_function *function;
    int r = -1;

    if (channel == NULL)
        return NULL;
    if (entry != NULL || !PyErr_Occurred())
        entry = entry == NULL ? core_entry_new(name) : core_entry_keep(entry);
    if (entry != NULL)
        r = look_up(engine, channel, entry, &function);
    if (r == 0 && core_entry_set_slot(engine->state, entry, channel, function) == 0)
        (void)core_entry_store(engine->entries, entry);
    core_entry_drop(entry);
    (void)leave(engine, channel, 0, NULL);
    return PyErr_Occurred() ? NULL : Py_NewRef(Py_None);
}

/* The slot of a function that was found. LookupError: it was not. */
static core_slot *slot_of(core_engine *engine, core_channel *channel, PyObject *name)
{
    core_entry *entry = core_entry_lookup(engine->entries, name);

    if (entry == NULL) {
        if (!PyErr_Occurred())
            PyErr_SetObject(PyExc_LookupError, name);
        return NULL;
    }
    return &entry->slots[channel->index];
}

static void drop_plan(PyObject *capsule)
{
    core_plan_drop(PyCapsule_GetPointer(capsule, NULL));
}

static PyObject *send(core_engine *engine, core_channel *channel, core_plan *plan,
                      int64_t timeout_ms)
{
    nearcall_call_id id;
    PyObject *capsule, *number = NULL;
    int r = nearcall_request_send(channel->handle, timeout_ms, &id);

    if (r < 0) {
        core_raise(engine->state, channel->handle, r);
        return NULL;
    }
    capsule = PyCapsule_New(plan, NULL, drop_plan);
    if (capsule != NULL) {
        core_plan_keep(plan);
        number = PyLong_FromUnsignedLongLong(id);
        if (number != NULL && PyDict_SetItem(engine->plans, number, capsule) < 0)
            Py_CLEAR(number);
        Py_DECREF(capsule);
    }
    if (number == NULL)
        nearcall_cancel(channel->handle, id);
    return number;
}

static PyObject *begin(core_engine *engine, core_channel *channel, PyObject *name,
                       PyObject *asked, const core_arguments *arguments)
{
    core_slot *slot = slot_of(engine, channel, name);
    PyObject *result = NULL;
    int64_t timeout_ms;
    core_plan *plan;

    if (slot == NULL || core_slot_refresh(engine->state, slot, slot->function) < 0
        || core_timeout_ms(engine->state, arguments->timeout, engine->timeout_ms, &timeout_ms) < 0)
        return NULL;
    plan = core_plan_keep(slot->plan);
    if (core_encode_request(engine->state, channel, slot->function, plan, arguments, &asked,
                            &timeout_ms) == 0)
        result = send(engine, channel, plan, timeout_ms);
    core_plan_drop(plan);
    return result;
}

static PyObject *engine_begin(PyObject *self, PyObject *const *args, Py_ssize_t count,
                              PyObject *names)
{
    core_engine *engine = (core_engine *)self;
    core_arguments arguments;
    core_scratch scratch;
    core_channel *channel;
    PyObject *result = NULL;

    if (count < 2 || !PyUnicode_Check(args[0]) || !PyDict_Check(args[1])) {
        PyErr_SetString(PyExc_TypeError, "a function's name and a dict come before the arguments");
        return NULL;
    }
    channel = enter(engine);
    if (channel == NULL)
        return NULL;
    if (core_arguments_set(engine->state, &arguments, args + 2, count - 2, names, &scratch) == 0)
        result = begin(engine, channel, args[0], args[1], &arguments);
    core_scratch_clear(&scratch);
    return leave(engine, channel, 0, result);
}

static PyObject *engine_cancel(PyObject *self, PyObject *number)
{
    core_engine *engine = (core_engine *)self;
    unsigned long long id = PyLong_AsUnsignedLongLong(number);

    if (PyErr_Occurred())
        return NULL;
    if (engine->pool == NULL)
        Py_RETURN_NONE;
    core_channel_abandon(engine->pool, engine->pool->channels[0], id);
    if (PyDict_Contains(engine->plans, number) == 1 && PyDict_DelItem(engine->plans, number) < 0)
        return NULL;
    Py_RETURN_NONE;
}

/* ---- The loop's side ---- */

/* (id, error or None, result) of a call that has finished. */
static PyObject *fetch(core_engine *engine, core_channel *channel, nearcall_call_id id,
                       PyObject **others)
{
    PyObject *number = PyLong_FromUnsignedLongLong(id), *capsule, *item;
    core_plan *plan = NULL; /* find() has none: the library has taken its result in */
    nearcall_reply reply;
    core_ending ending;

    if (number == NULL)
        return NULL;
    capsule = Py_XNewRef(PyDict_GetItemWithError(engine->plans, number));
    if (capsule != NULL)
        plan = PyCapsule_GetPointer(capsule, NULL);
    ending = core_ending_of(engine->state, channel->handle,
                            nearcall_poll(channel->handle, id, &reply), plan, &reply);
    if (capsule != NULL)
        (void)PyDict_DelItem(engine->plans, number);
    Py_XDECREF(capsule);
    item = PyTuple_Pack(3, number, ending.error == NULL ? Py_None : ending.error,
                        ending.result == NULL ? Py_None : ending.result);
    Py_DECREF(number);
    Py_XDECREF(ending.error);
    Py_XDECREF(ending.result);
    if (ending.others != NULL) {
        Py_XDECREF(*others);
        *others = ending.others;
    }
    return item;
}

/* The same for what a signal's handler raised meanwhile, which is no call's. */
static int append_others(PyObject *list, PyObject *others)
{
    PyObject *item = Py_BuildValue("iOO", 0, others, Py_None);
    int r = item == NULL ? -1 : PyList_Append(list, item);

    Py_XDECREF(item);
    return r;
}

/* What became of the calls that have finished. What happened to the connection
 * shows in the calls it carried. */
static PyObject *engine_process(PyObject *self, PyObject *Py_UNUSED(unused))
{
    core_engine *engine = (core_engine *)self;
    core_channel *channel = enter(engine);
    PyObject *list, *item, *others = NULL;
    nearcall_call_id id;

    if (channel == NULL)
        return NULL;
    (void)nearcall_process(channel->handle);
    list = PyList_New(0);
    while (list != NULL && (id = nearcall_next_finished(channel->handle)) != 0) {
        item = fetch(engine, channel, id, &others);
        if (item == NULL || PyList_Append(list, item) < 0)
            Py_CLEAR(list);
        Py_XDECREF(item);
    }
    if (list != NULL && others != NULL && append_others(list, others) < 0)
        Py_CLEAR(list);
    Py_XDECREF(others);
    return leave(engine, channel, 0, list);
}

/* One for the life of the engine. A child of a fork asks again: then it is the child's own. */
static PyObject *engine_fileno(PyObject *self, PyObject *Py_UNUSED(unused))
{
    core_engine *engine = (core_engine *)self;
    core_channel *channel = enter(engine);
    int fd;

    if (channel == NULL)
        return NULL;
    fd = nearcall_fd(channel->handle);
    if (fd < 0)
        core_raise_format(engine->state, NEARCALL_E_RESOURCE_EXHAUSTED, NEARCALL_OUTCOME_NOT_EXECUTED,
                          "an event loop needs a descriptor to watch, and this process has too many open files, "
                          "see ulimit -n");
    return leave(engine, channel, 0, fd < 0 ? NULL : PyLong_FromLong(fd));
}

/* The clock is time.monotonic()'s. */
static double seconds_from_now(int64_t milliseconds)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9 + (double)milliseconds * 1e-3;
}

static PyObject *engine_due(PyObject *self, PyObject *Py_UNUSED(unused))
{
    core_engine *engine = (core_engine *)self;
    core_channel *channel = enter(engine);
    int64_t milliseconds;

    if (channel == NULL)
        return NULL;
    milliseconds = nearcall_timeout_ms(channel->handle);
    return leave(engine, channel, 0,
                 PyFloat_FromDouble(milliseconds < 0 ? INFINITY : seconds_from_now(milliseconds)));
}

static PyObject *engine_has_room(PyObject *self, PyObject *Py_UNUSED(unused))
{
    core_engine *engine = (core_engine *)self;
    core_channel *channel = enter(engine);

    if (channel == NULL)
        return NULL;
    return leave(engine, channel, 0, PyBool_FromLong(nearcall_room(channel->handle) > 0));
}

static PyObject *engine_transport(PyObject *self, PyObject *Py_UNUSED(unused))
{
    core_engine *engine = (core_engine *)self;
    core_channel *channel = enter(engine);

    if (channel == NULL)
        return NULL;
    return leave(engine, channel, 0, PyUnicode_FromString(nearcall_transport(channel->handle)));
}

static PyObject *engine_description(PyObject *self, PyObject *name)
{
    core_engine *engine = (core_engine *)self;
    core_channel *channel = enter(engine);
    core_slot *slot = channel == NULL ? NULL : slot_of(engine, channel, name);
    PyObject *result = NULL;

    if (slot != NULL && core_slot_refresh(engine->state, slot, slot->function) == 0)
        result = Py_NewRef(slot->plan->description);

    return channel == NULL ? NULL : leave(engine, channel, 0, result);
}

static PyObject *engine_disconnect(PyObject *self, PyObject *Py_UNUSED(unused))
{
    core_engine *engine = (core_engine *)self;
    core_channel *channel = enter(engine);

    if (channel == NULL)
        return NULL;
    nearcall_disconnect(channel->handle);
    return leave(engine, channel, 0, Py_NewRef(Py_None));
}

static PyObject *engine_close(PyObject *self, PyObject *Py_UNUSED(unused))
{
    core_engine *engine = (core_engine *)self;

    if (engine->pool != NULL)
        core_pool_close(engine->pool);
    Py_RETURN_NONE;
}

static PyMethodDef engine_methods[] = {
    {"revision", engine_revision, METH_O,
     "revision($self, name, /)\n--\n\nWhich description of a found function begin() encodes by; 0 if it was not found."},
    {"find", engine_find, METH_VARARGS, "find($self, name, timeout, /)\n--\n\nAsk for a function; return the call's id."},
    {"found", engine_found, METH_O, "found($self, name, /)\n--\n\nTake over what a find() that finished has learned."},
    {"begin", (PyCFunction)(void (*)(void))engine_begin, METH_FASTCALL | METH_KEYWORDS,
     "begin($self, name, asked, /, *args, timeout=None, **named)\n--\n\nSend a call of a found function; return its id. LookupError: find it first. The dict keeps what iterables gave for when it is begun again."},
    {"cancel", engine_cancel, METH_O, "cancel($self, id, /)\n--\n\nGive a call up."},
    {"process", engine_process, METH_NOARGS, "process($self, /)\n--\n\nRead and write; return (id, error or None, result) of each call that finished; id 0: raise the error."},
    {"fileno", engine_fileno, METH_NOARGS, "fileno($self, /)\n--\n\nThe descriptor that is readable when process() has something to do."},
    {"due", engine_due, METH_NOARGS, "due($self, /)\n--\n\nWhen process() is called by at the latest, as time.monotonic() counts; inf: never."},
    {"description", engine_description, METH_O, "description($self, name, /)\n--\n\nWhat the schema says of a found function."},
    {"has_room", engine_has_room, METH_NOARGS, "has_room($self, /)\n--\n\nWhether the server takes another request on the connection at once."},
    {"transport", engine_transport, METH_NOARGS, "transport($self, /)\n--\n\nHow calls travel now; '' when there is no connection."},
    {"disconnect", engine_disconnect, METH_NOARGS, "disconnect($self, /)\n--\n\nDrop the connection."},
    {"close", engine_close, METH_NOARGS, "close($self, /)\n--\n\nClose the connection for good."},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot engine_slots[] = {
    {Py_tp_init, engine_init},
    {Py_tp_dealloc, engine_dealloc},
    {Py_tp_methods, engine_methods},
    {0, NULL},
};

PyType_Spec core_engine_spec = {
    .name = "nearcall._core.Engine",
    .basicsize = sizeof(core_engine),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_IMMUTABLETYPE,
    .slots = engine_slots,
};
