/* nearcall_resident_interruptible_check(): a signal whose handler has run before the wait
 * sleeps ends the wait, of the supervisor and of a worker.
 *
 * Linked with --wrap: a signal comes in the last moment, when the library is about to sleep. */
#include <poll.h>
#include <sys/epoll.h>

#include "resident_test.h"

/* Nothing else ends the resident before it has been idle for so long. */
#define IDLE_MS 5000

static volatile sig_atomic_t pending;
static enum { NOBODY, SUPERVISOR, WORKER } struck;

int __real_ppoll(struct pollfd *fds, nfds_t count, const struct timespec *timeout, const sigset_t *mask);
int __wrap_ppoll(struct pollfd *fds, nfds_t count, const struct timespec *timeout, const sigset_t *mask);
int __real_epoll_pwait(int set, struct epoll_event *events, int count, int timeout_ms, const sigset_t *mask);
int __wrap_epoll_pwait(int set, struct epoll_event *events, int count, int timeout_ms, const sigset_t *mask);

int __wrap_ppoll(struct pollfd *fds, nfds_t count, const struct timespec *timeout, const sigset_t *mask)
{
    static int sleeps;
    if (struck == SUPERVISOR && ++sleeps == 2) /* the first ends when the only worker is ready */
        CHECK(raise(SIGUSR1) == 0);
    return __real_ppoll(fds, count, timeout, mask);
}

int __wrap_epoll_pwait(int set, struct epoll_event *events, int count, int timeout_ms, const sigset_t *mask)
{
    if (struck == WORKER)
        CHECK(raise(SIGUSR1) == 0);
    return __real_epoll_pwait(set, events, count, timeout_ms, mask);
}

static void on_signal(int signal_number)
{
    (void)signal_number;
    pending = 1;
}

static int is_pending(void *argument)
{
    CHECK(argument == NULL);
    return pending;
}

/* It ends with 1 when its waits, or its workers', are interrupted. */
static void is_interrupted(const nearcall_resident_options *options)
{
    struct resident resident;
    double before_ms = test_now_ms();
    resident_start(&resident, options);
    CHECK_INT(resident_wait(&resident), 1);
    CHECK(test_now_ms() - before_ms < IDLE_MS);
}

int main(void)
{
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
    struct { /* as a caller has it that was compiled against a later version */
        nearcall_resident_options known;
        uint64_t later;
    } longer = {NEARCALL_RESIDENT_OPTIONS_INIT, 0};
    nearcall_resident_options options = NEARCALL_RESIDENT_OPTIONS_INIT;
    options.idle_ms = IDLE_MS;
    options.workers = 1;
    test_begin();
    CHECK(sigaction(SIGUSR1, &action, NULL) == 0);
    resident_check = is_pending;
    struck = SUPERVISOR;
    is_interrupted(&options);
    struck = WORKER;
    is_interrupted(&options);
    struck = NOBODY;
    pending = 1; /* before the first wait */
    is_interrupted(&options);
    longer.known = options;
    longer.known.struct_size = sizeof(longer);
    is_interrupted(&longer.known);
    return 0;
}
