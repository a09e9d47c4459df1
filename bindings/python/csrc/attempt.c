/* Attempts: a server may come in the place of another and describe a function otherwise.
 * What was refused then, here or there, did not run, and is encoded by the new description. */
#include "core.h"

/* How an attempt ended that is neither sent nor failed for good; the exception is set. */
#define REFUSED 1

int core_is_refused(const core_channel *channel, int r)
{
    return (r == NEARCALL_E_ABORTED || r == NEARCALL_E_INVALID_ARGUMENT)
           && nearcall_error_outcome(channel->handle) == NEARCALL_OUTCOME_NOT_EXECUTED;
}

/* The same of a call whose earlier sending may have run it, which its caller lets run again: the last has ended
 * because it does not fit the server that is there now. */
static int is_refused_again(const core_client *client, const core_channel *channel, int r)
{
    return (r == NEARCALL_E_ABORTED || r == NEARCALL_E_INVALID_ARGUMENT)
           && nearcall_error_outcome(channel->handle) == NEARCALL_OUTCOME_UNKNOWN
           && client->view != NULL && client->view->retries_unknown;
}

/* What is sent: a request of so many values, or with none of them the one that was put together. */
typedef struct request {
    nearcall_function *function;
    nearcall_value values[CORE_PLAIN_VALUES_MAX];
    size_t count;
} request;

/* The library sends again as well: all sendings are attempts. */
static int call(core_client *client, core_channel *channel, const request *what, int64_t timeout_ms,
                core_attempt *attempt)
{
    uint32_t attempts_max = core_client_attempts(client);
    uint32_t sendings = attempts_max - attempt->attempts_left - 1;
    int r;

    if (sendings > 0)
        (void)nearcall_request_sent(channel->handle, sendings);
    r = what->count > 0 ? core_wait_values(channel, what->function, core_codec_of(attempt->plan), what->values,
                                           what->count, timeout_ms, attempt->reply)
                        : core_wait_request(channel, timeout_ms, attempt->reply);
    sendings = r == NEARCALL_OK ? 0 : nearcall_sendings(channel->handle);
    if (sendings > attempts_max - attempt->attempts_left)
        attempt->attempts_left = sendings < attempts_max ? attempts_max - sendings : 0;
    return r;
}

static int send(core_client *client, core_channel *channel, const request *what, int64_t timeout_ms,
                core_attempt *attempt)
{
    int r, refused;

    if (attempt->reply != NULL) {
        r = call(client, channel, what, timeout_ms, attempt);
        if (r != CORE_RAISED && core_view_take_metadata(client->view, channel->handle) < 0)
            return -1;
    } else {
        r = core_send_request(channel, timeout_ms, &attempt->id);
    }
    if (r == NEARCALL_OK)
        return 0;
    if (r == CORE_RAISED)
        return -1;
    refused = core_is_refused(channel, r);
    if (attempt->reply != NULL && is_refused_again(client, channel, r))
        refused = attempt->may_have_run = 1;
    core_raise(client->state, channel->handle, r);
    /* A signal's handler may have raised while the refusal was put into words. */
    return refused && PyErr_ExceptionMatches(client->state->error_class) ? REFUSED : -1;
}

/* One comparison, and the warning that it leads to. *ret_revision becomes that of the description that was compared. */
static int compare_once(core_client *client, core_entry *entry, core_channel *channel,
                        int64_t *timeout_ms, uint32_t *ret_revision)
{
    int64_t started_ms = core_monotonic_ms();
    core_slot *slot = entry->slots[channel->index];
    int r = core_wait_compare(channel, slot->function, PyUnicode_AsUTF8AndSize(entry->hash, NULL),
                              PyUnicode_AsUTF8AndSize(entry->description, NULL), *timeout_ms);

    *timeout_ms = core_milliseconds_left(*timeout_ms, started_ms);
    if (r != NEARCALL_OK && !(r == NEARCALL_E_FAILED_PRECONDITION && entry->warns)) {
        if (r != CORE_RAISED)
            core_raise(client->state, channel->handle, r);
        return -1;
    }
    /* Comparing may have found another description: that is what was compared. */
    if (core_slot_refresh(client->state, slot, slot->function) < 0)
        return -1;
    *ret_revision = slot->revision;
    if (r == NEARCALL_OK)
        return 0;
    return PyErr_WarnEx(PyExc_UserWarning, nearcall_error_message(channel->handle), 3);
}

