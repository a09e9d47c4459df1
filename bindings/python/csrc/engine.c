/* Engine: a handle that never blocks, for nearcall.AsyncClient. The event loop
 * is Python's; this only says what to wait for and does the work.
 *
 * Encoding runs code of the arguments' own, which may let other tasks run, and these use the
 * engine as ever: a handle does all else while a request is put together on it. A call that is
 * begun meanwhile is put together on a further handle, which never connects, and comes to the
 * first one to be sent. Decoding is not for others to step into: until it is done the engine
 * has no room, nothing is due, and closing waits. */
#include "core.h"

#include <math.h>
#include <stddef.h>
#include <structmember.h>

typedef struct core_engine {
    PyObject_HEAD
    core_state *state;
    core_pool *pool;   /* its first channel is the one that connects; others encode */
    int64_t timeout_ms;
    PyObject *entries; /* name to capsule of core_entry: functions that were found */
    PyObject *plans;   /* id to what core_sent_new() made: calls in flight */
    PyObject *finished; /* what became of calls, until the loop has taken it out */
    PyObject *weak;    /* references to it, of Python's own */
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
        || (engine->plans = PyDict_New()) == NULL || (engine->finished = PyList_New(0)) == NULL)
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

    if (engine->weak != NULL)
        PyObject_ClearWeakRefs(self);
    core_pool_drop(engine->pool);
    Py_XDECREF(engine->entries);
    Py_XDECREF(engine->plans);
    Py_XDECREF(engine->finished);
    release(self);
    Py_DECREF(type);
}

/* Fails for an engine that was closed. */
static int check(core_engine *engine)
{
    if (engine->pool == NULL) {
        PyErr_SetString(PyExc_RuntimeError, "Engine.__init__() was not called");
        return -1;
    }
    return core_pool_check_open(engine->pool);
}

/* What connects; NULL with an exception set. */
static core_channel *connecting(core_engine *engine)
{
    return check(engine) < 0 ? NULL : engine->pool->channels[0];
}

/* The handle for the length of one method. Where making objects may begin a collection, and that run code which closes
 * the engine, hold() and let_go() are around what uses the handle. */
static nearcall_client *enter(core_engine *engine)
{
    if (check(engine) < 0)
        return NULL;
    if (engine->pool->channels[0]->is_read) {
        core_raise_format(engine->state, NEARCALL_E_UNAVAILABLE, NEARCALL_OUTCOME_NOT_EXECUTED,
                          "replies are being read on this connection at this moment; call again");
        return NULL;
    }
    return engine->pool->channels[0]->handle;
}

static nearcall_client *hold(core_engine *engine)
{
    nearcall_client *handle = enter(engine);

    if (handle != NULL && core_channel_hold(engine->pool->channels[0]) < 0)
        return NULL;
    return handle;
}

static PyObject *let_go(core_engine *engine, PyObject *result)
{
    core_channel_let_go(engine->pool, engine->pool->channels[0]);
    return result;
}

/* The result, or the failure that the library returned. */
static PyObject *leave(core_engine *engine, nearcall_client *handle, int r, PyObject *result)
{
    if (r < 0)
        core_raise(engine->state, handle, r);
    return result;
}

/* ---- Calls ---- */

/* What is known of a function that was found; NULL with or without an exception: it was not. */
static core_slot *slot_of(core_engine *engine, PyObject *name)
{
    PyObject *exact = core_exact_name(engine->state, name);
    core_entry *entry = exact == NULL ? NULL : core_entry_lookup(engine->entries, exact);

    Py_XDECREF(exact);
    return entry == NULL ? NULL : entry->slots[0];
}

/* By which description begin() would encode; 0 for a function that was not found. */
static PyObject *engine_revision(PyObject *self, PyObject *name)
{
    core_engine *engine = (core_engine *)self;
    core_slot *slot = check(engine) < 0 ? NULL : slot_of(engine, name);

    if (PyErr_Occurred())
        return NULL;
    return PyLong_FromUnsignedLong(slot == NULL ? 0 : nearcall_function_revision(slot->function));
}

/* Tells by a list which call was begun: what a function returns is lost where a signal's handler
 * raises just then. */
static PyObject *tell_begun(core_engine *engine, PyObject *begun, PyObject *number)
{
    if (number == NULL || PyList_Append(begun, number) == 0)
        return number;
    nearcall_cancel(engine->pool->channels[0]->handle, PyLong_AsUnsignedLongLong(number));
    Py_DECREF(number);
    return NULL;
}

