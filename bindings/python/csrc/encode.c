/* Python values into the request buffer of a channel, as a plan says.
 *
 * Values may have code of their own, which may do anything: change what is being
 * encoded, call the same client, take its time. So whatever is walked is held, what was
 * borrowed is not used after such code ran, and core_encoder_look() is asked before it runs. */
#include "encode.h"

#include "limits_gen.h"

#include <float.h>
#include <limits.h>
#include <math.h>

#define WHOLE_NUMBERS_END 0x1p53 /* from there on a float64 has not every whole number */

/* ---- Scalars ---- */

static int encode_bool(core_encoder *e, const core_node *node, PyObject *value, const core_place *at)
{
    PyObject *truth;

    if (PyBool_Check(value)) {
        nearcall_put_bool(e->handle, value == Py_True);
        return 0;
    }
    if (core_encoder_look(e) < 0)
        return -1;
    truth = PyObject_CallFunctionObjArgs(e->state->boolean_of, value, NULL);
    if (truth == NULL)
        return core_refuse(e, node, value, at, "use bool(value) if its truth is meant");
    nearcall_put_bool(e->handle, truth == Py_True);
    Py_DECREF(truth);
    return 0;
}

static int put_int(core_encoder *e, const core_node *node, PyObject *number, const core_place *at)
{
    int overflow;
    long long integer = PyLong_AsLongLongAndOverflow(number, &overflow);

    if (overflow != 0 || integer < node->least || integer > (long long)node->most)
        return core_refuse_range(e, node, number, at);
    nearcall_put_int(e->handle, integer);
    return 0;
}

static int put_uint(core_encoder *e, const core_node *node, PyObject *number, const core_place *at)
{
    unsigned long long integer = PyLong_AsUnsignedLongLong(number);

    if (integer == (unsigned long long)-1 && PyErr_Occurred()) {
        if (!PyErr_ExceptionMatches(PyExc_OverflowError))
            return -1;
        PyErr_Clear();
        return core_refuse_range(e, node, number, at);
    }
    if (integer > node->most)
        return core_refuse_range(e, node, number, at);
    nearcall_put_uint(e->handle, integer);
    return 0;
}

/* Classes made in Python, as numpy's masked arrays are, may have no value; numpy's own numbers
 * always have one and take the short way. New reference. */
static PyObject *integer_of(core_encoder *e, PyObject *value)
{
    if (core_encoder_is_of_python(value))
        return PyObject_CallFunctionObjArgs(e->state->integer_of, value, NULL);
    return PyNumber_Index(value);
}

static int encode_integer(core_encoder *e, const core_node *node, PyObject *value, const core_place *at)
{
    core_encode_function put = node->kind == CORE_INT ? put_int : put_uint;
    PyObject *number;
    int r;

    if (PyLong_Check(value))
        return put(e, node, value, at);
    if (!PyIndex_Check(value))
        return core_refuse(e, node, value, at, PyFloat_Check(value) ? "use int(value)" : NULL);
    if (core_encoder_look(e) < 0)
        return -1;
    number = integer_of(e, value);
    if (number == NULL)
        return core_encoder_is_of_python(value)
                   ? core_refuse(e, node, value, at, NULL)
                   : core_refuse_because(e, node, value, at, PyExc_TypeError, NULL);
    r = put(e, node, number, at);
    Py_DECREF(number);
    return r;
}

static const char *hint_of_range(const core_node *node)
{
    return node->kind == CORE_FLOAT32 ? "the number is beyond the range of float32 (-3.4e38 to 3.4e38)"
                                      : "the number is beyond the range of float64 (-1.8e308 to 1.8e308)";
}

