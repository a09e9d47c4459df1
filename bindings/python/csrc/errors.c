/* Errors as Python exceptions. Their classes are written in Python. */
#include "core.h"

#include <stdarg.h>
#include <string.h>

static void raise_parts(core_state *state, int code, PyObject *message, int outcome,
                        PyObject *details)
{
    PyObject *error;

    error = PyObject_CallFunction(state->make_error, "iOiO", code < 0 ? -code : code, message,
                                  outcome, details);
    core_exception_set(error);
}

static PyObject *details_of(core_state *state, const nearcall_client *handle)
{
    size_t bytes = 0;
    const uint8_t *data = nearcall_error_details(handle, &bytes);
    PyObject *details;

    if (data == NULL || bytes == 0)
        return PyList_New(0);
    details = core_decode_any(state, data, bytes);
    if (details != NULL)
        return details;
    /* The error itself matters more than what came with it. */
    PyErr_Clear();
    return PyList_New(0);
}

void core_raise(core_state *state, const nearcall_client *handle, int code)
{
    const char *text = nearcall_error_message(handle);
    PyObject *message = PyUnicode_DecodeUTF8(text, (Py_ssize_t)strlen(text), "replace");
    PyObject *details = message == NULL ? NULL : details_of(state, handle);

    if (details != NULL)
        raise_parts(state, code, message, nearcall_error_outcome(handle), details);
    Py_XDECREF(message);
    Py_XDECREF(details);
}

void core_raise_format(core_state *state, int code, int outcome, const char *format, ...)
{
    PyObject *message, *details;
    va_list arguments;

    va_start(arguments, format);
    message = PyUnicode_FromFormatV(format, arguments);
    va_end(arguments);
    if (message == NULL)
        return;
    details = PyList_New(0);
    if (details != NULL)
        raise_parts(state, code, message, outcome, details);
    Py_XDECREF(details);
    Py_DECREF(message);
}

PyObject *core_shown(core_state *state, PyObject *value)
{
    return PyObject_CallFunctionObjArgs(state->shown, value, NULL);
}

PyObject *core_exception_take(void)
{
    PyObject *type, *error, *traceback;

    PyErr_Fetch(&type, &error, &traceback);
    PyErr_NormalizeException(&type, &error, &traceback);
    if (error != NULL && traceback != NULL)
        (void)PyException_SetTraceback(error, traceback);
    Py_XDECREF(type);
    Py_XDECREF(traceback);
    return error;
}

void core_exception_set(PyObject *error)
{
    if (error == NULL)
        return;
    PyErr_SetObject((PyObject *)Py_TYPE(error), error);
    Py_DECREF(error);
}

/* What an exception says, or where that is nothing, as it is where memory has run out, what it is. New reference. */
static PyObject *reason_of(PyObject *error)
{
    PyObject *text = PyObject_Str(error);

    if (text == NULL || PyUnicode_GetLength(text) > 0)
        return text;
    Py_DECREF(text);
    return PyObject_GetAttrString((PyObject *)Py_TYPE(error), "__name__");
}

void core_raise_from_current(core_state *state, int code, int outcome, const char *text)
{
    PyObject *cause = core_exception_take();
    PyObject *reason = reason_of(cause == NULL ? Py_None : cause);

    if (reason != NULL)
        core_raise_format(state, code, outcome, "%s: %S", text, reason);
    Py_XDECREF(reason);
    core_exception_because(cause);
}

void core_exception_because(PyObject *cause)
{
    PyObject *error = core_exception_take();

    if (error != NULL && cause != NULL)
        PyException_SetCause(error, cause);
    else
        Py_XDECREF(cause);
    core_exception_set(error);
}

int core_is_child(core_state *state, uint64_t generation)
{
    if (state->fork_generation == generation)
        return 0;
    core_raise_format(state, NEARCALL_E_UNAVAILABLE, NEARCALL_OUTCOME_UNKNOWN,
                      "the call was begun before the fork and belongs to the parent process");
    return 1;
}
