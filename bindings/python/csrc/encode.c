/* Python values into the request buffer of a channel, as a plan says. */
#include "core.h"

#include <float.h>
#include <limits.h>
#include <math.h>

/* Where in the arguments the encoder is: a chain on the C stack, from the
 * innermost place outwards. Only an error ever reads it. */
typedef struct place {
    const struct place *outer;
    enum { ARGUMENT, ELEMENT, KEY, FIELD } kind;
    Py_ssize_t index;
    PyObject *name; /* ARGUMENT, FIELD; KEY: the key itself */
} place;

typedef struct encoder {
    core_state *state;
    nearcall_client *handle;
} encoder;

typedef int (*encode_function)(encoder *e, const core_node *node, PyObject *value,
                               const place *at);

static int encode_value(encoder *e, const core_node *node, PyObject *value, const place *at);

/* ---- Refusals: which argument, what came, what fits ---- */

static PyObject *describe_place(const place *at)
{
    PyObject *outer, *text;

    if (at->kind == ARGUMENT)
        return PyUnicode_FromFormat("argument %zd (%U)", at->index + 1, at->name);
    outer = describe_place(at->outer);
    if (outer == NULL)
        return NULL;
    if (at->kind == FIELD)
        text = PyUnicode_FromFormat("%U.%U", outer, at->name);
    else if (at->kind == KEY)
        text = PyUnicode_FromFormat("%U[%R]", outer, at->name);
    else
        text = PyUnicode_FromFormat("%U[%zd]", outer, at->index);
    Py_DECREF(outer);
    return text;
}

static PyObject *describe_type(const core_node *node)
{
    PyObject *inner, *text;

    if (node->kind == CORE_STRUCT)
        return PyUnicode_FromFormat("struct %U", node->structure->name);
    if (node->kind != CORE_LIST && node->kind != CORE_OPTIONAL)
        return PyUnicode_FromString(node->name);
    inner = describe_type(node->element);
    if (inner == NULL)
        return NULL;
    text = PyUnicode_FromFormat(node->kind == CORE_LIST ? "list of %U" : "optional %U", inner);
    Py_DECREF(inner);
    return text;
}

static PyObject *type_name(PyObject *value)
{
    return PyObject_GetAttrString((PyObject *)Py_TYPE(value), "__name__");
}

static int is_conversion_error(void)
{
    return PyErr_ExceptionMatches(PyExc_TypeError) || PyErr_ExceptionMatches(PyExc_ValueError)
           || PyErr_ExceptionMatches(PyExc_OverflowError)
           || PyErr_ExceptionMatches(PyExc_BufferError);
}

/* Raises InvalidArgument: "argument 1 (m): takes int64, got str; hint". What a
 * value's own code raised, and what is no conversion error, is left as it is. */
static int refuse(encoder *e, const core_node *node, PyObject *value, const place *at,
                  const char *hint)
{
    PyObject *where, *takes, *got;

    if (PyErr_Occurred()) {
        if (!is_conversion_error())
            return -1;
        PyErr_Clear();
    }
    where = describe_place(at);
    takes = where == NULL ? NULL : describe_type(node);
    got = takes == NULL ? NULL : type_name(value);
    if (got != NULL)
        core_raise_format(e->state, NEARCALL_E_INVALID_ARGUMENT, NEARCALL_OUTCOME_NOT_EXECUTED,
                          "%U: takes %U, got %U%s%s", where, takes, got,
                          hint == NULL ? "" : "; ", hint == NULL ? "" : hint);
    Py_XDECREF(where);
    Py_XDECREF(takes);
    Py_XDECREF(got);
    return -1;
}

/* ---- Scalars ---- */

static int encode_bool(encoder *e, const core_node *node, PyObject *value, const place *at)
{
    if (!PyBool_Check(value))
        return refuse(e, node, value, at, "use bool(value) if its truth is meant");
    nearcall_put_bool(e->handle, value == Py_True);
    return 0;
}

