/* The price of a call: one send, one recvmsg, one look at the clock, no poll, no
 * setsockopt, no allocation. Linked with --wrap so that each is counted. */
#include <poll.h>
#include <sys/socket.h>
#include <time.h>

#include "test.h"

static struct {
    int send, recvmsg, setsockopt, ppoll, clock_gettime, malloc, realloc, calloc;
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
COUNTED(ssize_t, recvmsg, (int fd, struct msghdr *message, int flags), (fd, message, flags))
COUNTED(int, setsockopt, (int fd, int level, int name, const void *value, socklen_t bytes),
        (fd, level, name, value, bytes))
COUNTED(int, ppoll,
        (struct pollfd *fds, nfds_t count, const struct timespec *timeout, const sigset_t *mask),
        (fds, count, timeout, mask))
COUNTED(int, clock_gettime, (clockid_t clock, struct timespec *now), (clock, now))
COUNTED(void *, malloc, (size_t bytes), (bytes))
COUNTED(void *, realloc, (void *block, size_t bytes), (block, bytes))
COUNTED(void *, calloc, (size_t count, size_t bytes), (count, bytes))

static void check(int times)
{
    CHECK_INT(calls.send, times);
    CHECK_INT(calls.recvmsg, times);
    CHECK_INT(calls.clock_gettime, times);
    CHECK_INT(calls.setsockopt, 0);
    CHECK_INT(calls.ppoll, 0);
    CHECK_INT(calls.malloc + calls.realloc + calls.calloc, 0);
}

int main(void)
{
    struct server server;
    nearcall_reply reply;
    uint8_t data[64] = {1};
    test_begin();
    server_start(&server);
    nearcall_client *client = test_open(server.address, NEARCALL_NO_SHARED_MEMORY);
    nearcall_function *echo = test_find(client, "echo");
    nearcall_function *add = test_find(client, "add");
    CHECK_CALL(client, nearcall_call(client, "echo", data, 64, 0, &reply), NEARCALL_OK);
    CHECK_CALL(client, nearcall_request(client, echo, NEARCALL_CODEC_RAW), NEARCALL_OK);
    nearcall_put_raw(client, data, 64);
    memset(&calls, 0, sizeof(calls));
    CHECK_CALL(client, nearcall_request_call(client, 0, &reply), NEARCALL_OK);
    for (int i = 0; i < 999; i++)
        CHECK_CALL(client, nearcall_call(client, "echo", data, 64, 0, &reply), NEARCALL_OK);
    check(1000);
    memset(&calls, 0, sizeof(calls));
    for (int i = 0; i < 1000; i++) {
        CHECK_CALL(client, nearcall_request(client, add, NEARCALL_CODEC_MSGPACK), NEARCALL_OK);
        nearcall_put_array(client, 2);
        nearcall_put_double(client, i);
        nearcall_put_double(client, 1);
        /* a remaining time that shrinks, as a caller with a budget passes it */
        CHECK_CALL(client, nearcall_request_call(client, 30000 - i, &reply), NEARCALL_OK);
    }
    check(1000);
    nearcall_close(client);
    server_stop(&server);
    return 0;
}
