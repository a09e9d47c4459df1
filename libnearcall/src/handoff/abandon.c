/* A function that a signal's handler has left by longjmp(3): the handle stays busy, as it does after none
 * that has ended. */
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/descriptor.h"
#include "base/rights.h"
#include "handoff/handoff.h"

#define ABANDONED "it was ended by nearcall_handoff_abandon(), after a signal's handler had left a function of the handle"

/* Whose a gift is that was left is not known: it is its peer's if that had taken it by then. */
static void end_sleeper(nearcall_handoff *handoff)
{
    for (struct nc_handoff_channel *channel = handoff->channels; channel; channel = channel->next)
        if (channel->gift.fate == NC_HANDOFF_WAITING)
            nc_handoff_channel_end(channel, ABANDONED);
}

/* What its memory holds may be half changed, and is forgotten. */
static void end_channel(nearcall_handoff *handoff, struct nc_handoff_channel *channel)
{
    if (channel->state == NC_HANDOFF_ENDED)
        return;
    int fd = channel->fd;
    channel->fd = -1;
    channel->state = NC_HANDOFF_ENDED;
    channel->deadline_ns = NC_NEVER;
    channel->answer_ns = 0;
    channel->arrivals = 0;
    channel->gift.fate = NC_HANDOFF_IS_LOST;
    memset(&channel->out, 0, sizeof(channel->out));
    memset(&channel->reader, 0, sizeof(channel->reader));
    snprintf(channel->why, sizeof(channel->why), "%s", ABANDONED);
    if (!nc_descriptor_is(fd, channel->device, channel->inode))
        return;
    epoll_ctl(handoff->epoll_fd, EPOLL_CTL_DEL, fd, NULL);
    nc_rights_drain_agreed(fd);
    close(fd);
}

static void forget_arrivals(nearcall_handoff *handoff)
{
    for (struct nc_handoff_arrival *arrival = handoff->arrivals; arrival; arrival = arrival->next)
        if (nc_descriptor_is(arrival->fd, arrival->device, arrival->inode))
            nc_rights_close_received(arrival->fd, arrival->received_by);
    handoff->arrivals = NULL;
    handoff->arrivals_end = &handoff->arrivals;
    handoff->accepted.arrival = NULL;
}

/* It may have been about to watch, or to let be, either. */
static void watch_anew(nearcall_handoff *handoff)
{
    epoll_ctl(handoff->epoll_fd, EPOLL_CTL_DEL, handoff->bell_fd, NULL);
    epoll_ctl(handoff->epoll_fd, EPOLL_CTL_DEL, handoff->listening.fd, NULL);
    handoff->bell_rings = handoff->listening.watched = false;
    handoff->listening.retry_ns = 0;
    nc_handoff_watch_listening(handoff);
}

/* Only what the kernel has is given back. */
static void end_half_way(nearcall_handoff *handoff)
{
    for (struct nc_handoff_channel *channel = handoff->channels; channel; channel = channel->next)
        end_channel(handoff, channel);
    handoff->channels_open = 0;
    forget_arrivals(handoff);
    watch_anew(handoff);
}

NEARCALL_API int nearcall_handoff_abandon(nearcall_handoff *handoff)
{
    if (!handoff)
        return NEARCALL_E_MISUSE;
    if (!nc_handoff_is_busy(handoff))
        return 0;
    if (nc_forked(&handoff->guard)) /* what was left is the parent's */
        nc_handoff_after_fork(handoff);
    else if (atomic_load_explicit(&handoff->asleep, memory_order_relaxed))
        end_sleeper(handoff);
    else
        end_half_way(handoff);
    nc_handoff_wake_up(handoff);
    return nc_handoff_leave(handoff, 1);
}
