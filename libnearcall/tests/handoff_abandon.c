/* Functions of a handle of handoffs that a signal's handler leaves by siglongjmp(3): where they slept
 * nothing is lost, and at every other moment the handle takes what is given next. Linked with --wrap. */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <setjmp.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "handoff/handoff.h"
#include "handoff_test.h"

static sigjmp_buf back;

/* ---- Where it sleeps ---- */

static pthread_t tester;
static pid_t tester_id;

static void leave(int signal_number)
{
    (void)signal_number;
    siglongjmp(back, 1);
}

static bool sleeps_in(const nearcall_handoff *handoff)
{
    char path[64], text[128] = "";
    snprintf(path, sizeof(path), "/proc/self/task/%d/stat", (int)tester_id);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    CHECK(fd >= 0 && read(fd, text, sizeof(text) - 1) > 0);
    close(fd);
    const char *name_end = strrchr(text, ')');
    return name_end && name_end[2] == 'S' && atomic_load(&handoff->asleep);
}

static void *signal_the_sleeper(void *handoff)
{
    while (!sleeps_in(handoff))
        sched_yield();
    CHECK(pthread_kill(tester, SIGUSR1) == 0);
    return NULL;
}

static pthread_t signal_soon(nearcall_handoff *handoff)
{
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, signal_the_sleeper, handoff) == 0);
    return thread;
}

static void wants_misuse(nearcall_handoff *handoff)
{
    nearcall_handoff_item item = {.kind = NEARCALL_HANDOFF_CONNECTION};
    nearcall_handoff_close(handoff); /* does nothing */
    CHECK_INT(nearcall_handoff_accept(handoff, 0, &item), NEARCALL_E_MISUSE);
    CHECK_INT(nearcall_handoff_wait(handoff, 0), NEARCALL_E_MISUSE);
    CHECK_INT(nearcall_handoff_give(handoff, 0, &item, 0), NEARCALL_E_MISUSE);
    CHECK_INT(nearcall_handoff_fd(handoff), -1);
}

/* What is given by a channel that stood before is accepted afterwards. */
static void left_in_accept(void)
{
    const char *address = handoff_address();
    int descriptors = test_open_descriptors(), client, served;
    nearcall_handoff *taker = handoff_listen(address, 0);
    nearcall_handoff *giver = handoff_connect(address, 0, taker);
    nearcall_handoff_item item;
    struct giving giving = {0};
    pthread_t thread = signal_soon(taker);
    if (sigsetjmp(back, 1) == 0) {
        (void)nearcall_handoff_accept(taker, NEARCALL_NO_TIMEOUT, &item);
        CHECK(!"it was left");
    }
    CHECK(pthread_join(thread, NULL) == 0);
    wants_misuse(taker);
    CHECK_INT(nearcall_handoff_abandon(taker), 1);
    CHECK_INT(nearcall_handoff_abandon(taker), 0);
    tcp_pair(&client, &served);
    giving_start(&giving, giver, served, PATIENCE_MS);
    CHECK_HANDOFF(taker, nearcall_handoff_accept(taker, PATIENCE_MS, &item), NEARCALL_OK);
    CHECK_HANDOFF(giver, giving_end(&giving), NEARCALL_OK);
    close(item.fd);
    close(client);
    nearcall_handoff_close(giver);
    nearcall_handoff_close(taker);
    CHECK_INT(test_open_descriptors(), descriptors);
}

/* Nobody will know whose the gift is, so nothing more is said on its channel. */
static void left_in_give(void)
{
    const char *address = handoff_address();
    int descriptors = test_open_descriptors(), client, served;
    nearcall_handoff *taker = handoff_listen(address, 0);
    nearcall_handoff *giver = handoff_connect(address, 0, taker);
    nearcall_handoff_item item = {.kind = NEARCALL_HANDOFF_CONNECTION};
    tcp_pair(&client, &served);
    item.fd = served;
    pthread_t thread = signal_soon(giver);
    if (sigsetjmp(back, 1) == 0) {
        (void)nearcall_handoff_give(giver, 0, &item, NEARCALL_NO_TIMEOUT);
        CHECK(!"it was left");
    }
    CHECK(pthread_join(thread, NULL) == 0);
    wants_misuse(giver);
    CHECK_INT(nearcall_handoff_abandon(giver), 1);
    CHECK_HANDOFF(giver, nearcall_handoff_give(giver, 0, &item, 0), NEARCALL_E_UNAVAILABLE);
    CHECK(strstr(nearcall_handoff_error_message(giver), "nearcall_handoff_abandon()"));
    CHECK_HANDOFF(taker, nearcall_handoff_accept(taker, 0, &item), NEARCALL_E_AGAIN);
    nearcall_handoff_close(giver);
    nearcall_handoff_close(taker);
    close(served);
    expect_end(client);
    close(client);
    CHECK_INT(test_open_descriptors(), descriptors);
}

/* A child of the process that has left one takes what is given to it. */
static void use_in_child(void *taker)
{
    CHECK_INT(nearcall_handoff_abandon(taker), 1);
    CHECK_INT(nearcall_handoff_wait(taker, 0), NEARCALL_E_AGAIN);
    nearcall_handoff_close(taker);
    _exit(0); /* what the parent's function held is lost on purpose: no leak check */
}

