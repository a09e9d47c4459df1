/* Refusals of arguments: which argument, what came, what fits. */
#include "encode.h"

#include "limits_gen.h"

#define PATH_ENDS 3 /* of a long path so many steps are shown at either end */

/* The places whose depth lies between these are left out. */
static PyObject *describe(core_state *state, const core_place *at, int first, int last)
{
    PyObject *outer, *text, *key;

    if (at->kind == ARGUMENT)
        return PyUnicode_FromFormat("argument %zd (%U)", at->index + 1, at->name);
    outer = describe(state, at->outer, first, last);
    if (outer == NULL || (at->depth > first && at->depth < last))
        return outer;
    if (at->depth == last && last > first + 1) {
        text = PyUnicode_FromFormat("%U...", outer);
        Py_DECREF(outer);
        if (text == NULL)
            return NULL;
        outer = text;
    }
    if (at->kind == FIELD)
        text = PyUnicode_FromFormat("%U.%U", outer, at->name);
    else if (at->kind == KEY) {
        key = core_shown(state, at->name);
        text = key == NULL ? NULL : PyUnicode_FromFormat("%U[%U]", outer, key);
        Py_XDECREF(key);
    } else
        text = PyUnicode_FromFormat("%U[%zd]", outer, at->index);
    Py_DECREF(outer);
    return text;
}

PyObject *core_place_describe(core_state *state, const core_place *at)
{
    return describe(state, at, PATH_ENDS, at->depth - PATH_ENDS + 1);
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

/* Takes a reference to the advice; NULL: an exception is set instead. */
static void refuse(core_encoder *e, const core_node *node, PyObject *value, const core_place *at,
                   PyObject *advice)
{
    PyObject *where = advice == NULL ? NULL : core_place_describe(e->state, at);
    PyObject *takes = where == NULL ? NULL : describe_type(node);
    PyObject *got = takes == NULL ? NULL : PyType_GetName(Py_TYPE(value));

    e->has_refused = 1;
    if (got != NULL)
        core_raise_format(e->state, NEARCALL_E_INVALID_ARGUMENT, NEARCALL_OUTCOME_NOT_EXECUTED,
                          "%U: takes %U, got %.80S%U", where, takes, got, advice);
    Py_XDECREF(advice);
    Py_XDECREF(where);
    Py_XDECREF(takes);
    Py_XDECREF(got);
}

static PyObject *advice_of(const char *hint)
{
    return PyUnicode_FromFormat("%s%s", hint == NULL ? "" : "; ", hint == NULL ? "" : hint);
}

/* What a Refusal says is the better hint, where it says anything. */
static PyObject *advice_of_refusal(PyObject *refusal, const char *hint)
{
    PyObject *text = PyObject_Str(refusal), *advice = NULL;

    if (text != NULL)
        advice = PyUnicode_GetLength(text) == 0 ? advice_of(hint) : PyUnicode_FromFormat("; %U", text);
    Py_XDECREF(text);
    return advice;
}

int core_refuse(core_encoder *e, const core_node *node, PyObject *value, const core_place *at,
                const char *hint)
{
    PyObject *refusal, *cause;

    if (!PyErr_Occurred()) {
        refuse(e, node, value, at, advice_of(hint));
    } else if (PyErr_ExceptionMatches(e->state->refusal)) {
        refusal = core_exception_take();
        cause = PyException_GetCause(refusal);
        refuse(e, node, value, at, advice_of_refusal(refusal, hint));
        core_exception_because(cause);
        Py_DECREF(refusal);
    }
    return -1;
}

int core_refuse_because(core_encoder *e, const core_node *node, PyObject *value,
                        const core_place *at, PyObject *kind, const char *hint)
{
    PyObject *cause;

    if (!PyErr_ExceptionMatches(kind))
        return -1;
    cause = core_exception_take();
    refuse(e, node, value, at, advice_of(hint));
    core_exception_because(cause);
    return -1;
}

int core_refuse_size(core_encoder *e, const core_place *at, Py_ssize_t count, const char *things)
{
    PyObject *where = core_place_describe(e->state, at);

    e->has_refused = 1;
    if (where != NULL)
        core_raise_format(e->state, NEARCALL_E_RESOURCE_EXHAUSTED, NEARCALL_OUTCOME_NOT_EXECUTED,
                          "%U: %zd %s are more than any %s may have, which is %zu bytes (limit %s_bytes_max)", where,
                          count, things, core_request_unit(e), nearcall_request_bytes_max(e->handle), core_request_unit(e));
    Py_XDECREF(where);
    return -1;
}

int core_refuse_depth(core_encoder *e, PyObject *value, const core_place *at)
{
    PyObject *where = core_place_describe(e->state, at);
    const core_place *outer = at;

    e->has_refused = 1;
    while (outer->kind != ARGUMENT && outer->container != value)
        outer = outer->outer;
    if (where != NULL)
        core_raise_format(e->state, NEARCALL_E_INVALID_ARGUMENT, NEARCALL_OUTCOME_NOT_EXECUTED,
                          "%U: %s nests lists, maps and structs deeper than %d levels "
                          "(limit nesting_depth_max, which is fixed)", where,
                          outer->kind == ARGUMENT ? "it" : "the value contains itself, and so",
                          NC_NESTING_DEPTH_MAX);
    Py_XDECREF(where);
    return -1;
}

int core_refuse_range(core_encoder *e, const core_node *node, PyObject *value,
                      const core_place *at)
{
    PyObject *where = core_place_describe(e->state, at);
    PyObject *number = where == NULL ? NULL : core_shown(e->state, value);

    e->has_refused = 1;
    if (number == NULL) {
        Py_XDECREF(where);
        return -1;
    }
    if (node->kind == CORE_UINT)
        core_raise_format(e->state, NEARCALL_E_INVALID_ARGUMENT, NEARCALL_OUTCOME_NOT_EXECUTED,
                          "%U: %U does not fit %s (0 to %llu)", where, number, node->name,
                          (unsigned long long)node->most);
    else
        core_raise_format(e->state, NEARCALL_E_INVALID_ARGUMENT, NEARCALL_OUTCOME_NOT_EXECUTED,
                          "%U: %U does not fit %s (%lld to %llu)", where, number, node->name,
                          (long long)node->least, (unsigned long long)node->most);
    Py_DECREF(number);
    Py_DECREF(where);
    return -1;
}