/* A value as a float; -1 with an exception set. */
static int real_of(core_encoder *e, const core_node *node, PyObject *value, const core_place *at,
                   double *ret_real)
{
    PyObject *number;

    if (PyFloat_Check(value) || PyLong_Check(value)) {
        /* Without the code that a subclass of int may have for it. */
        *ret_real = PyFloat_Check(value) ? PyFloat_AsDouble(value) : PyLong_AsDouble(value);
        if (*ret_real == -1.0 && PyErr_Occurred())
            return core_refuse_because(e, node, value, at, PyExc_OverflowError, hint_of_range(node));
        if (PyFloat_Check(value) || fabs(*ret_real) < WHOLE_NUMBERS_END)
            return 0;
    }
    if (core_encoder_look(e) < 0)
        return -1;
    number = PyObject_CallFunctionObjArgs(e->state->number_of, value, NULL);
    if (number == NULL)
        return core_refuse(e, node, value, at, NULL);
    *ret_real = PyFloat_AsDouble(number);
    Py_DECREF(number);
    return 0;
}

static int encode_float(core_encoder *e, const core_node *node, PyObject *value,
                        const core_place *at)
{
    double real;

    if (real_of(e, node, value, at, &real) < 0)
        return -1;
    if (node->kind == CORE_FLOAT64)
        nearcall_put_double(e->handle, real);
    else if (isfinite(real) && fabs(real) > FLT_MAX)
        return core_refuse(e, node, value, at, hint_of_range(node));
    else
        nearcall_put_float(e->handle, (float)real);
    return 0;
}

static int encode_string(core_encoder *e, const core_node *node, PyObject *value, const core_place *at)
{
    PyObject *text;
    int r;

    if (PyUnicode_Check(value))
        return core_put_text(e, node, value, at);
    if (!core_encoder_is_of_python(value))
        return core_refuse(e, node, value, at, PyBytes_Check(value) ? "decode the bytes first" : NULL);
    if (core_encoder_look(e) < 0)
        return -1;
    text = PyObject_CallFunctionObjArgs(e->state->text_of, value, NULL);
    if (text == NULL)
        return core_refuse(e, node, value, at, PyBytes_Check(value) ? "decode the bytes first" : NULL);
    r = core_put_text(e, node, text, at);
    Py_DECREF(text);
    return r;
}

/* What bytes have cannot change, so that whoever has the bytes need not hold it. */
static int view_bytes(PyObject *value, Py_buffer *ret_view)
{
    ret_view->obj = NULL; /* there is nothing to release */
    ret_view->buf = PyBytes_AsString(value);
    ret_view->len = PyBytes_Size(value);
    return 0;
}

/* Bytes and bytearrays are; of other buffers, those that hold bytes. The value outlives the view. */
int core_bytes_of(core_state *state, PyObject *value, Py_buffer *ret_view)
{
    PyObject *view;
    int r;

    if (PyBytes_Check(value))
        return view_bytes(value, ret_view);
    if (PyByteArray_Check(value))
        return PyObject_GetBuffer(value, ret_view, PyBUF_SIMPLE);
    view = PyObject_CallFunctionObjArgs(state->buffer_of, value, NULL);
    if (view == NULL)
        return -1;
    r = PyObject_GetBuffer(view, ret_view, PyBUF_SIMPLE);
    Py_DECREF(view);
    return r;
}

/* The same within a call, whose time it takes. */
static int bytes_of(core_encoder *e, const core_node *node, PyObject *value, const core_place *at,
                    Py_buffer *ret_view)
{
    if (PyBytes_CheckExact(value)) {
        view_bytes(value, ret_view);
    } else if (!PyObject_CheckBuffer(value)) {
        return core_refuse(e, node, value, at, PyUnicode_Check(value) ? "encode the text first" : NULL);
    } else {
        if (!PyBytes_Check(value) && !PyByteArray_CheckExact(value) && core_encoder_look(e) < 0)
            return -1;
        if (core_bytes_of(e->state, value, ret_view) < 0)
            return core_refuse(e, node, value, at, NULL);
    }
    core_encoder_charge(e, ret_view->len / CORE_TEXT_BYTES_PER_UNIT);
    if (core_request_holds(e, ret_view->len))
        return 0;
    core_refuse_size(e, at, ret_view->len, "bytes");
    PyBuffer_Release(ret_view);
    return -1;
}