/* Generated code encodes by what it was written for: whether that fits the server's function.
 * *timeout_ms becomes what is left of it. Where warnings are errors, none was warned who could
 * go on; and code that a warning runs may lead to yet another description. */
static int compare(core_client *client, core_entry *entry, core_channel *channel,
                   int64_t *timeout_ms)
{
    core_slot *slot = entry->slots[channel->index];
    uint32_t revision;

    if (entry->hash == NULL || (slot->compared == slot->revision && slot->revision != 0))
        return 0;
    do {
        if (compare_once(client, entry, channel, timeout_ms, &revision) < 0)
            return -1;
        slot->compared = revision;
    } while (slot->revision != revision);
    return 0;
}

/* Whether InvalidArgument is set, by the encoder. */
static int is_refusal(core_state *state)
{
    return PyErr_ExceptionMatches(state->error_class) && PyErr_ExceptionMatches(PyExc_ValueError);
}

/* 0, REFUSED, or -1. The plan is kept, because an argument's own code can lead to a newer one. */
static int attempt_once(core_client *client, core_entry *entry, core_channel *channel,
                        const core_arguments *arguments, PyObject **asked, int64_t timeout_ms,
                        core_attempt *attempt)
{
    core_slot *slot = core_entry_slot(client, entry, channel, 0, &timeout_ms);
    int is_first = attempt->attempts_left == core_client_attempts(client), r = 0;
    request what;

    if (slot == NULL || compare(client, entry, channel, &timeout_ms) < 0)
        return -1;
    attempt->plan = core_plan_keep(slot->plan);
    attempt->revision = slot->revision;
    attempt->attempts_left--;
    what.function = slot->function;
    what.count = attempt->reply != NULL && is_first ? core_plain_values(attempt->plan, arguments, what.values) : 0;
    if (what.count == 0)
        r = core_encode_request(client->state, channel, slot->function, attempt->plan, arguments, asked,
                                &timeout_ms);
    if (r == 0)
        r = send(client, channel, &what, timeout_ms, attempt);
    else
        r = r != CORE_RAISED && is_refusal(client->state) ? REFUSED : -1;
    if (r != 0)
        core_plan_drop(attempt->plan);
    return r;
}

/* What ends the call now says nothing about what was sent before. */
static void note_that_it_may_have_run(core_state *state)
{
    PyObject *error = core_exception_take();
    PyObject *done = NULL;

    if (error != NULL && PyObject_IsInstance(error, state->error_class) == 1)
        done = PyObject_CallMethod(error, "_may_have_run", NULL);
    PyErr_Clear();
    Py_XDECREF(done);
    core_exception_set(error);
}

int core_entry_attempt(core_client *client, core_entry *entry, core_channel *channel,
                       const core_arguments *arguments, int64_t timeout_ms, core_attempt *attempt)
{
    int64_t started_ms = attempt->started_ms = core_coarse_ms(); /* no attempt has more time for it, but less */
    int64_t left_ms = timeout_ms;
    PyObject *asked = NULL;
    int r = core_channel_use(channel, client->view);

    if (r < 0) {
        core_raise(client->state, channel->handle, r);
        return -1;
    }
    /* Waits that are over soon are not left to look for signals: that would copy the request. */
    channel->signals_ms = started_ms;
    for (;;) {
        r = attempt_once(client, entry, channel, arguments, &asked, left_ms, attempt);
        if (r != REFUSED)
            break;
        left_ms = core_milliseconds_left(timeout_ms, started_ms);
        if (!core_entry_has_changed(client, entry, channel, left_ms, attempt))
            break;
        left_ms = core_milliseconds_left(timeout_ms, started_ms);
    }
    Py_XDECREF(asked);
    if (r != 0 && attempt->may_have_run)
        note_that_it_may_have_run(client->state);
    return r == 0 ? 0 : -1;
}

