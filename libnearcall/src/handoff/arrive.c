/* What each type of frame does. */
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "base/rights.h"
#include "handoff/handoff.h"

/* ---- Answers ---- */

static void answer(struct nc_handoff_channel *channel, enum nc_handoff_type type, uint64_t id)
{
    struct nc_handoff_frame frame = {.type = type, .id = id};
    nc_handoff_channel_send(channel, &frame);
}

void nc_handoff_answer_refused(struct nc_handoff_channel *channel, uint64_t id, int reason,
                               const char *text)
{
    struct nc_handoff_frame frame = {.type = NC_HANDOFF_REFUSED, .id = id, .reason = (uint8_t)reason};
    size_t bytes = strlen(text);
    if (bytes <= channel->peer.message_bytes_max) {
        frame.parts[NC_HANDOFF_MESSAGE].data = (const uint8_t *)text;
        frame.parts[NC_HANDOFF_MESSAGE].bytes = bytes;
    }
    nc_handoff_channel_send(channel, &frame);
}

/* ---- GIVE ---- */

static int socket_option(int fd, int name)
{
    int value = 0;
    socklen_t bytes = sizeof(value);
    return getsockopt(fd, SOL_SOCKET, name, &value, &bytes) == 0 ? value : -1;
}

/* Asks the kernel only: nothing of it changes the socket. */
static bool is_of_kind(int fd, int kind)
{
    if (kind == NEARCALL_HANDOFF_FILE)
        return true;
    int family = socket_option(fd, SO_DOMAIN);
    if (socket_option(fd, SO_TYPE) != SOCK_STREAM ||
        (family != AF_INET && family != AF_INET6 && family != AF_UNIX))
        return false;
    return (socket_option(fd, SO_ACCEPTCONN) == 1) == (kind == NEARCALL_HANDOFF_LISTENER);
}

/* Why it is refused, or 0. */
static int reason_against(const nearcall_handoff *handoff, int kind, int fd)
{
    if (fd == NC_HANDOFF_LOST_FD)
        return NEARCALL_HANDOFF_NO_DESCRIPTOR;
    if (handoff->drained)
        return NEARCALL_HANDOFF_DRAINING;
    if (!(handoff->takes & 1U << (kind - NEARCALL_HANDOFF_CONNECTION)) || !is_of_kind(fd, kind))
        return NEARCALL_HANDOFF_WRONG_KIND;
    return 0;
}

static int on_give(struct nc_handoff_channel *channel, const struct nc_handoff_frame *frame, int fd,
                   struct nc_handoff_fault *fault)
{
    nearcall_handoff *handoff = channel->handoff;
    struct nc_handoff_arrival *arrival = NULL;
    int r = 0;
    if (frame->id <= channel->last_arrival)
        r = nc_handoff_breach(fault, "the peer gave number %llu a second time, or out of order",
                              (unsigned long long)frame->id);
    else if (channel->arrivals >= handoff->window)
        r = nc_handoff_breach(fault, "the peer gave more than the %u that may be unanswered",
                              (unsigned)handoff->window);
    if (r == 0) {
        channel->last_arrival = frame->id;
        int reason = reason_against(handoff, frame->kind, fd);
        if (reason == 0 && channel->state == NC_HANDOFF_OPEN) {
            arrival = nc_handoff_arrival_new(channel, frame, fd);
            reason = NEARCALL_HANDOFF_BUSY; /* for want of memory */
        }
        if (!arrival)
            nc_handoff_answer_refused(channel, frame->id, reason, "");
    }
    if (!arrival)
        nc_rights_close_received(fd, channel->reader.received_by);
    return r;
}

/* ---- The others ---- */

static int on_answer(struct nc_handoff_channel *channel, const struct nc_handoff_frame *frame, int fd,
                     struct nc_handoff_fault *fault)
{
    struct nc_handoff_gift *gift = &channel->gift;
    const struct nc_handoff_text *text = &frame->parts[NC_HANDOFF_MESSAGE];
    (void)fd;
    if (gift->fate != NC_HANDOFF_WAITING || gift->id != frame->id)
        return nc_handoff_breach(fault, "the peer answered number %llu, which does not wait for it",
                                 (unsigned long long)frame->id);
    gift->fate = frame->type == NC_HANDOFF_TAKEN ? NC_HANDOFF_IS_TAKEN : NC_HANDOFF_IS_REFUSED;
    gift->reason = frame->reason;
    snprintf(gift->text, sizeof(gift->text), "%.*s",
             (int)(text->bytes < sizeof(gift->text) ? text->bytes : sizeof(gift->text)), (const char *)text->data);
    return 0;
}

static int on_recall(struct nc_handoff_channel *channel, const struct nc_handoff_frame *frame, int fd,
                     struct nc_handoff_fault *fault)
{
    (void)fd;
    if (frame->id > channel->last_arrival)
        return nc_handoff_breach(fault, "the peer asks number %llu back, which it has not given",
                                 (unsigned long long)frame->id);
    struct nc_handoff_arrival *arrival = nc_handoff_find_arrival(channel, frame->id);
    if (!arrival)
        return 0; /* it was answered meanwhile */
    nc_handoff_arrival_free(arrival);
    nc_handoff_answer_refused(channel, frame->id, NEARCALL_HANDOFF_RECALLED, "");
    return 0;
}

static int on_drain(struct nc_handoff_channel *channel, const struct nc_handoff_frame *frame, int fd,
                    struct nc_handoff_fault *fault)
{
    (void)frame;
    (void)fd;
    (void)fault;
    channel->peer_drains = true;
    return 0;
}

static int on_ping(struct nc_handoff_channel *channel, const struct nc_handoff_frame *frame, int fd,
                   struct nc_handoff_fault *fault)
{
    (void)fd;
    (void)fault;
    answer(channel, NC_HANDOFF_PONG, frame->id);
    return 0;
}

static int on_uncalled(struct nc_handoff_channel *channel, const struct nc_handoff_frame *frame,
                       int fd, struct nc_handoff_fault *fault)
{
    (void)channel;
    (void)fd;
    return nc_handoff_breach(fault, "the peer sent a frame of type %d that nobody had offered or asked for",
                             frame->type);
}

static int (*const handlers[NC_HANDOFF_TYPES])(struct nc_handoff_channel *,
                                               const struct nc_handoff_frame *, int,
                                               struct nc_handoff_fault *) = {
    [NC_HANDOFF_GIVE] = on_give,      [NC_HANDOFF_TAKEN] = on_answer,
    [NC_HANDOFF_REFUSED] = on_answer, [NC_HANDOFF_RECALL] = on_recall,
    [NC_HANDOFF_DRAIN] = on_drain,    [NC_HANDOFF_WANT] = on_uncalled,
    [NC_HANDOFF_DONE] = on_uncalled,  [NC_HANDOFF_PING] = on_ping,
    [NC_HANDOFF_PONG] = on_uncalled,
};

/* 0, or -1: the channel ends. The descriptor is used up. */
int nc_handoff_handle(struct nc_handoff_channel *channel, const struct nc_handoff_frame *frame,
                      int fd, struct nc_handoff_fault *fault)
{
    return handlers[frame->type](channel, frame, fd, fault);
}
