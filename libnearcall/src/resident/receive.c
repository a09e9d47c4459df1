/* Reading a request, and the descriptors that come with it. */
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/rights.h"
#include "resident/resident.h"

/* Most requests are read at once. */
#define FIRST_BYTES 65536

/* A launcher that sends nothing for so long is waited for by a process of its own, beside those that
 * wait for all launchers. */
#define SILENCE_MS 10

union control {
    struct cmsghdr header;
    char bytes[CMSG_SPACE(NC_RIGHTS_MESSAGE_MAX * sizeof(int))];
};

static void keep_descriptors(struct msghdr *message, int fds[NC_RESIDENT_FDS])
{
    for (struct cmsghdr *part = CMSG_FIRSTHDR(message); part; part = nc_control_next(message, part)) {
        if (part->cmsg_level != SOL_SOCKET || part->cmsg_type != SCM_RIGHTS)
            continue;
        size_t bytes = part->cmsg_len - CMSG_LEN(0);
        for (size_t i = 0; i < bytes / sizeof(int); i++) {
            int fd;
            memcpy(&fd, CMSG_DATA(part) + i * sizeof(int), sizeof(int));
            if (i < NC_RESIDENT_FDS && fds[i] < 0)
                fds[i] = fd;
            else
                nc_rights_close(fd);
        }
    }
}

static void refuse_descriptors(int fds[NC_RESIDENT_FDS])
{
    for (int i = 0; i < NC_RESIDENT_FDS; i++) {
        nc_rights_close(fds[i]);
        fds[i] = -1;
    }
}

struct reading {
    nearcall_resident *resident;
    int connection;
    int *fds;
    int64_t slow_ns; /* the supervisor is told then; NC_NEVER: it has been */
    int64_t until_ns;
};

static void tell_slow(struct reading *reading)
{
    const struct nc_resident_lease_message slow = {.type = NC_RESIDENT_SLOW};
    (void)nc_resident_lease_send(reading->resident->lease, &slow, -1);
    reading->slow_ns = NC_NEVER;
    reading->resident->slow = true;
}

/* False when it is late. */
static bool wait_for_more(struct reading *reading)
{
    int64_t now_ns = nc_now_ns();
    if (now_ns >= reading->until_ns)
        return false;
    if (now_ns >= reading->slow_ns)
        tell_slow(reading);
    int64_t until_ns = nc_earlier(reading->slow_ns, reading->until_ns);
    struct pollfd readable = {.fd = reading->connection, .events = POLLIN};
    (void)poll(&readable, 1, (int)((until_ns - now_ns) / NC_NS_PER_MS) + 1);
    return true;
}

/* What there is, within the time; 0: the end; -1: an error, or it is late. */
static ssize_t receive_some(struct reading *reading, void *data, size_t bytes)
{
    for (;;) {
        union control control;
        struct iovec part = {data, bytes};
        struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = control.bytes,
                                 .msg_controllen = sizeof(control.bytes)};
        ssize_t got = recvmsg(reading->connection, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
        if (got > 0)
            keep_descriptors(&message, reading->fds);
        if (got >= 0 || (errno != EAGAIN && errno != EINTR))
            return got;
        if (!wait_for_more(reading))
            return -1;
    }
}

static int receive_all(struct reading *reading, uint8_t *data, size_t have, size_t want)
{
    while (have < want) {
        ssize_t got = receive_some(reading, data + have, want - have);
        if (got <= 0)
            return -1;
        have += (size_t)got;
    }
    return 0;
}

/* The header, and what came with it; others than launchers are not waited for. */
static int receive_header(struct reading *reading, uint8_t *data, size_t *ret_have)
{
    struct nc_resident_request *request = &reading->resident->request;
    const char *fault;
    ssize_t got = receive_some(reading, data, FIRST_BYTES);
    if (got <= 0)
        return -1;
    if (data[0] != NC_RESIDENT_FIRST_BYTE) {
        refuse_descriptors(reading->fds);
        return -1;
    }
    *ret_have = (size_t)got;
    if (*ret_have < NC_RESIDENT_HEADER_BYTES) {
        if (receive_all(reading, data, *ret_have, NC_RESIDENT_HEADER_BYTES) < 0)
            return -1;
        *ret_have = NC_RESIDENT_HEADER_BYTES;
    }
    int r = nc_resident_header_decode(request, data, &fault);
    if (r == NC_RESIDENT_OTHER_VERSION)
        (void)nc_resident_send_frame(reading->connection, NC_RESIDENT_PLAINLY, 0, 0, fault);
    return r < 0 || *ret_have > request->bytes ? -1 : 0;
}

/* Room for a request of FIRST_BYTES, until its header says more. */
static int receive_request(struct reading *reading)
{
    nearcall_resident *resident = reading->resident;
    struct nc_resident_request *request = &resident->request;
    const char *fault;
    size_t have;
    if (receive_header(reading, resident->body, &have) < 0)
        return -1;
    if (request->bytes > FIRST_BYTES) {
        uint8_t *grown = realloc(resident->body, request->bytes);
        if (!grown)
            return -1;
        resident->body = grown;
    }
    if (receive_all(reading, resident->body, have, request->bytes) < 0)
        return -1;
    return nc_resident_body_split(request, (char *)resident->body + NC_RESIDENT_HEADER_BYTES, &fault);
}

int nc_resident_receive(nearcall_resident *resident, int connection, int fds[NC_RESIDENT_FDS])
{
    nc_resident_request_free(&resident->request);
    free(resident->body);
    resident->body = malloc(FIRST_BYTES);
    int64_t now_ns = nc_now_ns();
    struct reading reading = {resident, connection, fds, nc_after_ms(now_ns, SILENCE_MS),
                              nc_after_ms(now_ns, NC_HELLO_TIMEOUT_MS)};
    return resident->body ? receive_request(&reading) : -1;
}
