/* Carrying out: what a signal's handler raises within some work is raised after it.
 *
 * CPython runs handlers between any two steps of Python code, and what they raise ends that code
 * there, also a block that was to clean up. Nothing ends C code there. So work that must not be
 * left half done is called from here, and called again where it was ended, until it has come to
 * its end. It finds what it has left: each of its steps can tell whether it was done, or does no
 * harm when it is done again. It raises nothing of its own. */
#include "core.h"

#define ARGUMENTS_MAX 4
/* Handlers do not raise that often within one piece of work: it fails by itself. */
#define ATTEMPTS_MAX 100

static PyObject *call(PyObject *const *args, Py_ssize_t count)
{
    return PyObject_CallFunctionObjArgs(args[0], count > 1 ? args[1] : NULL, count > 2 ? args[2] : NULL,
                                        count > 3 ? args[3] : NULL, count > 4 ? args[4] : NULL, NULL);
}

/* Of two exceptions the one that is to be raised: the later one, but none instead of one that ends
 * the program, as KeyboardInterrupt. Both are taken over. */
static PyObject *later_of(PyObject *former, PyObject *later)
{
    int ends = former != NULL && !PyErr_GivenExceptionMatches(former, PyExc_Exception)
               && PyErr_GivenExceptionMatches(later, PyExc_Exception);

    if (former == later || ends) {
        Py_DECREF(later);
        return former;
    }
    if (former != NULL)
        PyException_SetContext(later, former);
    return later;
}

/* What the work returns, or NULL where it always fails; *ret_raised is NULL or what was raised in it. */
static PyObject *carry(PyObject *const *args, Py_ssize_t count, PyObject **ret_raised)
{
    PyObject *result = NULL;
    int attempt;

    *ret_raised = NULL;
    for (attempt = 0; result == NULL && attempt < ATTEMPTS_MAX; attempt++) {
        result = call(args, count);
        if (result == NULL)
            *ret_raised = later_of(*ret_raised, core_exception_take());
    }
    return result;
}

static int check_count(Py_ssize_t count, Py_ssize_t least)
{
    if (count >= least && count <= least + ARGUMENTS_MAX)
        return 0;
    PyErr_Format(PyExc_TypeError, "takes a function and at most %d arguments", ARGUMENTS_MAX);
    return -1;
}

PyObject *core_carry_out(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t count)
{
    PyObject *result, *raised;

    if (check_count(count, 1) < 0)
        return NULL;
    result = carry(args, count, &raised);
    if (raised == NULL)
        return result;
    Py_XDECREF(result);
    core_exception_set(raised);
    return NULL;
}

/* The same for a caller that must not raise: what was raised is told to the first argument, which is carried out too. */
PyObject *core_carry_out_and_tell(PyObject *module, PyObject *const *args, Py_ssize_t count)
{
    PyObject *result, *raised, *report[2], *told = NULL;

    if (check_count(count, 2) < 0)
        return NULL;
    result = carry(args + 1, count - 1, &raised);
    if (raised == NULL)
        return result;
    Py_XDECREF(result);
    report[0] = args[0];
    report[1] = raised;
    told = core_carry_out(module, report, 2);
    Py_DECREF(raised);
    return told;
}
