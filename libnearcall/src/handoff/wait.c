/* Waiting, and what the program asks for: accept, refuse, drain. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>

#include "base/rights.h"
#include "handoff/handoff.h"

#define EVENTS_MAX 32

/* What is there already is more than one round of what must follow on each other:
 * a channel, its hello, what it gives. */
#define ROUNDS_MAX 8

/* The longest pause while nothing can wake. */
#define BLIND_PAUSE_MS 10

#define ANSWER_TIMEOUT_MS NC_HANDOFF_RECALL_MS

static int64_t timer_ns(const nearcall_handoff *handoff)
{
    int64_t until_ns = handoff->listening.retry_ns ? handoff->listening.retry_ns : NC_NEVER;
    for (const struct nc_handoff_channel *channel = handoff->channels; channel;
         channel = channel->next) {
        until_ns = nc_earlier(until_ns, channel->deadline_ns);
        if (channel->answer_ns)
            until_ns = nc_earlier(until_ns, channel->answer_ns);
    }
    return until_ns;
}

static void expire(nearcall_handoff *handoff)
{
    for (struct nc_handoff_channel *channel = handoff->channels; channel; channel = channel->next) {
        if (channel->answer_ns && handoff->now_ns >= channel->answer_ns)
            nc_handoff_channel_end(channel, "the peer does not read the answers");
        if (handoff->now_ns >= channel->deadline_ns)
            nc_handoff_channel_expire(channel);
    }
    if (handoff->listening.retry_ns && handoff->now_ns >= handoff->listening.retry_ns) {
        handoff->listening.retry_ns = 0;
        nc_handoff_watch_listening(handoff);
    }
}

static void handle_event(nearcall_handoff *handoff, const struct epoll_event *event)
{
    struct nc_handoff_channel *channel = event->data.ptr;
    if (event->data.ptr == handoff)
        return; /* the bell */
    if (!channel) {
        nc_handoff_accept_channel(handoff);
        return;
    }
    if (event->events & EPOLLOUT)
        nc_handoff_channel_flush(channel);
    if (event->events & ~(uint32_t)EPOLLOUT)
        nc_handoff_channel_receive(channel);
}

/* Rounded up, so that nobody wakes before the time. */
static int milliseconds_until(int64_t now_ns, int64_t until_ns)
{
    if (until_ns <= now_ns)
        return 0;
    int64_t ms = (until_ns - now_ns - 1) / NC_NS_PER_MS + 1;
    return until_ns == NC_NEVER ? -1 : ms > INT32_MAX ? INT32_MAX : (int)ms;
}

/* A wait that nothing can wake before its time must not spin. */
static int cannot_wait(nearcall_handoff *handoff, int64_t until_ns, int r)
{
    int64_t pause_ns = nc_earlier(until_ns, nc_after_ms(handoff->now_ns, BLIND_PAUSE_MS));
    nc_handoff_fall_asleep(handoff);
    (void)poll(NULL, 0, milliseconds_until(handoff->now_ns, pause_ns));
    nc_handoff_wake_up(handoff);
    handoff->now_ns = nc_now_ns();
    return r;
}

static int wait_failed(nearcall_handoff *handoff, int64_t until_ns, int error)
{
    if (error == EINTR)
        return NEARCALL_E_INTERRUPTED;
    return cannot_wait(handoff, until_ns,
                       nc_handoff_fail(handoff, NEARCALL_E_FAILED_PRECONDITION,
                                       "epoll_wait: %s; the program has closed descriptors that are "
                                       "the library's: close this handle and make another",
                                       strerror(error)));
}

/* How many events were handled, or as nc_handoff_pump(). */
static int pump(nearcall_handoff *handoff, int64_t until_ns)
{
    struct epoll_event events[EVENTS_MAX];
    until_ns = nc_earlier(until_ns, timer_ns(handoff));
    int r = nc_handoff_open_watch(handoff);
    if (r < 0)
        return cannot_wait(handoff, until_ns, r);
    nc_handoff_fall_asleep(handoff);
    int count = epoll_wait(handoff->epoll_fd, events, EVENTS_MAX,
                           milliseconds_until(handoff->now_ns, until_ns));
    int error = errno;
    nc_handoff_wake_up(handoff);
    handoff->now_ns = nc_now_ns();
    if (nc_handoff_forked_inside(handoff))
        return 0;
    if (count < 0)
        return wait_failed(handoff, until_ns, error);
    for (int i = 0; i < count; i++)
        handle_event(handoff, &events[i]);
    expire(handoff);
    return count;
}

