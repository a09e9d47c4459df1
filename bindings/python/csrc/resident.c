/* Residents: what nearcall.resident is made of. The fork itself is Python's. */
#include "core.h"

#include <nearcall_resident.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#define LAST_SIGNAL 64

typedef struct core_resident {
    PyObject_HEAD
    core_state *state;
    nearcall_resident *handle; /* never closed: a run's connection ends with its process */
} core_resident;

static PyObject *raise_failure(core_resident *self, int code)
{
    core_raise_format(self->state, code, NEARCALL_OUTCOME_NOT_EXECUTED, "%s",
                      nearcall_resident_error_message(self->handle));
    return NULL;
}

static int is_open(core_resident *self)
{
    if (self->handle != NULL)
        return 1;
    PyErr_SetString(PyExc_ValueError, "the resident is not open");
    return 0;
}

/* ---- Opening ---- */

/* Borrowed from the tuple's bytes; NULL at the end. */
static const char **read_names(PyObject *names)
{
    Py_ssize_t count = PyTuple_Size(names);
    const char **list = PyMem_Calloc((size_t)count + 1, sizeof(*list));

    if (list == NULL) {
        PyErr_NoMemory();
        return NULL;
    }
    for (Py_ssize_t i = 0; i < count; i++) {
        char *name;

        if (PyBytes_AsStringAndSize(PyTuple_GetItem(names, i), &name, NULL) < 0) {
            PyMem_Free(list);
            return NULL;
        }
        list[i] = name;
    }
    return list;
}

static int resident_init(PyObject *object, PyObject *args, PyObject *Py_UNUSED(kwargs))
{
    core_resident *self = (core_resident *)object;
    nearcall_resident_options options = NEARCALL_RESIDENT_OPTIONS_INIT;
    core_state *state = self->state = core_state_of(Py_TYPE(object));
    core_number workers = {state, "workers", 0, UINT32_MAX, 0};
    PyObject *names;
    long long idle_ms;
    int r;

    if (state == NULL || self->handle != NULL
        || !PyArg_ParseTuple(args, "yO&LO!", &options.program, core_number_parse, &workers, &idle_ms, &PyTuple_Type,
                             &names))
        return -1;
    options.workers = workers.value;
    options.idle_ms = idle_ms;
    options.environment = read_names(names);
    if (options.environment == NULL)
        return -1;
    r = nearcall_resident_open(&self->handle, &options);
    PyMem_Free((void *)options.environment);
    if (r == NEARCALL_OK)
        return 0;
    raise_failure(self, r);
    nearcall_resident_close(self->handle);
    self->handle = NULL;
    return -1;
}

static PyObject *resident_watch(PyObject *object, PyObject *args)
{
    core_resident *self = (core_resident *)object;
    const char *path;

    if (!is_open(self) || !PyArg_ParseTuple(args, "y", &path))
        return NULL;
    return PyBool_FromLong(nearcall_resident_watch(self->handle, path) == NEARCALL_OK);
}

static PyObject *resident_reads(PyObject *object, PyObject *args)
{
    core_resident *self = (core_resident *)object;
    const char *name;
    int what, r;

    if (!is_open(self) || !PyArg_ParseTuple(args, "iy", &what, &name))
        return NULL;
    r = nearcall_resident_reads(self->handle, what, name);
    if (r != NEARCALL_OK)
        return raise_failure(self, r);
    Py_RETURN_NONE;
}

/* ---- The supervisor ---- */

/* Whether a wait that a signal interrupted goes on: its handler has run, and raised nothing. */
static int goes_on(int r)
{
    return r == NEARCALL_E_INTERRUPTED && PyErr_CheckSignals() == 0;
}

static PyObject *resident_next(PyObject *object, PyObject *Py_UNUSED(unused))
{
    core_resident *self = (core_resident *)object;
    int r;

    if (!is_open(self))
        return NULL;
    do {
        Py_BEGIN_ALLOW_THREADS
        r = nearcall_resident_next(self->handle);
        Py_END_ALLOW_THREADS
    } while (goes_on(r));
    if (PyErr_Occurred())
        return NULL;
    return r < 0 ? raise_failure(self, r) : PyBool_FromLong(r == NEARCALL_RESIDENT_FORK);
}

static PyObject *resident_forked(PyObject *object, PyObject *args)
{
    core_resident *self = (core_resident *)object;
    int process_id;

    if (!is_open(self) || !PyArg_ParseTuple(args, "i", &process_id))
        return NULL;
    (void)nearcall_resident_forked(self->handle, process_id);
    Py_RETURN_NONE;
}

/* ---- A child ---- */