static int refuse_range(encoder *e, const core_node *node, PyObject *value, const place *at)
{
    PyObject *where = describe_place(at);

    if (where == NULL)
        return -1;
    if (node->kind == CORE_UINT)
        core_raise_format(e->state, NEARCALL_E_INVALID_ARGUMENT, NEARCALL_OUTCOME_NOT_EXECUTED,
                          "%U: %R does not fit %s (0 to %llu)", where, value, node->name,
                          (unsigned long long)node->most);
    else
        core_raise_format(e->state, NEARCALL_E_INVALID_ARGUMENT, NEARCALL_OUTCOME_NOT_EXECUTED,
                          "%U: %R does not fit %s (%lld to %llu)", where, value, node->name,
                          (long long)node->least, (unsigned long long)node->most);
    Py_DECREF(where);
    return -1;
}

static int put_int(encoder *e, const core_node *node, PyObject *number, const place *at)
{
    int overflow;
    long long integer = PyLong_AsLongLongAndOverflow(number, &overflow);

    if (overflow != 0 || integer < node->least || integer > (long long)node->most)
        return refuse_range(e, node, number, at);
    nearcall_put_int(e->handle, integer);
    return 0;
}

static int put_uint(encoder *e, const core_node *node, PyObject *number, const place *at)
{
    unsigned long long integer = PyLong_AsUnsignedLongLong(number);

    if (integer == (unsigned long long)-1 && PyErr_Occurred()) {
        if (!PyErr_ExceptionMatches(PyExc_OverflowError))
            return -1;
        PyErr_Clear();
        return refuse_range(e, node, number, at);
    }
    if (integer > node->most)
        return refuse_range(e, node, number, at);
    nearcall_put_uint(e->handle, integer);
    return 0;
}

static int encode_integer(encoder *e, const core_node *node, PyObject *value, const place *at)
{
    encode_function put = node->kind == CORE_INT ? put_int : put_uint;
    PyObject *number;
    int r;

    if (PyLong_Check(value))
        return put(e, node, value, at);
    number = PyNumber_Index(value);
    if (number == NULL)
        return refuse(e, node, value, at, PyFloat_Check(value) ? "use int(value)" : NULL);
    r = put(e, node, number, at);
    Py_DECREF(number);
    return r;
}

static int encode_float(encoder *e, const core_node *node, PyObject *value, const place *at)
{
    double real = PyFloat_AsDouble(value);

    if (real == -1.0 && PyErr_Occurred())
        return refuse(e, node, value, at, NULL);
    if (node->kind == CORE_FLOAT64)
        nearcall_put_double(e->handle, real);
    else if (isfinite(real) && fabs(real) > FLT_MAX)
        return refuse(e, node, value, at, "the number is beyond the range of float32");
    else
        nearcall_put_float(e->handle, (float)real);
    return 0;
}

static int encode_string(encoder *e, const core_node *node, PyObject *value, const place *at)
{
    Py_ssize_t bytes;
    const char *text;

    if (!PyUnicode_Check(value))
        return refuse(e, node, value, at, PyBytes_Check(value) ? "decode the bytes first" : NULL);
    text = PyUnicode_AsUTF8AndSize(value, &bytes);
    if (text == NULL)
        return refuse(e, node, value, at, "the text has no UTF-8 form");
    nearcall_put_string(e->handle, text, (size_t)bytes);
    return 0;
}

static int encode_bytes(encoder *e, const core_node *node, PyObject *value, const place *at)
{
    Py_buffer view;

    if (PyObject_GetBuffer(value, &view, PyBUF_SIMPLE) < 0)
        return refuse(e, node, value, at, PyUnicode_Check(value) ? "encode the text first" : NULL);
    nearcall_put_bytes(e->handle, view.buf, (size_t)view.len);
    PyBuffer_Release(&view);
    return 0;
}

static int encode_time(encoder *e, const core_node *node, PyObject *value, const place *at)
{
    uint32_t nanoseconds;
    int64_t seconds;

    if (core_time_from_python(e->state, value, &seconds, &nanoseconds) < 0)
        return refuse(e, node, value, at, "a datetime.datetime with a time zone is needed");
    nearcall_put_time(e->handle, seconds, nanoseconds);
    return 0;
}

