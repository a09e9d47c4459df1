/* Receiving on a channel. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "base/rights.h"
#include "handoff/handoff.h"

/* How often a channel is read before another has its turn, and when it is too late. */
#define READS_MAX 16

/* Copies the descriptors of a message; there is room for all that one can carry. */
static unsigned collect(struct msghdr *message, int *fds)
{
    unsigned count = 0;
    for (struct cmsghdr *header = CMSG_FIRSTHDR(message); header;
         header = nc_control_next(message, header)) {
        if (header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS)
            continue;
        size_t bytes = header->cmsg_len - CMSG_LEN(0);
        memcpy(fds + count, CMSG_DATA(header), bytes);
        count += (unsigned)(bytes / sizeof(int));
    }
    return count;
}

/* One recvmsg(). Bytes, 0 at the end, or -errno; a fault ends the channel. */
static ssize_t read_some(struct nc_handoff_channel *channel, struct nc_handoff_fault *fault,
                         int *ret_fault)
{
    union {
        struct cmsghdr header;
        uint8_t bytes[CMSG_SPACE(NC_HANDOFF_FDS_MAX * sizeof(int))];
    } control;
    int fds[NC_HANDOFF_FDS_MAX];
    size_t room;
    uint8_t *into = nc_handoff_reader_room(&channel->reader, &room);
    if (!into)
        return -ENOMEM;
    struct iovec part = {into, room};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = &control,
                             .msg_controllen = sizeof(control.bytes)};
    ssize_t got;
    do
        got = recvmsg(channel->fd, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    while (got < 0 && errno == EINTR);
    if (got < 0)
        return -errno;
    unsigned count = collect(&message, fds);
    *ret_fault = nc_handoff_reader_add(&channel->reader, (size_t)got, fds, count,
                                       message.msg_flags & MSG_CTRUNC, fault);
    return got;
}

static int greet(struct nc_handoff_channel *channel, struct nc_handoff_fault *fault)
{
    nearcall_handoff *handoff = channel->handoff;
    struct nc_handoff_text refusal;
    char text[NC_HANDOFF_FAULT_BYTES] = "";
    int r = nc_handoff_reader_hello(&channel->reader, &channel->peer, &refusal, fault);
    if (r <= 0)
        return r;
    channel->deadline_ns = NC_NEVER;
    if (channel->connected_here && channel->peer.highest != NC_HANDOFF_VERSION)
        return nc_handoff_breach(fault, "the peer refused the channel: %.*s",
                                 (int)(refusal.bytes < 120 ? refusal.bytes : 120), (const char *)refusal.data);
    if (!nc_handoff_admits(handoff, channel->user_id))
        snprintf(text, sizeof(text), "process %d is of user %u; allow it by peer_user_ids (in Perl and Python peer_users)",
                 (int)channel->process_id, (unsigned)channel->user_id);
    else if (channel->peer.lowest > NC_HANDOFF_VERSION || channel->peer.highest < NC_HANDOFF_VERSION)
        snprintf(text, sizeof(text), "versions %u to %u are asked for, this side speaks %d",
                 channel->peer.lowest, channel->peer.highest, NC_HANDOFF_VERSION);
    if (!channel->connected_here)
        nc_handoff_channel_send_hello(channel, text);
    if (text[0])
        return nc_handoff_breach(fault, "%s", text);
    if (channel->state == NC_HANDOFF_GREETING)
        channel->state = NC_HANDOFF_OPEN;
    return 1;
}

/* Handles the frames that are complete. 0 or -1. */
static int handle_all(struct nc_handoff_channel *channel, struct nc_handoff_fault *fault)
{
    struct nc_handoff_frame frame;
    int fd, r = 1;
    if (channel->state == NC_HANDOFF_GREETING)
        r = greet(channel, fault);
    while (r > 0) {
        r = nc_handoff_reader_next(&channel->reader, &frame, &fd, fault);
        if (r <= 0)
            break;
        channel->deadline_ns = NC_NEVER;
        r = nc_handoff_handle(channel, &frame, fd, fault) < 0 ? -1 : 1;
    }
    if (channel->deadline_ns == NC_NEVER && nc_handoff_reader_is_within(&channel->reader))
        channel->deadline_ns = nc_after_ms(channel->handoff->now_ns, NC_FRAME_TIMEOUT_MS);
    return r;
}

/* Reads what is there, up to a bound that lets others have their turn. */
void nc_handoff_channel_receive(struct nc_handoff_channel *channel)
{
    struct nc_handoff_fault fault = {""};
    for (int i = 0; i < READS_MAX && channel->state != NC_HANDOFF_ENDED; i++) {
        int faulty = 0;
        ssize_t r = read_some(channel, &fault, &faulty);
        if (r == -EAGAIN)
            return;
        if (r > 0 && faulty == 0)
            faulty = handle_all(channel, &fault);
        if (r > 0 && faulty == 0)
            continue;
        channel->reader.breached = faulty != 0;
        if (channel->why[0] == '\0')
            snprintf(channel->why, sizeof(channel->why), "%s",
                     faulty ? fault.text : r < 0 ? strerror((int)-r) : "it was closed by the peer");
        nc_handoff_channel_close(channel);
    }
}

/* What has come while the program was elsewhere is read before the time counts. */
void nc_handoff_channel_expire(struct nc_handoff_channel *channel)
{
    int64_t deadline_ns = channel->deadline_ns;
    nc_handoff_channel_receive(channel);
    if (channel->state == NC_HANDOFF_ENDED || channel->deadline_ns != deadline_ns)
        return;
    snprintf(channel->why, sizeof(channel->why), "the peer began a frame and did not end it in time");
    nc_handoff_channel_close(channel);
}
