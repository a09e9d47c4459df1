/* The arguments of one call as the array that a request carries. */
#include "encode.h"

static const core_field *param_of(const core_plan *plan, Py_ssize_t index)
{
    if (plan->variadic && index >= plan->param_count)
        return &plan->params[plan->param_count - 1];
    return &plan->params[index];
}

static PyObject *name_of(const core_plan *plan)
{
    PyObject *name = PyDict_GetItemString(plan->description, "name");

    return name == NULL ? Py_None : name;
}

static int refuse_count(core_state *state, const core_plan *plan, Py_ssize_t count)
{
    int too_few = count < plan->required_count;
    Py_ssize_t wanted = too_few ? plan->required_count : plan->param_count;
    const char *bound = "";

    if (plan->variadic || plan->required_count < plan->param_count)
        bound = too_few ? "at least " : "at most ";
    core_raise_format(state, NEARCALL_E_INVALID_ARGUMENT, NEARCALL_OUTCOME_NOT_EXECUTED,
                      "%S takes %s%zd argument%s, got %zd", name_of(plan), bound, wanted,
                      wanted == 1 ? "" : "s", count);
    return -1;
}

static int check_count(core_state *state, const core_plan *plan, Py_ssize_t count)
{
    if (count >= plan->required_count && (plan->variadic || count <= plan->param_count))
        return 0;
    return refuse_count(state, plan, count);
}

static int encode_positional(core_encoder *e, const core_plan *plan, PyObject *const *values,
                             Py_ssize_t count)
{
    Py_ssize_t i;

    e->has_refused = 0; /* code of arguments runs from here on */
    nearcall_put_array(e->handle, (uint32_t)count);
    for (i = 0; i < count; i++)
        if (core_encoder_next(e) < 0 || core_encode_argument(e, param_of(plan, i), i, values[i]) < 0)
            return -1;
    return 0;
}

/* If a function has a parameter called timeout, timeout= may mean that parameter, or the time that the
 * call may take: that is what it means in calls that were written before the function had the parameter. */
static int check_timeout(core_state *state, const core_plan *plan, const core_arguments *arguments)
{
    if (!plan->has_timeout || !arguments->is_timeout_named)
        return 0;
    core_raise_format(state, NEARCALL_E_INVALID_ARGUMENT, NEARCALL_OUTCOME_NOT_EXECUTED,
                      "%S has a parameter called timeout, and timeout= can be that or the time that the call may "
                      "take: give the parameter by position or as timeout_=, the time by with_timeout()",
                      name_of(plan));
    return -1;
}

/* The parameter that a keyword stands for; param_count: none does. Its own name comes first. */
static Py_ssize_t param_named(const core_plan *plan, PyObject *name)
{
    Py_ssize_t i;

    for (i = 0; i < plan->param_count; i++)
        if (PyUnicode_Compare(plan->params[i].name, name) == 0)
            return i;
    for (i = 0; i < plan->param_count; i++)
        if (PyUnicode_Compare(PyTuple_GetItem(plan->keywords, i), name) == 0)
            return i;
    return plan->param_count;
}

static void raise_no_parameter(core_state *state, const core_plan *plan, PyObject *name)
{
    PyObject *shown = core_shown(state, name);
    PyObject *comma = PyUnicode_FromString(", ");
    PyObject *all = comma != NULL ? PyUnicode_Join(comma, plan->keywords) : NULL;

    if (shown != NULL && all != NULL)
        core_raise_format(state, NEARCALL_E_INVALID_ARGUMENT, NEARCALL_OUTCOME_NOT_EXECUTED,
                          plan->param_count > 0 ? "%S has no parameter %U; it has %U"
                                                : "%S has no parameter %U; it has none%U",
                          name_of(plan), shown, all);
    Py_XDECREF(all);
    Py_XDECREF(comma);
    Py_XDECREF(shown);
}

