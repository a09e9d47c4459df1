/* A signal's handler that forks and returns in both processes, at any moment of a
 * call: the child neither sends nor reads on the parent's connection. The moments
 * are those of system calls. Linked with --wrap. */
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "handle/handle.h"
#include "script.h"

static int countdown; /* to the system call after which the fork is; 0: none */
static pid_t forked = -1;

static void maybe_fork(void)
{
    if (countdown > 0 && --countdown == 0)
        forked = fork();
}

int __real_clock_gettime(clockid_t clock, struct timespec *ret_now);
int __wrap_clock_gettime(clockid_t clock, struct timespec *ret_now);
int __wrap_clock_gettime(clockid_t clock, struct timespec *ret_now)
{
    int r = __real_clock_gettime(clock, ret_now);
    if (clock == CLOCK_MONOTONIC)
        maybe_fork();
    return r;
}

int __real_connect(int fd, const struct sockaddr *address, socklen_t bytes);
int __wrap_connect(int fd, const struct sockaddr *address, socklen_t bytes);
int __wrap_connect(int fd, const struct sockaddr *address, socklen_t bytes)
{
    int r = __real_connect(fd, address, bytes);
    maybe_fork();
    return r;
}

int __real_getsockopt(int fd, int level, int option, void *value, socklen_t *bytes);
int __wrap_getsockopt(int fd, int level, int option, void *value, socklen_t *bytes);
int __wrap_getsockopt(int fd, int level, int option, void *value, socklen_t *bytes)
{
    int r = __real_getsockopt(fd, level, option, value, bytes);
    maybe_fork();
    return r;
}

int __real_madvise(void *address, size_t bytes, int advice);
int __wrap_madvise(void *address, size_t bytes, int advice);
int __wrap_madvise(void *address, size_t bytes, int advice)
{
    int r = __real_madvise(address, bytes, advice);
    maybe_fork();
    return r;
}

int __real_ppoll(struct pollfd *watched, nfds_t count, const struct timespec *timeout,
                 const sigset_t *mask);
int __wrap_ppoll(struct pollfd *watched, nfds_t count, const struct timespec *timeout,
                 const sigset_t *mask);
int __wrap_ppoll(struct pollfd *watched, nfds_t count, const struct timespec *timeout,
                 const sigset_t *mask)
{
    int r = __real_ppoll(watched, count, timeout, mask);
    maybe_fork();
    return r;
}

ssize_t __real_recvmsg(int fd, struct msghdr *message, int flags);
ssize_t __wrap_recvmsg(int fd, struct msghdr *message, int flags);
ssize_t __wrap_recvmsg(int fd, struct msghdr *message, int flags)
{
    ssize_t r = __real_recvmsg(fd, message, flags);
    maybe_fork();
    return r;
}

ssize_t __real_recv(int fd, void *data, size_t bytes, int flags);
ssize_t __wrap_recv(int fd, void *data, size_t bytes, int flags);
ssize_t __wrap_recv(int fd, void *data, size_t bytes, int flags)
{
    ssize_t r = __real_recv(fd, data, bytes, flags);
    maybe_fork();
    return r;
}

int __real_sched_yield(void);
int __wrap_sched_yield(void);
int __wrap_sched_yield(void)
{
    int r = __real_sched_yield();
    maybe_fork();
    return r;
}

ssize_t __real_sendmsg(int fd, const struct msghdr *message, int flags);
ssize_t __wrap_sendmsg(int fd, const struct msghdr *message, int flags);
ssize_t __wrap_sendmsg(int fd, const struct msghdr *message, int flags)
{
    ssize_t r = __real_sendmsg(fd, message, flags);
    maybe_fork();
    return r;
}

ssize_t __real_send(int fd, const void *data, size_t bytes, int flags);
ssize_t __wrap_send(int fd, const void *data, size_t bytes, int flags);
ssize_t __wrap_send(int fd, const void *data, size_t bytes, int flags)
{
    ssize_t r = __real_send(fd, data, bytes, flags);
    maybe_fork();
    return r;
}

/* Which of both names the headers choose depends on the C library. */
int __wrap_fstat(int fd, struct stat *ret_status);
int __wrap_fstat(int fd, struct stat *ret_status)
{
    int r = fstatat(fd, "", ret_status, AT_EMPTY_PATH);
    maybe_fork();
    return r;
}

int __wrap_fstat64(int fd, struct stat *ret_status);
int __wrap_fstat64(int fd, struct stat *ret_status)
{
    return __wrap_fstat(fd, ret_status);
}

/* The library's hot calls ask the kernel itself, where they can. */
long __real_syscall(long number, long a, long b, long c, long d, long e, long f);
long __wrap_syscall(long number, long a, long b, long c, long d, long e, long f);
long __wrap_syscall(long number, long a, long b, long c, long d, long e, long f)
{
    if (number == SYS_fstat)
        return __wrap_fstat((int)a, (struct stat *)b);
    return __real_syscall(number, a, b, c, d, e, f);
}

