/* nearcall_wake(): from another thread, from a signal's handler just before the wait or
 * within it, into a loop. Linked with --wrap: a loop turns while a waker is half-way. */
#include <poll.h>
#include <pthread.h>
#include <sys/ioctl.h>
#include <sys/time.h>

#include "connection/watch.h"
#include "handle/handle.h"
#include "script.h"

#define ROUNDS 300

static nearcall_client *client;
static bool turns_before, turns_after; /* the loop, what the waker writes */

ssize_t __real_send(int fd, const void *data, size_t bytes, int flags);
ssize_t __wrap_send(int fd, const void *data, size_t bytes, int flags);

ssize_t __wrap_send(int fd, const void *data, size_t bytes, int flags)
{
    bool is_wake = client && fd == client->watch.waker.fd;
    if (is_wake && turns_before)
        CHECK_CALL(client, nearcall_process(client), 0);
    ssize_t written = __real_send(fd, data, bytes, flags);
    if (is_wake && turns_after)
        CHECK_CALL(client, nearcall_process(client), 0);
    return written;
}

static void on_signal(int signal_number)
{
    (void)signal_number;
    CHECK_INT(nearcall_wake(client), NEARCALL_OK);
}

static void *wake(void *unused)
{
    (void)unused;
    CHECK_INT(nearcall_wake(client), NEARCALL_OK);
    return NULL;
}

/* The reply has come when the waker does, and both are there when the wait looks. */
static bool wake_with_reply;

/* A part of it, its header, would leave the call unfinished. */
static void await_reply(void)
{
    struct pollfd reply = {client->connection.fd, POLLIN, 0};
    int bytes;
    do {
        CHECK_INT(poll(&reply, 1, 20000), 1);
        CHECK(ioctl(reply.fd, FIONREAD, &bytes) == 0);
    } while (bytes < NC_FRAME_HEADER_BYTES + 1);
}

int __real_ppoll(struct pollfd *fds, nfds_t count, const struct timespec *timeout, const sigset_t *mask);
int __wrap_ppoll(struct pollfd *fds, nfds_t count, const struct timespec *timeout, const sigset_t *mask);

int __wrap_ppoll(struct pollfd *fds, nfds_t count, const struct timespec *timeout, const sigset_t *mask)
{
    if (wake_with_reply && client->connection.state == NC_READY) {
        await_reply();
        CHECK_INT(nearcall_wake(client), NEARCALL_OK);
        wake_with_reply = false;
    }
    return __real_ppoll(fds, count, timeout, mask);
}

/* The last only once the test says so. */
static void answer_three(struct script *script)
{
    struct nc_frame frame;
    script_greet(script);
    for (int i = 0; i < 3; i++) {
        script_expect(script, NC_REQUEST, &frame);
        if (i == 2)
            script_await(script);
        script_reply(script, &frame, "x", 1);
    }
    CHECK(script_read_end(script));
}

static void answer_nothing(struct script *script)
{
    struct nc_frame frame;
    uint8_t payload[SCRIPT_PAYLOAD_MAX];
    script_greet(script);
    while (script_try_read(script, &frame, payload))
        ;
}

/* The signal comes somewhere between leaving for the call and sleeping in it. */
static void by_signals(void)
{
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
    nearcall_reply reply;
    CHECK(sigaction(SIGALRM, &action, NULL) == 0);
    for (int round = 0; round < ROUNDS; round++) {
        struct itimerval soon = {.it_value = {0, 1 + round}}, never = {0};
        CHECK(setitimer(ITIMER_REAL, &soon, NULL) == 0);
        CHECK_CALL(client, nearcall_call(client, "f", "x", 1, 20000, &reply), NEARCALL_E_INTERRUPTED);
        CHECK(setitimer(ITIMER_REAL, &never, NULL) == 0);
    }
}

static void by_a_thread(void)
{
    nearcall_reply reply;
    pthread_t thread;
    int r = nearcall_call(client, "f", "x", 1, 20, &reply);
    CHECK_CALL(client, r, NEARCALL_E_DEADLINE_EXCEEDED);
    CHECK(pthread_create(&thread, NULL, wake, NULL) == 0);
    CHECK_CALL(client, nearcall_call(client, "f", "x", 1, 20000, &reply), NEARCALL_E_INTERRUPTED);
    CHECK(pthread_join(thread, NULL) == 0);
    uint64_t interrupted = nearcall_interrupted(client);
    CHECK_INT(nearcall_wake(client), NEARCALL_OK); /* nothing waits: the next one ends */
    CHECK_CALL(client, nearcall_resume(client, interrupted, &reply), NEARCALL_E_INTERRUPTED);
    CHECK_INT(nearcall_interrupted(client), interrupted);
}

static void into_a_loop(void)
{
    struct pollfd watched = {nearcall_fd(client), POLLIN, 0};
    CHECK_CALL(client, nearcall_process(client), 0);
    CHECK_INT(poll(&watched, 1, 0), 0);
    CHECK_INT(nearcall_wake(client), NEARCALL_OK);
    CHECK_INT(poll(&watched, 1, 10000), 1);
    CHECK_CALL(client, nearcall_process(client), 0);
    CHECK_INT(poll(&watched, 1, 0), 0);
}

/* Whoever wakes is never forgotten: the loop is quiet again, and nothing is left that would
 * end what only looks at memory. */
static void while_the_loop_turns(void)
{
    struct pollfd watched = {nearcall_fd(client), POLLIN, 0};
    for (int i = 1; i < 4; i++) {
        turns_before = i & 1;
        turns_after = i & 2;
        CHECK_INT(nearcall_wake(client), NEARCALL_OK);
        turns_before = turns_after = false;
        CHECK_INT(nc_is_woken(client), poll(&watched, 1, 0) > 0);
        CHECK_CALL(client, nearcall_process(client), 0);
        CHECK_INT(poll(&watched, 1, 0), 0);
        CHECK(!nc_is_woken(client));
    }
}

/* The call that waits has ended: the wake is the next one's. */
static void with_the_reply(struct script *script)
{
    nearcall_reply reply;
    CHECK_CALL(client, nearcall_call(client, "f", "x", 1, 20000, &reply), NEARCALL_OK);
    wake_with_reply = true;
    CHECK_CALL(client, nearcall_call(client, "f", "x", 1, 20000, &reply), NEARCALL_OK);
    CHECK(!wake_with_reply);
    CHECK_CALL(client, nearcall_call(client, "f", "x", 1, 20000, &reply), NEARCALL_E_INTERRUPTED);
    script_signal(script);
    CHECK_CALL(client, nearcall_resume(client, nearcall_interrupted(client), &reply), NEARCALL_OK);
}

int main(void)
{
    struct script script;
    test_begin();
    client = test_open("unix:/nowhere", 0);
    CHECK_INT(nearcall_wake(client), NEARCALL_E_MISUSE);
    CHECK_INT(nearcall_wake(NULL), NEARCALL_E_MISUSE);
    nearcall_close(client);
    script_start(&script, answer_nothing, NULL);
    client = test_open(script.address, NEARCALL_WAKEABLE);
    by_signals();
    by_a_thread();
    into_a_loop();
    while_the_loop_turns();
    nearcall_close(client);
    script_end(&script);
    script_start(&script, answer_three, NULL);
    client = test_open(script.address, NEARCALL_WAKEABLE);
    with_the_reply(&script);
    nearcall_close(client);
    script_end(&script);
    return 0;
}
