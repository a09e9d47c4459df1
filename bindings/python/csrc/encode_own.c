/* Which subclasses have code of their own for what they hold, and where values lie that can be read without any.
 * Classes are asked by type's own descriptors: no code of a metaclass runs, and none can lie. */
#include "encode.h"

PyObject *core_described(PyObject *descriptor, PyObject *object)
{
    descrgetfunc get = PyType_GetSlot(Py_TYPE(descriptor), Py_tp_descr_get);

    return get(descriptor, object, (PyObject *)Py_TYPE(object));
}

/* New reference; NULL without an exception: this class itself has none of that name. */
static PyObject *in_class(core_state *state, PyObject *class, PyObject *name)
{
    PyObject *names = core_described(state->names_of, class), *found = NULL;

    if (names != NULL && PySequence_Contains(names, name) == 1)
        found = PyObject_GetItem(names, name);
    Py_XDECREF(names);
    PyErr_Clear(); /* keys of such a dict may be odd, and then it has none of that name */
    return found;
}

/* What a class inherits from those before the end; NULL for the end is all. New reference, or NULL
 * without an exception. */
static PyObject *in_classes(core_encoder *e, PyTypeObject *type, PyTypeObject *end, PyObject *name)
{
    PyObject *classes = core_described(e->state->order_of, (PyObject *)type), *found = NULL, *class;
    Py_ssize_t i, count = classes == NULL ? 0 : PyTuple_Size(classes);

    core_encoder_charge(e, count);
    for (i = 0; i < count && found == NULL; i++) {
        class = PyTuple_GetItem(classes, i);
        if (class == (PyObject *)end)
            break;
        if (end == NULL || (PyType_GetFlags((PyTypeObject *)class) & Py_TPFLAGS_HEAPTYPE) != 0)
            found = in_class(e->state, class, name);
    }
    Py_XDECREF(classes);
    PyErr_Clear();
    return found;
}

/* Whether a subclass of dict has another method of that name. What cannot be called is none. */
static int has_own_method(core_encoder *e, PyObject *dict, PyObject *name, PyObject *common)
{
    PyObject *found = in_classes(e, Py_TYPE(dict), &PyDict_Type, name);
    int r = found != NULL && found != common && PyCallable_Check(found);

    Py_XDECREF(found);
    return r;
}

int core_encoder_has_own_keys(core_encoder *e, PyObject *dict)
{
    return has_own_method(e, dict, e->state->text_keys, e->state->dict_keys);
}

/* Most often many of one class come together, so the last class is known until code may run that changes it. It is
 * held: another could have its address. */
int core_encoder_lies_in_dict(core_encoder *e, PyObject *dict)
{
    PyTypeObject *type = Py_TYPE(dict), *former = e->plain_type;

    if (!core_encoder_is_of_python(dict) || (e->is_plain_type_known && former == type))
        return 1;
    if (core_encoder_has_own_keys(e, dict)
        || has_own_method(e, dict, e->state->text_getitem, e->state->dict_getitem))
        return 0;
    e->plain_type = (PyTypeObject *)Py_NewRef((PyObject *)type);
    e->is_plain_type_known = 1;
    Py_XDECREF((PyObject *)former);
    return 1;
}

int core_encoder_lies_in_list(PyObject *list)
{
    PyTypeObject *base = PyList_Check(list) ? &PyList_Type : &PyTuple_Type;

    return PyType_GetSlot(Py_TYPE(list), Py_tp_iter) == PyType_GetSlot(base, Py_tp_iter);
}

PyObject *core_encoder_held(core_encoder *e, PyObject *value, PyObject *name)
{
    PyObject *found = in_classes(e, Py_TYPE(value), NULL, name), *held = NULL;

    if (found != NULL
        && (Py_IS_TYPE(found, e->state->slot_type) || Py_IS_TYPE(found, e->state->place_type)))
        held = core_described(found, value);
    Py_XDECREF(found);
    PyErr_Clear(); /* a slot that is empty */
    return held;
}

PyObject *core_encoder_row(core_encoder *e, PyObject *value)
{
    PyObject *found = in_classes(e, Py_TYPE(value), NULL, e->state->text_data), *row = NULL;

    if (found != NULL && Py_IS_TYPE(found, e->state->getset_type))
        row = core_described(found, value);
    Py_XDECREF(found);
    PyErr_Clear();
    if (row != NULL && !PyTuple_CheckExact(row))
        Py_CLEAR(row);
    return row;
}
