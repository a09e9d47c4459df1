/* The handle of handoffs: its options, coming in, in this process or a child, and leaving it. */
#include "handoff/handoff.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>

#include "base/sized.h"

/* ---- Options ---- */

static int keep(nearcall_handoff *handoff, const char *option, uint32_t *to, uint32_t value,
                uint32_t otherwise, uint32_t ceiling)
{
    if (value > ceiling)
        return nc_handoff_fail(handoff, NEARCALL_E_INVALID_ARGUMENT,
                               "%s is %u: it is out of range (0 to %u)", option, value, ceiling);
    *to = value ? value : otherwise;
    return NEARCALL_OK;
}

static int keep_limits(nearcall_handoff *handoff, const nearcall_handoff_options *options)
{
    int r = keep(handoff, "window", &handoff->window, options->window, NC_HANDOFF_WINDOW,
                 NC_HANDOFF_WINDOW_CEILING);
    if (r == NEARCALL_OK)
        r = keep(handoff, "prefix_bytes_max", &handoff->limits.prefix_bytes_max,
                 options->prefix_bytes_max, NC_HANDOFF_PREFIX_BYTES_MAX,
                 NC_HANDOFF_PREFIX_BYTES_MAX_CEILING);
    if (r == NEARCALL_OK)
        r = keep(handoff, "message_bytes_max", &handoff->limits.message_bytes_max,
                 options->message_bytes_max, NC_HANDOFF_MESSAGE_BYTES_MAX,
                 NC_HANDOFF_MESSAGE_BYTES_MAX_CEILING);
    if (r == NEARCALL_OK)
        r = keep(handoff, "channels_max", &handoff->channels_max, options->channels_max,
                 NC_CONNECTIONS_MAX, NC_CONNECTIONS_MAX_CEILING);
    return r;
}

#define TAKE_ALL                                                                          \
    (NEARCALL_HANDOFF_TAKE_CONNECTIONS | NEARCALL_HANDOFF_TAKE_LISTENERS |                \
     NEARCALL_HANDOFF_TAKE_FILES)

static int keep_users(nearcall_handoff *handoff, const nearcall_handoff_options *options)
{
    size_t bytes = (size_t)options->peer_user_ids_count * sizeof(uint32_t);
    if (bytes == 0)
        return NEARCALL_OK;
    if (!options->peer_user_ids)
        return nc_handoff_fail(handoff, NEARCALL_E_INVALID_ARGUMENT,
                               "peer_user_ids is NULL and peer_user_ids_count is not 0");
    handoff->users = malloc(bytes);
    if (!handoff->users)
        return nc_handoff_fail(handoff, NEARCALL_E_RESOURCE_EXHAUSTED, "no memory for the options");
    memcpy(handoff->users, options->peer_user_ids, bytes);
    handoff->users_count = options->peer_user_ids_count;
    return NEARCALL_OK;
}

static int keep_options(nearcall_handoff *handoff, const nearcall_handoff_options *given,
                        uint32_t takes)
{
    nearcall_handoff_options options = NEARCALL_HANDOFF_OPTIONS_INIT;
    const char *allowed = nc_sized_read(given, &options, sizeof(options));
    if (allowed)
        return nc_handoff_fail(handoff, NEARCALL_E_INVALID_ARGUMENT, "struct_size is %zu; allowed: %s",
                               nc_sized_bytes(given), allowed);
    handoff->flags = options.flags;
    handoff->mode = options.mode;
    if (options.flags & TAKE_ALL)
        takes = options.flags & TAKE_ALL;
    handoff->takes = takes / NEARCALL_HANDOFF_TAKE_CONNECTIONS; /* as a hello says it */
    int r = keep_limits(handoff, &options);
    return r == NEARCALL_OK ? keep_users(handoff, &options) : r;
}

/* ---- The handle ---- */

static int open_epoll(nearcall_handoff *handoff)
{
    handoff->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    if (handoff->epoll_fd < 0)
        return nc_handoff_fail(handoff, NEARCALL_E_RESOURCE_EXHAUSTED,
                               "epoll_create1: %s; close descriptors, or raise the limit "
                               "(RLIMIT_NOFILE, ulimit -n), and try again",
                               strerror(errno));
    return NEARCALL_OK;
}

/* A child that lacked descriptors when it entered has none to wait with, and tries again. */
int nc_handoff_open_watch(nearcall_handoff *handoff)
{
    if (handoff->epoll_fd >= 0)
        return NEARCALL_OK;
    int r = open_epoll(handoff);
    if (r == NEARCALL_OK)
        nc_handoff_watch_listening(handoff);
    return r;
}

/* ---- The bell: what has arrived inside the library wakes a loop that watches ---- */

/* By joining the set and leaving it, which loops that watch edges are told of. */
static void ring(nearcall_handoff *handoff, bool on)
{
    struct epoll_event event = {.events = EPOLLIN, .data = {.ptr = handoff}};
    if (epoll_ctl(handoff->epoll_fd, on ? EPOLL_CTL_ADD : EPOLL_CTL_DEL, handoff->bell_fd, &event) == 0)
        handoff->bell_rings = on;
}

