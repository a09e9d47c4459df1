/* Processes that have nothing to wait with: children that lack the one descriptor that
 * they need, and programs that have closed the library's. None of them spins. */
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "handoff_test.h"

static void set_descriptor_limit(rlim_t descriptors)
{
    struct rlimit limit;
    CHECK(getrlimit(RLIMIT_NOFILE, &limit) == 0);
    limit.rlim_cur = descriptors;
    CHECK(setrlimit(RLIMIT_NOFILE, &limit) == 0);
}

static void take_all_descriptors(void)
{
    int lowest = dup(0);
    close(lowest);
    set_descriptor_limit((rlim_t)lowest);
}

static void check_is_told(nearcall_handoff *handoff, int r)
{
    CHECK_HANDOFF(handoff, r, NEARCALL_E_RESOURCE_EXHAUSTED);
    CHECK(strstr(nearcall_handoff_error_message(handoff), "RLIMIT_NOFILE") != NULL);
}

/* ---- Children that lack descriptors ---- */

static void child_serves_when_there_are_some(void *argument)
{
    nearcall_handoff_item item;
    take_all_descriptors();
    check_is_told(argument, nearcall_handoff_accept(argument, NEARCALL_NO_TIMEOUT, &item));
    check_is_told(argument, nearcall_handoff_accept(argument, 0, &item));
    check_is_told(argument, nearcall_handoff_wait(argument, PATIENCE_MS));
    CHECK_INT(nearcall_handoff_fd(argument), -1);
    CHECK(strstr(nearcall_handoff_error_message(argument), "RLIMIT_NOFILE") != NULL);
    set_descriptor_limit(64);
    CHECK(nearcall_handoff_fd(argument) >= 0);
    CHECK_HANDOFF(argument, nearcall_handoff_accept(argument, PATIENCE_MS, &item), NEARCALL_OK);
    send_bytes(item.fd, "child");
    close(item.fd);
    nearcall_handoff_close(argument);
}

static void child_drains(void *argument)
{
    nearcall_handoff_item item;
    take_all_descriptors();
    CHECK_HANDOFF(argument, nearcall_handoff_refuse(argument, NEARCALL_HANDOFF_BUSY, ""), NEARCALL_E_AGAIN);
    CHECK_HANDOFF(argument, nearcall_handoff_drain(argument, "no descriptors"), NEARCALL_OK);
    CHECK(nearcall_handoff_accept(argument, NEARCALL_NO_TIMEOUT, &item) < 0);
    nearcall_handoff_close(argument);
}

static void child_closes(void *argument)
{
    take_all_descriptors();
    nearcall_handoff_close(argument);
}

static void children_without_descriptors(void)
{
    const char *address = handoff_address();
    nearcall_handoff *taker = handoff_listen(address, 0), *giver;
    nearcall_handoff_item item = {.kind = NEARCALL_HANDOFF_CONNECTION};
    int client;
    test_join(test_fork(child_drains, taker));
    test_join(test_fork(child_closes, taker));
    pid_t pid = test_fork(child_serves_when_there_are_some, taker);
    CHECK_HANDOFF(giver, nearcall_handoff_connect(&giver, address, NULL, PATIENCE_MS), NEARCALL_OK);
    tcp_pair(&client, &item.fd);
    CHECK_HANDOFF(giver, nearcall_handoff_give(giver, 0, &item, PATIENCE_MS), NEARCALL_OK);
    expect_bytes(client, "child");
    test_join(pid);
    close(client);
    nearcall_handoff_close(giver);
    nearcall_handoff_close(taker);
}

/* ---- A signal handler that forks while the library waits ---- */

static pid_t forked;

static void fork_once(int number)
{
    (void)number;
    if (forked != -1)
        return;
    forked = fork();
    if (forked == 0)
        take_all_descriptors();
}

static void a_child_of_a_handler(uint32_t flags)
{
    struct sigaction action = {.sa_handler = fork_once};
    struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGUSR1};
    struct itimerspec often = {{0, 20000000}, {0, 20000000}};
    nearcall_handoff *taker = handoff_listen(handoff_address(), flags);
    nearcall_handoff_item item;
    timer_t timer;
    forked = -1;
    CHECK(sigaction(SIGUSR1, &action, NULL) == 0);
    CHECK(timer_create(CLOCK_MONOTONIC, &event, &timer) == 0 &&
          timer_settime(timer, 0, &often, NULL) == 0);
    int r = nearcall_handoff_accept(taker, 500, &item);
    if (forked == 0) {
        check_is_told(taker, r);
        nearcall_handoff_close(taker);
        _exit(0);
    }
    CHECK(timer_delete(timer) == 0);
    CHECK_HANDOFF(taker, r, flags ? NEARCALL_E_INTERRUPTED : NEARCALL_E_DEADLINE_EXCEEDED);
    test_join(forked);
    nearcall_handoff_close(taker);
}

/* ---- Programs that close what is not theirs ---- */

static void program_that_closes_all(void *argument)
{
    nearcall_handoff *taker = handoff_listen(handoff_address(), 0);
    nearcall_handoff_item item;
    (void)argument;
    for (int fd = 3; fd < 64; fd++)
        close(fd);
    CHECK_HANDOFF(taker, nearcall_handoff_accept(taker, NEARCALL_NO_TIMEOUT, &item),
                  NEARCALL_E_FAILED_PRECONDITION);
    CHECK(strstr(nearcall_handoff_error_message(taker), "make another") != NULL);
    CHECK_HANDOFF(taker, nearcall_handoff_wait(taker, 100), NEARCALL_E_FAILED_PRECONDITION);
    nearcall_handoff_close(taker);
}

int main(void)
{
    test_begin();
    int descriptors = test_open_descriptors();
    children_without_descriptors();
    a_child_of_a_handler(0);
    a_child_of_a_handler(NEARCALL_HANDOFF_INTERRUPTIBLE);
    test_join(test_fork(program_that_closes_all, NULL));
    CHECK_INT(test_open_descriptors(), descriptors);
    return 0;
}
