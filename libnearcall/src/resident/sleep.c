/* Sleeps that a signal ends, whenever it comes. They may last for days, so that nobody looks
 * for signals every few milliseconds: these are kept away from when the program is asked on,
 * and the sleep itself lets them in. */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <sys/epoll.h>

#include "base/clock.h"
#include "resident/resident.h"

/* False: one has come. *ret_mask is what to sleep with, NULL for the one there is. */
static bool hold_signals(const nearcall_resident *resident, sigset_t *former, const sigset_t **ret_mask)
{
    sigset_t all;
    *ret_mask = NULL;
    if (!resident->interrupt_check)
        return true;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, former);
    *ret_mask = former;
    if (!resident->interrupt_check(resident->interrupt_argument))
        return true;
    pthread_sigmask(SIG_SETMASK, former, NULL);
    errno = EINTR;
    return false;
}

static int go_on(const sigset_t *mask, int ready)
{
    if (mask)
        pthread_sigmask(SIG_SETMASK, mask, NULL);
    return ready;
}

int nc_resident_poll(const nearcall_resident *resident, struct pollfd *set, size_t count, int timeout_ms)
{
    const struct timespec timeout = nc_timespec(timeout_ms * NC_NS_PER_MS);
    sigset_t former;
    const sigset_t *mask;
    if (!hold_signals(resident, &former, &mask))
        return -1;
    return go_on(mask, ppoll(set, (nfds_t)count, timeout_ms < 0 ? NULL : &timeout, mask));
}

int nc_resident_epoll_wait(const nearcall_resident *resident, struct epoll_event *events, int count)
{
    sigset_t former;
    const sigset_t *mask;
    if (!hold_signals(resident, &former, &mask))
        return -1;
    return go_on(mask, epoll_pwait(resident->epoll, events, count, -1, mask));
}
