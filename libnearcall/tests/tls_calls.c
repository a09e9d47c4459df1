/* The price of a call over TLS: one send, one recv, no poll, no setsockopt, and no allocation of this library.
 * Linked with --wrap so that each is counted. */
#include <poll.h>
#include <sys/socket.h>

#include "tls_test.h"

static struct {
    int send, recv, setsockopt, ppoll, malloc, realloc, calloc;
} calls;

#define COUNTED(type, name, parameters, arguments)                                        \
    type __real_##name parameters;                                                        \
    type __wrap_##name parameters;                                                        \
    type __wrap_##name parameters                                                         \
    {                                                                                     \
        calls.name++;                                                                     \
        return __real_##name arguments;                                                   \
    }

COUNTED(ssize_t, send, (int fd, const void *data, size_t bytes, int flags), (fd, data, bytes, flags))
COUNTED(ssize_t, recv, (int fd, void *data, size_t bytes, int flags), (fd, data, bytes, flags))
COUNTED(int, setsockopt, (int fd, int level, int name, const void *value, socklen_t bytes),
        (fd, level, name, value, bytes))
COUNTED(int, ppoll,
        (struct pollfd *fds, nfds_t count, const struct timespec *timeout, const sigset_t *mask),
        (fds, count, timeout, mask))
COUNTED(void *, malloc, (size_t bytes), (bytes))
COUNTED(void *, realloc, (void *block, size_t bytes), (block, bytes))
COUNTED(void *, calloc, (size_t count, size_t bytes), (count, bytes))

int main(void)
{
    enum { TIMES = 1000 };
    struct tls_server server;
    nearcall_reply reply;
    uint8_t data[64] = {1};
    test_begin();
    tls_server_start(&server);
    nearcall_client *client = tls_open(server.relay.address, 0);
    for (int i = 0; i < 10; i++)
        CHECK_CALL(client, nearcall_call(client, "echo", data, 64, 0, &reply), NEARCALL_OK);
    memset(&calls, 0, sizeof(calls));
    for (int i = 0; i < TIMES; i++)
        CHECK_CALL(client, nearcall_call(client, "echo", data, 64, 0, &reply), NEARCALL_OK);
    CHECK_INT(calls.send, TIMES);
    CHECK_INT(calls.setsockopt, 0);
    CHECK_INT(calls.ppoll, 0);
    CHECK_INT(calls.malloc + calls.realloc + calls.calloc, 0);
    /* a handle that has rested for a millisecond looks at its connection first */
    CHECK(calls.recv >= TIMES && calls.recv <= 2 * TIMES);
    nearcall_close(client);
    tls_server_stop(&server);
    return 0;
}