int nc_handoff_pump(nearcall_handoff *handoff, int64_t until_ns)
{
    int r = pump(handoff, until_ns);
    return r < 0 ? r : NEARCALL_OK;
}

NEARCALL_API int64_t nearcall_handoff_timeout_ms(nearcall_handoff *handoff)
{
    if (nc_handoff_enter(handoff) < 0)
        return -1;
    bool has_arrival = nc_handoff_answerable_arrival(handoff) != NULL;
    int64_t until_ns = timer_ns(handoff);
    int64_t left_ns = until_ns - handoff->now_ns;
    (void)nc_handoff_leave(handoff, NEARCALL_OK);
    if (has_arrival || left_ns <= 0)
        return 0;
    return until_ns == NC_NEVER ? -1 : (left_ns + NC_NS_PER_MS - 1) / NC_NS_PER_MS;
}

/* ---- Waiting for what is given ---- */

static int nothing_can_come(nearcall_handoff *handoff)
{
    const struct nc_handoff_channel *connected = handoff->connected;
    if (handoff->drained)
        return nc_handoff_fail(handoff, NEARCALL_E_UNAVAILABLE, "this handle was drained");
    if (handoff->listening.fd >= 0)
        return NEARCALL_OK;
    if (!connected || connected->state == NC_HANDOFF_ENDED)
        return nc_handoff_fail(handoff, NEARCALL_E_UNAVAILABLE, "the channel has ended: %s",
                               connected ? connected->why : "a child has none");
    return NEARCALL_OK;
}

static int64_t deadline_of(const nearcall_handoff *handoff, int64_t timeout_ms)
{
    return timeout_ms == 0 ? handoff->now_ns : nc_after_ms(handoff->now_ns, timeout_ms);
}

/* What is there is handled first: a giver may have asked for its gift back. */
static int look(nearcall_handoff *handoff)
{
    int r = 1;
    for (int i = 0; i < ROUNDS_MAX && r > 0 && (i == 0 || !nc_handoff_answerable_arrival(handoff)); i++)
        r = pump(handoff, handoff->now_ns);
    return r < 0 ? r : NEARCALL_OK;
}

/* Asks whether a signal came that the sleep would not notice, and sleeps until it is time to
 * ask again (see wait.c). */
static int wait_once(nearcall_handoff *handoff, int64_t until_ns)
{
    if (!handoff->interrupt_check)
        return nc_handoff_pump(handoff, until_ns);
    if (handoff->interrupt_check(handoff->interrupt_argument) != 0)
        return NEARCALL_E_INTERRUPTED;
    return nc_handoff_pump(handoff, nc_earlier(until_ns, nc_after_ms(handoff->now_ns, NC_SIGNAL_LOOK_MS)));
}

static int nothing_came(nearcall_handoff *handoff, int64_t timeout_ms)
{
    return timeout_ms == 0 ? NEARCALL_E_AGAIN
                           : nc_handoff_fail(handoff, NEARCALL_E_DEADLINE_EXCEEDED,
                                             "nothing was given within %lld ms", (long long)timeout_ms);
}

static int wait_for_arrival(nearcall_handoff *handoff, int64_t until_ns, int64_t timeout_ms)
{
    int r = look(handoff);
    for (;;) {
        if (r == NEARCALL_E_INTERRUPTED && handoff->flags & NEARCALL_HANDOFF_INTERRUPTIBLE)
            return nc_handoff_fail(handoff, r, "a signal arrived");
        if (r < 0 && r != NEARCALL_E_INTERRUPTED)
            return r;
        if (nc_handoff_answerable_arrival(handoff))
            return NEARCALL_OK;
        r = handoff->arrivals ? NEARCALL_OK : nothing_can_come(handoff);
        if (r < 0)
            return r;
        if (handoff->now_ns >= until_ns)
            return nothing_came(handoff, timeout_ms);
        r = wait_once(handoff, until_ns);
    }
}