int nc_handoff_new(nearcall_handoff **ret_handoff, const nearcall_handoff_options *options,
                   uint32_t takes)
{
    nearcall_handoff *handoff = calloc(1, sizeof(*handoff));
    *ret_handoff = handoff;
    if (!handoff)
        return NEARCALL_E_RESOURCE_EXHAUSTED;
    handoff->listening.fd = handoff->listening.lock_fd = handoff->epoll_fd = handoff->bell_fd = -1;
    handoff->arrivals_end = &handoff->arrivals;
    handoff->now_ns = nc_now_ns();
    handoff->unusable = true;
    nc_fork_guard_arm(&handoff->guard);
    nc_handoff_become_busy(handoff);
    int r = keep_options(handoff, options, takes);
    return r == NEARCALL_OK ? open_epoll(handoff) : r;
}

int nc_handoff_opened(nearcall_handoff *handoff, int r)
{
    if (!handoff)
        return r;
    handoff->unusable = r != NEARCALL_OK;
    atomic_store_explicit(&handoff->busy, 0, memory_order_release);
    return r;
}

/* ---- Entering, and what a child does first ---- */

/* What the parent's channels brought is the parent's; this process only has copies. The
 * set of descriptors that epoll watches is shared with the parent and left alone. */
void nc_handoff_after_fork(nearcall_handoff *handoff)
{
    nc_fork_guard_rearm(&handoff->guard);
    handoff->forked = true;
    if (atomic_load_explicit(&handoff->busy, memory_order_acquire)) {
        handoff->channels = NULL;
        handoff->connected = NULL;
        handoff->arrivals = NULL;
        handoff->arrivals_end = &handoff->arrivals;
        handoff->accepted.arrival = NULL;
    }
    for (struct nc_handoff_channel *channel = handoff->channels; channel; channel = channel->next)
        nc_handoff_channel_orphan(channel);
    handoff->channels_open = 0;
    handoff->listening.watched = false;
    handoff->listening.retry_ns = 0;
    handoff->bell_fd = -1;
    handoff->bell_rings = false;
    handoff->epoll_fd = -1; /* the parent's numbers may be others' by now: not closed */
    (void)nc_handoff_open_watch(handoff);
    nc_handoff_wake_up(handoff);
    atomic_store_explicit(&handoff->busy, 0, memory_order_release);
}

/* A signal handler has forked, and this is the child, inside the library. */
bool nc_handoff_forked_inside(nearcall_handoff *handoff)
{
    if (!nc_forked(&handoff->guard))
        return false;
    atomic_store(&handoff->busy, 0); /* it is this very thread: all is whole */
    nc_handoff_after_fork(handoff);
    nc_handoff_become_busy(handoff);
    return true;
}

static void reap(nearcall_handoff *handoff)
{
    struct nc_handoff_channel **link = &handoff->channels;
    while (*link) {
        struct nc_handoff_channel *channel = *link;
        if (channel->state != NC_HANDOFF_ENDED || channel == handoff->connected) {
            link = &channel->next;
            continue;
        }
        *link = channel->next;
        free(channel);
    }
}

int nc_handoff_enter(nearcall_handoff *handoff)
{
    if (!handoff)
        return NEARCALL_E_MISUSE;
    if (handoff->unusable)
        return NEARCALL_E_MISUSE;
    if (nc_forked(&handoff->guard))
        nc_handoff_after_fork(handoff);
    if (nc_handoff_is_busy(handoff))
        return NEARCALL_E_MISUSE; /* a signal's handler, or another thread; the message is not theirs */
    nc_handoff_become_busy(handoff);
    reap(handoff);
    if (handoff->bell_rings)
        ring(handoff, false);
    handoff->now_ns = nc_now_ns();
    handoff->message[0] = '\0';
    handoff->reason = 0;
    return NEARCALL_OK;
}

int nc_handoff_leave(nearcall_handoff *handoff, int r)
{
    if (handoff->bell_fd >= 0 && (nc_handoff_answerable_arrival(handoff) || handoff->drained))
        ring(handoff, true);
    atomic_store_explicit(&handoff->busy, 0, memory_order_release);
    return r;
}

NEARCALL_API void nearcall_handoff_close(nearcall_handoff *handoff)
{
    if (!handoff)
        return;
    if (nc_forked(&handoff->guard))
        nc_handoff_after_fork(handoff);
    if (nc_handoff_is_busy(handoff))
        return;
    handoff->connected = NULL;
    for (struct nc_handoff_channel *channel = handoff->channels; channel; channel = channel->next)
        nc_handoff_channel_close(channel);
    reap(handoff);
    nc_handoff_stop_listening(handoff);
    if (handoff->epoll_fd >= 0)
        close(handoff->epoll_fd);
    if (handoff->bell_fd >= 0)
        close(handoff->bell_fd);
    nc_handoff_arrival_free(handoff->accepted.arrival);
    nc_fork_guard_free(&handoff->guard);
    free(handoff->users);
    free(handoff);
}

NEARCALL_API int nearcall_handoff_fd(nearcall_handoff *handoff)
{
    if (nc_handoff_enter(handoff) < 0)
        return -1;
    if (nc_handoff_open_watch(handoff) == NEARCALL_OK && handoff->bell_fd < 0)
        handoff->bell_fd = eventfd(1, EFD_CLOEXEC);
    return nc_handoff_leave(handoff, handoff->epoll_fd);
}
