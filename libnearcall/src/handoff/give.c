/* Connecting to a process that takes, and giving. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "handoff/handoff.h"

/* How long a giver waits that nothing wakes: the receiver's backlog is full, or too many
 * descriptors of this user are on their way, which the kernel counts over all processes. */
#define CROWDED_MS 5

/* ---- Connecting ---- */

static int connect_failed(nearcall_handoff *handoff, const char *address, int error)
{
    const char *advice = error == ENOENT || error == ECONNREFUSED
                             ? "; does the program listen, and is this its address?"
                         : error == EACCES ? "; this user may not connect, see the socket's mode and group"
                                           : "";
    return nc_handoff_fail(handoff, NEARCALL_E_UNAVAILABLE, "cannot connect to %s: %s%s", address,
                           strerror(error), advice);
}

static void pause_until(nearcall_handoff *handoff, int64_t until_ns)
{
    do
        (void)nc_handoff_pump(handoff, until_ns);
    while (handoff->now_ns < until_ns);
}

/* A full backlog is waited for. */
static int connect_until(nearcall_handoff *handoff, const struct nc_address *address, int fd,
                         int64_t until_ns)
{
    struct sockaddr_un to = {.sun_family = AF_UNIX};
    memcpy(to.sun_path, address->path, sizeof(address->path));
    while (connect(fd, (struct sockaddr *)&to, sizeof(to)) != 0) {
        if (errno != EAGAIN && errno != EINTR)
            return errno;
        if (handoff->now_ns >= until_ns)
            return ETIMEDOUT;
        pause_until(handoff, nc_after_ms(handoff->now_ns, CROWDED_MS));
    }
    return 0;
}

static int await_hello(nearcall_handoff *handoff, struct nc_handoff_channel *channel,
                       const char *address, int64_t until_ns)
{
    channel->deadline_ns = until_ns;
    if (!nc_handoff_admits(handoff, channel->user_id)) {
        nc_handoff_channel_close(channel);
        return nc_handoff_fail(handoff, NEARCALL_E_PERMISSION_DENIED,
                               "the process %d at %s is of user %u, which is neither root nor this "
                               "process's; list it in peer_user_ids (in Perl and "
                               "Python peer_users) if it is to be trusted",
                               (int)channel->process_id, address, (unsigned)channel->user_id);
    }
    nc_handoff_channel_send_hello(channel, "");
    while (channel->state == NC_HANDOFF_GREETING)
        (void)nc_handoff_pump(handoff, until_ns);
    if (channel->state == NC_HANDOFF_OPEN)
        return NEARCALL_OK;
    return nc_handoff_fail(handoff, NEARCALL_E_UNAVAILABLE, "no channel to %s: %s", address,
                           channel->why);
}

static int connect_channel(nearcall_handoff *handoff, const char *text, int64_t timeout_ms)
{
    struct nc_address address;
    int64_t until_ns = nc_after_ms(handoff->now_ns, NC_HELLO_TIMEOUT_MS);
    if (timeout_ms > 0)
        until_ns = nc_earlier(until_ns, nc_after_ms(handoff->now_ns, timeout_ms));
    int r = nc_handoff_parse_address(handoff, &address, text);
    if (r < 0)
        return r;
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return connect_failed(handoff, text, errno);
    int error = connect_until(handoff, &address, fd, until_ns);
    if (error != 0) {
        close(fd);
        return connect_failed(handoff, text, error);
    }
    struct nc_handoff_channel *channel = nc_handoff_channel_new(handoff, fd, true);
    if (!channel)
        return nc_handoff_fail(handoff, NEARCALL_E_RESOURCE_EXHAUSTED, "no room for a channel");
    handoff->connected = channel;
    return await_hello(handoff, channel, text, until_ns);
}

NEARCALL_API int nearcall_handoff_connect(nearcall_handoff **ret_handoff, const char *address,
                                          const nearcall_handoff_options *options,
                                          int64_t timeout_ms)
{
    if (!ret_handoff)
        return NEARCALL_E_MISUSE;
    int r = nc_handoff_new(ret_handoff, options, 0);
    if (r == NEARCALL_OK)
        r = connect_channel(*ret_handoff, address, timeout_ms);
    return nc_handoff_opened(*ret_handoff, r);
}

/* ---- Giving ---- */

static struct nc_handoff_channel *find_channel(const nearcall_handoff *handoff, uint64_t number)
{
    struct nc_handoff_channel *channel = handoff->channels;
    if (number == 0)
        return handoff->connected;
    while (channel && channel->number != number)
        channel = channel->next;
    return channel;
}

static int ended(nearcall_handoff *handoff, const struct nc_handoff_channel *channel)
{
    return nc_handoff_fail(handoff, NEARCALL_E_UNAVAILABLE, "the channel has ended: %s",
                           channel && channel->why[0] ? channel->why : "nobody is at its other end");
}

