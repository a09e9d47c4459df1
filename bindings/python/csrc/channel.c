/* Channels: the handles of one client.
 *
 * A handle is for one thread at a time. Instead of making threads wait for each
 * other, a client opens one handle for each thread that calls at the same
 * moment, and keeps it. `busy` is read and written under the GIL, so there is
 * no lock that a fork could copy in its locked state. A signal handler or an
 * argument's own code that calls while its thread is in a call gets another
 * channel in the same way. */
#include "core.h"

#include <string.h>

/* An object whose code sends the object again does so for ever. */
#define NESTED_MAX 50

static char *copy_text(const char *text)
{
    size_t bytes = strlen(text) + 1;
    char *copy = PyMem_Malloc(bytes);

    if (copy == NULL)
        PyErr_NoMemory();
    else
        memcpy(copy, text, bytes);
    return copy;
}

/* ---- Pools ---- */

static core_channel *add_channel(core_pool *pool);

static int own_texts(core_pool *pool)
{
    nearcall_options *options = &pool->options;
    const char **texts[CORE_OPTION_TEXTS] = {&options->name, &options->tls_authorities, &options->tls_certificate,
                                             &options->tls_key, &options->tls_server_name};
    int i;

    for (i = 0; i < CORE_OPTION_TEXTS; i++) {
        if (*texts[i] != NULL && (pool->texts[i] = copy_text(*texts[i])) == NULL)
            return -1;
        *texts[i] = pool->texts[i];
    }
    return 0;
}

core_pool *core_pool_new(core_state *state, const char *address, const nearcall_options *options, PyObject *users)
{
    core_pool *pool = PyMem_Calloc(1, sizeof(*pool));

    if (pool == NULL) {
        PyErr_NoMemory();
        return NULL;
    }
    pool->references = 1;
    pool->state = state;
    pool->generation = state->fork_generation;
    pool->options = *options;
    pool->address = copy_text(address);
    /* The first channel is made now, to refuse a bad address where it is written. */
    if (pool->address == NULL || own_texts(pool) < 0
        || core_users_from(state, users, &pool->users, &pool->options.server_user_ids_count) < 0) {
        core_pool_drop(pool);
        return NULL;
    }
    pool->options.server_user_ids = pool->users;
    if (add_channel(pool) == NULL) {
        core_pool_drop(pool);
        return NULL;
    }
    return pool;
}

int core_pool_warn_of_plain(core_pool *pool, const core_channel *channel)
{
    if (!pool->warns_of_plain || !nearcall_is_exposed(channel->handle))
        return 0;
    pool->warns_of_plain = 0;
    return PyErr_WarnFormat(PyExc_UserWarning, 1,
                            "%s is not on this machine: whoever is on the way to it can read calls over plain TCP, "
                            "and change them; use a tls: address, or say plain=quiet if the way is safe",
                            pool->address);
}

core_pool *core_pool_keep(core_pool *pool)
{
    pool->references++;
    return pool;
}

static void close_handle(core_channel *channel)
{
    nearcall_close(channel->handle);
    channel->handle = NULL;
    channel->view = NULL;
}

static int is_in_use(const core_channel *channel)
{
    return channel->busy || channel->is_read || channel->keeper_count > 0;
}

void core_pool_close(core_pool *pool)
{
    Py_ssize_t i;

    core_pool_check_process(pool);
    pool->closed = 1;
    for (i = 0; i < pool->channel_count; i++)
        if (!is_in_use(pool->channels[i]))
            close_handle(pool->channels[i]);
}

void core_pool_drop(core_pool *pool)
{
    Py_ssize_t i;

    if (pool == NULL || --pool->references > 0)
        return;
    for (i = 0; i < pool->channel_count; i++) {
        close_handle(pool->channels[i]);
        PyMem_Free(pool->channels[i]->abandoned);
        PyMem_Free(pool->channels[i]->keepers);
        PyMem_Free(pool->channels[i]);
    }
    PyMem_Free(pool->channels);
    PyMem_Free(pool->address);
    for (i = 0; i < CORE_OPTION_TEXTS; i++)
        PyMem_Free(pool->texts[i]);
    PyMem_Free(pool->users);
    PyMem_Free(pool);
}