NEARCALL_API int nearcall_handoff_interruptible_check(nearcall_handoff *handoff,
                                                      int (*check)(void *argument), void *argument)
{
    int r = nc_handoff_enter(handoff);
    if (r < 0)
        return r;
    if (!(handoff->flags & NEARCALL_HANDOFF_INTERRUPTIBLE))
        return nc_handoff_leave(handoff,
                                nc_handoff_fail(handoff, NEARCALL_E_MISUSE,
                                                "signals do not end the waits of this handle: it was made "
                                                "without NEARCALL_HANDOFF_INTERRUPTIBLE"));
    handoff->interrupt_check = check;
    handoff->interrupt_argument = argument;
    return nc_handoff_leave(handoff, NEARCALL_OK);
}

NEARCALL_API int nearcall_handoff_wait(nearcall_handoff *handoff, int64_t timeout_ms)
{
    int r = nc_handoff_enter(handoff);
    if (r < 0)
        return r;
    return nc_handoff_leave(handoff, wait_for_arrival(handoff, deadline_of(handoff, timeout_ms), timeout_ms));
}

/* ---- Accepting ---- */

/* Writes TAKEN, and returns whether the kernel has it all: only then it is ours. There was room
 * for it, so a kernel that does not take it has no memory. */
static bool confirm(struct nc_handoff_channel *channel, uint64_t id)
{
    struct nc_handoff_frame taken = {.type = NC_HANDOFF_TAKEN, .id = id};
    uint64_t end = channel->queued + NC_HANDOFF_HEADER_BYTES;
    nc_handoff_channel_send(channel, &taken);
    if (channel->written < end)
        nc_handoff_channel_end(channel, "its answer could not be written");
    return channel->written >= end;
}

/* Only now: the giver may not find its own socket changed. */
static void set_blocking(const nearcall_handoff *handoff, int fd)
{
    int flags = fcntl(fd, F_GETFL);
    int wanted = handoff->flags & NEARCALL_HANDOFF_NONBLOCKING ? flags | O_NONBLOCK
                                                               : flags & ~O_NONBLOCK;
    if (flags >= 0 && flags != wanted)
        fcntl(fd, F_SETFL, wanted);
}

static void copy_text(char *to, size_t capacity, const struct nc_handoff_text *text)
{
    snprintf(to, capacity, "%.*s", (int)text->bytes, (const char *)text->data);
}

static void hand_out(nearcall_handoff *handoff, struct nc_handoff_arrival *arrival,
                     nearcall_handoff_item *ret_item)
{
    struct nc_handoff_accepted *accepted = &handoff->accepted;
    const struct nc_handoff_text *parts = arrival->parts;
    int fd = arrival->fd;
    arrival->fd = -1;
    nc_rights_disarm(fd);
    nc_handoff_arrival_free(accepted->arrival);
    accepted->arrival = arrival;
    copy_text(accepted->name, sizeof(accepted->name), &parts[NC_HANDOFF_NAME]);
    copy_text(accepted->local, sizeof(accepted->local), &parts[NC_HANDOFF_LOCAL]);
    copy_text(accepted->remote, sizeof(accepted->remote), &parts[NC_HANDOFF_REMOTE]);
    if (parts[NC_HANDOFF_LOCAL].bytes == 0)
        nc_handoff_socket_address(fd, false, accepted->local, sizeof(accepted->local));
    if (parts[NC_HANDOFF_REMOTE].bytes == 0)
        nc_handoff_socket_address(fd, true, accepted->remote, sizeof(accepted->remote));
    if (arrival->kind != NEARCALL_HANDOFF_FILE)
        set_blocking(handoff, fd);
    *ret_item = (nearcall_handoff_item){
        .fd = fd,
        .kind = arrival->kind,
        .channel = arrival->channel->number,
        .process_id = (uint32_t)arrival->channel->process_id,
        .user_id = (uint32_t)arrival->channel->user_id,
        .name = accepted->name,
        .local = accepted->local,
        .remote = accepted->remote,
        .prefix = parts[NC_HANDOFF_PREFIX].data,
        .prefix_bytes = parts[NC_HANDOFF_PREFIX].bytes,
        .message = parts[NC_HANDOFF_MESSAGE].data,
        .message_bytes = parts[NC_HANDOFF_MESSAGE].bytes,
    };
}

/* Givers whose channels end before they are answered may come again and again: the deadline is
 * that of all. */
