/* Reading a request, and the descriptors that come with it. */
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "clock.h"
#include "resident.h"

/* Most requests are read at once. */
#define FIRST_BYTES 65536

union control {
    struct cmsghdr header;
    char bytes[CMSG_SPACE(NC_RESIDENT_FDS * sizeof(int))];
};

static void keep_descriptors(struct msghdr *message, int fds[NC_RESIDENT_FDS])
{
    for (struct cmsghdr *part = CMSG_FIRSTHDR(message); part; part = CMSG_NXTHDR(message, part)) {
        if (part->cmsg_level != SOL_SOCKET || part->cmsg_type != SCM_RIGHTS)
            continue;
        size_t bytes = part->cmsg_len - CMSG_LEN(0);
        for (size_t i = 0; i < bytes / sizeof(int); i++) {
            int fd;
            memcpy(&fd, CMSG_DATA(part) + i * sizeof(int), sizeof(int));
            if (i < NC_RESIDENT_FDS && fds[i] < 0)
                fds[i] = fd;
            else
                close(fd);
        }
    }
}

/* What there is, within the time; 0: the end; -1: an error, or it is late. */
static ssize_t receive_some(int connection, void *data, size_t bytes, int fds[NC_RESIDENT_FDS],
                            int64_t until_ns)
{
    for (;;) {
        union control control;
        struct iovec part = {data, bytes};
        struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = control.bytes,
                                 .msg_controllen = sizeof(control.bytes)};
        ssize_t got = recvmsg(connection, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
        if (got > 0)
            keep_descriptors(&message, fds);
        if (got >= 0 || (errno != EAGAIN && errno != EINTR))
            return got;
        int64_t now_ns = nc_now_ns();
        struct pollfd readable = {.fd = connection, .events = POLLIN};
        if (now_ns >= until_ns)
            return -1;
        (void)poll(&readable, 1, (int)((until_ns - now_ns) / NC_NS_PER_MS) + 1);
    }
}

static int receive_all(int connection, uint8_t *data, size_t have, size_t want, int fds[NC_RESIDENT_FDS],
                       int64_t until_ns)
{
    while (have < want) {
        ssize_t got = receive_some(connection, data + have, want - have, fds, until_ns);
        if (got <= 0)
            return -1;
        have += (size_t)got;
    }
    return 0;
}

/* The header, and what came with it; others than launchers are not waited for. */
static int receive_header(struct nc_resident_request *request, int connection, uint8_t *data, size_t *ret_have,
                          int fds[NC_RESIDENT_FDS], int64_t until_ns)
{
    const char *fault;
    ssize_t got = receive_some(connection, data, FIRST_BYTES, fds, until_ns);
    if (got <= 0 || data[0] != NC_RESIDENT_FIRST_BYTE)
        return -1;
    *ret_have = (size_t)got;
    if (*ret_have < NC_RESIDENT_HEADER_BYTES) {
        if (receive_all(connection, data, *ret_have, NC_RESIDENT_HEADER_BYTES, fds, until_ns) < 0)
            return -1;
        *ret_have = NC_RESIDENT_HEADER_BYTES;
    }
    if (nc_resident_header_decode(request, data, &fault) < 0 || *ret_have > request->bytes)
        return -1;
    return 0;
}

/* Room for a request of FIRST_BYTES, until its header says more. */
static int receive_request(nearcall_resident *resident, int connection, int fds[NC_RESIDENT_FDS])
{
    struct nc_resident_request *request = &resident->request;
    int64_t until_ns = nc_after_ms(nc_now_ns(), NC_HELLO_TIMEOUT_MS);
    const char *fault;
    size_t have;
    if (receive_header(request, connection, resident->body, &have, fds, until_ns) < 0)
        return -1;
    if (request->bytes > FIRST_BYTES) {
        uint8_t *grown = realloc(resident->body, request->bytes);
        if (!grown)
            return -1;
        resident->body = grown;
    }
    if (receive_all(connection, resident->body, have, request->bytes, fds, until_ns) < 0)
        return -1;
    return nc_resident_body_split(request, (char *)resident->body + NC_RESIDENT_HEADER_BYTES, &fault);
}

int nc_resident_receive(nearcall_resident *resident, int connection, int fds[NC_RESIDENT_FDS])
{
    nc_resident_request_free(&resident->request);
    free(resident->body);
    resident->body = malloc(FIRST_BYTES);
    return resident->body ? receive_request(resident, connection, fds) : -1;
}