/* Puts one keyword argument where its parameter is. */
static int place_named(core_state *state, const core_plan *plan, PyObject *name, PyObject *value,
                       PyObject **values)
{
    Py_ssize_t i = param_named(plan, name);

    if (i == plan->param_count)
        raise_no_parameter(state, plan, name);
    else if (values[i] != NULL)
        core_raise_format(state, NEARCALL_E_INVALID_ARGUMENT, NEARCALL_OUTCOME_NOT_EXECUTED,
                          "argument %zd (%U) is given twice", i + 1, name);
    else
        values[i] = value;
    return PyErr_Occurred() ? -1 : 0;
}

/* An optional one that is left out before one that is given becomes none. */
static int fill_gaps(core_state *state, const core_plan *plan, PyObject **values,
                     Py_ssize_t *ret_count)
{
    Py_ssize_t i, count = plan->param_count;

    while (count > 0 && values[count - 1] == NULL)
        count--;
    for (i = 0; i < count; i++) {
        if (values[i] != NULL)
            continue;
        if (plan->params[i].type->kind != CORE_OPTIONAL) {
            core_raise_format(state, NEARCALL_E_INVALID_ARGUMENT, NEARCALL_OUTCOME_NOT_EXECUTED,
                              "argument %zd (%U) is missing", i + 1, plan->params[i].name);
            return -1;
        }
        values[i] = Py_None;
    }
    *ret_count = count;
    return 0;
}

static int encode_named(core_encoder *e, const core_plan *plan, const core_arguments *arguments)
{
    core_state *state = e->state;
    Py_ssize_t i, count = 0, names = PyTuple_Size(arguments->names);
    PyObject **values;
    int r = 0;

    if (arguments->positional_count > plan->param_count)
        return refuse_count(state, plan, arguments->positional_count + names);
    values = PyMem_Calloc((size_t)plan->param_count + 1, sizeof(*values));
    if (values == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    for (i = 0; i < arguments->positional_count; i++)
        values[i] = arguments->positional[i];
    for (i = 0; i < names && r == 0; i++)
        r = place_named(state, plan, PyTuple_GetItem(arguments->names, i),
                        arguments->named[i], values);
    if (r == 0)
        r = fill_gaps(state, plan, values, &count);
    if (r == 0)
        r = check_count(state, plan, count);
    if (r == 0)
        r = encode_positional(e, plan, values, count);
    PyMem_Free(values);
    return r;
}

static int encode_arguments(core_encoder *e, const core_plan *plan, int raw,
                            const core_arguments *arguments)
{
    if (raw) {
        e->has_refused = 0;
        return core_encode_raw(e, plan->params, arguments->positional[0]);
    }
    if (arguments->names != NULL)
        return encode_named(e, plan, arguments);
    if (check_count(e->state, plan, arguments->positional_count) < 0)
        return -1;
    return encode_positional(e, plan, arguments->positional, arguments->positional_count);
}

int core_encode_request(core_state *state, core_channel *channel, nearcall_function *function,
                        const core_plan *plan, const core_arguments *arguments, PyObject **asked,
                        int64_t *timeout_ms)
{
    core_encoder e = {.state = state, .channel = channel, .handle = channel->handle, .timeout_ms = *timeout_ms,
                      .asked = asked, .has_refused = 1};
    int raw = plan->raw && plan->param_count == 1 && arguments->positional_count == 1
              && arguments->names == NULL;
    int r = nearcall_request(e.handle, function, raw ? NEARCALL_CODEC_RAW : core_codec_of(plan));

    if (r < 0) {
        core_raise(state, e.handle, r);
        return -1;
    }
    r = check_timeout(state, plan, arguments);
    if (r == 0)
        r = encode_arguments(&e, plan, raw, arguments);
    Py_XDECREF((PyObject *)e.plain_type);
    if (r < 0)
        return e.has_refused ? -1 : CORE_RAISED;
    if (e.started_ms == 0)
        return 0;
    if (core_encoder_look(&e) < 0)
        return e.has_refused ? -1 : CORE_RAISED;
    *timeout_ms = core_milliseconds_left(*timeout_ms, e.started_ms);
    return 0;
}
