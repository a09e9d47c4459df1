/* The program closes descriptors it does not know, and others get their numbers: the
 * library notices, touches none of them, and connects anew. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "handle/handle.h"
#include "test.h"

#define ROUNDS 20

/* Puts one end of a pair where the connection's socket was; returns the other. */
static int take_the_number(const nearcall_client *client)
{
    int pair[2];
    CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0);
    CHECK(dup2(pair[0], client->connection.fd) == client->connection.fd);
    close(pair[0]);
    return pair[1];
}

static void check_untouched(int other)
{
    char byte;
    CHECK(recv(other, &byte, 1, MSG_DONTWAIT) < 0 && errno == EAGAIN); /* open, and silent */
    close(other);
}

static void between_calls(const struct server *server, uint32_t flags, int calls)
{
    nearcall_reply reply;
    bool may_be_lost = calls > 1; /* shared memory has the request before the socket is looked at */
    nearcall_client *client = test_open(server->address, flags);
    for (int i = 0; i < calls; i++)
        CHECK_CALL(client, nearcall_call(client, "echo", "x", 1, 20000, &reply), NEARCALL_OK);
    int former = client->connection.fd, other = take_the_number(client);
    int r = nearcall_call(client, "echo", "x", 1, 20000, &reply);
    if (r == NEARCALL_E_UNAVAILABLE && may_be_lost) {
        CHECK(nearcall_error_outcome(client) != NEARCALL_OUTCOME_NOT_EXECUTED);
        r = nearcall_call(client, "echo", "x", 1, 20000, &reply);
    }
    CHECK_CALL(client, r, NEARCALL_OK);
    nearcall_close(client);
    check_untouched(other);
    close(former);
}

static void with_a_call_in_flight(const struct server *server, bool reads_first)
{
    nearcall_reply reply;
    nearcall_call_id call;
    nearcall_client *client = test_open(server->address, 0);
    test_request_int(client, test_find(client, "block"), 100);
    CHECK_CALL(client, nearcall_request_send(client, 20000, &call), NEARCALL_OK);
    int former = client->connection.fd, other = take_the_number(client);
    if (reads_first)
        CHECK_CALL(client, nearcall_process(client), NEARCALL_E_UNAVAILABLE);
    CHECK_CALL(client, nearcall_wait(client, call, &reply), NEARCALL_E_UNAVAILABLE);
    CHECK(nearcall_error_outcome(client) != NEARCALL_OUTCOME_UNKNOWN); /* the server was asked */
    CHECK(strstr(nearcall_error_message(client), "closed the descriptor") != NULL);
    nearcall_close(client);
    check_untouched(other);
    close(former);
}

/* Calls that are sent one right after the other: one system call puts another socket there, while
 * somebody else still holds the connection's, so that it takes as little time as it can. */
static void between_calls_that_are_begun(const struct server *server, int calls)
{
    nearcall_call_id id;
    int pair[2];
    CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0);
    nearcall_client *client = test_open(server->address, NEARCALL_NO_SHARED_MEMORY);
    nearcall_function *block = test_find(client, "block");
    int former = client->connection.fd, held = dup(former);
    CHECK(held >= 0);
    for (int i = 0; i < calls; i++) {
        test_request_int(client, block, 100);
        CHECK_CALL(client, nearcall_request_send(client, 20000, &id), NEARCALL_OK);
    }
    (void)dup2(pair[0], former);
    test_request_int(client, block, 100);
    CHECK_CALL(client, nearcall_request_send(client, 20000, &id), NEARCALL_OK);
    check_untouched(pair[1]);
    nearcall_close(client);
    close(pair[0]);
    close(former);
    close(held);
}

/* Who gives a call up writes as well, though no clock is read for it. */
static void a_call_is_cancelled(const struct server *server, uint32_t flags, int calls)
{
    nearcall_reply reply;
    nearcall_call_id call;
    nearcall_client *client = test_open(server->address, flags);
    nearcall_function *block = test_find(client, "block");
    for (int i = 0; i < calls; i++)
        CHECK_CALL(client, nearcall_call(client, "echo", "x", 1, 20000, &reply), NEARCALL_OK);
    test_request_int(client, block, 100);
    CHECK_CALL(client, nearcall_request_send(client, 20000, &call), NEARCALL_OK);
    int former = client->connection.fd, other = take_the_number(client);
    nearcall_cancel(client, call);
    nearcall_close(client);
    check_untouched(other);
    close(former);
}

static void without_a_successor(const struct server *server)
{
    nearcall_reply reply;
    nearcall_client *client = test_open(server->address, 0);
    CHECK_CALL(client, nearcall_call(client, "echo", "x", 1, 20000, &reply), NEARCALL_OK);
    close(client->connection.fd);
    CHECK_CALL(client, nearcall_call(client, "echo", "x", 1, 20000, &reply), NEARCALL_OK);
    nearcall_close(client);
}

/* A file that the program opened has the number by which the handle is woken: neither a
 * byte of it is read, nor one written to it, and wakes arrive again. */
