/* What a supervisor and a worker tell each other. Its end, by whatever cause, is the other's end. */
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "resident/resident.h"

#define CROWD_PAUSE_MS 5

union control {
    struct cmsghdr header;
    char bytes[CMSG_SPACE(sizeof(int))];
};

/* Nobody tells when there are fewer descriptors of this user on the way. */
static int send_patiently(int lease, const struct msghdr *message)
{
    int64_t until_ns = nc_after_ms(nc_now_ns(), NC_RESIDENT_SEND_MS);
    while (sendmsg(lease, message, MSG_NOSIGNAL) < 0) {
        int error = errno;
        if (error == ETOOMANYREFS && nc_now_ns() < until_ns)
            (void)poll(NULL, 0, CROWD_PAUSE_MS);
        else if (error != EINTR) {
            errno = error;
            return -1;
        }
    }
    return 0;
}

int nc_resident_lease_send(int lease, const struct nc_resident_lease_message *message, int fd)
{
    struct iovec part = {(void *)(uintptr_t)message, sizeof(*message)};
    struct msghdr header = {.msg_iov = &part, .msg_iovlen = 1};
    union control control;
    if (fd >= 0) {
        memset(&control, 0, sizeof(control));
        header.msg_control = control.bytes;
        header.msg_controllen = sizeof(control.bytes);
        struct cmsghdr *rights = CMSG_FIRSTHDR(&header);
        rights->cmsg_level = SOL_SOCKET;
        rights->cmsg_type = SCM_RIGHTS;
        rights->cmsg_len = CMSG_LEN(sizeof(int));
        memcpy(CMSG_DATA(rights), &fd, sizeof(int));
    }
    return send_patiently(lease, &header);
}

int nc_resident_lease_receive(int lease, struct nc_resident_lease_message *message, int *ret_fd)
{
    union control control;
    struct iovec part = {message, sizeof(*message)};
    struct msghdr header = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = control.bytes,
                            .msg_controllen = sizeof(control.bytes)};
    ssize_t got;
    do
        got = recvmsg(lease, &header, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    while (got < 0 && errno == EINTR);
    *ret_fd = -1;
    if (got <= 0)
        return (int)got;
    struct cmsghdr *rights = CMSG_FIRSTHDR(&header);
    if (rights && rights->cmsg_type == SCM_RIGHTS && rights->cmsg_len == CMSG_LEN(sizeof(int)))
        memcpy(ret_fd, CMSG_DATA(rights), sizeof(int));
    return 1;
}