static int encode_bytes(core_encoder *e, const core_node *node, PyObject *value,
                        const core_place *at)
{
    Py_buffer view;

    if (bytes_of(e, node, value, at, &view) < 0)
        return -1;
    nearcall_put_bytes(e->handle, view.buf, (size_t)view.len);
    PyBuffer_Release(&view);
    return 0;
}

static int encode_time(core_encoder *e, const core_node *node, PyObject *value, const core_place *at)
{
    uint32_t nanoseconds;
    int64_t seconds;

    if (core_encoder_look(e) < 0)
        return -1;
    if (core_time_from_python(e->state, value, &seconds, &nanoseconds) < 0)
        return core_refuse(e, node, value, at, "a datetime.datetime with a time zone is needed");
    nearcall_put_time(e->handle, seconds, nanoseconds);
    return 0;
}

static int encode_duration(core_encoder *e, const core_node *node, PyObject *value, const core_place *at)
{
    int64_t nanoseconds;

    if (core_encoder_look(e) < 0)
        return -1;
    if (core_duration_from_python(e->state, value, &nanoseconds) < 0)
        return core_refuse(e, node, value, at,
                      "a datetime.timedelta or a number of seconds within 292 years is needed");
    nearcall_put_int(e->handle, nanoseconds);
    return 0;
}

static int encode_file(core_encoder *e, const core_node *node, PyObject *value, const core_place *at)
{
    static const char hint[] = "something open with fileno() is needed";
    PyObject *number = NULL;
    long fd = -1;

    if (core_encoder_look(e) < 0)
        return -1;
    if (!PyType_Check(value) && core_encoder_has_method(value, "fileno"))
        number = PyObject_CallFunctionObjArgs(e->state->descriptor_of, value, NULL);
    if (number != NULL)
        fd = PyLong_AsLong(number);
    Py_XDECREF(number);
    if (number != NULL && PyErr_Occurred())
        return core_refuse_because(e, node, value, at, PyExc_OverflowError, hint);
    if (fd < 0 || fd > INT_MAX)
        return core_refuse(e, node, value, at, hint);
    nearcall_put_file(e->handle, (int)fd);
    return 0;
}

/* ---- Lists and maps ---- */

/* Encoding one runs no code but the encoder's, and no handler of a signal. */
static int is_inert(const core_node *element, PyObject *item)
{
    if (element->kind == CORE_OPTIONAL && item != Py_None)
        return is_inert(element->element, item);
    if (element->kind == CORE_FLOAT32 || element->kind == CORE_FLOAT64)
        return PyFloat_CheckExact(item); /* large integers are looked at in Python */
    if (element->kind == CORE_DURATION || element->kind == CORE_STRUCT)
        return 0;
    return PyLong_CheckExact(item) || PyFloat_CheckExact(item) || PyUnicode_CheckExact(item)
           || PyBool_Check(item) || PyBytes_CheckExact(item) || item == Py_None;
}

/* New reference. */
static PyObject *item_of(PyObject *list, Py_ssize_t index)
{
    return Py_XNewRef(PyList_Check(list) ? PyList_GetItem(list, index) : PyTuple_GetItem(list, index));
}

static Py_ssize_t count_of(PyObject *list)
{
    return PyList_Check(list) ? PyList_Size(list) : PyTuple_Size(list);
}

/* A list is walked where it lies until code of its elements' own may run, or of a signal's handler: that may
 * change it, and what it has then is what is sent. A tuple does not change. */
static int encode_elements(core_encoder *e, const core_node *element, PyObject *list,
                           PyObject *container, const core_place *at)
{
    int is_borrowed = PyList_Check(list), r = 0;
    Py_ssize_t count = count_of(list), first = count;
    core_place here = {.outer = at, .kind = ELEMENT, .container = container, .depth = at->depth + 1};
    core_items own = {NULL, 0}; /* from the first on */

    if (!core_request_holds(e, count))
        return core_refuse_size(e, at, count, "elements");
    nearcall_put_array(e->handle, (uint32_t)count);
    for (here.index = 0; here.index < count && r == 0; here.index++) {
        PyObject *item = here.index < first ? item_of(list, here.index)
                                            : core_items_pop(e, &own, here.index - first);

        if (item != NULL && is_borrowed && (!is_inert(element, item) || core_encoder_is_due(e))) {
            is_borrowed = 0;
            first = here.index + 1;
            r = core_items_of_list(e, &own, list, first, count);
        }
        if (r == 0)
            r = item == NULL || core_encoder_next(e) < 0 ? -1 : core_encode_value(e, element, item, &here);
        Py_XDECREF(item);
    }
    core_items_drop(e, &own);
    return r;
}

