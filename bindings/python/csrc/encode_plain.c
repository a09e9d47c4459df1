/* Plain arguments: numbers, truths, short texts and bytes of the interpreter's own types, which fit and have no
 * code of their own. Nearly all calls have no others. They need no place for errors, no look at the time and no
 * signal's handler meanwhile, and the library takes them all at once. Whatever is not plain is the encoder's. */
#include "encode.h"

/* In characters or bytes. What is longer takes time to convert. */
#define PLAIN_LENGTH_MAX 4096

int core_is_plain_kind(core_kind kind)
{
    return kind == CORE_BOOL || kind == CORE_INT || kind == CORE_UINT || kind == CORE_FLOAT64
           || kind == CORE_STRING || kind == CORE_BYTES;
}

static int give_integer(const core_node *node, PyObject *value, nearcall_value *ret_value)
{
    int overflow;

    if (!PyLong_CheckExact(value))
        return 0;
    ret_value->type = NEARCALL_INT;
    ret_value->as.integer = PyLong_AsLongLongAndOverflow(value, &overflow);
    if (overflow != 0)
        return 0;
    if (node->kind == CORE_UINT)
        return ret_value->as.integer >= 0 && (uint64_t)ret_value->as.integer <= node->most;
    return ret_value->as.integer >= node->least && ret_value->as.integer <= (int64_t)node->most;
}

static int give_octets(int type, const char *data, Py_ssize_t bytes, nearcall_value *ret_value)
{
    ret_value->type = type;
    ret_value->as.data = (const uint8_t *)data;
    ret_value->count = (uint32_t)bytes;
    return 1;
}

static int give_text(PyObject *value, nearcall_value *ret_value)
{
    Py_ssize_t bytes;
    const char *data;

    if (!PyUnicode_CheckExact(value) || PyUnicode_GetLength(value) > PLAIN_LENGTH_MAX)
        return 0;
    data = PyUnicode_AsUTF8AndSize(value, &bytes);
    if (data != NULL)
        return give_octets(NEARCALL_STRING, data, bytes, ret_value);
    PyErr_Clear(); /* the encoder says why */
    return 0;
}

/* The value lasts as long as the argument. */
static int give_plain(const core_node *node, PyObject *value, nearcall_value *ret_value)
{
    switch (node->kind) {
    case CORE_BOOL:
        ret_value->type = NEARCALL_BOOL;
        ret_value->as.boolean = value == Py_True;
        return value == Py_True || value == Py_False;
    case CORE_INT:
    case CORE_UINT:
        return give_integer(node, value, ret_value);
    case CORE_FLOAT64:
        if (!PyFloat_CheckExact(value))
            return 0;
        ret_value->type = NEARCALL_FLOAT;
        ret_value->as.real = PyFloat_AsDouble(value);
        return 1;
    case CORE_STRING:
        return give_text(value, ret_value);
    case CORE_BYTES:
        return PyBytes_CheckExact(value) && PyBytes_Size(value) <= PLAIN_LENGTH_MAX
               && give_octets(NEARCALL_BYTES, PyBytes_AsString(value), PyBytes_Size(value), ret_value);
    default:
        return 0;
    }
}

size_t core_plain_values(const core_plan *plan, const core_arguments *arguments, nearcall_value *values)
{
    Py_ssize_t i, count = arguments->positional_count;

    if (!plan->is_plain || count != plan->param_count || arguments->names != NULL
        || (plan->has_timeout && arguments->is_timeout_named))
        return 0;
    values[0].type = NEARCALL_ARRAY;
    values[0].count = (uint32_t)count;
    for (i = 0; i < count; i++)
        if (!give_plain(plan->params[i].type, arguments->positional[i], &values[i + 1]))
            return 0;
    return (size_t)count + 1;
}
