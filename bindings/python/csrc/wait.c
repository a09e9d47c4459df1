/* Waiting: libnearcall's blocking functions with the GIL released. A signal
 * ends the wait, its Python handler runs, and the wait goes on. */
#include "core.h"

#include "limits_gen.h"

#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define NANOSECONDS_PER_SECOND 1000000000
#define NANOSECONDS_PER_MILLISECOND 1000000

static int64_t clock_ns(clockid_t clock)
{
    struct timespec now;

    clock_gettime(clock, &now);
    return (int64_t)now.tv_sec * NANOSECONDS_PER_SECOND + now.tv_nsec;
}

static int64_t clock_ms(clockid_t clock)
{
    return clock_ns(clock) / NANOSECONDS_PER_MILLISECOND;
}

int64_t core_monotonic_ms(void)
{
    return clock_ms(CLOCK_MONOTONIC);
}

int64_t core_coarse_ms(void)
{
    return clock_ms(CLOCK_MONOTONIC_COARSE);
}

double core_seconds_from_now(int64_t milliseconds)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9 + (double)milliseconds * 1e-3;
}

int64_t core_milliseconds_left(int64_t timeout_ms, int64_t started_ms)
{
    int64_t left;

    if (timeout_ms <= 0)
        return timeout_ms;
    left = timeout_ms - (core_monotonic_ms() - started_ms);
    return left > 1 ? left : 1;
}

/* The interpreter does not say, without its lock, whether a signal has come. So now and
 * then the wait is left to look, in the thread that handlers run in. */
static int is_time_to_look(void *argument)
{
    core_channel *channel = argument;
    int64_t now_ms = core_monotonic_ms();

    if (channel->is_whole_wait || now_ms - channel->signals_ms < NC_SIGNAL_LOOK_MS / 2)
        return 0;
    channel->signals_ms = now_ms;
    return syscall(SYS_gettid) == getpid();
}

int core_notice_signals(core_channel *channel)
{
    return nearcall_interruptible_check(channel->handle, is_time_to_look, channel);
}

int core_run_handlers(core_channel *channel)
{
    if (PyErr_CheckSignals() == 0)
        return 0;
    channel->handler_raised = 1;
    return -1;
}

/* Goes on with an interrupted function until it has another result. */
static int resume(core_channel *channel, int r, nearcall_reply *ret_reply)
{
    while (r == NEARCALL_E_INTERRUPTED) {
        uint64_t interrupted = nearcall_interrupted(channel->handle);

        if (core_run_handlers(channel) < 0)
            return CORE_RAISED;
        Py_BEGIN_ALLOW_THREADS
        r = nearcall_resume(channel->handle, interrupted, ret_reply);
        Py_END_ALLOW_THREADS
    }
    return r;
}

int core_wait_find(core_channel *channel, const char *name, size_t name_bytes,
                   int64_t timeout_ms, nearcall_function **ret_function)
{
    int r, interrupted;

    do {
        Py_BEGIN_ALLOW_THREADS
        r = nearcall_find(channel->handle, name, name_bytes, timeout_ms, ret_function);
        Py_END_ALLOW_THREADS
        interrupted = r == NEARCALL_E_INTERRUPTED;
        r = resume(channel, r, NULL);
    } while (interrupted && r == NEARCALL_OK);
    return r;
}

static int compare(core_channel *channel, nearcall_function *function, const char *hash,
                   const char *description, int64_t timeout_ms)
{
    int64_t started_ms = core_monotonic_ms();
    int r;

    for (;;) {
        Py_BEGIN_ALLOW_THREADS
        r = nearcall_compare(channel->handle, function, hash, description,
                             core_milliseconds_left(timeout_ms, started_ms));
        Py_END_ALLOW_THREADS
        if (r != NEARCALL_E_INTERRUPTED)
            return r;
        if (core_run_handlers(channel) < 0)
            return CORE_RAISED;
    }
}