static void left_before_a_fork(void)
{
    nearcall_handoff *taker = handoff_listen(handoff_address(), 0);
    pthread_t thread = signal_soon(taker);
    if (sigsetjmp(back, 1) == 0)
        (void)nearcall_handoff_wait(taker, NEARCALL_NO_TIMEOUT);
    CHECK(pthread_join(thread, NULL) == 0);
    test_join(test_fork(use_in_child, taker));
    CHECK_INT(nearcall_handoff_abandon(taker), 1);
    nearcall_handoff_close(taker);
}

/* ---- At every moment ---- */

/* More than there are in what is done. */
#define MOMENTS 200

static bool is_inside;
static int countdown; /* to the moment at which it is left; 0: none */

/* As a handler would that came here, before the kernel or the allocator was asked. */
static void maybe_leave(void)
{
    if (is_inside && countdown > 0 && --countdown == 0) {
        is_inside = false;
        siglongjmp(back, 1);
    }
}

#define WRAP(type, name, parameters, arguments)                                            \
    type __real_##name parameters;                                                         \
    type __wrap_##name parameters;                                                         \
    type __wrap_##name parameters                                                          \
    {                                                                                      \
        maybe_leave();                                                                     \
        type r = __real_##name arguments;                                                  \
        maybe_leave();                                                                     \
        return r;                                                                          \
    }

WRAP(void *, malloc, (size_t bytes), (bytes))
WRAP(void *, calloc, (size_t count, size_t bytes), (count, bytes))
WRAP(void *, realloc, (void *block, size_t bytes), (block, bytes))
WRAP(int, accept4, (int fd, struct sockaddr *address, socklen_t *bytes, int flags), (fd, address, bytes, flags))
WRAP(int, clock_gettime, (clockid_t clock, struct timespec *ret_now), (clock, ret_now))
WRAP(int, epoll_ctl, (int epoll_fd, int operation, int fd, struct epoll_event *event),
     (epoll_fd, operation, fd, event))
WRAP(int, getsockopt, (int fd, int level, int option, void *value, socklen_t *bytes),
     (fd, level, option, value, bytes))
WRAP(ssize_t, recvmsg, (int fd, struct msghdr *message, int flags), (fd, message, flags))
WRAP(ssize_t, sendmsg, (int fd, const struct msghdr *message, int flags), (fd, message, flags))

#define INSIDE(call, expected)                                                             \
    do {                                                                                   \
        is_inside = true;                                                                  \
        int r = (call);                                                                    \
        is_inside = false;                                                                 \
        CHECK_INT(r, expected);                                                            \
    } while (0)

static int giver = -1;

/* A giver connects, gives, and is told. */
static void take_one(nearcall_handoff *taker, const char *address)
{
    nearcall_handoff_item item;
    uint8_t bytes[100];
    int pair[2];
    giver = raw_connect(address, true);
    INSIDE(nearcall_handoff_wait(taker, 0), NEARCALL_E_AGAIN);
    CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) == 0);
    raw_send(giver, bytes, raw_give(bytes, 1), &pair[0], 1);
    close(pair[0]);
    INSIDE(nearcall_handoff_accept(taker, PATIENCE_MS, &item), NEARCALL_OK);
    close(item.fd);
    close(pair[1]);
    close(giver);
}

/* The child's end says whether there are as many moments. */
#define NO_SUCH_MOMENT 7

/* What it leaves in memory is lost on purpose, so it ends without a leak check. */
static void at_moment(int moment)
{
    const char *address = handoff_address();
    nearcall_handoff *taker = handoff_listen(address, 0);
    CHECK(nearcall_handoff_fd(taker) >= 0);
    take_one(taker, address);
    countdown = moment;
    if (sigsetjmp(back, 1) == 0) {
        take_one(taker, address);
        _exit(NO_SUCH_MOMENT);
    }
    int descriptors = test_open_descriptors();
    close(giver);
    CHECK_INT(nearcall_handoff_abandon(taker), 1);
    for (int i = 0; i < 3; i++)
        take_one(taker, address);
    (void)nearcall_handoff_wait(taker, 0); /* the last channel has ended */
    CHECK(test_open_descriptors() <= descriptors);
    nearcall_handoff_close(taker);
    CHECK(access(address + strlen("unix:"), F_OK) != 0 && errno == ENOENT);
    _exit(0);
}

static bool is_survived(int moment)
{
    int status;
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0)
        at_moment(moment);
    CHECK(waitpid(child, &status, 0) == child);
    CHECK(WIFEXITED(status) && (WEXITSTATUS(status) == 0 || WEXITSTATUS(status) == NO_SUCH_MOMENT));
    return WEXITSTATUS(status) == 0;
}

static void at_every_moment(void)
{
    int moment = 1;
    while (moment < MOMENTS && is_survived(moment))
        moment++;
    CHECK(moment > 20 && moment < MOMENTS);
}

int main(void)
{
    struct sigaction action = {.sa_handler = leave};
    test_begin();
    tester = pthread_self();
    tester_id = (pid_t)syscall(SYS_gettid);
    CHECK(sigaction(SIGUSR1, &action, NULL) == 0);
    left_in_accept();
    left_in_give();
    left_before_a_fork();
    at_every_moment();
    return 0;
}