static PyObject *engine_find(PyObject *self, PyObject *args)
{
    core_engine *engine = (core_engine *)self;
    nearcall_call_id id;
    nearcall_client *handle;
    PyObject *begun, *timeout, *result = NULL;
    int64_t timeout_ms;
    Py_ssize_t bytes;
    const char *name;
    int r;

    if (!PyArg_ParseTuple(args, "O!s#O", &PyList_Type, &begun, &name, &bytes, &timeout)
        || core_timeout_ms(engine->state, timeout, engine->timeout_ms, &timeout_ms) < 0
        || (handle = hold(engine)) == NULL)
        return NULL;
    r = nearcall_find_begin(handle, name, (size_t)bytes, timeout_ms, &id);
    if (r == NEARCALL_OK)
        result = tell_begun(engine, begun, PyLong_FromUnsignedLongLong(id));
    return let_go(engine, leave(engine, handle, r, result));
}

/* The function as the library knows it, without asking the server: that would block
 * the loop. -1 with an exception set. */
static int look_up(core_engine *engine, nearcall_client *handle, const core_entry *entry,
                   nearcall_function **ret_function)
{
    size_t bytes = (size_t)entry->text_bytes;
    nearcall_call_id id;
    int r = nearcall_find_begin(handle, entry->text, bytes, engine->timeout_ms, &id);

    if (r == NEARCALL_OK)
        r = nearcall_poll(handle, id, NULL);
    if (r == NEARCALL_E_AGAIN) {
        nearcall_cancel(handle, id);
        core_raise_format(engine->state, NEARCALL_E_UNAVAILABLE, NEARCALL_OUTCOME_NOT_EXECUTED,
                          "another server came while %U was looked up; call again", entry->name);
        return -1;
    }
    if (r == NEARCALL_OK)
        r = nearcall_find(handle, entry->text, bytes, engine->timeout_ms, ret_function);
    if (r < 0)
        core_raise(engine->state, handle, r);
    return r < 0 ? -1 : core_pool_warn_of_plain(engine->pool, engine->pool->channels[0]);
}

/* Takes over what the library has learned of a function. */
static PyObject *take_over(core_engine *engine, nearcall_client *handle, PyObject *name)
{
    PyObject *exact = core_exact_name(engine->state, name);
    core_entry *entry = exact == NULL ? NULL : core_entry_lookup(engine->entries, exact);
    nearcall_function *function;
    int r = -1;

    if (entry != NULL)
        core_entry_keep(entry);
    else if (exact != NULL && !PyErr_Occurred())
        entry = core_entry_new(exact);
    Py_XDECREF(exact);
    if (entry != NULL)
        r = look_up(engine, handle, entry, &function);
    if (r == 0 && core_entry_set_slot(engine->state, entry, engine->pool->channels[0], function) == 0)
        (void)core_entry_store(engine->entries, entry);
    core_entry_drop(entry);
    return PyErr_Occurred() ? NULL : Py_NewRef(Py_None);
}

static PyObject *engine_found(PyObject *self, PyObject *name)
{
    core_engine *engine = (core_engine *)self;
    nearcall_client *handle = hold(engine);

    return handle == NULL ? NULL : let_go(engine, take_over(engine, handle, name));
}

/* Sends the request that lies on the engine's handle. */
static PyObject *send(core_engine *engine, nearcall_client *handle, core_plan *plan, core_view *view,
                      int64_t timeout_ms)
{
    nearcall_call_id id;
    PyObject *capsule, *number = NULL;
    int r = core_channel_use(engine->pool->channels[0], view);

    if (r == NEARCALL_OK)
        r = nearcall_request_send(handle, timeout_ms, &id);
    if (r < 0) {
        core_raise(engine->state, handle, r);
        return NULL;
    }
    capsule = core_sent_new(plan, view, timeout_ms);
    if (capsule != NULL) {
        number = PyLong_FromUnsignedLongLong(id);
        if (number != NULL && PyDict_SetItem(engine->plans, number, capsule) < 0)
            Py_CLEAR(number);
        Py_DECREF(capsule);
    }
    if (number == NULL)
        nearcall_cancel(handle, id);
    return number;
}

/* Sends the request that lies on a handle. Where this is not the engine's own, that may have
 * an unfinished one, which is put back. */
