/* What bounds the encoder where values have code of their own, or are large: the
 * call's deadline, and what fits a request. */
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

PyObject *core_encoder_collect(core_encoder *e, PyObject *iterable)
{
    PyObject *iterator, *item, *list = PyList_New(0);
    Py_ssize_t count = 0;

    if (list == NULL || core_encoder_look(e) < 0
        || (iterator = PyObject_GetIter(iterable)) == NULL) {
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

PyObject *core_encoder_collect_pairs(core_encoder *e, PyObject *mapping)
{
    PyObject *keys = PyObject_CallMethod(mapping, "keys", NULL);
    PyObject *list = keys == NULL ? NULL : core_encoder_collect(e, keys);
    PyObject *dict = list == NULL ? NULL : PyDict_New();
    Py_ssize_t i;

    for (i = 0; dict != NULL && i < PyList_Size(list); i++)
        if (collect_pair(e, mapping, PyList_GetItem(list, i), dict) < 0)
            Py_CLEAR(dict);
    Py_XDECREF(keys);
    Py_XDECREF(list);
    return dict;
}
