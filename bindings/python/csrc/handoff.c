/* Handoff: what nearcall.handoff is made of. It never waits but in give(), and its owner
 * sees to it that one thread uses it at a time. */
#include "core.h"

#include <limits.h>
#include <string.h>

typedef struct core_handoff {
    PyObject_HEAD
    core_state *state;
    nearcall_handoff *handle; /* NULL: closed, or not open yet */
    int uses;                 /* methods that use it: code that runs within may close it, which waits for them */
    uint64_t generation;      /* the process of these */
    unsigned long user;       /* the thread of these */
    int is_closed;
} core_handoff;

static void raise_failure(core_handoff *self, int code)
{
    core_raise_format(self->state, code, NEARCALL_OUTCOME_NOT_EXECUTED, "%s",
                      nearcall_handoff_error_message(self->handle));
}

static int check_open(core_handoff *self)
{
    if (self->handle != NULL && !self->is_closed)
        return 0;
    PyErr_SetString(PyExc_ValueError, "the listener is closed");
    return -1;
}

/* A child has not the threads in which they were, unless it was forked within one of them. */
static void check_process(core_handoff *self)
{
    if (self->generation != self->state->fork_generation && self->user != PyThread_get_thread_ident())
        self->uses = 0;
    self->generation = self->state->fork_generation;
}

static void close_unless_used(core_handoff *self)
{
    nearcall_handoff *handle = self->handle;

    if (self->uses > 0)
        return;
    self->handle = NULL;
    nearcall_handoff_close(handle);
}

typedef PyObject *(*handoff_method)(core_handoff *self, PyObject *args);

static PyObject *use(PyObject *object, PyObject *args, handoff_method method)
{
    core_handoff *self = (core_handoff *)object;
    PyObject *result;

    if (check_open(self) < 0)
        return NULL;
    check_process(self);
    self->uses++;
    self->user = PyThread_get_thread_ident();
    result = method(self, args);
    self->uses -= self->uses > 0;
    if (self->is_closed)
        close_unless_used(self);
    return result;
}

/* ---- Opening and closing ---- */

static int open_handle(core_handoff *self, PyObject *address, const nearcall_handoff_options *options)
{
    core_number fd = {.state = self->state, .name = "address, as a descriptor,", .most = INT_MAX};
    const char *text;

    if (PyLong_Check(address)) {
        if (core_number_from(&fd, address) < 0)
            return -1;
        return nearcall_handoff_listen_fd(&self->handle, (int)fd.value, options);
    }
    text = core_text_from(address, "address");
    return text == NULL ? -1 : nearcall_handoff_listen(&self->handle, text, options);
}

static int handoff_init(PyObject *object, PyObject *args, PyObject *Py_UNUSED(kwargs))
{
    core_handoff *self = (core_handoff *)object;
    nearcall_handoff_options options = NEARCALL_HANDOFF_OPTIONS_INIT;
    core_state *state = self->state = core_state_of(Py_TYPE(object));
    core_number mode = {state, "mode", 0, UINT32_MAX, 0}, window = {state, "window", 0, UINT32_MAX, 0};
    core_number prefix = {state, "prefix_bytes_max", 0, UINT32_MAX, 0};
    core_number message = {state, "message_bytes_max", 0, UINT32_MAX, 0};
    core_number channels = {state, "channels_max", 0, UINT32_MAX, 0};
    PyObject *address, *users;
    uint32_t *numbers = NULL;
    int r;

    if (state == NULL || self->handle != NULL
        || !PyArg_ParseTuple(args, "OO!O&O&O&O&O&", &address, &PyTuple_Type, &users, core_number_parse, &mode,
                             core_number_parse, &window, core_number_parse, &prefix, core_number_parse, &message,
                             core_number_parse, &channels)
        || core_users_from(state, users, &numbers, &options.peer_user_ids_count) < 0)
        return -1;
    options.mode = mode.value;
    options.window = window.value;
    options.prefix_bytes_max = prefix.value;
    options.message_bytes_max = message.value;
    options.channels_max = channels.value;
    options.peer_user_ids = numbers;
    r = open_handle(self, address, &options);
    PyMem_Free(numbers);
    if (r == NEARCALL_OK)
        return 0;
    if (!PyErr_Occurred())
        raise_failure(self, r);
    nearcall_handoff_close(self->handle);
    self->handle = NULL;
    return -1;
}

static PyObject *handoff_close(PyObject *object, PyObject *Py_UNUSED(unused))
{
    core_handoff *self = (core_handoff *)object;

    self->is_closed = 1;
    if (self->handle != NULL)
        check_process(self);
    close_unless_used(self);
    Py_RETURN_NONE;
}

static void handoff_dealloc(PyObject *object)
{
    PyTypeObject *type = Py_TYPE(object);
    freefunc release = (freefunc)PyType_GetSlot(type, Py_tp_free);

    nearcall_handoff_close(((core_handoff *)object)->handle);
    release(object);
    Py_DECREF(type);
}

/* ---- Taking ---- */

static PyObject *text_of(void *argument)
{
    const char *text = argument;

    return PyUnicode_DecodeUTF8(text, (Py_ssize_t)strlen(text), "surrogateescape");
}

