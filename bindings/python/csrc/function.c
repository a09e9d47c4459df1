/* Function: one function of the server, as a callable bound to a client. */
#include "core.h"

typedef struct core_function {
    PyObject_HEAD
    core_client *client;
    core_entry *entry;
} core_function;

/* What was given by name is held: the dict may be the program's own, and code of a value may empty it. A collection
 * may change it too, before it is looked at. Names are text, as Python itself sees to when it calls functions of its
 * own. *ret_count becomes how many there are. */
static int take_named(PyObject *kwargs, PyObject *names, PyObject **items, Py_ssize_t *ret_count)
{
    Py_ssize_t position = 0, count = PyTuple_Size(names);
    PyObject *key, *value;

    for (*ret_count = 0; *ret_count < count && PyDict_Next(kwargs, &position, &key, &value); ++*ret_count) {
        if (!PyUnicode_Check(key)) {
            PyErr_SetString(PyExc_TypeError, "keywords must be strings");
            return -1;
        }
        items[*ret_count] = Py_NewRef(value);
        PyTuple_SetItem(names, *ret_count, Py_NewRef(key));
    }
    if (*ret_count == count)
        return 0;
    PyErr_SetString(PyExc_RuntimeError, "the keywords changed while they were read");
    return -1;
}

static void drop(PyObject **items, PyObject **room, Py_ssize_t positional, PyObject *names, Py_ssize_t named)
{
    Py_ssize_t i;

    for (i = 0; i < named; i++)
        Py_DECREF(items[positional + i]);
    Py_XDECREF(names);
    if (items != room)
        PyMem_Free(items);
}

/* tp_call gives a tuple and a dict; the rest of this file wants an array with the names beside it. Returns the array,
 * in `room` when it is large enough. */
static PyObject **flatten(PyObject *args, PyObject *kwargs, PyObject **room, Py_ssize_t room_count,
                          PyObject **ret_names)
{
    Py_ssize_t i, positional = PyTuple_Size(args), named = kwargs == NULL ? 0 : PyDict_Size(kwargs), taken = 0;
    PyObject **items = room;

    *ret_names = NULL;
    if (positional + named > room_count)
        items = PyMem_Calloc((size_t)(positional + named), sizeof(*items));
    if (items == NULL) {
        PyErr_NoMemory();
        return NULL;
    }
    for (i = 0; i < positional; i++)
        items[i] = PyTuple_GetItem(args, i);
    if (named == 0)
        return items;
    *ret_names = PyTuple_New(named);
    if (*ret_names != NULL && take_named(kwargs, *ret_names, items + positional, &taken) == 0)
        return items;
    drop(items, room, positional, *ret_names, taken);
    return NULL;
}

#define ARGUMENTS_WITHOUT_ALLOCATION 8

static PyObject *function_call(PyObject *self, PyObject *args, PyObject *kwargs)
{
    core_function *function = (core_function *)self;
    PyObject *room[ARGUMENTS_WITHOUT_ALLOCATION], *names, *result = NULL;
    PyObject **items = flatten(args, kwargs, room, ARGUMENTS_WITHOUT_ALLOCATION, &names);
    core_arguments arguments;
    core_scratch scratch;

    if (items == NULL)
        return NULL;
    if (core_arguments_set(function->client->state, &arguments, items, PyTuple_Size(args), names,
                           &scratch) == 0) {
        if (function->entry->hash != NULL)
            arguments.is_timeout_named = 0; /* generated code gives parameters by position only */
        result = core_entry_call(function->client, function->entry, &arguments);
    }
    core_scratch_clear(&scratch);
    drop(items, room, PyTuple_Size(args), names, names == NULL ? 0 : PyTuple_Size(names));
    return result;
}

/* ---- What the schema says of it ---- */

/* The description, asking the server when it is not known. New reference. */
static PyObject *description_of(core_function *function)
{
    core_client *client = function->client;
    int64_t timeout_ms = client->timeout_ms;
    core_channel *channel = core_channel_take(client->pool, 0);
    PyObject *description = NULL;
    core_slot *slot;

    if (channel == NULL)
        return NULL;
    slot = core_entry_slot(client, function->entry, channel, 1, &timeout_ms);
    if (slot != NULL)
        description = Py_NewRef(slot->plan->description);
    core_channel_release(client->pool, channel);
    return description;
}