/* NULL: the thread does not hold it. */
static core_keeper *keeper_of(const core_channel *channel, unsigned long thread)
{
    Py_ssize_t i;

    for (i = 0; i < channel->keeper_count; i++)
        if (channel->keepers[i].thread == thread)
            return &channel->keepers[i];
    return NULL;
}

static void keep_only(core_channel *channel, unsigned long thread)
{
    const core_keeper *keeper = keeper_of(channel, thread);

    if (keeper != NULL)
        channel->keepers[0] = *keeper;
    channel->keeper_count = keeper != NULL;
}

void core_pool_check_process(core_pool *pool)
{
    unsigned long me = PyThread_get_thread_ident();
    Py_ssize_t i;

    if (pool->generation == pool->state->fork_generation)
        return;
    pool->generation = pool->state->fork_generation;
    for (i = 0; i < pool->channel_count; i++) {
        core_channel *channel = pool->channels[i];

        channel->calls_in_flight = 0;
        channel->abandoned_count = 0;
        /* The thread that forked goes on; when it is inside a call (a signal
         * handler forked), that call still holds its channel; so does what it reads. */
        if (channel->busy && channel->holder != me)
            channel->busy = 0;
        if (channel->is_read && channel->reader != me)
            channel->is_read = 0;
        keep_only(channel, me);
    }
}

/* ---- Channels ---- */

static int open_handle(core_pool *pool, core_channel *channel)
{
    int r = nearcall_open(&channel->handle, pool->address, &pool->options);

    if (r == NEARCALL_OK && pool->options.flags & NEARCALL_INTERRUPTIBLE)
        r = core_notice_signals(channel);
    if (r == NEARCALL_OK)
        return 0;
    core_raise(pool->state, channel->handle, r);
    close_handle(channel);
    return -1;
}

static core_channel *add_channel(core_pool *pool)
{
    size_t bytes = ((size_t)pool->channel_count + 1) * sizeof(*pool->channels);
    core_channel **channels = PyMem_Realloc(pool->channels, bytes);
    core_channel *channel;

    if (channels == NULL) {
        PyErr_NoMemory();
        return NULL;
    }
    pool->channels = channels;
    channel = PyMem_Calloc(1, sizeof(*channel));
    if (channel == NULL) {
        PyErr_NoMemory();
        return NULL;
    }
    if (open_handle(pool, channel) < 0) {
        PyMem_Free(channel);
        return NULL;
    }
    channel->index = pool->channel_count;
    pool->channels[pool->channel_count++] = channel;
    return channel;
}

static int refuse_closed(core_pool *pool)
{
    core_raise_format(pool->state, NEARCALL_E_FAILED_PRECONDITION, NEARCALL_OUTCOME_NOT_EXECUTED,
                      CORE_CLOSED);
    return -1;
}

int core_pool_check_open(core_pool *pool)
{
    core_pool_check_process(pool);
    return pool->closed ? refuse_closed(pool) : 0;
}

/* Making an object of the frame may run a finalizer: then the channel is taken already. */
static core_channel *mark_busy(core_channel *channel, unsigned long thread, int is_within)
{
    channel->busy = 1;
    channel->holder = thread;
    if (channel->calls_in_flight == 0)
        channel->owner = thread;
    channel->frame = is_within ? PyEval_GetFrame() : NULL;
    return channel;
}

/* How many calls this one is within. Frames tell that from calls of other greenlets, which wait beside this one in
 * the same thread. A frame outlives the calls that it makes, so no other has its address. -1: exception set. */
static Py_ssize_t count_around(const core_pool *pool)
{
    PyObject *frame = Py_XNewRef((PyObject *)PyEval_GetFrame()), *outer;
    Py_ssize_t i, around = 0;

    while (frame != NULL && frame != Py_None) {
        for (i = 0; i < pool->channel_count; i++)
            around += pool->channels[i]->busy && pool->channels[i]->frame == frame;
        outer = PyObject_GetAttrString(frame, "f_back");
        Py_DECREF(frame);
        frame = outer;
    }
    Py_XDECREF(frame);
    return PyErr_Occurred() ? -1 : around;
}

/* For a call that needs a further channel, as code that calls again and again within itself always does. */
static int check_nesting(core_pool *pool, Py_ssize_t busy)
{
    Py_ssize_t around = busy < NESTED_MAX ? 0 : count_around(pool);

    if (around < 0)
        return -1;
    if (around < NESTED_MAX)
        return core_pool_check_open(pool); /* making objects of frames may have run a finalizer */
    core_raise_format(pool->state, NEARCALL_E_INVALID_ARGUMENT, NEARCALL_OUTCOME_NOT_EXECUTED,
                      "this call is within %d others by the same client: code of arguments, or of handlers, calls "
                      "again and again within itself; compute the value before the call", NESTED_MAX);
    return -1;
}