/* What has elements and no length may have no end of them: a pointer of ctypes has all of the memory. */
static int has_elements(PyObject *value)
{
    PyTypeObject *type = Py_TYPE(value);

    return PyType_GetSlot(type, Py_tp_iter) != NULL
           || (PySequence_Check(value)
               && (PyType_GetSlot(type, Py_sq_length) != NULL || PyType_GetSlot(type, Py_mp_length) != NULL));
}

/* Texts and dicts are iterable, and no lists. Asking what a value says that it is may run code of its own. */
static int is_like_a_list(core_encoder *e, PyObject *value)
{
    return has_elements(value) && !PyUnicode_Check(value) && !PyBytes_Check(value) && !PyByteArray_Check(value)
           && !PyDict_Check(value) && core_encoder_look(e) == 0
           && PyObject_IsInstance(value, e->state->no_lists) == 0;
}

static int encode_list(core_encoder *e, const core_node *node, PyObject *value, const core_place *at)
{
    PyObject *list;
    int r, is_cut;

    if (core_encoder_is_list(value))
        return encode_elements(e, node->element, value, value, at);
    r = core_encode_buffer(e, node, value, at);
    if (r != CORE_NO_BUFFER)
        return r;
    if (!is_like_a_list(e, value))
        return core_refuse(e, node, value, at, NULL);
    list = core_encoder_collect(e, node, value, &is_cut);
    if (list == NULL)
        return core_refuse(e, node, value, at, NULL);
    r = encode_elements(e, node->element, list, value, at);
    Py_DECREF(list);
    if (r == 0 && is_cut)
        return core_refuse(e, node, value, at, "its last value has changed while it was encoded");
    return r;
}

static int encode_dict(core_encoder *e, const core_node *node, PyObject *dict, PyObject *container,
                       const core_place *at)
{
    core_place here = {.outer = at, .kind = KEY, .container = container, .depth = at->depth + 1};
    core_items pairs;
    Py_ssize_t i;
    int r;

    if (!core_request_holds(e, 2 * PyDict_Size(dict)))
        return core_refuse_size(e, at, PyDict_Size(dict), "pairs");
    r = core_items_of_dict(e, &pairs, dict);
    if (r == 0)
        nearcall_put_map(e->handle, (uint32_t)(pairs.count / 2));
    for (i = 0; i < pairs.count && r == 0; i += 2) {
        PyObject *key = core_items_pop(e, &pairs, i), *value = core_items_pop(e, &pairs, i + 1);

        here.name = key;
        r = core_encoder_next(e);
        if (r == 0)
            r = core_encode_value(e, node->key, key, &here);
        if (r == 0)
            r = core_encode_value(e, node->element, value, &here);
        Py_DECREF(key);
        Py_DECREF(value);
    }
    core_items_drop(e, &pairs);
    return r;
}

static int encode_map(core_encoder *e, const core_node *node, PyObject *value, const core_place *at)
{
    PyObject *dict;
    int r;

    if (core_encoder_is_dict(e, value))
        return encode_dict(e, node, value, value, at);
    if (core_encoder_look(e) < 0)
        return -1;
    if (!PyDict_Check(value)
        && (PyType_Check(value) || !PyMapping_Check(value) || !core_encoder_has_method(value, "keys")))
        return core_refuse(e, node, value, at, NULL);
    dict = core_encoder_collect_pairs(e, node, value);
    if (dict == NULL)
        return core_refuse(e, node, value, at, NULL);
    r = encode_dict(e, node, dict, value, at);
    Py_DECREF(dict);
    return r;
}

