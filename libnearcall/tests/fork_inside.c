/* A signal's handler that forks and returns in both processes, at any moment of a
 * call: the child neither sends nor reads on the parent's connection. The moments
 * are those of system calls. Linked with --wrap. */
#include <poll.h>
#include <stdatomic.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "client.h"
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
int __real_ppoll(struct pollfd *watched, nfds_t count, const struct timespec *timeout,
                 const sigset_t *mask);
int __wrap_ppoll(struct pollfd *watched, nfds_t count, const struct timespec *timeout,
                 const sigset_t *mask);
ssize_t __real_sendmsg(int fd, const struct msghdr *message, int flags);
ssize_t __wrap_sendmsg(int fd, const struct msghdr *message, int flags);

int __wrap_clock_gettime(clockid_t clock, struct timespec *ret_now)
{
    int r = __real_clock_gettime(clock, ret_now);
    if (clock == CLOCK_MONOTONIC)
        maybe_fork();
    return r;
}

int __wrap_ppoll(struct pollfd *watched, nfds_t count, const struct timespec *timeout,
                 const sigset_t *mask)
{
    int r = __real_ppoll(watched, count, timeout, mask);
    maybe_fork();
    return r;
}

ssize_t __wrap_sendmsg(int fd, const struct msghdr *message, int flags)
{
    ssize_t sent = __real_sendmsg(fd, message, flags);
    maybe_fork();
    return sent;
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

int main(void)
{
    test_begin();
    fork_at(1, 0); /* after reading the clock, before sending */
    fork_at(2, 0); /* after sending, before waiting */
    fork_at(1, NEARCALL_NONBLOCKING);
    fork_at(2, NEARCALL_NONBLOCKING);
    return 0;
}
