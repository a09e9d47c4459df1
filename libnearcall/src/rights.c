#include "rights.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#ifndef SO_PASSRIGHTS
#define SO_PASSRIGHTS 83 /* Linux 6.16 */
#endif

#define DRAIN_BYTES 16384

void nc_rights_close(int fd)
{
    struct linger linger;
    socklen_t bytes = sizeof(linger);
    if (fd < 0)
        return;
    if (getsockopt(fd, SOL_SOCKET, SO_LINGER, &linger, &bytes) == 0 && linger.l_onoff && linger.l_linger > 0) {
        linger = (struct linger){0};
        (void)setsockopt(fd, SOL_SOCKET, SO_LINGER, &linger, sizeof(linger));
    }
    close(fd);
}

static void close_received(struct msghdr *message)
{
    for (struct cmsghdr *part = CMSG_FIRSTHDR(message); part; part = CMSG_NXTHDR(message, part)) {
        if (part->cmsg_level != SOL_SOCKET || part->cmsg_type != SCM_RIGHTS)
            continue;
        size_t count = (part->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        for (size_t i = 0; i < count; i++) {
            int fd;
            memcpy(&fd, CMSG_DATA(part) + i * sizeof(fd), sizeof(fd));
            nc_rights_close(fd);
        }
    }
}

/* Reads and forgets up to so many bytes. */
static ssize_t forget(int fd, size_t bytes)
{
    union {
        struct cmsghdr header;
        char bytes[CMSG_SPACE(NC_RIGHTS_MESSAGE_MAX * sizeof(int))];
    } control;
    char data[DRAIN_BYTES];
    struct iovec part = {data, bytes < sizeof(data) ? bytes : sizeof(data)};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = &control,
                             .msg_controllen = sizeof(control.bytes)};
    ssize_t got = recvmsg(fd, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    if (got > 0)
        close_received(&message);
    return got;
}

/* Whether descriptors came with the byte at the front. */
static bool has_descriptors(int fd)
{
    char byte;
    struct iovec part = {&byte, 1};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
    return recvmsg(fd, &message, MSG_DONTWAIT | MSG_PEEK) > 0 && (message.msg_flags & MSG_CTRUNC);
}

/* Who reads a part of what came with descriptors has them, so that one byte can stay. */
void nc_rights_drain(int fd)
{
    int off = 0, left = 0;
    if (setsockopt(fd, SOL_SOCKET, SO_PASSRIGHTS, &off, sizeof(off)) < 0)
        (void)shutdown(fd, SHUT_RD);
    while (ioctl(fd, FIONREAD, &left) == 0 && left > 0 && (left > 1 || has_descriptors(fd)))
        if (forget(fd, left > 1 ? (size_t)left - 1 : 1) <= 0 && errno != EINTR)
            return;
}
