/* nearcall_interruptible_check(): a signal whose handler has run before the wait sleeps ends
 * the wait at once, wherever it came.
 *
 * Linked with --wrap: a signal comes in the last moment, when the library is about to sleep. */
#include <poll.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/time.h>

#include "handoff_test.h"
#include "script.h"

#define ROUNDS 300
#define LAST_MOMENTS 5
#define TIMEOUT_MS 5000
#define AT_ONCE_MS 1000

static volatile sig_atomic_t pending;
static volatile sig_atomic_t strikes; /* a signal comes before the next sleep */

ssize_t __real_recv(int fd, void *data, size_t bytes, int flags);
ssize_t __wrap_recv(int fd, void *data, size_t bytes, int flags);
ssize_t __real_recvmsg(int fd, struct msghdr *message, int flags);
ssize_t __wrap_recvmsg(int fd, struct msghdr *message, int flags);
int __real_ppoll(struct pollfd *fds, nfds_t count, const struct timespec *timeout, const sigset_t *mask);
int __wrap_ppoll(struct pollfd *fds, nfds_t count, const struct timespec *timeout, const sigset_t *mask);

int __real_epoll_wait(int set, struct epoll_event *events, int count, int timeout_ms);
int __wrap_epoll_wait(int set, struct epoll_event *events, int count, int timeout_ms);

static void strike(void)
{
    if (strikes) {
        strikes = 0;
        CHECK(raise(SIGALRM) == 0);
    }
}

ssize_t __wrap_recv(int fd, void *data, size_t bytes, int flags)
{
    if (!(flags & MSG_DONTWAIT))
        strike();
    return __real_recv(fd, data, bytes, flags);
}

ssize_t __wrap_recvmsg(int fd, struct msghdr *message, int flags)
{
    if (!(flags & MSG_DONTWAIT))
        strike();
    return __real_recvmsg(fd, message, flags);
}

int __wrap_ppoll(struct pollfd *fds, nfds_t count, const struct timespec *timeout, const sigset_t *mask)
{
    strike();
    return __real_ppoll(fds, count, timeout, mask);
}

int __wrap_epoll_wait(int set, struct epoll_event *events, int count, int timeout_ms)
{
    if (timeout_ms != 0)
        strike();
    return __real_epoll_wait(set, events, count, timeout_ms);
}

static void on_signal(int signal_number)
{
    (void)signal_number;
    pending = 1;
}

static int is_pending(void *argument)
{
    CHECK(argument == &pending);
    return pending;
}

static void answer_nothing(struct script *script)
{
    struct nc_frame frame;
    uint8_t payload[SCRIPT_PAYLOAD_MAX];
    script_greet(script);
    while (script_try_read(script, &frame, payload))
        ;
}

/* A call that nothing but a signal ends in this time. */
static bool is_noticed_at_once(nearcall_client *client)
{
    nearcall_reply reply;
    double before_ms = test_now_ms();
    int r = nearcall_call(client, "f", "x", 1, TIMEOUT_MS, &reply);
    bool at_once = test_now_ms() - before_ms < AT_ONCE_MS * test_slowness();
    pending = 0;
    return r == NEARCALL_E_INTERRUPTED && at_once;
}

static int noticed_between_leaving_and_sleeping(nearcall_client *client)
{
    int noticed = 0;
    for (int round = 0; round < ROUNDS; round++) {
        struct itimerval soon = {.it_value = {0, 1 + round}}, never = {0};
        CHECK(setitimer(ITIMER_REAL, &soon, NULL) == 0);
        noticed += is_noticed_at_once(client);
        CHECK(setitimer(ITIMER_REAL, &never, NULL) == 0);
        pending = 0;
    }
    return noticed;
}

static int noticed_in_the_last_moment(nearcall_client *client)
{
    int noticed = 0;
    for (int round = 0; round < LAST_MOMENTS; round++) {
        strikes = 1;
        noticed += is_noticed_at_once(client);
        CHECK_INT(strikes, 0);
    }
    return noticed;
}

static void with(uint32_t flags)
{
    struct script script;
    script_start(&script, answer_nothing, NULL);
    nearcall_client *client = test_open(script.address, NEARCALL_INTERRUPTIBLE | flags);
    CHECK_CALL(client, nearcall_interruptible_check(client, is_pending, (void *)&pending), NEARCALL_OK);
    CHECK_INT(noticed_in_the_last_moment(client), LAST_MOMENTS);
    CHECK_INT(noticed_between_leaving_and_sleeping(client), ROUNDS);
    CHECK_CALL(client, nearcall_interruptible_check(client, NULL, NULL), NEARCALL_OK);
    nearcall_close(client);
    script_end(&script);
}

/* What is asked every few milliseconds changes nothing else. */
static void asked_in_vain(void)
{
    nearcall_reply reply;
    struct script script;
    script_start(&script, answer_nothing, NULL);
    nearcall_client *client = test_open(script.address, NEARCALL_INTERRUPTIBLE);
    CHECK_CALL(client, nearcall_interruptible_check(client, is_pending, (void *)&pending), NEARCALL_OK);
    for (int tries = 0;; tries++) {
        double before_ms = test_now_ms();
        CHECK_CALL(client, nearcall_call(client, "f", "x", 1, 150, &reply), NEARCALL_E_DEADLINE_EXCEEDED);
        if (test_in_time(test_now_ms() - before_ms, 150))
            break;
        CHECK(tries < TEST_TRIES);
    }
    nearcall_close(client);
    script_end(&script);
}

/* Whoever waits for connections may wait for ever. */
static void of_handoffs(void)
{
    nearcall_handoff_item item;
    nearcall_handoff *taker = handoff_listen(handoff_address(), 0);
    CHECK_INT(nearcall_handoff_interruptible_check(taker, is_pending, NULL), NEARCALL_E_MISUSE);
    nearcall_handoff_close(taker);
    taker = handoff_listen(handoff_address(), NEARCALL_HANDOFF_INTERRUPTIBLE);
    CHECK_HANDOFF(taker, nearcall_handoff_interruptible_check(taker, is_pending, (void *)&pending), NEARCALL_OK);
    for (int round = 0; round < LAST_MOMENTS; round++) {
        double before_ms = test_now_ms();
        strikes = 1;
        CHECK_HANDOFF(taker, nearcall_handoff_accept(taker, TIMEOUT_MS, &item), NEARCALL_E_INTERRUPTED);
        CHECK(test_now_ms() - before_ms < AT_ONCE_MS * test_slowness());
        CHECK_INT(strikes, 0);
        pending = 1;
        CHECK_HANDOFF(taker, nearcall_handoff_wait(taker, TIMEOUT_MS), NEARCALL_E_INTERRUPTED);
        pending = 0;
    }
    CHECK_HANDOFF(taker, nearcall_handoff_wait(taker, 50), NEARCALL_E_DEADLINE_EXCEEDED);
    nearcall_handoff_close(taker);
}

int main(void)
{
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
    test_begin();
    CHECK(sigaction(SIGALRM, &action, NULL) == 0);
    nearcall_client *client = test_open("unix:/nowhere", 0);
    CHECK_CALL(client, nearcall_interruptible_check(client, is_pending, NULL), NEARCALL_E_MISUSE);
    nearcall_close(client);
    CHECK_INT(nearcall_interruptible_check(NULL, is_pending, NULL), NEARCALL_E_MISUSE);
    with(0);
    with(NEARCALL_WAKEABLE);
    asked_in_vain();
    of_handoffs();
    return 0;
}