/* One connection carries the parent's two calls and nothing else; the next is the
 * child's own. The parent's reply comes when the child has ended. */
static void play(struct script *script)
{
    struct nc_frame first, second;
    script_greet(script);
    script_expect(script, NC_REQUEST, &first);
    script_reply(script, &first, "1", 1);
    script_expect(script, NC_REQUEST, &second);
    int parents = script->fd;
    script->fd = -1;
    script_greet(script);
    script_serve(script);
    script_hang_up(script);
    script->fd = parents;
    script_reply(script, &second, "2", 1);
    CHECK(script_read_end(script));
}

static void in_the_child(nearcall_client *client, int r)
{
    nearcall_reply reply;
    CHECK_CALL(client, r, NEARCALL_E_UNAVAILABLE);
    CHECK_OUTCOME(client, NEARCALL_OUTCOME_UNKNOWN);
    CHECK_CALL(client, nearcall_call(client, "f", "own", 3, 5000, &reply), NEARCALL_OK);
    CHECK(reply.bytes == 3 && memcmp(reply.data, "own", 3) == 0);
    nearcall_close(client);
    _exit(0);
}

/* moment: which system call of the second call is the last before the fork. */
static void fork_at(int moment, uint32_t flags)
{
    struct script script;
    nearcall_reply reply;
    script_start(&script, play, NULL);
    nearcall_client *client = test_open(script.address, flags);
    CHECK_CALL(client, nearcall_call(client, "f", "x", 1, 5000, &reply), NEARCALL_OK);
    countdown = moment;
    forked = -1;
    int r = nearcall_call(client, "f", "x", 1, 5000, &reply);
    if (forked == 0)
        in_the_child(client, r);
    CHECK(forked > 0);
    CHECK_CALL(client, r, NEARCALL_OK);
    CHECK(reply.bytes == 1 && reply.data[0] == '2');
    test_join(forked);
    nearcall_close(client);
    script_end(&script);
}

/* ---- At every moment there is ---- */

/* More than there are in one call. */
#define MOMENTS 60

/* A child that was forked when the reply had come has it as well. */
static void child_of_a_moment(nearcall_client *client, int r, const nearcall_reply *given, size_t bytes)
{
    nearcall_reply reply;
    CHECK(r == NEARCALL_OK || r == NEARCALL_E_UNAVAILABLE);
    if (r == NEARCALL_OK)
        CHECK_INT(given->bytes, bytes);
    else
        CHECK_OUTCOME(client, NEARCALL_OUTCOME_UNKNOWN);
    CHECK_CALL(client, nearcall_call(client, "echo", "own", 3, 20000, &reply), NEARCALL_OK);
    CHECK(reply.bytes == 3 && memcmp(reply.data, "own", 3) == 0);
    nearcall_close(client);
    _exit(0);
}

/* Whether the call has that many moments. calls were made before; without any the handle
 * connects. */
static bool at_moment(const char *address, uint32_t flags, int calls, size_t bytes, int moment)
{
    static uint8_t data[100000];
    nearcall_reply reply;
    nearcall_client *client = test_open(address, flags);
    for (int i = 0; i < calls; i++)
        CHECK_CALL(client, nearcall_call(client, "echo", data, bytes, 20000, &reply), NEARCALL_OK);
    forked = -1;
    countdown = moment;
    int r = nearcall_call(client, "echo", data, bytes, 20000, &reply);
    countdown = 0;
    if (forked == 0)
        child_of_a_moment(client, r, &reply, bytes);
    CHECK_CALL(client, r, NEARCALL_OK);
    CHECK(reply.bytes == bytes && memcmp(reply.data, data, bytes) == 0);
    if (forked > 0)
        test_join(forked);
    CHECK_CALL(client, nearcall_call(client, "echo", data, bytes, 20000, &reply), NEARCALL_OK);
    nearcall_close(client);
    return forked > 0;
}

static void at_every_moment(const char *address, uint32_t flags, int calls, size_t bytes, int at_least)
{
    int moment = 1;
    while (moment < MOMENTS && at_moment(address, flags, calls, bytes, moment))
        moment++;
    CHECK(moment > at_least);
}

int main(void)
{
    struct server server;
    test_begin();
    for (int moment = 1; moment <= 3; moment++) { /* the clock, the look at the socket, sending */
        fork_at(moment, 0);
        fork_at(moment, NEARCALL_NONBLOCKING);
    }
    server_start(&server);
    at_every_moment(server.address, 0, 0, 5, 6);
    at_every_moment(server.address, NEARCALL_NO_SHARED_MEMORY, 1, 5, 3);
    at_every_moment(server.address, NEARCALL_NO_SHARED_MEMORY, 1, 90000, 3);
    at_every_moment(server.address, 0, 40, 5, 1); /* enough for shared memory */
    at_every_moment(server.address, 0, 40, 90000, 1);
    server_stop(&server);
    return 0;
}