static void the_number_of_the_event(const struct server *server)
{
    nearcall_reply reply;
    char path[160], text[32] = "";
    snprintf(path, sizeof(path), "%s/log", test_directory());
    nearcall_client *client = test_open(server->address, NEARCALL_WAKEABLE | NEARCALL_NO_SHARED_MEMORY);
    CHECK_CALL(client, nearcall_call(client, "echo", "x", 1, 20000, &reply), NEARCALL_OK);
    int watched = nearcall_fd(client), number = client->watch.wake.fd;
    int log = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    CHECK(log >= 0 && write(log, "what was logged", 15) == 15 && lseek(log, 0, SEEK_SET) == 0);
    CHECK(dup2(log, number) == number);
    CHECK_INT(nearcall_wake(client), NEARCALL_E_MISUSE);
    do /* one whose reply has come before it waits looks at no number */
        CHECK_CALL(client, nearcall_call(client, "echo", "x", 1, 20000, &reply), NEARCALL_OK);
    while (client->watch.wake.fd == number);
    CHECK_INT(read(log, text, sizeof(text)), 15);
    CHECK(strcmp(text, "what was logged") == 0);
    struct pollfd loop = {watched, POLLIN, 0};
    CHECK_INT(nearcall_wake(client), NEARCALL_OK);
    CHECK_INT(nearcall_fd(client), watched);
    CHECK_INT(poll(&loop, 1, 10000), 1);
    nearcall_close(client);
    CHECK(fcntl(number, F_GETFD) >= 0);
    close(number);
    close(log);
}

/* ---- Events, which have no file of their own ---- */

#define NUMBERS 64 /* all below are closed, as closefrom(3) does */
#define EVENTS 8 /* more than a handle has descriptors */

static void close_all(void)
{
    for (int fd = 3; fd < NUMBERS; fd++)
        close(fd);
}

/* Each is readable until somebody else reads it. */
static int some_event(void)
{
    return eventfd(7, EFD_CLOEXEC | EFD_NONBLOCK);
}

static int some_timer(void)
{
    struct itimerspec once = {.it_value = {0, 1}};
    int fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
    CHECK(fd >= 0 && timerfd_settime(fd, 0, &once, NULL) == 0);
    return fd;
}

static int some_set(void)
{
    struct epoll_event event = {.events = EPOLLIN};
    int fd = epoll_create1(EPOLL_CLOEXEC), inner = fcntl(some_event(), F_DUPFD_CLOEXEC, NUMBERS);
    CHECK(fd >= 0 && inner >= 0 && epoll_ctl(fd, EPOLL_CTL_ADD, inner, &event) == 0);
    return fd;
}

struct successors {
    const struct server *server;
    int (*make)(void);
    int fds[EVENTS];
};

static void check_all_readable(const struct successors *successors)
{
    for (int i = 0; i < EVENTS; i++) {
        struct pollfd event = {successors->fds[i], POLLIN, 0};
        CHECK(poll(&event, 1, 10000) == 1 && event.revents == POLLIN);
    }
}

static void take_the_numbers(struct successors *successors)
{
    for (int i = 0; i < EVENTS; i++)
        CHECK((successors->fds[i] = successors->make()) >= 0);
    check_all_readable(successors);
}

/* Calls are not ended by them, and nothing is read, written or closed. */
static void check_calls(nearcall_client *client, nearcall_function *block,
                        const struct successors *successors)
{
    nearcall_reply reply;
    for (int i = 0; i < 3; i++) {
        test_request_int(client, block, 20);
        CHECK_CALL(client, nearcall_request_call(client, 20000, &reply), NEARCALL_OK);
    }
    check_all_readable(successors);
    nearcall_close(client);
    check_all_readable(successors);
}

static void in_a_program_that_closes_all(void *argument)
{
    struct successors *successors = argument;
    nearcall_client *client = test_open(successors->server->address, NEARCALL_WAKEABLE | NEARCALL_NO_SHARED_MEMORY);
    nearcall_function *block = test_find(client, "block");
    close_all();
    take_the_numbers(successors);
    CHECK_INT(nearcall_wake(client), NEARCALL_E_MISUSE);
    check_all_readable(successors);
    check_calls(client, block, successors);
}

/* A child that closes all before it uses the handle, when its parent has nothing open any
 * more: the kernel gives its events the numbers that those of the handle had. */
static void in_a_daemon(void *argument)
{
    struct successors *successors = argument;
    int ends[2], bell[2];
    char byte;
    nearcall_client *client = test_open(successors->server->address, NEARCALL_WAKEABLE | NEARCALL_NO_SHARED_MEMORY);
    nearcall_function *block = test_find(client, "block");
    CHECK(nearcall_fd(client) >= 0 && pipe(ends) == 0);
    for (int i = 0; i < 2; i++)
        CHECK((bell[i] = fcntl(ends[i], F_DUPFD_CLOEXEC, NUMBERS)) >= 0);
    pid_t daemon = fork();
    CHECK(daemon >= 0);
    close_all();
    close(bell[1]);
    if (daemon > 0) {
        close(bell[0]);
        test_join(daemon);
        nearcall_close(client);
        return;
    }
    CHECK(read(bell[0], &byte, 1) == 0);
    take_the_numbers(successors);
    check_calls(client, block, successors);
    _exit(0);
}

static void events_under_its_numbers(const struct server *server)
{
    int (*const kinds[])(void) = {some_event, some_timer, some_set};
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        struct successors successors = {.server = server, .make = kinds[i]};
        test_join(test_fork(in_a_program_that_closes_all, &successors));
        test_join(test_fork(in_a_daemon, &successors));
    }
}

int main(void)
{
    struct server server;
    test_begin();
    server_start(&server);
    for (int i = 0; i < ROUNDS; i++) { /* what is looked at when depends on the clock */
        between_calls(&server, NEARCALL_NO_SHARED_MEMORY, 1);
        between_calls(&server, 0, 1);
        between_calls(&server, 0, 40); /* enough for shared memory */
        between_calls_that_are_begun(&server, i + 1);
    }
    with_a_call_in_flight(&server, false);
    with_a_call_in_flight(&server, true);
    a_call_is_cancelled(&server, NEARCALL_NO_SHARED_MEMORY, 1);
    a_call_is_cancelled(&server, 0, 40);
    without_a_successor(&server);
    the_number_of_the_event(&server);
    events_under_its_numbers(&server);
    server_stop(&server);
    return 0;
}
