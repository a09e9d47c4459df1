/* A loop goes on though it watches edges, though the program has closed what it was told to
 * watch, and though there was no descriptor, or no room in it. Linked with --wrap: the kernel
 * has no room for another watch. */
#include <errno.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include "handle/handle.h"
#include "test.h"

#define TIMEOUT_MS 20000
#define REPLIES 100 /* more than one turn reads */
#define NUMBERS 64

static bool no_room;

int __real_epoll_ctl(int set, int operation, int fd, struct epoll_event *event);
int __wrap_epoll_ctl(int set, int operation, int fd, struct epoll_event *event);

int __wrap_epoll_ctl(int set, int operation, int fd, struct epoll_event *event)
{
    if (!no_room || operation != EPOLL_CTL_ADD)
        return __real_epoll_ctl(set, operation, fd, event);
    errno = ENOSPC;
    return -1;
}

static int epoll_with(int fd, uint32_t events)
{
    struct epoll_event event = {.events = events};
    int loop = epoll_create1(EPOLL_CLOEXEC);
    CHECK(loop >= 0 && epoll_ctl(loop, EPOLL_CTL_ADD, fd, &event) == 0);
    return loop;
}

static nearcall_call_id begin(nearcall_client *client, nearcall_function *function, int64_t value)
{
    nearcall_call_id call;
    test_request_int(client, function, value);
    CHECK_CALL(client, nearcall_request_send(client, TIMEOUT_MS, &call), NEARCALL_OK);
    return call;
}

/* Long before its deadline, which wakes every loop. */
static int result_of(nearcall_client *client, int loop, nearcall_call_id call)
{
    nearcall_reply reply;
    double began_ms = test_now_ms();
    int r;
    while ((r = nearcall_poll(client, call, &reply)) == NEARCALL_E_AGAIN) {
        struct epoll_event event;
        (void)epoll_wait(loop, &event, 1, (int)nearcall_timeout_ms(client));
        (void)nearcall_process(client);
    }
    CHECK(test_now_ms() - began_ms < TIMEOUT_MS / 2.0);
    return r;
}

static void finish(nearcall_client *client, int loop, nearcall_call_id call)
{
    CHECK_CALL(client, result_of(client, loop, call), NEARCALL_OK);
}

/* ---- Edges ---- */

static int bytes_that_came(const nearcall_client *client)
{
    int bytes = 0;
    CHECK(ioctl(client->connection.fd, FIONREAD, &bytes) == 0);
    return bytes;
}

static void await_bytes(const nearcall_client *client, int wanted)
{
    for (double until_ms = test_now_ms() + TIMEOUT_MS; bytes_that_came(client) < wanted; usleep(100))
        CHECK(test_now_ms() < until_ms); /* all replies have come */
}

/* Each comes with a descriptor, and takes a read of its own. */
static void more_replies_than_one_turn_reads(const struct server *server)
{
    nearcall_call_id calls[REPLIES];
    nearcall_client *client = test_open(server->address, NEARCALL_NONBLOCKING | NEARCALL_NO_SHARED_MEMORY);
    nearcall_function *many = test_find(client, "file_many");
    int loop = epoll_with(nearcall_fd(client), EPOLLIN | EPOLLET);
    nearcall_call_id first = begin(client, many, 1);
    await_bytes(client, 1);
    int bytes = bytes_that_came(client);
    finish(client, loop, first);
    for (int i = 0; i < REPLIES; i++)
        calls[i] = begin(client, many, 1);
    await_bytes(client, REPLIES * bytes);
    for (int i = 0; i < REPLIES; i++)
        finish(client, loop, calls[i]);
    nearcall_close(client);
    close(loop);
}

/* ---- Closed ---- */

static void close_all_but(int kept, int also_kept)
{
    for (int fd = 3; fd < NUMBERS; fd++)
        if (fd != kept && fd != also_kept)
            close(fd);
}

/* Until the handle has noticed; sending would fail meanwhile. */
static void await_loss(nearcall_client *client)
{
    while (nearcall_server_process_id(client) != 0)
        (void)nearcall_process(client);
}

/* The loop is made anew, when the numbers are others'. */
static void asked_after_all_was_closed(void *argument)
{
    const struct server *server = argument;
    nearcall_client *client = test_open(server->address, NEARCALL_NONBLOCKING | NEARCALL_NO_SHARED_MEMORY);
    nearcall_function *block = test_find(client, "block");
    CHECK(nearcall_fd(client) >= 0);
    close_all_but(-1, -1);
    for (int i = 0; i < 8; i++)
        CHECK(eventfd(0, EFD_CLOEXEC) >= 0);
    int fd = nearcall_fd(client), loop = epoll_with(fd, EPOLLIN);
    nearcall_reply reply;
    await_loss(client);
    for (int i = 0; i < 3; i++) {
        nearcall_call_id call = begin(client, block, 1);
        while (nearcall_poll(client, call, &reply) == NEARCALL_E_AGAIN) {
            struct pollfd watched = {loop, POLLIN, 0};
            CHECK_INT(poll(&watched, 1, TIMEOUT_MS / 2), 1); /* by the descriptor alone */
            (void)nearcall_process(client);
        }
        CHECK_INT(nearcall_fd(client), fd);
    }
    nearcall_close(client);
}

