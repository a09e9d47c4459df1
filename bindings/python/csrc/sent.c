/* Calls that an engine has sent: what it takes to tell what became of them. */
#include "core.h"

typedef struct sent {
    core_plan *plan;    /* both kept */
    core_view *view;    /* that it was begun with; NULL: none */
    int64_t started_ms; /* when it was sent */
    int64_t timeout_ms; /* since then */
} sent;

static void drop(PyObject *capsule)
{
    sent *call = PyCapsule_GetPointer(capsule, NULL);

    core_plan_drop(call->plan);
    Py_XDECREF((PyObject *)call->view);
    PyMem_Free(call);
}

PyObject *core_sent_new(core_plan *plan, core_view *view, int64_t timeout_ms)
{
    sent *call = PyMem_Malloc(sizeof(*call));
    PyObject *capsule = call == NULL ? PyErr_NoMemory() : PyCapsule_New(call, NULL, drop);

    if (capsule == NULL) {
        PyMem_Free(call);
        return NULL;
    }
    *call = (sent){core_plan_keep(plan), (core_view *)Py_XNewRef((PyObject *)view), core_monotonic_ms(), timeout_ms};
    return capsule;
}

core_ending core_sent_ending(core_state *state, nearcall_client *handle, int r, PyObject *capsule,
                             const nearcall_reply *reply)
{
    const sent *call = capsule == NULL ? NULL : PyCapsule_GetPointer(capsule, NULL);
    core_bounds bounds = {0, 0, NULL};

    if (call != NULL)
        bounds = core_bounds_from_now(call->started_ms, call->timeout_ms, NULL);
    if (core_view_take_metadata(call == NULL ? NULL : call->view, handle) < 0)
        return (core_ending){.error = core_exception_take()};
    return call == NULL ? core_ending_of(state, handle, NULL, r, NULL, reply, &bounds)
                        : core_ending_of(state, handle, call->view, r, call->plan, reply, &bounds);
}