static PyObject *accept_one(core_handoff *self, PyObject *args)
{
    nearcall_handoff_item item;
    PyObject *socket, *fill;
    int r;

    if (!PyArg_ParseTuple(args, "OO", &socket, &fill))
        return NULL;
    Py_BEGIN_ALLOW_THREADS
    r = nearcall_handoff_accept(self->handle, 0, &item);
    Py_END_ALLOW_THREADS
    if (r == NEARCALL_E_AGAIN)
        Py_RETURN_NONE;
    if (r != NEARCALL_OK) {
        raise_failure(self, r);
        return NULL;
    }
    /* The socket has it as soon as it is this process's, before a line of Python can raise. */
    if (core_socket_fill(socket, fill, item.fd) < 0)
        return NULL;
    return Py_BuildValue("(KIIO&O&O&y#y#)", (unsigned long long)item.channel, item.process_id,
                         item.user_id, text_of, item.name, text_of, item.local, text_of, item.remote,
                         item.message, (Py_ssize_t)item.message_bytes, item.prefix,
                         (Py_ssize_t)item.prefix_bytes);
}

static PyObject *handoff_accept(PyObject *object, PyObject *args)
{
    return use(object, args, accept_one);
}

static PyObject *refuse_one(core_handoff *self, PyObject *args)
{
    const char *text;
    int reason, r;

    if (!PyArg_ParseTuple(args, "is", &reason, &text))
        return NULL;
    r = nearcall_handoff_wait(self->handle, 0);
    if (r == NEARCALL_OK)
        r = nearcall_handoff_refuse(self->handle, reason, text);
    if (r == NEARCALL_OK)
        Py_RETURN_TRUE;
    if (r == NEARCALL_E_AGAIN)
        Py_RETURN_FALSE;
    raise_failure(self, r);
    return NULL;
}

static PyObject *handoff_refuse(PyObject *object, PyObject *args)
{
    return use(object, args, refuse_one);
}

static PyObject *drain(core_handoff *self, PyObject *args)
{
    const char *text;
    int r;

    if (!PyArg_ParseTuple(args, "s", &text))
        return NULL;
    Py_BEGIN_ALLOW_THREADS
    r = nearcall_handoff_drain(self->handle, text);
    Py_END_ALLOW_THREADS
    if (r == NEARCALL_OK)
        Py_RETURN_NONE;
    raise_failure(self, r);
    return NULL;
}

static PyObject *handoff_drain(PyObject *object, PyObject *args)
{
    return use(object, args, drain);
}

/* ---- Handing back ---- */

static PyObject *give(core_handoff *self, PyObject *args)
{
    nearcall_handoff_item item = {.kind = NEARCALL_HANDOFF_CONNECTION};
    const char *message, *prefix;
    Py_ssize_t message_bytes, prefix_bytes;
    unsigned long long channel;
    PyObject *socket, *forget, *timeout;
    int64_t timeout_ms;
    int r;

    if (!PyArg_ParseTuple(args, "KOOsssy#y#O", &channel, &socket, &forget, &item.name, &item.local,
                             &item.remote, &message, &message_bytes, &prefix, &prefix_bytes, &timeout)
        || core_timeout_ms(self->state, timeout, NEARCALL_NO_TIMEOUT, &timeout_ms) < 0)
        return NULL;
    item.fd = PyObject_AsFileDescriptor(socket);
    if (item.fd < 0)
        return NULL;
    item.message = (const uint8_t *)message;
    item.message_bytes = (size_t)message_bytes;
    item.prefix = (const uint8_t *)prefix;
    item.prefix_bytes = (size_t)prefix_bytes;
    Py_BEGIN_ALLOW_THREADS
    r = nearcall_handoff_give(self->handle, channel, &item, timeout_ms);
    Py_END_ALLOW_THREADS
    /* It is closed. The socket forgets the number before a line of Python can raise, or
     * it would close another's. */
    if (r == NEARCALL_OK)
        return PyObject_CallFunctionObjArgs(forget, socket, NULL);
    raise_failure(self, r);
    return NULL;
}

static PyObject *handoff_give(PyObject *object, PyObject *args)
{
    return use(object, args, give);
}

/* ---- Loops ---- */

static PyObject *handoff_fileno(PyObject *object, PyObject *Py_UNUSED(unused))
{
    core_handoff *self = (core_handoff *)object;

    return PyLong_FromLong(self->handle == NULL || self->is_closed ? -1 : nearcall_handoff_fd(self->handle));
}

static PyObject *handoff_timeout_ms(PyObject *object, PyObject *Py_UNUSED(unused))
{
    core_handoff *self = (core_handoff *)object;

    if (check_open(self) < 0)
        return NULL;
    return PyLong_FromLongLong(nearcall_handoff_timeout_ms(self->handle));
}

static PyMethodDef handoff_methods[] = {
    {"accept", handoff_accept, METH_VARARGS, "accept($self, connection, fill, /)\n--\n\n"},
    {"refuse", handoff_refuse, METH_VARARGS, "refuse($self, reason, text, /)\n--\n\n"},
    {"drain", handoff_drain, METH_VARARGS, "drain($self, text, /)\n--\n\n"},
    {"give", handoff_give, METH_VARARGS,
     "give($self, channel, connection, forget, name, local, remote, message, prefix, timeout, /)\n--\n\n"},
    {"fileno", handoff_fileno, METH_NOARGS, "fileno($self, /)\n--\n\n"},
    {"timeout_ms", handoff_timeout_ms, METH_NOARGS, "timeout_ms($self, /)\n--\n\n"},
    {"close", handoff_close, METH_NOARGS, "close($self, /)\n--\n\n"},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot handoff_slots[] = {
    {Py_tp_init, handoff_init},
    {Py_tp_dealloc, handoff_dealloc},
    {Py_tp_methods, handoff_methods},
    {0, NULL},
};

PyType_Spec core_handoff_spec = {
    .name = "nearcall._core.Handoff",
    .basicsize = sizeof(core_handoff),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_IMMUTABLETYPE,
    .slots = handoff_slots,
};