int core_wait_compare(core_channel *channel, nearcall_function *function, const char *hash,
                      const char *description, int64_t timeout_ms)
{
    int r;

    /* It begins anew when it is interrupted, so that is left to signals that arrive. */
    channel->is_whole_wait = 1;
    r = compare(channel, function, hash, description, timeout_ms);
    channel->is_whole_wait = 0;
    return r;
}

int core_wait_request(core_channel *channel, int64_t timeout_ms, nearcall_reply *ret_reply)
{
    int r;

    Py_BEGIN_ALLOW_THREADS
    r = nearcall_request_call(channel->handle, timeout_ms, ret_reply);
    Py_END_ALLOW_THREADS
    return resume(channel, r, ret_reply);
}

int core_wait_values(core_channel *channel, nearcall_function *function, int codec, const nearcall_value *values,
                     size_t count, int64_t timeout_ms, nearcall_reply *ret_reply)
{
    int r;

    Py_BEGIN_ALLOW_THREADS
    r = nearcall_call_values(channel->handle, function, codec, values, count, timeout_ms, ret_reply);
    Py_END_ALLOW_THREADS
    return resume(channel, r, ret_reply);
}

int core_wait_raw(core_channel *channel, const char *name, const void *data, size_t bytes,
                  int64_t timeout_ms, nearcall_reply *ret_reply)
{
    int r;

    Py_BEGIN_ALLOW_THREADS
    r = nearcall_call(channel->handle, name, data, bytes, timeout_ms, ret_reply);
    Py_END_ALLOW_THREADS
    return resume(channel, r, ret_reply);
}

/* These are not resumed but asked again, with what is left of the time. */
int core_wait_connect(core_channel *channel, int64_t timeout_ms)
{
    int64_t started_ms = core_monotonic_ms();
    int r;

    for (;;) {
        Py_BEGIN_ALLOW_THREADS
        r = nearcall_connect(channel->handle, core_milliseconds_left(timeout_ms, started_ms));
        Py_END_ALLOW_THREADS
        if (r != NEARCALL_E_INTERRUPTED)
            return r;
        if (core_run_handlers(channel) < 0)
            return CORE_RAISED;
    }
}

int core_wait_ping(core_channel *channel, int64_t timeout_ms, uint64_t *ret_round_trip_ns)
{
    int64_t began_ms = core_monotonic_ms(), sent_ns;
    int r = core_wait_connect(channel, timeout_ms);

    if (r != NEARCALL_OK)
        return r;
    sent_ns = clock_ns(CLOCK_MONOTONIC);
    channel->signals_ms = sent_ns / NANOSECONDS_PER_MILLISECOND;
    Py_BEGIN_ALLOW_THREADS
    r = nearcall_ping(channel->handle, core_milliseconds_left(timeout_ms, began_ms),
                      ret_round_trip_ns);
    Py_END_ALLOW_THREADS
    if (r != NEARCALL_E_INTERRUPTED)
        return r;
    /* Of a ping that was resumed the library does not say how long it took. */
    r = resume(channel, r, NULL);
    *ret_round_trip_ns = (uint64_t)(clock_ns(CLOCK_MONOTONIC) - sent_ns);
    return r;
}

/* A signal that comes while connecting leaves the request in its buffer, unsent. */
int core_send_request(core_channel *channel, int64_t timeout_ms, nearcall_call_id *ret_id)
{
    int64_t started_ms = core_monotonic_ms();
    int r;

    for (;;) {
        Py_BEGIN_ALLOW_THREADS
        r = nearcall_request_send(channel->handle,
                                  core_milliseconds_left(timeout_ms, started_ms), ret_id);
        Py_END_ALLOW_THREADS
        if (r != NEARCALL_E_INTERRUPTED)
            return r;
        if (core_run_handlers(channel) < 0)
            return CORE_RAISED;
    }
}