static int encode_duration(encoder *e, const core_node *node, PyObject *value, const place *at)
{
    int64_t nanoseconds;

    if (core_duration_from_python(e->state, value, &nanoseconds) < 0)
        return refuse(e, node, value, at,
                      "a datetime.timedelta or a number of seconds within 292 years is needed");
    nearcall_put_int(e->handle, nanoseconds);
    return 0;
}

/* What the value's own code raises as a conversion error is refused. */
static int encode_file(encoder *e, const core_node *node, PyObject *value, const place *at)
{
    PyObject *number = NULL;
    long fd = -1;

    if (PyObject_HasAttrString(value, "fileno"))
        number = PyObject_CallFunctionObjArgs(e->state->descriptor_of, value, NULL);
    if (number != NULL)
        fd = PyLong_AsLong(number);
    Py_XDECREF(number);
    if (fd < 0 || fd > INT_MAX)
        return refuse(e, node, value, at, "something open with fileno() is needed");
    nearcall_put_file(e->handle, (int)fd);
    return 0;
}

/* ---- Lists and maps ---- */

/* The list may shrink while its elements' own code runs: then the index fails. */
static int encode_elements(encoder *e, const core_node *element, PyObject *list, const place *at)
{
    int is_list = PyList_Check(list);
    Py_ssize_t count = is_list ? PyList_Size(list) : PyTuple_Size(list);
    place here = {.outer = at, .kind = ELEMENT};
    int r = 0;

    nearcall_put_array(e->handle, (uint32_t)count);
    for (here.index = 0; here.index < count && r == 0; here.index++) {
        PyObject *item = is_list ? PyList_GetItem(list, here.index)
                                 : PyTuple_GetItem(list, here.index);

        if (item == NULL)
            return -1;
        Py_INCREF(item);
        r = encode_value(e, element, item, &here);
        Py_DECREF(item);
    }
    return r;
}

static int is_text_or_mapping(PyObject *value)
{
    return PyUnicode_Check(value) || PyBytes_Check(value) || PyByteArray_Check(value)
           || PyDict_Check(value);
}

static int encode_list(encoder *e, const core_node *node, PyObject *value, const place *at)
{
    PyObject *list;
    int r;

    if (PyList_Check(value) || PyTuple_Check(value))
        return encode_elements(e, node->element, value, at);
    list = is_text_or_mapping(value) ? NULL : PySequence_List(value);
    if (list == NULL)
        return refuse(e, node, value, at, NULL);
    r = encode_elements(e, node->element, list, at);
    Py_DECREF(list);
    return r;
}

static int encode_pair(encoder *e, const core_node *node, PyObject *key, PyObject *value,
                       const place *at)
{
    place here = {.outer = at, .kind = KEY, .name = key};
    int r;

    Py_INCREF(key);
    Py_INCREF(value);
    r = encode_value(e, node->key, key, &here);
    if (r == 0)
        r = encode_value(e, node->element, value, &here);
    Py_DECREF(key);
    Py_DECREF(value);
    return r;
}

static int encode_dict(encoder *e, const core_node *node, PyObject *dict, const place *at)
{
    Py_ssize_t count = PyDict_Size(dict), position = 0, done = 0;
    PyObject *key, *value;

    nearcall_put_map(e->handle, (uint32_t)count);
    while (done < count && PyDict_Next(dict, &position, &key, &value)) {
        if (encode_pair(e, node, key, value, at) < 0)
            return -1;
        done++;
    }
    if (done == count && PyDict_Size(dict) == count)
        return 0;
    PyErr_SetString(PyExc_RuntimeError, "dictionary changed size while it was sent");
    return -1;
}

static int encode_map(encoder *e, const core_node *node, PyObject *value, const place *at)
{
    PyObject *dict;
    int r;

    if (PyDict_Check(value))
        return encode_dict(e, node, value, at);
    dict = PyDict_New();
    if (dict == NULL)
        return -1;
    if (!PyObject_HasAttrString(value, "keys") || PyDict_Update(dict, value) < 0)
        r = refuse(e, node, value, at, NULL);
    else
        r = encode_dict(e, node, dict, at);
    Py_DECREF(dict);
    return r;
}

/* ---- Structs: a dict with the fields as keys, or an object with attributes ---- */

