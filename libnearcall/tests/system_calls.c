/* The price of a call: one look at whose the descriptor is, one send, one recv, one look at
 * the clock, no poll, no setsockopt, no allocation. Linked with --wrap so that each is counted. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "test.h"

#define BURST 16
#define PASSRIGHTS 83 /* SO_PASSRIGHTS */
#define BURSTS_MAX 1000

static struct {
    int direct, fstat, send, recv, recvmsg, setsockopt, ppoll, clock_gettime, malloc, realloc, calloc;
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

/* As in a sandbox that allows what its C library does and nothing else. */
static bool is_refused;

long __real_syscall(long number, long a, long b, long c, long d, long e, long f);
long __wrap_syscall(long number, long a, long b, long c, long d, long e, long f);
long __wrap_syscall(long number, long a, long b, long c, long d, long e, long f)
{
    calls.direct += number == SYS_fstat;
    if (number != SYS_fstat || !is_refused)
        return __real_syscall(number, a, b, c, d, e, f);
    errno = EPERM;
    return -1;
}

/* Which of both names the headers choose depends on the C library. */
int __wrap_fstat(int fd, struct stat *ret_status);
int __wrap_fstat(int fd, struct stat *ret_status)
{
    calls.fstat++;
    return fstatat(fd, "", ret_status, AT_EMPTY_PATH);
}

int __wrap_fstat64(int fd, struct stat *ret_status);
int __wrap_fstat64(int fd, struct stat *ret_status)
{
    return __wrap_fstat(fd, ret_status);
}

/* Whose the descriptor is, is asked once: the kernel itself where that may be, and by the C
 * library's way only where that was refused. */
static void check_looks(int times)
{
#if defined(__LP64__) && (defined(__x86_64__) || defined(__aarch64__))
    bool may_be_direct = true;
#else
    bool may_be_direct = false;
#endif
    CHECK_INT(calls.direct, may_be_direct ? times : 0);
    CHECK_INT(calls.fstat, may_be_direct && !is_refused ? 0 : times);
}

/* Since Linux 6.16; a read needs no room for descriptors then. */
static bool refuses_descriptors(void)
{
    int passes, fd = socket(AF_UNIX, SOCK_STREAM, 0);
    socklen_t bytes = sizeof(passes);
    bool known = getsockopt(fd, SOL_SOCKET, PASSRIGHTS, &passes, &bytes) == 0;
    close(fd);
    return known;
}

static void check(int times)
{
    check_looks(times);
    CHECK_INT(calls.send, times);
    CHECK_INT(refuses_descriptors() ? calls.recv : calls.recv + calls.recvmsg, times);
    CHECK_INT(calls.clock_gettime, times);
    CHECK_INT(calls.setsockopt, 0);
    CHECK_INT(calls.ppoll, 0);
    CHECK_INT(calls.malloc + calls.realloc + calls.calloc, 0);
}

/* Begins calls one right after the other; returns how many looks that took. */
static int looks_of_burst(nearcall_client *client, nearcall_function *echo)
{
    nearcall_call_id ids[BURST];
    nearcall_reply reply;
    memset(&calls, 0, sizeof(calls));
    for (int i = 0; i < BURST; i++) {
        CHECK_CALL(client, nearcall_request(client, echo, NEARCALL_CODEC_RAW), NEARCALL_OK);
        nearcall_put_raw(client, "x", 1);
        CHECK_CALL(client, nearcall_request_send(client, 0, &ids[i]), NEARCALL_OK);
    }
    CHECK_INT(calls.send, BURST);
    int looks = calls.direct + calls.fstat;
    for (int i = 0; i < BURST; i++)
        CHECK_CALL(client, nearcall_wait(client, ids[i], &reply), NEARCALL_OK);
    return looks;
}

/* Of calls that are begun without time for a system call between them, some are known to go to
 * the socket that the one before went to; how many follows the machine, but the first is not. */
static void check_bursts(nearcall_client *client, nearcall_function *echo)
{
    int least = BURST;
    for (int i = 0; i < BURSTS_MAX && least == BURST; i++) {
        int looks = looks_of_burst(client, echo);
        CHECK(looks >= 1);
        least = looks < least ? looks : least;
    }
    CHECK(least < BURST);
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
    check_bursts(client, echo);
    is_refused = true;
    memset(&calls, 0, sizeof(calls));
    CHECK_CALL(client, nearcall_call(client, "echo", data, 64, 0, &reply), NEARCALL_OK);
    check(1);
    is_refused = false;
    nearcall_close(client);
    server_stop(&server);
    return 0;
}