/* The loop knows what it watches, and closes what else the library has. */
static void not_asked_after_the_rest_was_closed(void *argument)
{
    const struct server *server = argument;
    nearcall_client *client = test_open(server->address, NEARCALL_NONBLOCKING | NEARCALL_NO_SHARED_MEMORY);
    nearcall_function *block = test_find(client, "block");
    int fd = nearcall_fd(client), loop = epoll_with(fd, EPOLLIN);
    close_all_but(fd, loop);
    await_loss(client);
    for (int i = 0; i < 3; i++)
        finish(client, loop, begin(client, block, 1));
    nearcall_close(client);
}

/* The set is as it was, and tells nothing of a socket that is gone. */
static void asked_after_the_connection_was_closed(const struct server *server, bool number_is_taken)
{
    nearcall_client *client = test_open(server->address, NEARCALL_NONBLOCKING | NEARCALL_NO_SHARED_MEMORY);
    int fd = nearcall_fd(client), loop = epoll_with(fd, EPOLLIN), other = eventfd(0, EFD_CLOEXEC);
    nearcall_function *block = test_find(client, "block");
    nearcall_call_id call = begin(client, block, 100);
    int number = client->connection.fd;
    CHECK_INT(nearcall_fd(client), fd);
    CHECK(nearcall_timeout_ms(client) > NC_UNWATCHED_LOOK_MS); /* all is watched */
    CHECK_INT(number_is_taken ? dup2(other, number) : close(number), number_is_taken ? number : 0);
    CHECK_INT(nearcall_fd(client), fd);
    CHECK(nearcall_timeout_ms(client) <= NC_UNWATCHED_LOOK_MS);
    CHECK_CALL(client, result_of(client, loop, call), NEARCALL_E_UNAVAILABLE);
    finish(client, loop, begin(client, block, 1));
    call = begin(client, block, 1);
    CHECK(nearcall_timeout_ms(client) > NC_UNWATCHED_LOOK_MS); /* and again */
    finish(client, loop, call);
    nearcall_close(client);
    if (number_is_taken)
        close(number);
    close(other);
    close(loop);
}

/* ---- Not to be had ---- */

static void no_descriptor(void *argument)
{
    const struct server *server = argument;
    struct rlimit limit, low;
    nearcall_client *client = test_open(server->address, NEARCALL_NONBLOCKING | NEARCALL_NO_SHARED_MEMORY);
    nearcall_function *block = test_find(client, "block");
    int loop = epoll_create1(EPOLL_CLOEXEC), first_free = dup(0);
    CHECK(loop >= 0);
    close(first_free);
    CHECK(getrlimit(RLIMIT_NOFILE, &limit) == 0);
    low = limit;
    low.rlim_cur = (rlim_t)first_free;
    CHECK(setrlimit(RLIMIT_NOFILE, &low) == 0);
    CHECK_INT(nearcall_fd(client), -1);
    finish(client, loop, begin(client, block, 1));
    CHECK_INT(nearcall_timeout_ms(client), -1); /* nothing is waited for */
    CHECK(setrlimit(RLIMIT_NOFILE, &limit) == 0);
    finish(client, epoll_with(nearcall_fd(client), EPOLLIN), begin(client, block, 1));
    nearcall_close(client);
}

static void no_watch(const struct server *server)
{
    nearcall_client *client = test_open(server->address, NEARCALL_NONBLOCKING | NEARCALL_NO_SHARED_MEMORY);
    int loop = epoll_with(nearcall_fd(client), EPOLLIN);
    no_room = true;
    nearcall_function *block = test_find(client, "block");
    finish(client, loop, begin(client, block, 1));
    no_room = false;
    finish(client, loop, begin(client, block, 1));
    nearcall_call_id call = begin(client, block, 1);
    CHECK(nearcall_timeout_ms(client) > NC_UNWATCHED_LOOK_MS); /* all is watched again */
    finish(client, loop, call);
    nearcall_close(client);
    close(loop);
}

int main(void)
{
    struct server server;
    test_begin();
    server_start_with_files(&server);
    more_replies_than_one_turn_reads(&server);
    test_join(test_fork(asked_after_all_was_closed, &server));
    test_join(test_fork(not_asked_after_the_rest_was_closed, &server));
    asked_after_the_connection_was_closed(&server, false);
    asked_after_the_connection_was_closed(&server, true);
    test_join(test_fork(no_descriptor, &server));
    no_watch(&server);
    server_stop(&server);
    return 0;
}