static int refuse_key(encoder *e, const core_struct *structure, PyObject *dict, const place *at)
{
    PyObject *key, *value, *where;
    Py_ssize_t position = 0, i;

    while (PyDict_Next(dict, &position, &key, &value)) {
        for (i = 0; i < structure->field_count; i++)
            if (PyObject_RichCompareBool(structure->fields[i].name, key, Py_EQ) != 0)
                break;
        if (i == structure->field_count)
            break;
    }
    where = PyErr_Occurred() ? NULL : describe_place(at);
    if (where != NULL)
        core_raise_format(e->state, NEARCALL_E_INVALID_ARGUMENT, NEARCALL_OUTCOME_NOT_EXECUTED,
                          "%U: struct %U has no field %R", where, structure->name, key);
    Py_XDECREF(where);
    return -1;
}

/* New reference; NULL without an exception when the object has no such field. */
static PyObject *field_of(PyObject *value, int is_dict, PyObject *name)
{
    PyObject *field;

    if (is_dict) {
        field = PyDict_GetItemWithError(value, name);
        return Py_XNewRef(field);
    }
    field = PyObject_GetAttr(value, name);
    if (field == NULL && PyErr_ExceptionMatches(PyExc_AttributeError))
        PyErr_Clear();
    return field;
}

static int collect_fields(const core_struct *structure, PyObject *value, int is_dict,
                          PyObject **fields, Py_ssize_t *ret_count)
{
    Py_ssize_t i;

    *ret_count = 0;
    for (i = 0; i < structure->field_count; i++) {
        fields[i] = field_of(value, is_dict, structure->fields[i].name);
        if (fields[i] == NULL && PyErr_Occurred())
            return -1;
        *ret_count += fields[i] != NULL;
    }
    return 0;
}

static int put_fields(encoder *e, const core_struct *structure, PyObject **fields,
                      Py_ssize_t count, const place *at)
{
    place here = {.outer = at, .kind = FIELD};
    Py_ssize_t i;

    nearcall_put_map(e->handle, (uint32_t)count);
    for (i = 0; i < structure->field_count; i++) {
        const core_field *field = &structure->fields[i];

        if (fields[i] == NULL)
            continue;
        here.name = field->name;
        nearcall_put_string(e->handle, field->text, (size_t)field->text_bytes);
        if (encode_value(e, field->type, fields[i], &here) < 0)
            return -1;
    }
    return 0;
}

