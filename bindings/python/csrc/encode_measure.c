/* How much of a frame a value takes at least, and whether it can never fit its type. Only what runs no code of the
 * value's own is looked at: what iterables and mappings give is measured before any of it is encoded. */
#include "encode.h"

#include "limits_gen.h"

/* What their forms of MessagePack take. */
#define HEAD_BYTES 1
#define FLOAT32_BYTES 5
#define FLOAT64_BYTES 9
#define TIME_BYTES_LEAST 6

typedef struct measure {
    core_encoder *e;
    int64_t bytes;
    int64_t bytes_max; /* beyond it nothing more is looked at */
    int depth;
    int has_failed;    /* the exception that is set ends the call */
    int is_misfit;
} measure;

static void measure_value(measure *m, const core_node *node, PyObject *value);

static int goes_on(const measure *m)
{
    return !m->has_failed && !m->is_misfit && m->bytes <= m->bytes_max;
}

static void measure_integer(measure *m, PyObject *value)
{
    int overflow = 0;
    long long integer = PyLong_Check(value) ? PyLong_AsLongLongAndOverflow(value, &overflow) : 0;

    if (overflow != 0 || integer < INT32_MIN || integer > UINT32_MAX)
        m->bytes += 8;
    else if (integer < INT16_MIN || integer > UINT16_MAX)
        m->bytes += 4;
    else if (integer < INT8_MIN || integer > UINT8_MAX)
        m->bytes += 2;
}

static void measure_bytes(measure *m, PyObject *value)
{
    Py_buffer view;

    if (PyBytes_Check(value)) {
        m->bytes += PyBytes_Size(value);
    } else if (PyObject_CheckBuffer(value) && !core_encoder_is_of_python(value)) {
        if (PyObject_GetBuffer(value, &view, PyBUF_SIMPLE) < 0) {
            PyErr_Clear(); /* it is refused when it is come to */
            return;
        }
        m->bytes += view.len;
        PyBuffer_Release(&view);
    }
}

/* Items are held: odd classes may run code where they are asked what they have, and change what they are in. */
static void measure_list(measure *m, const core_node *element, PyObject *list)
{
    int is_list = PyList_Check(list);
    PyObject *item;
    Py_ssize_t i;

    for (i = 0; goes_on(m) && i < (is_list ? PyList_Size(list) : PyTuple_Size(list)); i++) {
        item = Py_NewRef(is_list ? PyList_GetItem(list, i) : PyTuple_GetItem(list, i));
        measure_value(m, element, item);
        Py_DECREF(item);
    }
}

static void measure_pair(measure *m, const core_node *key_node, PyObject *key, const core_node *element,
                         PyObject *value)
{
    Py_INCREF(key);
    Py_INCREF(value);
    measure_value(m, key_node, key);
    measure_value(m, element, value);
    Py_DECREF(key);
    Py_DECREF(value);
}

static void measure_dict(measure *m, const core_node *key_node, const core_node *element,
                         PyObject *dict)
{
    core_walk walk = core_walk_of(dict);
    PyObject *key, *value;

    while (goes_on(m) && core_walk_next(m->e, &walk, &key, &value))
        measure_pair(m, key_node, key, element, value);
}

/* ---- What can never fit ---- */

static int is_number(PyObject *value)
{
    return PyLong_CheckExact(value) || PyBool_Check(value) || PyFloat_CheckExact(value);
}

static int is_container(PyObject *value)
{
    return PyDict_CheckExact(value) || PyList_CheckExact(value) || PyTuple_CheckExact(value);
}

/* Of Python's own classes, which have no code of the program's. */
static int is_known(PyObject *value)
{
    return is_number(value) || is_container(value) || PyUnicode_CheckExact(value) || PyBytes_CheckExact(value)
           || value == Py_None;
}

/* 0 only for what the encoder refuses in any case. It takes an object for a struct whose attributes are the fields,
 * and numbers have some. */
static int can_fit(core_kind kind, PyObject *value)
{
    if (!is_known(value))
        return 1;
    switch (kind) {
    case CORE_BOOL: return PyBool_Check(value);
    case CORE_INT:
    case CORE_UINT: return is_number(value) && !PyFloat_CheckExact(value);
    case CORE_FLOAT32:
    case CORE_FLOAT64:
    case CORE_DURATION: return is_number(value);
    case CORE_STRING: return PyUnicode_CheckExact(value);
    case CORE_BYTES: return PyBytes_CheckExact(value);
    case CORE_TIME:
    case CORE_FILE:
    case CORE_CONNECTION: return 0;
    case CORE_LIST: return is_container(value) && !PyDict_CheckExact(value);
    case CORE_MAP: return PyDict_CheckExact(value);
    case CORE_STRUCT: return PyDict_CheckExact(value) || is_number(value);
    default: return 1;
    }
}

/* ---- Containers ---- */

/* A mapping with what is no field is refused. So is an object, unless the name begins with an underscore. */
static void measure_fields(measure *m, const core_struct *structure, PyObject *dict, int is_mapping)
{
    core_walk walk = core_walk_of(dict);
    const core_field *field;
    PyObject *key, *value;

    while (goes_on(m) && core_walk_next(m->e, &walk, &key, &value)) {
        field = core_struct_field(m->e, structure, key);
        if (field == NULL) {
            m->is_misfit |= is_mapping;
            continue;
        }
        m->bytes += field->text_bytes;
        Py_INCREF(value);
        measure_value(m, field->type, value);
        Py_DECREF(value);
    }
}

