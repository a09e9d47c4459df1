/* A channel: its beginning, what is sent on it, and its end. */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "base/descriptor.h"
#include "base/rights.h"
#include "handoff/handoff.h"

/* More than a peer can be owed that keeps to its window. */
#define OUT_BYTES_MAX (2 * NC_HANDOFF_WINDOW_CEILING * 256)

/* ---- Beginning ---- */

static int learn_peer(struct nc_handoff_channel *channel)
{
    struct ucred credentials;
    struct stat status;
    socklen_t bytes = sizeof(credentials);
    if (getsockopt(channel->fd, SOL_SOCKET, SO_PEERCRED, &credentials, &bytes) != 0 ||
        fstat(channel->fd, &status) != 0)
        return -1;
    channel->process_id = credentials.pid;
    channel->user_id = credentials.uid;
    channel->device = status.st_dev;
    channel->inode = status.st_ino;
    return 0;
}

static int watch_new(nearcall_handoff *handoff, struct nc_handoff_channel *channel)
{
    struct epoll_event event = {.events = EPOLLIN, .data = {.ptr = channel}};
    return epoll_ctl(handoff->epoll_fd, EPOLL_CTL_ADD, channel->fd, &event);
}

/* Owns the descriptor, also when it fails, which is by returning NULL. */
struct nc_handoff_channel *nc_handoff_channel_new(nearcall_handoff *handoff, int fd,
                                                  bool connected_here)
{
    struct nc_handoff_channel *channel = calloc(1, sizeof(*channel));
    if (!channel)
        goto fail;
    channel->fd = fd;
    channel->handoff = handoff;
    channel->connected_here = connected_here;
    channel->reader.limits = handoff->limits;
    channel->reader.fd = NC_HANDOFF_NO_FD;
    channel->reader.received_by = getpid();
    channel->deadline_ns = nc_after_ms(handoff->now_ns, NC_HELLO_TIMEOUT_MS);
    nc_rights_alone(fd);
    nc_rights_refuse(fd); /* it may have connected before the listener refused */
    if (learn_peer(channel) < 0 || watch_new(handoff, channel) < 0)
        goto fail;
    if (nc_handoff_admits(handoff, channel->user_id))
        nc_rights_allow(fd);
    channel->number = ++handoff->last_channel;
    channel->next = handoff->channels;
    handoff->channels = channel;
    handoff->channels_open++;
    return channel;
fail:
    free(channel);
    close(fd);
    return NULL;
}

/* ---- The end ---- */

static void settle(struct nc_handoff_channel *channel)
{
    nc_handoff_drop_arrivals(channel);
    if (channel->gift.fate == NC_HANDOFF_WAITING)
        channel->gift.fate = NC_HANDOFF_IS_LOST;
    nc_handoff_reader_free(&channel->reader);
    nc_buffer_free(&channel->out);
    channel->state = NC_HANDOFF_ENDED;
    channel->deadline_ns = NC_NEVER;
    channel->answer_ns = 0;
    channel->fd = -1;
}

/* What was given and not taken is the giver's; what arrived and was not taken is
 * forgotten. Another process may have copies of the descriptor, so that closing it would
 * not end the watch. */
void nc_handoff_channel_close(struct nc_handoff_channel *channel)
{
    nearcall_handoff *handoff = channel->handoff;
    if (channel->state == NC_HANDOFF_ENDED)
        return;
    epoll_ctl(handoff->epoll_fd, EPOLL_CTL_DEL, channel->fd, NULL);
    if (channel->reader.breached)
        nc_rights_drain(channel->fd);
    else
        nc_rights_drain_agreed(channel->fd);
    close(channel->fd);
    settle(channel);
    handoff->channels_open--;
    nc_handoff_watch_listening(handoff);
}

void nc_handoff_channel_orphan(struct nc_handoff_channel *channel)
{
    if (channel->state == NC_HANDOFF_ENDED)
        return;
    /* The child may have closed its parent's descriptors, and used the numbers again. */
    if (nc_descriptor_is(channel->fd, channel->device, channel->inode))
        close(channel->fd);
    snprintf(channel->why, sizeof(channel->why), "it is the parent process's");
    settle(channel);
}

/* Neither side can say anything more; what the peer had said is read to its end. */
void nc_handoff_channel_end(struct nc_handoff_channel *channel, const char *format, ...)
{
    va_list arguments;
    if (channel->state >= NC_HANDOFF_ENDING)
        return;
    va_start(arguments, format);
    vsnprintf(channel->why, sizeof(channel->why), format, arguments);
    va_end(arguments);
    channel->state = NC_HANDOFF_ENDING;
    shutdown(channel->fd, SHUT_RDWR);
    channel->out.start = channel->out.end = 0;
    channel->answer_ns = 0;
    nc_handoff_drop_arrivals(channel);
    nc_handoff_channel_watch(channel, false);
}

/* ---- Sending ---- */

/* A loop that watches edges is told of a descriptor that joins the set and is ready, and mostly of
 * nothing that changes in there. A channel that cannot join it would not be heard of, so it ends. */
