/* Endings: what became of a call, as Python objects.
 *
 * Making them can run Python, and with it the handlers of signals that have come. What these
 * raise is not how the call ended: it is raised besides, and the call's own end is kept. */
#include "core.h"

/* Sets what is not the call's own aside, in favour of what the caller then raises. */
static void set_aside(core_ending *ending)
{
    PyObject *former = ending->others;

    ending->others = core_exception_take();
    Py_XDECREF(former);
}

static void decode(core_ending *ending, core_state *state, nearcall_client *handle,
                   const core_view *view, const core_plan *plan, const nearcall_reply *reply,
                   const core_bounds *bounds)
{
    core_channel *channel = bounds->channel;

    if (channel != NULL)
        channel->handler_raised = 0;
    ending->result = core_decode_reply(state, handle, view, plan, reply, bounds);
    if (ending->result != NULL
        || (PyErr_ExceptionMatches(PyExc_Exception) && !(channel != NULL && channel->handler_raised)))
        return;
    set_aside(ending);
    core_raise_format(state, NEARCALL_E_CANCELLED, NEARCALL_OUTCOME_EXECUTED_RESULT_LOST,
                      "the result was given up, because a signal's handler raised while it was decoded");
}

core_bounds core_bounds_from_now(int64_t started_ms, int64_t timeout_ms, core_channel *channel)
{
    int is_over = timeout_ms > 0 && core_monotonic_ms() - started_ms >= timeout_ms;

    return (core_bounds){started_ms, is_over ? 0 : timeout_ms, channel};
}

core_ending core_ending_of(core_state *state, nearcall_client *handle, const core_view *view, int r,
                           const core_plan *plan, const nearcall_reply *reply,
                           const core_bounds *bounds)
{
    core_ending ending = {.result = NULL};

    if (r < 0) {
        core_raise(state, handle, r);
        if (!PyErr_ExceptionMatches(state->error_class)) {
            set_aside(&ending);
            core_raise(state, handle, r);
        }
    } else if (plan == NULL) {
        ending.result = Py_NewRef(Py_None);
    } else {
        decode(&ending, state, handle, view, plan, reply, bounds);
    }
    ending.error = core_exception_take();
    return ending;
}