/* What lies in slots and in places of a named tuple. */
static void measure_held(measure *m, const core_struct *structure, PyObject *value)
{
    const core_field *field;
    PyObject *held;
    Py_ssize_t i;

    for (i = 0; i < structure->field_count && goes_on(m); i++) {
        field = &structure->fields[i];
        held = core_encoder_held(m->e, value, field->name);
        if (held == NULL)
            continue;
        m->bytes += field->text_bytes;
        measure_value(m, field->type, held);
        Py_DECREF(held);
    }
}

/* A row is sent with all that it has, or not at all. */
static void measure_row(measure *m, PyObject *value)
{
    PyObject *row = core_encoder_row(m->e, value);

    if (row != NULL)
        measure_list(m, NULL, row);
    Py_XDECREF(row);
}

static void measure_object(measure *m, const core_struct *structure, PyObject *value)
{
    PyObject *dict = PyObject_GenericGetDict(value, NULL);

    if (dict != NULL) {
        measure_fields(m, structure, dict, 0);
        Py_DECREF(dict);
        return;
    }
    PyErr_Clear();
    measure_held(m, structure, value);
    if (goes_on(m))
        measure_row(m, value);
}

static void measure_struct(measure *m, const core_struct *structure, PyObject *value)
{
    if (core_encoder_is_dict(m->e, value))
        measure_fields(m, structure, value, 1);
    else if (!PyDict_Check(value)) /* else it is asked when it is come to */
        measure_object(m, structure, value);
}

static void measure_any(measure *m, PyObject *value)
{
    if (PyLong_Check(value) && !PyBool_Check(value))
        measure_integer(m, value);
    else if (PyFloat_Check(value))
        m->bytes += FLOAT64_BYTES - HEAD_BYTES;
    else if (PyUnicode_Check(value))
        m->bytes += PyUnicode_GetLength(value);
    else if (core_encoder_is_list(value))
        measure_list(m, NULL, value);
    else if (core_encoder_is_dict(m->e, value))
        measure_dict(m, NULL, NULL, value);
    else
        measure_bytes(m, value);
}

static void measure_composite(measure *m, const core_node *node, PyObject *value)
{
    if (node->kind == CORE_STRUCT)
        measure_struct(m, node->structure, value);
    else if (node->kind == CORE_MAP && core_encoder_is_dict(m->e, value))
        measure_dict(m, node->key, node->element, value);
    else if (node->kind == CORE_LIST && core_encoder_is_list(value))
        measure_list(m, node->element, value);
}

static void measure_scalar(measure *m, core_kind kind, PyObject *value)
{
    if (kind == CORE_INT || kind == CORE_UINT)
        measure_integer(m, value);
    else if (kind == CORE_FLOAT32 || kind == CORE_FLOAT64)
        m->bytes += (kind == CORE_FLOAT32 ? FLOAT32_BYTES : FLOAT64_BYTES) - HEAD_BYTES;
    else if (kind == CORE_TIME)
        m->bytes += TIME_BYTES_LEAST - HEAD_BYTES;
    else if (kind == CORE_STRING && PyUnicode_Check(value))
        m->bytes += PyUnicode_GetLength(value);
    else if (kind == CORE_BYTES)
        measure_bytes(m, value);
}

/* What is a number of a class unknown here may take a byte, and there may be as many as fit. */
static int is_empty(PyObject *value)
{
    return is_container(value)
           || (!is_known(value) && !PyIndex_Check(value)
               && PyType_GetSlot(Py_TYPE(value), Py_nb_float) == NULL);
}

static void measure_parts(measure *m, const core_node *node, PyObject *value)
{
    int64_t former = m->bytes;

    if (node == NULL || node->kind == CORE_ANY)
        measure_any(m, value);
    else
        measure_composite(m, node, value);
    if (m->bytes == former && is_empty(value))
        m->bytes += CORE_EMPTY_BYTES - HEAD_BYTES;
}

static void measure_value(measure *m, const core_node *node, PyObject *value)
{
    if (node != NULL && node->kind == CORE_OPTIONAL && value != Py_None) {
        measure_value(m, node->element, value);
        return;
    }
    m->bytes += HEAD_BYTES;
    m->has_failed = m->has_failed || core_encoder_next(m->e) < 0;
    m->is_misfit = m->is_misfit || (node != NULL && !can_fit(node->kind, value));
    if (m->has_failed || m->is_misfit || m->depth >= NC_NESTING_DEPTH_MAX)
        return;
    m->depth++;
    if (node != NULL && node->kind < CORE_ANY)
        measure_scalar(m, node->kind, value);
    else
        measure_parts(m, node, value);
    m->depth--;
}

int core_encoder_measure(core_encoder *e, const core_node *node, PyObject *value, int64_t *bytes)
{
    int64_t most = (int64_t)nearcall_request_bytes_max(e->handle);
    measure m = {.e = e, .bytes = *bytes, .bytes_max = most};

    measure_value(&m, node, value);
    *bytes = m.bytes;
    if (m.has_failed || m.bytes <= m.bytes_max)
        return m.has_failed ? -1 : m.is_misfit;
    e->has_refused = 1;
    core_raise_format(e->state, NEARCALL_E_RESOURCE_EXHAUSTED, NEARCALL_OUTCOME_NOT_EXECUTED,
                      "an iterable or mapping gives more than the %lld bytes that any %s may have, each empty "
                      "value counted as %d (limit %s_bytes_max)", (long long)most, core_request_unit(e),
                      CORE_EMPTY_BYTES, core_request_unit(e));
    return -1;
}
