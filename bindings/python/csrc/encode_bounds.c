/* What bounds the encoder where values have code of their own, or are large: the
 * call's deadline, what fits a request, and what a container had when it was come to. */
#include "encode.h"

#include "limits_gen.h"

int core_encoder_look(core_encoder *e)
{
    int64_t now_ms = core_monotonic_ms();
    int r;

    if (e->started_ms == 0)
        e->started_ms = now_ms;
    if (e->timeout_ms > 0 && now_ms - e->started_ms >= e->timeout_ms) {
        core_raise_format(e->state, NEARCALL_E_DEADLINE_EXCEEDED, NEARCALL_OUTCOME_NOT_EXECUTED,
                          "the deadline passed while the arguments were encoded");
        return -1;
    }
    r = nearcall_put_check(e->handle);
    if (r < 0)
        core_raise(e->state, e->handle, r);
    return r < 0 ? -1 : 0;
}

/* ---- What gives values ---- */

int core_pairs_take(core_pairs *pairs, PyObject *dict)
{
    Py_ssize_t position = 0, size = PyDict_Size(dict);
    PyObject *key, *value;

    *pairs = (core_pairs){NULL, 0};
    if (size < 0)
        return -1;
    pairs->items = PyMem_Malloc(((size_t)size * 2 + 1) * sizeof(*pairs->items));
    if (pairs->items == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    while (PyDict_Next(dict, &position, &key, &value)) {
        pairs->items[2 * pairs->count] = Py_NewRef(key);
        pairs->items[2 * pairs->count + 1] = Py_NewRef(value);
        pairs->count++;
    }
    return 0;
}

void core_pairs_drop(core_pairs *pairs)
{
    Py_ssize_t i;

    for (i = 0; i < 2 * pairs->count; i++)
        Py_DECREF(pairs->items[i]);
    PyMem_Free(pairs->items);
}

int core_encoder_is_of_python(PyObject *value)
{
    return (PyType_GetFlags(Py_TYPE(value)) & Py_TPFLAGS_HEAPTYPE) != 0;
}

/* An array of numpy without a dimension looks iterable, too. */
static PyObject *iterator_of(core_encoder *e, PyObject *iterable)
{
    PyObject *iterator = PyObject_GetIter(iterable);

    if (iterator == NULL && !core_encoder_is_of_python(iterable)
        && PyErr_ExceptionMatches(PyExc_TypeError))
        PyErr_SetNone(e->state->refusal);
    return iterator;
}

static PyObject *collect(core_encoder *e, PyObject *iterable)
{
    PyObject *iterator, *item, *list = PyList_New(0);
    Py_ssize_t count = 0;

    if (list == NULL || core_encoder_look(e) < 0
        || (iterator = iterator_of(e, iterable)) == NULL) {
        Py_XDECREF(list);
        return NULL;
    }
    while (list != NULL && (item = PyIter_Next(iterator)) != NULL) {
        if (PyList_Append(list, item) < 0 || core_encoder_look(e) < 0)
            Py_CLEAR(list);
        Py_DECREF(item);
        if (++count > NC_FRAME_BYTES_MAX_CEILING && list != NULL) {
            core_raise_format(e->state, NEARCALL_E_RESOURCE_EXHAUSTED,
                              NEARCALL_OUTCOME_NOT_EXECUTED,
                              "an iterable gives more values than the largest frame has bytes (%d)",
                              NC_FRAME_BYTES_MAX_CEILING);
            Py_CLEAR(list);
        }
    }
    Py_DECREF(iterator);
    if (PyErr_Occurred())
        Py_CLEAR(list);
    return list;
}

static int collect_pair(core_encoder *e, PyObject *mapping, PyObject *key, PyObject *dict)
{
    PyObject *value = PyObject_GetItem(mapping, key);
    int r = value == NULL ? -1 : PyDict_SetItem(dict, key, value);

    Py_XDECREF(value);
    return r == 0 ? core_encoder_look(e) : -1;
}

static PyObject *collect_pairs(core_encoder *e, PyObject *mapping)
{
    PyObject *keys = PyObject_CallMethod(mapping, "keys", NULL);
    PyObject *list = keys == NULL ? NULL : collect(e, keys);
    PyObject *dict = list == NULL ? NULL : PyDict_New();
    Py_ssize_t i;

    for (i = 0; dict != NULL && i < PyList_Size(list); i++)
        if (collect_pair(e, mapping, PyList_GetItem(list, i), dict) < 0)
            Py_CLEAR(dict);
    Py_XDECREF(keys);
    Py_XDECREF(list);
    return dict;
}

/* ---- Asking once ---- */

typedef PyObject *(*ask_function)(core_encoder *e, PyObject *value);

/* A mapping may be asked for the one as well as for the other, and gives different things. */
static PyObject *question(PyObject *value, ask_function ask)
{
    PyObject *address = PyLong_FromVoidPtr(value), *key = NULL;

    if (address != NULL)
        key = PyTuple_Pack(2, address, ask == collect_pairs ? Py_True : Py_False);
    Py_XDECREF(address);
    return key;
}

/* What was collected, or raised, stands with the value, whose address no other can have then. */
static int remember(core_encoder *e, PyObject *value, PyObject *key, PyObject *given)
{
    PyObject *error = given == NULL ? core_exception_take() : NULL;
    PyObject *pair = PyTuple_Pack(2, value, given == NULL ? error : given);
    int r = -1;

    if (pair != NULL && *e->asked == NULL)
        *e->asked = PyDict_New();
    if (pair != NULL && *e->asked != NULL)
        r = PyDict_SetItem(*e->asked, key, pair);
    Py_XDECREF(pair);
    if (r == 0)
        core_exception_set(error);
    else
        Py_XDECREF(error);
    return r;
}

static PyObject *remembered(PyObject *pair)
{
    PyObject *given = PyTuple_GetItem(pair, 1);

    if (!PyExceptionInstance_Check(given))
        return Py_NewRef(given);
    core_exception_set(Py_NewRef(given));
    return NULL;
}

static PyObject *ask_once(core_encoder *e, PyObject *value, ask_function ask)
{
    PyObject *key = question(value, ask), *pair = NULL, *given;

    if (key == NULL)
        return NULL;
    if (*e->asked != NULL)
        pair = PyDict_GetItemWithError(*e->asked, key);
    if (pair != NULL || PyErr_Occurred()) {
        Py_DECREF(key);
        return pair == NULL ? NULL : remembered(pair);
    }
    given = ask(e, value);
    if (remember(e, value, key, given) < 0)
        Py_CLEAR(given);
    Py_DECREF(key);
    return given;
}

int core_encoder_has(PyObject *value, const char *name)
{
    PyObject *attribute = PyObject_GetAttrString(value, name);

    if (attribute == NULL && PyErr_ExceptionMatches(PyExc_AttributeError))
        PyErr_Clear();
    Py_XDECREF(attribute);
    return attribute != NULL;
}

PyObject *core_encoder_collect(core_encoder *e, PyObject *iterable)
{
    return ask_once(e, iterable, collect);
}

PyObject *core_encoder_collect_pairs(core_encoder *e, PyObject *mapping)
{
    return ask_once(e, mapping, collect_pairs);
}