static PyObject *get_description(PyObject *self, void *Py_UNUSED(closure))
{
    return description_of((core_function *)self);
}

static PyObject *derive(PyObject *self, PyObject *maker)
{
    PyObject *description = description_of((core_function *)self), *made;

    if (description == NULL)
        return NULL;
    made = PyObject_CallFunctionObjArgs(maker, description, NULL);
    Py_DECREF(description);
    return made;
}

static PyObject *get_doc(PyObject *self, void *Py_UNUSED(closure))
{
    return derive(self, ((core_function *)self)->client->state->make_doc);
}

static PyObject *get_signature(PyObject *self, void *Py_UNUSED(closure))
{
    return derive(self, ((core_function *)self)->client->state->make_signature);
}

static PyObject *get_name(PyObject *self, void *Py_UNUSED(closure))
{
    return Py_NewRef(((core_function *)self)->entry->name);
}

static PyObject *get_client(PyObject *self, void *Py_UNUSED(closure))
{
    return Py_NewRef((PyObject *)((core_function *)self)->client);
}

static PyObject *function_repr(PyObject *self)
{
    return PyUnicode_FromFormat("<nearcall.Function %U>", ((core_function *)self)->entry->name);
}

/* A pickled function opens the connections of its client anew, and is not looked up. */
static PyObject *function_reduce(PyObject *self, PyObject *Py_UNUSED(none))
{
    core_function *function = (core_function *)self;
    core_entry *entry = function->entry;
    PyObject *maker = PyObject_GetAttrString((PyObject *)function->client, "_function"), *reduced;

    if (maker == NULL)
        return NULL;
    if (entry->description == NULL)
        reduced = Py_BuildValue("(O(O))", maker, entry->name);
    else
        reduced = Py_BuildValue("(O(OOOO))", maker, entry->name, entry->hash, entry->description,
                                entry->warns ? Py_True : Py_False);
    Py_DECREF(maker);
    return reduced;
}

/* ---- The type ---- */

PyObject *core_function_new(core_client *client, core_entry *entry)
{
    core_function *function = PyObject_GC_New(core_function, client->state->function_type);

    if (function == NULL)
        return NULL;
    function->client = (core_client *)Py_NewRef((PyObject *)client);
    function->entry = core_entry_keep(entry);
    PyObject_GC_Track(function);
    return (PyObject *)function;
}

/* No tp_clear: a cycle can only go through a subclass of the client, which has one. */
static int function_traverse(PyObject *self, visitproc visit, void *arg)
{
    Py_VISIT(Py_TYPE(self));
    Py_VISIT(((core_function *)self)->client);
    return 0;
}

static void function_dealloc(PyObject *self)
{
    core_function *function = (core_function *)self;
    PyTypeObject *type = Py_TYPE(self);

    PyObject_GC_UnTrack(self);
    core_entry_drop(function->entry);
    Py_DECREF((PyObject *)function->client);
    PyObject_GC_Del(self);
    Py_DECREF(type);
}

static PyGetSetDef function_getset[] = {
    {"__doc__", get_doc, NULL, NULL, NULL},
    {"__name__", get_name, NULL, NULL, NULL},
    {"__qualname__", get_name, NULL, NULL, NULL},
    {"__signature__", get_signature, NULL, NULL, NULL},
    {"description", get_description, NULL, "What the server's schema says about the function.", NULL},
    {"client", get_client, NULL, "The client through which it calls.", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyMethodDef function_methods[] = {
    {"__reduce__", function_reduce, METH_NOARGS, NULL},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot function_slots[] = {
    {Py_tp_dealloc, function_dealloc},
    {Py_tp_traverse, function_traverse},
    {Py_tp_call, function_call},
    {Py_tp_repr, function_repr},
    {Py_tp_methods, function_methods},
    {Py_tp_getset, function_getset},
    {0, NULL},
};

PyType_Spec core_function_spec = {
    .name = "nearcall.Function",
    .basicsize = sizeof(core_function),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_DISALLOW_INSTANTIATION
             | Py_TPFLAGS_IMMUTABLETYPE,
    .slots = function_slots,
};