static int encode_optional(core_encoder *e, const core_node *node, PyObject *value, const core_place *at)
{
    if (value != Py_None)
        return core_encode_value(e, node->element, value, at);
    nearcall_put_nil(e->handle);
    return 0;
}

/* ---- Values without a type of their own ---- */

static const core_node any_node = {.kind = CORE_ANY, .name = "any"};

/* The node that writes a value as what it is in Python; NULL when none does. */
static const core_node *node_for(core_encoder *e, PyObject *value)
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
        moment = {.kind = CORE_TIME, .name = "time"};
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
    if (PyBytes_Check(value) || PyByteArray_Check(value)
        || Py_TYPE(value) == e->state->memoryview_type)
        return &bytes;
    if (core_encoder_look(e) < 0)
        return NULL;
    if (PyObject_IsInstance(value, e->state->datetime_type) == 1)
        return &moment;
    return NULL;
}

/* What Python does not know itself becomes a value that it does know. */
static int encode_foreign(core_encoder *e, const core_node *node, PyObject *value,
                          const core_place *at)
{
    const core_node *own = NULL;
    PyObject *plain;
    int r;

    if (PyErr_Occurred() || core_encoder_look(e) < 0)
        return -1;
    plain = PyObject_CallFunctionObjArgs(e->state->plain_of, value, NULL);
    if (plain != NULL)
        own = node_for(e, plain);
    r = own == NULL ? core_refuse(e, node, value, at, NULL)
                    : core_encode_value(e, own, plain, at);
    Py_XDECREF(plain);
    return r;
}

static int encode_any(core_encoder *e, const core_node *node, PyObject *value, const core_place *at)
{
    const core_node *own;

    if (value == Py_None) {
        nearcall_put_nil(e->handle);
        return 0;
    }
    own = node_for(e, value);
    return own == NULL ? encode_foreign(e, node, value, at)
                       : core_encode_value(e, own, value, at);
}

static int is_container(const core_node *node)
{
    return node->kind == CORE_LIST || node->kind == CORE_MAP || node->kind == CORE_STRUCT;
}

int core_encode_value(core_encoder *e, const core_node *node, PyObject *value, const core_place *at)
{
    static const core_encode_function functions[CORE_KINDS] = {
        [CORE_BOOL] = encode_bool, [CORE_INT] = encode_integer, [CORE_UINT] = encode_integer,
        [CORE_FLOAT32] = encode_float, [CORE_FLOAT64] = encode_float,
        [CORE_STRING] = encode_string, [CORE_BYTES] = encode_bytes, [CORE_TIME] = encode_time,
        [CORE_DURATION] = encode_duration, [CORE_FILE] = encode_file,
        [CORE_CONNECTION] = encode_file, [CORE_ANY] = encode_any, [CORE_LIST] = encode_list,
        [CORE_MAP] = encode_map, [CORE_OPTIONAL] = encode_optional,
        [CORE_STRUCT] = core_encode_struct,
    };
    int r;

    if (node->kind < CORE_ANY)
        return functions[node->kind](e, node, value, at);
    if (is_container(node) && at->depth >= NC_NESTING_DEPTH_MAX)
        return core_refuse_depth(e, value, at);
    if (Py_EnterRecursiveCall(" in an argument"))
        return -1;
    r = functions[node->kind](e, node, value, at);
    Py_LeaveRecursiveCall();
    return r;
}

int core_encode_argument(core_encoder *e, const core_field *param, Py_ssize_t index,
                         PyObject *value)
{
    core_place here = {.kind = ARGUMENT, .index = index, .name = param->name};

    return core_encode_value(e, param->type, value, &here);
}

/* A raw function's only argument travels as the bytes it is. */
int core_encode_raw(core_encoder *e, const core_field *param, PyObject *value)
{
    core_place here = {.kind = ARGUMENT, .index = 0, .name = param->name};
    Py_buffer view;

    if (bytes_of(e, param->type, value, &here, &view) < 0)
        return -1;
    nearcall_put_raw(e->handle, view.buf, (size_t)view.len);
    PyBuffer_Release(&view);
    return 0;
}