static PyObject *resident_child(PyObject *object, PyObject *Py_UNUSED(unused))
{
    core_resident *self = (core_resident *)object;
    int r;

    if (!is_open(self))
        return NULL;
    r = nearcall_resident_child(self->handle);
    if (r != NEARCALL_OK)
        return raise_failure(self, r);
    Py_RETURN_NONE;
}

static PyObject *make_list(char *const *strings)
{
    PyObject *list = PyList_New(0);

    for (; list != NULL && *strings != NULL; strings++) {
        PyObject *item = PyBytes_FromString(*strings);

        if (item == NULL || PyList_Append(list, item) < 0) {
            Py_XDECREF(item);
            Py_CLEAR(list);
            return NULL;
        }
        Py_DECREF(item);
    }
    return list;
}

/* Those that the process ignores, whoever decided that. */
static PyObject *ignored_signals(void)
{
    PyObject *list = PyList_New(0);

    for (int number = 1; list != NULL && number <= LAST_SIGNAL; number++) {
        struct sigaction action;
        PyObject *item;

        if (sigaction(number, NULL, &action) < 0 || (action.sa_flags & SA_SIGINFO) || action.sa_handler != SIG_IGN)
            continue;
        item = PyLong_FromLong(number);
        if (item == NULL || PyList_Append(list, item) < 0)
            Py_CLEAR(list);
        Py_XDECREF(item);
    }
    return list;
}

static PyObject *resident_accept(PyObject *object, PyObject *Py_UNUSED(unused))
{
    core_resident *self = (core_resident *)object;
    nearcall_resident_run run;
    int r;

    if (!is_open(self))
        return NULL;
    do {
        Py_BEGIN_ALLOW_THREADS
        r = nearcall_resident_accept(self->handle, &run);
        Py_END_ALLOW_THREADS
    } while (goes_on(r));
    if (PyErr_Occurred())
        return NULL;
    if (r < 0)
        return raise_failure(self, r);
    if (r != NEARCALL_RESIDENT_RUN)
        Py_RETURN_NONE;
    return Py_BuildValue("(NNN)", make_list(run.arguments), make_list(run.environment), ignored_signals());
}

static PyObject *resident_ending(PyObject *object, PyObject *args)
{
    core_resident *self = (core_resident *)object;
    int code;

    if (!is_open(self) || !PyArg_ParseTuple(args, "i", &code))
        return NULL;
    nearcall_resident_ending(self->handle, code);
    Py_RETURN_NONE;
}

/* Ends the process as the interpreter does when it has taken itself apart: C's own
 * functions for the end, and what its streams hold. The lock stays with this thread. */
static PyObject *resident_exit(PyObject *Py_UNUSED(type), PyObject *args)
{
    int code;

    if (!PyArg_ParseTuple(args, "i", &code))
        return NULL;
    exit(code);
}

static PyObject *resident_started(PyObject *Py_UNUSED(type), PyObject *args)
{
    const char *first_argument;

    if (!PyArg_ParseTuple(args, "y", &first_argument))
        return NULL;
    return PyBool_FromLong(nearcall_resident_started(first_argument));
}

static void resident_dealloc(PyObject *object)
{
    PyTypeObject *type = Py_TYPE(object);
    freefunc release = (freefunc)PyType_GetSlot(type, Py_tp_free);

    release(object);
    Py_DECREF(type);
}

static PyMethodDef resident_methods[] = {
    {"started", resident_started, METH_VARARGS | METH_STATIC, "started(first_argument, /)\n--\n\n"},
    {"watch", resident_watch, METH_VARARGS, "watch($self, path, /)\n--\n\n"},
    {"reads", resident_reads, METH_VARARGS, "reads($self, what, name, /)\n--\n\n"},
    {"next", resident_next, METH_NOARGS, "next($self, /)\n--\n\n"},
    {"forked", resident_forked, METH_VARARGS, "forked($self, process_id, /)\n--\n\n"},
    {"child", resident_child, METH_NOARGS, "child($self, /)\n--\n\n"},
    {"accept", resident_accept, METH_NOARGS, "accept($self, /)\n--\n\n"},
    {"ending", resident_ending, METH_VARARGS, "ending($self, code, /)\n--\n\n"},
    {"exit", resident_exit, METH_VARARGS | METH_STATIC, "exit(code, /)\n--\n\n"},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot resident_slots[] = {
    {Py_tp_init, resident_init},
    {Py_tp_dealloc, resident_dealloc},
    {Py_tp_methods, resident_methods},
    {0, NULL},
};

PyType_Spec core_resident_spec = {
    .name = "nearcall._core.Resident",
    .basicsize = sizeof(core_resident),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_IMMUTABLETYPE,
    .slots = resident_slots,
};