static int encode_struct(encoder *e, const core_node *node, PyObject *value, const place *at)
{
    const core_struct *structure = node->structure;
    int is_dict = PyDict_Check(value);
    PyObject **fields = PyMem_Calloc((size_t)structure->field_count + 1, sizeof(*fields));
    Py_ssize_t count, i;
    int r;

    if (fields == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    r = collect_fields(structure, value, is_dict, fields, &count);
    if (r == 0 && is_dict && count != PyDict_Size(value))
        r = refuse_key(e, structure, value, at);
    else if (r == 0 && !is_dict && count == 0)
        r = refuse(e, node, value, at, "a dict or an object with the fields as attributes is needed");
    else if (r == 0)
        r = put_fields(e, structure, fields, count, at);
    for (i = 0; i < structure->field_count; i++)
        Py_XDECREF(fields[i]);
    PyMem_Free(fields);
    return r;
}

static int encode_optional(encoder *e, const core_node *node, PyObject *value, const place *at)
{
    if (value != Py_None)
        return encode_value(e, node->element, value, at);
    nearcall_put_nil(e->handle);
    return 0;
}

/* ---- Values without a type of their own ---- */

static const core_node any_node = {.kind = CORE_ANY, .name = "any"};

/* The node that writes a value as what it is in Python; NULL when none does. */
static const core_node *node_for(encoder *e, PyObject *value)
{
    static const core_node
        boolean = {.kind = CORE_BOOL, .name = "bool"},
        integer = {.kind = CORE_INT, .name = "int64", .least = INT64_MIN, .most = INT64_MAX},
        natural = {.kind = CORE_UINT, .name = "uint64", .most = UINT64_MAX},
        real = {.kind = CORE_FLOAT64, .name = "float64"},
        string = {.kind = CORE_STRING, .name = "string"},
        bytes = {.kind = CORE_BYTES, .name = "bytes"},
        list = {.kind = CORE_LIST, .name = "list", .element = &any_node},
        map = {.kind = CORE_MAP, .name = "map", .key = &any_node, .element = &any_node},
        moment = {.kind = CORE_TIME, .name = "time"},
        duration = {.kind = CORE_DURATION, .name = "duration"};
    int overflow = 0;

    if (PyBool_Check(value))
        return &boolean;
    if (PyLong_Check(value)) {
        (void)PyLong_AsLongLongAndOverflow(value, &overflow);
        return overflow > 0 ? &natural : &integer;
    }
    if (PyFloat_Check(value))
        return &real;
    if (PyUnicode_Check(value))
        return &string;
    if (PyList_Check(value) || PyTuple_Check(value))
        return &list;
    if (PyDict_Check(value))
        return &map;
    if (PyBytes_Check(value) || PyObject_CheckBuffer(value))
        return &bytes;
    if (PyObject_IsInstance(value, e->state->datetime_type) == 1)
        return &moment;
    if (PyObject_IsInstance(value, e->state->timedelta_type) == 1)
        return &duration;
    return NULL;
}

static int encode_any(encoder *e, const core_node *node, PyObject *value, const place *at)
{
    const core_node *own;

    if (value == Py_None) {
        nearcall_put_nil(e->handle);
        return 0;
    }
    own = node_for(e, value);
    if (own == NULL)
        return refuse(e, node, value, at,
                      "None, bool, int, float, str, bytes, list, dict, datetime and timedelta "
                      "can be sent; convert it to one of them");
    return encode_value(e, own, value, at);
}

static int encode_value(encoder *e, const core_node *node, PyObject *value, const place *at)
{
    static const encode_function functions[CORE_KINDS] = {
        [CORE_BOOL] = encode_bool, [CORE_INT] = encode_integer, [CORE_UINT] = encode_integer,
        [CORE_FLOAT32] = encode_float, [CORE_FLOAT64] = encode_float,
        [CORE_STRING] = encode_string, [CORE_BYTES] = encode_bytes, [CORE_TIME] = encode_time,
        [CORE_DURATION] = encode_duration, [CORE_FILE] = encode_file,
        [CORE_CONNECTION] = encode_file, [CORE_ANY] = encode_any, [CORE_LIST] = encode_list,
        [CORE_MAP] = encode_map, [CORE_OPTIONAL] = encode_optional,
        [CORE_STRUCT] = encode_struct,
    };
    int r;

    if (node->kind < CORE_ANY)
        return functions[node->kind](e, node, value, at);
    if (Py_EnterRecursiveCall(" in an argument"))
        return -1;
    r = functions[node->kind](e, node, value, at);
    Py_LeaveRecursiveCall();
    return r;
}

int core_encode_argument(core_state *state, nearcall_client *handle, const core_field *param,
                         Py_ssize_t index, PyObject *value)
{
    encoder e = {.state = state, .handle = handle};
    place here = {.kind = ARGUMENT, .index = index, .name = param->name};

    if (encode_value(&e, param->type, value, &here) == 0)
        return 0;
    /* Not reported where it happens: down there no Python code can run. */
    if (PyErr_ExceptionMatches(PyExc_RecursionError))
        core_raise_from_current(state, NEARCALL_E_INVALID_ARGUMENT, NEARCALL_OUTCOME_NOT_EXECUTED,
                                "an argument is nested too deeply");
    return -1;
}

/* A raw function's only argument travels as the bytes it is. */
int core_encode_raw(core_state *state, nearcall_client *handle, const core_field *param,
                    PyObject *value)
{
    encoder e = {.state = state, .handle = handle};
    place here = {.kind = ARGUMENT, .index = 0, .name = param->name};
    Py_buffer view;

    if (PyObject_GetBuffer(value, &view, PyBUF_SIMPLE) < 0)
        return refuse(&e, param->type, value, &here,
                      PyUnicode_Check(value) ? "encode the text first" : NULL);
    nearcall_put_raw(handle, view.buf, (size_t)view.len);
    PyBuffer_Release(&view);
    return 0;
}