static PyObject *send_from(core_engine *engine, nearcall_client *encoded, core_plan *plan, core_view *view,
                           int64_t timeout_ms)
{
    nearcall_client *handle = enter(engine); /* closed, perhaps, by an argument's own code */
    PyObject *number;
    int r;

    if (handle == NULL || handle == encoded)
        return handle == NULL ? NULL : send(engine, handle, plan, view, timeout_ms);
    r = nearcall_request_swap(handle, encoded);
    if (r < 0)
        return leave(engine, handle, r, NULL);
    number = send(engine, handle, plan, view, timeout_ms);
    (void)nearcall_request_swap(handle, encoded); /* both are the engine's own memory now */
    return number;
}

/* Tells the caller by its dict, whose other keys are tuples, that the exception is no ending of the call's. */
static void note_raised(PyObject *asked)
{
    PyObject *error = core_exception_take();

    if (PyDict_SetItem(asked, Py_None, Py_True) < 0)
        PyErr_Clear(); /* without memory it may be tried again */
    core_exception_set(error);
}

/* before is what comes before the arguments: the list, the name, the dict, the seconds and the options. */
static PyObject *begin(core_engine *engine, PyObject *const *before, const core_arguments *arguments)
{
    PyObject *name = before[1], *asked = before[2], *seconds = before[3];
    core_view *view = before[4] == Py_None ? NULL : (core_view *)before[4];
    core_slot *slot = slot_of(engine, name);
    core_channel *channel = NULL;
    PyObject *result = NULL;
    int64_t timeout_ms;
    core_plan *plan;
    int r;

    if (slot == NULL && !PyErr_Occurred())
        PyErr_SetObject(PyExc_LookupError, name);
    if (slot == NULL
        || core_timeout_ms(engine->state, seconds, engine->timeout_ms, &timeout_ms) < 0
        || core_slot_refresh(engine->state, slot, slot->function) < 0
        || (channel = core_channel_take(engine->pool, 0)) == NULL)
        return NULL;
    plan = core_plan_keep(slot->plan);
    r = core_encode_request(engine->state, channel, slot->function, plan, arguments, &asked, &timeout_ms);
    if (r == 0)
        result = send_from(engine, channel->handle, plan, view, timeout_ms);
    else if (r == CORE_RAISED)
        note_raised(asked);
    core_plan_drop(plan);
    core_channel_release(engine->pool, channel);
    return result;
}

#define ARGUMENTS_BEFORE 5

static PyObject *engine_begin(PyObject *self, PyObject *const *args, Py_ssize_t count,
                              PyObject *names)
{
    core_engine *engine = (core_engine *)self;
    core_arguments arguments;
    core_scratch scratch;
    PyObject *result = NULL;

    if (count < ARGUMENTS_BEFORE || !PyList_Check(args[0]) || !PyUnicode_Check(args[1]) || !PyDict_Check(args[2])
        || (args[4] != Py_None && Py_TYPE(args[4]) != engine->state->view_type)) {
        PyErr_SetString(PyExc_TypeError, "a list, a function's name, a dict, a number of seconds and a view come "
                                         "before the arguments");
        return NULL;
    }
    if (hold(engine) == NULL)
        return NULL;
    if (core_arguments_set(engine->state, &arguments, args + ARGUMENTS_BEFORE, count - ARGUMENTS_BEFORE, names,
                           &scratch) == 0)
        result = begin(engine, args, &arguments);
    core_scratch_clear(&scratch);
    return let_go(engine, tell_begun(engine, args[0], result));
}

static PyObject *engine_cancel(PyObject *self, PyObject *number)
{
    core_engine *engine = (core_engine *)self;
    unsigned long long id = PyLong_AsUnsignedLongLong(number);
    core_channel *channel;

    if (PyErr_Occurred())
        return NULL;
    if (engine->pool == NULL)
        Py_RETURN_NONE;
    channel = engine->pool->channels[0];
    if (channel->is_read || channel->handle == NULL)
        core_channel_abandon(engine->pool, channel, id);
    else
        nearcall_cancel(channel->handle, id);
    if (PyDict_Contains(engine->plans, number) == 1 && PyDict_DelItem(engine->plans, number) < 0)
        return NULL;
    Py_RETURN_NONE;
}

/* ---- The loop's side ---- */

/* Code that ran while its reply was read may have cancelled the call, and so forgotten it. */
static void forget(core_engine *engine, PyObject *number)
{
    if (PyDict_Contains(engine->plans, number) == 1 && PyDict_DelItem(engine->plans, number) < 0)
        PyErr_Clear();
}