core_channel *core_channel_take(core_pool *pool, int pipelining)
{
    unsigned long me = PyThread_get_thread_ident();
    core_channel *idle = NULL;
    Py_ssize_t i, busy = 0; /* with this thread */

    if (core_pool_check_open(pool) < 0)
        return NULL;
    for (i = 0; i < pool->channel_count; i++) {
        core_channel *channel = pool->channels[i];

        busy += channel->busy && channel->holder == me;
        if (channel->busy)
            continue;
        if (channel->calls_in_flight == 0)
            idle = idle == NULL ? channel : idle;
        else if (pipelining && channel->owner == me)
            return mark_busy(channel, me, busy > 0);
        if (idle != NULL && !pipelining)
            break;
    }
    if (idle == NULL && check_nesting(pool, busy) == 0)
        idle = add_channel(pool);
    return idle == NULL ? NULL : mark_busy(idle, me, busy > 0);
}

int core_channel_take_this(core_pool *pool, core_channel *channel)
{
    core_pool_check_process(pool);
    if (channel->handle == NULL)
        return refuse_closed(pool);
    if (channel->busy) {
        PyErr_SetString(PyExc_RuntimeError,
                        "another wait uses this call's connection at this moment; wait for a call "
                        "in the thread that began it, and not inside a signal handler");
        return -1;
    }
    mark_busy(channel, PyThread_get_thread_ident(), 0);
    return 0;
}

/* Does what others have left to whoever uses the handle last. */
static void catch_up(core_pool *pool, core_channel *channel)
{
    Py_ssize_t i;

    if (channel->busy || channel->is_read)
        return;
    for (i = 0; i < channel->abandoned_count; i++)
        nearcall_cancel(channel->handle, channel->abandoned[i]);
    channel->abandoned_count = 0;
    if (pool->closed && channel->keeper_count == 0)
        close_handle(channel);
}

void core_channel_release(core_pool *pool, core_channel *channel)
{
    channel->busy = 0;
    catch_up(pool, channel);
}

int core_channel_hold(core_channel *channel)
{
    unsigned long me = PyThread_get_thread_ident();
    core_keeper *keeper = keeper_of(channel, me), *more;

    if (keeper == NULL && channel->keeper_count == channel->keeper_room) {
        more = PyMem_Realloc(channel->keepers, ((size_t)channel->keeper_room + 1) * sizeof(*more));
        if (more == NULL) {
            PyErr_NoMemory();
            return -1;
        }
        channel->keepers = more;
        channel->keeper_room++;
    }
    if (keeper == NULL) {
        keeper = &channel->keepers[channel->keeper_count++];
        *keeper = (core_keeper){.thread = me};
    }
    keeper->times++;
    return 0;
}

void core_channel_let_go(core_pool *pool, core_channel *channel)
{
    core_keeper *keeper = keeper_of(channel, PyThread_get_thread_ident());

    if (keeper != NULL && --keeper->times == 0)
        *keeper = channel->keepers[--channel->keeper_count];
    catch_up(pool, channel);
}

void core_channel_read_begin(core_channel *channel)
{
    channel->is_read = 1;
    channel->reader = PyThread_get_thread_ident();
}

void core_channel_read_end(core_pool *pool, core_channel *channel)
{
    channel->is_read = 0;
    catch_up(pool, channel);
}

void core_channel_abandon(core_pool *pool, core_channel *channel, nearcall_call_id id)
{
    size_t bytes = ((size_t)channel->abandoned_count + 1) * sizeof(id);
    nearcall_call_id *abandoned;

    core_pool_check_process(pool);
    if (channel->handle == NULL)
        return;
    if (!channel->busy && !channel->is_read) {
        nearcall_cancel(channel->handle, id);
        return;
    }
    abandoned = PyMem_Realloc(channel->abandoned, bytes);
    if (abandoned == NULL)
        return; /* Then its deadline ends it. */
    channel->abandoned = abandoned;
    channel->abandoned[channel->abandoned_count++] = id;
}