static void fill_frame(struct nc_handoff_frame *frame, const nearcall_handoff_item *item)
{
    const char *texts[] = {item->name, item->local, item->remote};
    memset(frame, 0, sizeof(*frame));
    frame->type = NC_HANDOFF_GIVE;
    frame->kind = (uint8_t)item->kind;
    for (size_t i = NC_HANDOFF_NAME; i <= NC_HANDOFF_REMOTE; i++) {
        frame->parts[i].data = (const uint8_t *)texts[i];
        frame->parts[i].bytes = texts[i] ? strlen(texts[i]) : 0;
    }
    frame->parts[NC_HANDOFF_MESSAGE].data = item->message;
    frame->parts[NC_HANDOFF_MESSAGE].bytes = item->message ? item->message_bytes : 0;
    frame->parts[NC_HANDOFF_PREFIX].data = item->prefix;
    frame->parts[NC_HANDOFF_PREFIX].bytes = item->prefix ? item->prefix_bytes : 0;
}

static int check_gift(nearcall_handoff *handoff, const struct nc_handoff_channel *channel,
                      const nearcall_handoff_item *item, const struct nc_handoff_frame *frame)
{
    struct nc_handoff_fault fault;
    if (item->fd < 0 || item->kind < NEARCALL_HANDOFF_CONNECTION ||
        item->kind > NEARCALL_HANDOFF_FILE)
        return nc_handoff_fail(handoff, NEARCALL_E_INVALID_ARGUMENT,
                               "there is no descriptor, or no such kind, to give");
    if (channel->peer_drains)
        return nc_handoff_fail(handoff, NEARCALL_E_UNAVAILABLE, "the peer takes no more");
    if (!(channel->peer.takes & 1U << (item->kind - NEARCALL_HANDOFF_CONNECTION)))
        return nc_handoff_fail(handoff, NEARCALL_E_UNIMPLEMENTED, "the peer takes nothing of kind %d",
                               item->kind);
    struct nc_handoff_limits limits = {channel->peer.prefix_bytes_max,
                                       channel->peer.message_bytes_max};
    if (nc_handoff_frame_check(frame, &limits, &fault) < 0)
        return nc_handoff_fail(handoff, NEARCALL_E_INVALID_ARGUMENT, "%s", fault.text);
    return NEARCALL_OK;
}

/* One attempt to send the frame with its descriptor, where nothing waits before it. 0 when
 * its first byte, and with it the descriptor, was sent; EAGAIN, ETOOMANYREFS: not, and it
 * can be tried again; another errno. */
static int try_to_send(struct nc_handoff_channel *channel, const struct nc_handoff_frame *frame,
                       int fd)
{
    struct nc_buffer *out = &channel->out;
    if (nc_buffer_bytes(out) > 0) {
        nc_handoff_channel_watch(channel, true);
        return EAGAIN;
    }
    if (nc_handoff_frame_append(out, frame) < 0)
        return ENOMEM;
    size_t bytes = nc_buffer_bytes(out);
    ssize_t r = nc_handoff_channel_write(channel, fd);
    if (r < 0) {
        out->start = out->end = 0;
        nc_handoff_channel_watch(channel, r == -EAGAIN);
        return (int)-r;
    }
    channel->queued += bytes;
    nc_handoff_channel_flush(channel); /* what the kernel did not take yet */
    return 0;
}

static int send_gift(nearcall_handoff *handoff, struct nc_handoff_channel *channel,
                     const struct nc_handoff_frame *frame, int fd, int64_t until_ns)
{
    for (;;) {
        if (channel->state != NC_HANDOFF_OPEN)
            return ended(handoff, channel);
        int error = try_to_send(channel, frame, fd);
        if (error == 0)
            return NEARCALL_OK;
        if (error != EAGAIN && error != ETOOMANYREFS)
            return nc_handoff_fail(handoff, error == EPIPE || error == ECONNRESET
                                                ? NEARCALL_E_UNAVAILABLE
                                                : NEARCALL_E_INVALID_ARGUMENT,
                                   "it cannot be sent: %s", strerror(error));
        if (handoff->now_ns >= until_ns)
            return nc_handoff_fail(handoff, NEARCALL_E_DEADLINE_EXCEEDED,
                                   "the peer does not read what is given");
        if (error == ETOOMANYREFS)
            pause_until(handoff, nc_after_ms(handoff->now_ns, CROWDED_MS));
        else
            (void)nc_handoff_pump(handoff, until_ns);
    }
}

/* Waits for the answer, then asks for the gift back, then ends the channel: either way it
 * is known whose the gift is. */