static void watch_more(struct nc_handoff_channel *channel, struct epoll_event *event)
{
    nearcall_handoff *handoff = channel->handoff;
    (void)epoll_ctl(handoff->epoll_fd, EPOLL_CTL_DEL, channel->fd, NULL);
    if (epoll_ctl(handoff->epoll_fd, EPOLL_CTL_ADD, channel->fd, event) == 0) {
        channel->watches_out = true;
        return;
    }
    nc_handoff_channel_end(channel, "its descriptor cannot be watched: %s", strerror(errno));
    channel->deadline_ns = handoff->now_ns;
}

void nc_handoff_channel_watch(struct nc_handoff_channel *channel, bool out)
{
    struct epoll_event event = {.events = EPOLLIN | (out ? EPOLLOUT : 0U), .data = {.ptr = channel}};
    if (channel->watches_out == out)
        return;
    if (out)
        watch_more(channel, &event);
    else if (epoll_ctl(channel->handoff->epoll_fd, EPOLL_CTL_MOD, channel->fd, &event) == 0)
        channel->watches_out = false;
}

/* One sendmsg() of what is to be sent, with a descriptor or NC_HANDOFF_NO_FD. Bytes, or
 * -errno. */
ssize_t nc_handoff_channel_write(struct nc_handoff_channel *channel, int passed_fd)
{
    struct nc_buffer *out = &channel->out;
    union {
        struct cmsghdr header;
        uint8_t bytes[CMSG_SPACE(sizeof(int))];
    } control;
    struct iovec part = {out->data + out->start, nc_buffer_bytes(out)};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
    ssize_t sent;
    if (passed_fd >= 0) {
        memset(&control, 0, sizeof(control));
        message.msg_control = &control;
        message.msg_controllen = sizeof(control.bytes);
        control.header.cmsg_level = SOL_SOCKET;
        control.header.cmsg_type = SCM_RIGHTS;
        control.header.cmsg_len = CMSG_LEN(sizeof(int));
        memcpy(CMSG_DATA(&control.header), &passed_fd, sizeof(int));
    }
    do
        sent = sendmsg(channel->fd, &message, MSG_DONTWAIT | MSG_NOSIGNAL);
    while (sent < 0 && errno == EINTR);
    if (sent < 0)
        return -errno;
    nc_buffer_consume(out, (size_t)sent);
    channel->written += (uint64_t)sent;
    return sent;
}

void nc_handoff_channel_flush(struct nc_handoff_channel *channel)
{
    while (channel->state < NC_HANDOFF_ENDING && nc_buffer_bytes(&channel->out) > 0) {
        ssize_t r = nc_handoff_channel_write(channel, NC_HANDOFF_NO_FD);
        if (r == -EAGAIN) {
            nc_handoff_channel_watch(channel, true);
            return;
        }
        if (r < 0)
            nc_handoff_channel_end(channel, "it was closed by the peer: %s", strerror((int)-r));
    }
    if (channel->state < NC_HANDOFF_ENDING) {
        channel->answer_ns = 0;
        nc_handoff_channel_watch(channel, false);
        nc_buffer_trim(&channel->out);
    }
}

/* Sends an answer, or keeps it while the peer does not read; never waits. */
void nc_handoff_channel_send(struct nc_handoff_channel *channel,
                             const struct nc_handoff_frame *frame)
{
    if (channel->state >= NC_HANDOFF_ENDING)
        return;
    size_t before = nc_buffer_bytes(&channel->out);
    if (before > OUT_BYTES_MAX) {
        nc_handoff_channel_end(channel, "the peer asks and does not read the answers");
        return;
    }
    if (nc_handoff_frame_append(&channel->out, frame) < 0) {
        nc_handoff_channel_end(channel, "no memory for an answer");
        return;
    }
    channel->queued += nc_buffer_bytes(&channel->out) - before;
    if (before == 0)
        nc_handoff_channel_flush(channel);
}

void nc_handoff_channel_send_hello(struct nc_handoff_channel *channel, const char *refusal)
{
    const nearcall_handoff *handoff = channel->handoff;
    uint8_t bytes[NC_HANDOFF_HELLO_BYTES];
    size_t refusal_bytes = strlen(refusal);
    struct nc_handoff_hello hello = {
        .total_bytes = (uint32_t)(NC_HANDOFF_HELLO_BYTES + refusal_bytes),
        .lowest = refusal_bytes ? 0 : NC_HANDOFF_VERSION,
        .highest = refusal_bytes ? 0 : NC_HANDOFF_VERSION,
        .process_id = (uint32_t)getpid(),
        .takes = handoff->takes,
        .window = handoff->window,
        .prefix_bytes_max = handoff->limits.prefix_bytes_max,
        .message_bytes_max = handoff->limits.message_bytes_max,
    };
    nc_handoff_hello_encode(bytes, &hello);
    if (nc_buffer_append(&channel->out, bytes, sizeof(bytes)) < 0 ||
        nc_buffer_append(&channel->out, refusal, refusal_bytes) < 0) {
        nc_handoff_channel_end(channel, "no memory for a hello");
        return;
    }
    channel->queued += sizeof(bytes) + refusal_bytes;
    nc_handoff_channel_flush(channel);
}
