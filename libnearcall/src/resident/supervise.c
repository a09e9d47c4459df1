/* What a supervisor waits for. */
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "resident/resident.h"

#define FIXED 2 /* signals, files */
#define PER_WORKER 2

static size_t workers_count(const nearcall_resident *resident)
{
    size_t count = 0;
    for (const struct nc_resident_worker *worker = resident->workers; worker; worker = worker->next)
        count++;
    return count;
}

static bool has_runs(const nearcall_resident *resident)
{
    return nc_resident_count(resident, NC_RESIDENT_BUSY) > 0;
}

static int64_t timer_ns(const nearcall_resident *resident)
{
    int64_t until_ns = resident->retry_ns ? resident->retry_ns : NC_NEVER;
    if (!resident->leaving && !has_runs(resident) && resident->idle_ms != NEARCALL_NO_TIMEOUT)
        until_ns = nc_earlier(until_ns, nc_after_ms(resident->idle_since_ns, resident->idle_ms));
    return until_ns;
}

static int timeout_ms(const nearcall_resident *resident)
{
    int64_t until_ns = timer_ns(resident), now_ns = nc_now_ns();
    if (until_ns == NC_NEVER)
        return -1;
    int64_t ms = until_ns <= now_ns ? 0 : (until_ns - now_ns - 1) / NC_NS_PER_MS + 1;
    return ms > INT32_MAX ? INT32_MAX : (int)ms;
}

static void handle_fixed(nearcall_resident *resident, const struct pollfd *set)
{
    struct signalfd_siginfo signal;
    if (set[0].revents && read(resident->signals, &signal, sizeof(signal)) > 0)
        nc_resident_leave(resident, "SIGTERM");
    if (set[1].revents) {
        if (nc_resident_watch_changed(resident)) {
            resident->outdated = true;
            nc_resident_leave(resident, "a file it was made from has changed");
        } else if (!resident->leaving && !nc_resident_place_is_own(resident)) {
            nc_resident_leave(resident, "its socket is gone");
        }
    }
}

/* The table may shrink meanwhile, and only of the worker that is looked at. */
static void handle_workers(nearcall_resident *resident, const struct pollfd *set)
{
    struct nc_resident_worker *worker = resident->workers, *next;
    for (; worker; worker = next, set += PER_WORKER) {
        next = worker->next;
        if (set[0].revents)
            nc_resident_worker_hear(resident, worker);
        if (set[1].revents)
            nc_resident_worker_reap(resident, worker);
    }
}

static struct pollfd *make_set(const nearcall_resident *resident, size_t count)
{
    struct pollfd *set = calloc(count, sizeof(*set)), *at = set;
    if (!set)
        return NULL;
    *at++ = (struct pollfd){.fd = resident->signals, .events = POLLIN};
    /* The events of a change are not taken. */
    *at++ = (struct pollfd){.fd = resident->outdated ? -1 : resident->inotify, .events = POLLIN};
    for (const struct nc_resident_worker *worker = resident->workers; worker; worker = worker->next) {
        *at++ = (struct pollfd){.fd = worker->lease, .events = POLLIN};
        *at++ = (struct pollfd){.fd = worker->pidfd, .events = POLLIN};
    }
    return set;
}

static int wait_for_events(nearcall_resident *resident)
{
    size_t count = FIXED + PER_WORKER * workers_count(resident);
    struct pollfd *set = make_set(resident, count);
    int r = NEARCALL_OK;
    if (!set)
        return nc_resident_fail(resident, NEARCALL_E_RESOURCE_EXHAUSTED, "no memory to wait with");
    int ready = nc_resident_poll(resident, set, count, timeout_ms(resident));
    if (ready < 0)
        r = errno == EINTR ? NEARCALL_E_INTERRUPTED
                           : nc_resident_fail(resident, NEARCALL_E_INTERNAL, "poll: %s", strerror(errno));
    if (ready > 0) {
        handle_fixed(resident, set);
        handle_workers(resident, set + FIXED);
    }
    free(set);
    return r;
}

static void look_at_time(nearcall_resident *resident)
{
    int64_t now_ns = nc_now_ns();
    if (resident->retry_ns && now_ns >= resident->retry_ns)
        resident->retry_ns = 0;
    if (!resident->leaving && !has_runs(resident) && resident->idle_ms != NEARCALL_NO_TIMEOUT &&
        now_ns >= nc_after_ms(resident->idle_since_ns, resident->idle_ms))
        nc_resident_leave(resident, "nothing ran for its idle time");
}

static int fail_of_workers(nearcall_resident *resident)
{
    bool is_lost = resident->lost > NC_RESIDENT_WORKERS_CEILING;
    return nc_resident_fail(resident, NEARCALL_E_ABORTED, "%u processes in a row ended %s a run",
                            is_lost ? resident->lost : resident->failures,
                            is_lost ? "while they waited for" : "before they waited for");
}

NEARCALL_API int nearcall_resident_next(nearcall_resident *resident)
{
    if (!resident || resident->supervisor != getpid() || resident->signals < 0)
        return NEARCALL_E_MISUSE;
    for (;;) {
        if (resident->outdated && resident->ready)
            nc_resident_leave(resident, "a file it was made from has changed");
        if (resident->failures > NC_RESIDENT_STARTS_MAX || resident->lost > NC_RESIDENT_WORKERS_CEILING)
            return fail_of_workers(resident);
        if (nc_resident_wants_worker(resident)) {
            int r = nc_resident_ask_for_fork(resident);
            if (r != NEARCALL_OK)
                return r;
        } else if (resident->leaving && !resident->workers) {
            return NEARCALL_RESIDENT_LEAVE;
        }
        int r = wait_for_events(resident);
        if (r < 0)
            return r;
        look_at_time(resident);
    }
}