static bool await_answer(nearcall_handoff *handoff, struct nc_handoff_channel *channel,
                         int64_t until_ns)
{
    struct nc_handoff_gift *gift = &channel->gift;
    struct nc_handoff_frame recall = {.type = NC_HANDOFF_RECALL, .id = gift->id};
    int r = NEARCALL_OK;
    while (gift->fate == NC_HANDOFF_WAITING && handoff->now_ns < until_ns &&
           (r == NEARCALL_OK || r == NEARCALL_E_INTERRUPTED))
        r = nc_handoff_pump(handoff, until_ns);
    bool late = gift->fate == NC_HANDOFF_WAITING;
    if (late)
        nc_handoff_channel_send(channel, &recall);
    until_ns = nc_after_ms(handoff->now_ns, NC_HANDOFF_RECALL_MS);
    while (gift->fate == NC_HANDOFF_WAITING && handoff->now_ns < until_ns)
        (void)nc_handoff_pump(handoff, until_ns);
    if (gift->fate == NC_HANDOFF_WAITING)
        nc_handoff_channel_end(channel, "the peer did not answer when it was asked to give back");
    while (gift->fate == NC_HANDOFF_WAITING)
        nc_handoff_channel_receive(channel);
    return late;
}

static int code_of_reason(int reason)
{
    switch (reason) {
    case NEARCALL_HANDOFF_BUSY:
    case NEARCALL_HANDOFF_NO_DESCRIPTOR:
        return NEARCALL_E_RESOURCE_EXHAUSTED;
    case NEARCALL_HANDOFF_WRONG_KIND:
        return NEARCALL_E_UNIMPLEMENTED;
    case NEARCALL_HANDOFF_DENIED:
        return NEARCALL_E_PERMISSION_DENIED;
    default:
        return NEARCALL_E_UNAVAILABLE;
    }
}

static const char *reason_text(int reason)
{
    static const char *const texts[] = {
        [NEARCALL_HANDOFF_BUSY] = "it has as many as it can hold",
        [NEARCALL_HANDOFF_NO_DESCRIPTOR] = "the descriptor did not arrive",
        [NEARCALL_HANDOFF_WRONG_KIND] = "it does not take what was given",
        [NEARCALL_HANDOFF_DRAINING] = "it takes no more",
        [NEARCALL_HANDOFF_DENIED] = "this process may not give it",
        [NEARCALL_HANDOFF_RECALLED] = "it was asked back",
    };
    return reason > 0 && reason <= NEARCALL_HANDOFF_RECALLED ? texts[reason] : "for an unknown reason";
}

static int result_of(nearcall_handoff *handoff, const struct nc_handoff_channel *channel, bool late)
{
    const struct nc_handoff_gift *gift = &channel->gift;
    if (gift->fate == NC_HANDOFF_IS_TAKEN)
        return NEARCALL_OK;
    if (gift->fate == NC_HANDOFF_IS_REFUSED)
        handoff->reason = gift->reason;
    if (late)
        return nc_handoff_fail(handoff, NEARCALL_E_DEADLINE_EXCEEDED,
                               "the peer did not accept it in time; it was taken back");
    if (gift->fate == NC_HANDOFF_IS_LOST)
        return ended(handoff, channel);
    return nc_handoff_fail(handoff, code_of_reason(gift->reason), "the peer refused it: %s%s%s",
                           reason_text(gift->reason), gift->text[0] ? ": " : "", gift->text);
}

static int give(nearcall_handoff *handoff, uint64_t number, const nearcall_handoff_item *item,
                int64_t timeout_ms)
{
    struct nc_handoff_frame frame = {0};
    struct nc_handoff_channel *channel = find_channel(handoff, number);
    int64_t until_ns = nc_after_ms(handoff->now_ns, timeout_ms);
    (void)nc_handoff_pump(handoff, handoff->now_ns); /* a DRAIN may have come */
    if (!channel || channel->state != NC_HANDOFF_OPEN)
        return ended(handoff, channel);
    fill_frame(&frame, item);
    int r = check_gift(handoff, channel, item, &frame);
    if (r < 0)
        return r;
    frame.id = channel->gift.id = ++channel->last_id;
    channel->gift.fate = 0;
    r = send_gift(handoff, channel, &frame, item->fd, until_ns);
    if (r < 0)
        return r;
    channel->gift.fate = NC_HANDOFF_WAITING;
    return result_of(handoff, channel, await_answer(handoff, channel, until_ns));
}

NEARCALL_API int nearcall_handoff_give(nearcall_handoff *handoff, uint64_t channel,
                                       const nearcall_handoff_item *item, int64_t timeout_ms)
{
    int r = item ? nc_handoff_enter(handoff) : NEARCALL_E_MISUSE;
    if (r < 0)
        return r;
    r = give(handoff, channel, item, timeout_ms);
    /* It only closes: a shutdown would act on the peer's too. */
    if (r == NEARCALL_OK && item->kind == NEARCALL_HANDOFF_CONNECTION)
        close(item->fd);
    return nc_handoff_leave(handoff, r);
}