/* Asks by name, unless the library knows that the description is the server's. */
static int has_another(core_entry *entry, core_channel *channel, int64_t timeout_ms,
                       uint32_t revision, int *ret_r)
{
    nearcall_function *found;

    (void)nearcall_process(channel->handle); /* notices that the connection has ended */
    *ret_r = core_wait_find(channel, entry->text, (size_t)entry->text_bytes, timeout_ms, &found);
    return *ret_r == NEARCALL_OK && nearcall_function_revision(found) != revision;
}

int core_entry_has_changed(core_client *client, core_entry *entry, core_channel *channel,
                           int64_t timeout_ms, const core_attempt *attempt)
{
    const nearcall_function *function = entry->slots[channel->index]->function;
    PyObject *error;
    int r, changed;

    /* What was refused here is looked at for the next call; what a server refused that finds. */
    if (attempt->attempts_left == 0 && nearcall_function_revision(function) != attempt->revision)
        return 0;
    error = core_exception_take();
    changed = has_another(entry, channel, timeout_ms, attempt->revision, &r)
              && attempt->attempts_left > 0;
    if (!changed && r != CORE_RAISED && r != NEARCALL_E_UNIMPLEMENTED) {
        core_exception_set(error);
        return 0;
    }
    Py_XDECREF(error);
    if (r == NEARCALL_E_UNIMPLEMENTED)
        core_raise(client->state, channel->handle, r);
    return changed;
}

/* ---- Arguments that are kept ---- */

static int is_constant(core_state *state, PyObject *value)
{
    return value == Py_None || PyLong_Check(value) || PyUnicode_Check(value)
           || PyFloat_Check(value) || PyBytes_Check(value)
           || Py_IS_TYPE(value, (PyTypeObject *)state->datetime_type)
           || Py_IS_TYPE(value, (PyTypeObject *)state->timedelta_type);
}

int core_kept_set(core_state *state, core_kept *kept, const core_arguments *arguments)
{
    Py_ssize_t i, names = arguments->names == NULL ? 0 : PyTuple_Size(arguments->names);

    *kept = (core_kept){.arguments = *arguments, .is_constant = 1};
    kept->value_count = arguments->positional_count + names;
    kept->values = PyMem_Calloc((size_t)kept->value_count + 1, sizeof(*kept->values));
    if (kept->values == NULL) {
        kept->value_count = 0;
        kept->arguments.names = NULL;
        PyErr_NoMemory();
        return -1;
    }
    for (i = 0; i < arguments->positional_count; i++)
        kept->values[i] = Py_NewRef(arguments->positional[i]);
    for (i = 0; i < names; i++)
        kept->values[arguments->positional_count + i] = Py_NewRef(arguments->named[i]);
    for (i = 0; i < kept->value_count && kept->is_constant; i++)
        kept->is_constant = is_constant(state, kept->values[i]);
    kept->arguments.positional = kept->values;
    kept->arguments.named = kept->values + arguments->positional_count;
    kept->arguments.names = Py_XNewRef(arguments->names);
    kept->arguments.timeout = NULL; /* it has been read */
    return 0;
}

/* Dropping them may run code that looks at what holds them: it sees none. */
void core_kept_clear(core_kept *kept)
{
    core_kept former = *kept;
    Py_ssize_t i;

    *kept = (core_kept){.values = NULL};
    for (i = 0; i < former.value_count; i++)
        Py_DECREF(former.values[i]);
    PyMem_Free(former.values);
    Py_XDECREF(former.arguments.names);
}
