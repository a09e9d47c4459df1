/* Keyword arguments: timeout= is for the call, all others are for the function. */
#include "core.h"

static int without_timeout(core_arguments *arguments, Py_ssize_t at, core_scratch *scratch)
{
    Py_ssize_t i, kept = 0, count = PyTuple_Size(arguments->names);

    arguments->timeout = arguments->named[at];
    arguments->is_timeout_named = arguments->timeout != Py_None;
    if (count == 1) {
        arguments->names = NULL;
        return 0;
    }
    scratch->names = PyTuple_New(count - 1);
    scratch->named = PyMem_Calloc((size_t)count, sizeof(*scratch->named));
    if (scratch->names == NULL || scratch->named == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    for (i = 0; i < count; i++) {
        if (i == at)
            continue;
        scratch->named[kept] = arguments->named[i];
        PyTuple_SetItem(scratch->names, kept++, Py_NewRef(PyTuple_GetItem(arguments->names, i)));
    }
    arguments->names = scratch->names;
    arguments->named = scratch->named;
    return 0;
}

int core_arguments_set(core_state *state, core_arguments *arguments, PyObject *const *positional,
                       Py_ssize_t positional_count, PyObject *names, core_scratch *scratch)
{
    Py_ssize_t i, count;

    *scratch = (core_scratch){NULL, NULL};
    *arguments = (core_arguments){.positional = positional, .positional_count = positional_count};
    if (names == NULL || (count = PyTuple_Size(names)) == 0)
        return 0;
    arguments->names = names;
    arguments->named = positional + positional_count;
    for (i = 0; i < count; i++)
        if (PyUnicode_Compare(PyTuple_GetItem(names, i), state->text_timeout) == 0)
            return without_timeout(arguments, i, scratch);
    return 0;
}

void core_scratch_clear(core_scratch *scratch)
{
    Py_CLEAR(scratch->names);
    PyMem_Free(scratch->named);
    scratch->named = NULL;
}