/* (id, error or None, result) of a call that has finished. */
static PyObject *fetch(core_engine *engine, nearcall_client *handle, nearcall_call_id id,
                       PyObject **others)
{
    PyObject *number = PyLong_FromUnsignedLongLong(id), *capsule, *item;
    nearcall_reply reply;
    core_ending ending;
    int r;

    if (number == NULL)
        return NULL;
    capsule = Py_XNewRef(PyDict_GetItemWithError(engine->plans, number));
    r = nearcall_poll(handle, id, &reply);
    ending = core_sent_ending(engine->state, handle, r, capsule, &reply);
    if (capsule != NULL)
        forget(engine, number);
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

static int append(core_engine *engine, PyObject *item)
{
    int r = item == NULL ? -1 : PyList_Append(engine->finished, item);

    Py_XDECREF(item);
    return r;
}

/* To make objects of large results and errors takes time that others want: the rest is for the next turn. */
static int read_all(core_engine *engine, nearcall_client *handle)
{
    PyObject *others = NULL;
    nearcall_call_id id;
    int64_t began_ms;
    int r = 0;

    (void)nearcall_process(handle);
    began_ms = core_monotonic_ms();
    while (r == 0 && (id = nearcall_next_finished(handle)) != 0) {
        r = append(engine, fetch(engine, handle, id, &others));
        if (core_monotonic_ms() - began_ms >= CORE_TURN_MS)
            break;
    }
    /* What a signal's handler raised meanwhile is no call's. */
    if (r == 0 && others != NULL)
        r = append(engine, Py_BuildValue("iOO", 0, others, Py_None));
    Py_XDECREF(others);
    return r;
}

/* What became of the calls that have finished: a list of the engine's own, from which the loop
 * takes out what it has dealt with, so that an exception at any moment loses nothing. What
 * happened to the connection shows in the calls it carried. */
static PyObject *engine_process(PyObject *self, PyObject *Py_UNUSED(unused))
{
    core_engine *engine = (core_engine *)self;
    core_channel *channel = connecting(engine);
    int r;

    if (channel == NULL)
        return NULL;
    if (!channel->is_read) { /* else whoever reads takes all */
        core_channel_read_begin(channel);
        r = read_all(engine, channel->handle);
        core_channel_read_end(engine->pool, channel);
        if (r < 0)
            return NULL;
    }
    return Py_NewRef(engine->finished);
}

/* One for the life of the engine. A child of a fork asks again: then it is the child's own. */
static PyObject *engine_fileno(PyObject *self, PyObject *Py_UNUSED(unused))
{
    core_engine *engine = (core_engine *)self;
    nearcall_client *handle = enter(engine);
    int fd;

    if (handle == NULL)
        return NULL;
    fd = nearcall_fd(handle);
    if (fd >= 0)
        return PyLong_FromLong(fd);
    core_raise_format(engine->state, NEARCALL_E_RESOURCE_EXHAUSTED, NEARCALL_OUTCOME_NOT_EXECUTED,
                      "an event loop needs a descriptor to watch, and this process has too many open files, "
                      "see ulimit -n");
    return NULL;
}

static PyObject *engine_due(PyObject *self, PyObject *Py_UNUSED(unused))
{
    core_channel *channel = connecting((core_engine *)self);
    int64_t milliseconds = -1;

    if (channel == NULL)
        return NULL;
    if (!channel->is_read)
        milliseconds = nearcall_next_finished(channel->handle) ? 0 : nearcall_timeout_ms(channel->handle);
    return PyFloat_FromDouble(milliseconds < 0 ? INFINITY : core_seconds_from_now(milliseconds));
}

/* Nobody else asks while replies are read: there is no room then. */
static PyObject *engine_room(PyObject *self, PyObject *Py_UNUSED(unused))
{
    const core_channel *channel = connecting((core_engine *)self);

    if (channel == NULL)
        return NULL;
    if (channel->is_read)
        return PyLong_FromLong(0);
    if (nearcall_transport(channel->handle)[0] == '\0')
        return PyLong_FromLong(-1);
    return PyLong_FromUnsignedLong(nearcall_room(channel->handle));
}

/* Whether nothing of a call was sent. While replies are read nobody may know: it may have an end. */
static PyObject *engine_is_unsent(PyObject *self, PyObject *number)
{
    const core_channel *channel = connecting((core_engine *)self);
    unsigned long long id = PyLong_AsUnsignedLongLong(number);

    if (channel == NULL || PyErr_Occurred())
        return NULL;
    return PyBool_FromLong(!channel->is_read && nearcall_is_unsent(channel->handle, id));
}

static PyObject *engine_unsent_bytes(PyObject *self, PyObject *Py_UNUSED(unused))
{
    const core_channel *channel = connecting((core_engine *)self);

    if (channel == NULL)
        return NULL;
    return PyLong_FromSize_t(channel->is_read ? 0 : nearcall_unsent_bytes(channel->handle));
}

static PyObject *engine_where(PyObject *self, PyObject *Py_UNUSED(unused))
{
    const core_engine *engine = (core_engine *)self;

    if (engine->pool != NULL && engine->pool->closed)
        return Py_BuildValue("ss", "", "");
    if (check((core_engine *)self) < 0)
        return NULL;
    return Py_BuildValue("ss", nearcall_transport(engine->pool->channels[0]->handle), nearcall_endpoint(engine->pool->channels[0]->handle));
}

static PyObject *description_of(core_engine *engine, PyObject *name)
{
    core_slot *slot = slot_of(engine, name);

    if (slot == NULL && !PyErr_Occurred())
        PyErr_SetObject(PyExc_LookupError, name);
    if (slot == NULL || core_slot_refresh(engine->state, slot, slot->function) < 0)
        return NULL;
    return Py_NewRef(slot->plan->description);
}

static PyObject *engine_description(PyObject *self, PyObject *name)
{
    core_engine *engine = (core_engine *)self;

    return hold(engine) == NULL ? NULL : let_go(engine, description_of(engine, name));
}

static PyObject *engine_disconnect(PyObject *self, PyObject *Py_UNUSED(unused))
{
    nearcall_client *handle = enter((core_engine *)self);

    if (handle == NULL)
        return NULL;
    nearcall_disconnect(handle);
    Py_RETURN_NONE;
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
    {"find", engine_find, METH_VARARGS, "find($self, begun, name, timeout, /)\n--\n\nAsk for a function; return the call's id, which the list gets too."},
    {"found", engine_found, METH_O, "found($self, name, /)\n--\n\nTake over what a find() that finished has learned."},
    {"begin", (PyCFunction)(void (*)(void))engine_begin, METH_FASTCALL | METH_KEYWORDS,
     "begin($self, begun, name, asked, seconds, view, /, *args, timeout=None, **named)\n--\n\nSend a call of a found function; return its id, which the list gets too. LookupError: find it first. The dict keeps what iterables gave for when it is begun again. A timeout that is given is refused where a parameter could be meant."},
    {"cancel", engine_cancel, METH_O, "cancel($self, id, /)\n--\n\nGive a call up."},
    {"process", engine_process, METH_NOARGS, "process($self, /)\n--\n\nRead and write; return the list of calls that finished, (id, error or None, result) each, to be emptied; id 0: raise the error."},
    {"fileno", engine_fileno, METH_NOARGS, "fileno($self, /)\n--\n\nThe descriptor that is readable when process() has something to do."},
    {"due", engine_due, METH_NOARGS, "due($self, /)\n--\n\nWhen process() is called by at the latest, as time.monotonic() counts; inf: never."},
    {"description", engine_description, METH_O, "description($self, name, /)\n--\n\nWhat the schema says of a found function."},
    {"is_unsent", engine_is_unsent, METH_O, "is_unsent($self, id, /)\n--\n\nWhether nothing of a call was sent yet."},
    {"unsent_bytes", engine_unsent_bytes, METH_NOARGS, "unsent_bytes($self, /)\n--\n\nHow many bytes of requests wait to be sent on the connection."},
    {"room", engine_room, METH_NOARGS, "room($self, /)\n--\n\nHow many further requests the server takes on the connection at once; -1: there is no connection."},
    {"where", engine_where, METH_NOARGS, "where($self, /)\n--\n\nHow calls travel now, and the endpoint that the connection leads to; twice '' when there is none."},
    {"disconnect", engine_disconnect, METH_NOARGS, "disconnect($self, /)\n--\n\nDrop the connection."},
    {"close", engine_close, METH_NOARGS, "close($self, /)\n--\n\nClose the connection for good."},
    {NULL, NULL, 0, NULL},
};

static PyMemberDef engine_members[] = {
    {"__weaklistoffset__", T_PYSSIZET, offsetof(core_engine, weak), READONLY, NULL},
    {NULL, 0, 0, 0, NULL},
};

static PyType_Slot engine_slots[] = {
    {Py_tp_init, engine_init},
    {Py_tp_dealloc, engine_dealloc},
    {Py_tp_methods, engine_methods},
    {Py_tp_members, engine_members},
    {0, NULL},
};

PyType_Spec core_engine_spec = {
    .name = "nearcall._core.Engine",
    .basicsize = sizeof(core_engine),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_IMMUTABLETYPE,
    .slots = engine_slots,
};