static int accept_next(nearcall_handoff *handoff, int64_t timeout_ms,
                       nearcall_handoff_item *ret_item)
{
    int64_t until_ns = deadline_of(handoff, timeout_ms);
    for (int lost = 0; lost < ROUNDS_MAX || handoff->now_ns < until_ns; lost++) {
        int r = wait_for_arrival(handoff, until_ns, timeout_ms);
        if (r < 0)
            return r;
        struct nc_handoff_arrival *arrival = nc_handoff_answerable_arrival(handoff);
        arrival = nc_handoff_find_arrival(arrival->channel, arrival->id);
        if (confirm(arrival->channel, arrival->id)) {
            hand_out(handoff, arrival, ret_item);
            return NEARCALL_OK;
        }
        nc_handoff_arrival_free(arrival); /* it is its giver's */
    }
    return nothing_came(handoff, timeout_ms);
}

NEARCALL_API int nearcall_handoff_accept(nearcall_handoff *handoff, int64_t timeout_ms,
                                         nearcall_handoff_item *ret_item)
{
    int r = ret_item ? nc_handoff_enter(handoff) : NEARCALL_E_MISUSE;
    if (r < 0)
        return r;
    return nc_handoff_leave(handoff, accept_next(handoff, timeout_ms, ret_item));
}

/* ---- Refusing and draining ---- */

/* Refusals are answers: they never wait. */
static void refuse(struct nc_handoff_arrival *arrival, int reason, const char *text)
{
    struct nc_handoff_channel *channel = arrival->channel;
    uint64_t id = arrival->id;
    nc_handoff_arrival_free(arrival);
    nc_handoff_answer_refused(channel, id, reason, text ? text : "");
}

NEARCALL_API int nearcall_handoff_refuse(nearcall_handoff *handoff, int reason, const char *text)
{
    int r = nc_handoff_enter(handoff);
    if (r < 0)
        return r;
    if (reason < NEARCALL_HANDOFF_BUSY || reason > NEARCALL_HANDOFF_DENIED)
        return nc_handoff_leave(handoff, nc_handoff_fail(handoff, NEARCALL_E_INVALID_ARGUMENT,
                                                         "there is no reason %d to refuse by", reason));
    struct nc_handoff_arrival *arrival = nc_handoff_next_arrival(handoff);
    if (!arrival)
        return nc_handoff_leave(handoff, NEARCALL_E_AGAIN);
    refuse(arrival, reason, text);
    return nc_handoff_leave(handoff, NEARCALL_OK);
}

static bool is_written(const nearcall_handoff *handoff)
{
    for (const struct nc_handoff_channel *channel = handoff->channels; channel;
         channel = channel->next)
        if (channel->state == NC_HANDOFF_OPEN && nc_buffer_bytes(&channel->out) > 0)
            return false;
    return true;
}

NEARCALL_API int nearcall_handoff_drain(nearcall_handoff *handoff, const char *text)
{
    int r = nc_handoff_enter(handoff);
    if (r < 0)
        return r;
    struct nc_handoff_frame drain = {.type = NC_HANDOFF_DRAIN};
    drain.parts[NC_HANDOFF_MESSAGE].data = (const uint8_t *)text;
    drain.parts[NC_HANDOFF_MESSAGE].bytes = text ? strlen(text) : 0;
    handoff->drained = true;
    nc_handoff_stop_listening(handoff);
    struct nc_handoff_arrival *arrival;
    while ((arrival = nc_handoff_next_arrival(handoff)) != NULL)
        refuse(arrival, NEARCALL_HANDOFF_DRAINING, text);
    for (struct nc_handoff_channel *channel = handoff->channels; channel; channel = channel->next) {
        if (channel->state != NC_HANDOFF_OPEN)
            continue;
        if (drain.parts[NC_HANDOFF_MESSAGE].bytes > channel->peer.message_bytes_max)
            drain.parts[NC_HANDOFF_MESSAGE].bytes = 0;
        nc_handoff_channel_send(channel, &drain);
    }
    int64_t until_ns = nc_after_ms(handoff->now_ns, ANSWER_TIMEOUT_MS);
    while (!is_written(handoff) && handoff->now_ns < until_ns)
        (void)nc_handoff_pump(handoff, until_ns);
    return nc_handoff_leave(handoff, NEARCALL_OK);
}
