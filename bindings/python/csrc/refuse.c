/* Refusals of arguments: which argument, what came, what fits. */
#include "encode.h"

PyObject *core_place_describe(const core_place *at)
{
    PyObject *outer, *text;

    if (at->kind == ARGUMENT)
        return PyUnicode_FromFormat("argument %zd (%U)", at->index + 1, at->name);
    outer = core_place_describe(at->outer);
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

/* Takes the conversion error that is set away; a Refusal's own text is the better hint. */
static PyObject *hint_of_error(core_encoder *e, const char *hint)
{
    PyObject *type = NULL, *error = NULL, *traceback = NULL, *text = NULL;

    if (PyErr_Occurred() && PyErr_ExceptionMatches(e->state->refusal)) {
        PyErr_Fetch(&type, &error, &traceback);
        PyErr_NormalizeException(&type, &error, &traceback);
        text = error == NULL ? NULL : PyUnicode_FromFormat("; %S", error);
        Py_XDECREF(type);
        Py_XDECREF(error);
        Py_XDECREF(traceback);
        return text;
    }
    PyErr_Clear();
    return PyUnicode_FromFormat("%s%s", hint == NULL ? "" : "; ", hint == NULL ? "" : hint);
}

int core_refuse(core_encoder *e, const core_node *node, PyObject *value, const core_place *at,
                const char *hint)
{
    PyObject *where, *takes, *got, *advice;

    if (PyErr_Occurred() && !is_conversion_error())
        return -1;
    advice = hint_of_error(e, hint);
    where = advice == NULL ? NULL : core_place_describe(at);
    takes = where == NULL ? NULL : describe_type(node);
    got = takes == NULL ? NULL : type_name(value);
    if (got != NULL)
        core_raise_format(e->state, NEARCALL_E_INVALID_ARGUMENT, NEARCALL_OUTCOME_NOT_EXECUTED,
                          "%U: takes %U, got %S%U", where, takes, got, advice);
    Py_XDECREF(advice);
    Py_XDECREF(where);
    Py_XDECREF(takes);
    Py_XDECREF(got);
    return -1;
}

int core_refuse_range(core_encoder *e, const core_node *node, PyObject *value,
                      const core_place *at)
{
    PyObject *where = core_place_describe(at);

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
