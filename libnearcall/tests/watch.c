/* nearcall_fd() is one descriptor for the life of the handle: a loop that added it once to
 * an epoll instance of its own misses nothing, whatever becomes of server and connection,
 * in a parent and in its children, and does not turn without a reason. */
#include <poll.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <unistd.h>

#include "handle/handle.h"
#include "script.h"

#define ROUNDS 20
#define AT_ONCE 8
#define DESCRIPTORS 64 /* more than a child has */
#define TIMEOUT_MS 20000

static int epoll_with(int fd)
{
    struct epoll_event event = {.events = EPOLLIN};
    int loop = epoll_create1(EPOLL_CLOEXEC);
    CHECK(loop >= 0 && epoll_ctl(loop, EPOLL_CTL_ADD, fd, &event) == 0);
    return loop;
}

static void turn(nearcall_client *client, int loop)
{
    struct epoll_event event;
    int timeout_ms = (int)nearcall_timeout_ms(client);
    (void)epoll_wait(loop, &event, 1, timeout_ms);
    (void)nearcall_process(client);
}

static int finish(nearcall_client *client, int loop, nearcall_call_id call, nearcall_reply *reply)
{
    int r;
    while ((r = nearcall_poll(client, call, reply)) == NEARCALL_E_AGAIN)
        turn(client, loop);
    return r;
}

static nearcall_function *find(nearcall_client *client, int loop, const char *name)
{
    nearcall_call_id call;
    nearcall_function *function;
    CHECK_CALL(client, nearcall_find_begin(client, name, strlen(name), TIMEOUT_MS, &call), NEARCALL_OK);
    CHECK_CALL(client, finish(client, loop, call, NULL), NEARCALL_OK);
    CHECK_CALL(client, nearcall_find(client, name, strlen(name), 1, &function), NEARCALL_OK);
    return function;
}

static nearcall_call_id begin(nearcall_client *client, nearcall_function *function, int64_t value)
{
    nearcall_call_id call;
    test_request_int(client, function, value);
    CHECK_CALL(client, nearcall_request_send(client, TIMEOUT_MS, &call), NEARCALL_OK);
    return call;
}

/* ---- Reconnecting ---- */

/* The new connection's socket often has the number of the old one. */
static void a_server_comes_and_goes(void)
{
    struct server server;
    char address[160];
    nearcall_call_id calls[AT_ONCE];
    nearcall_reply reply;
    snprintf(address, sizeof(address), "unix:%s/watched.sock", test_directory());
    server_start_at(&server, address);
    nearcall_client *client = test_open(address, NEARCALL_NONBLOCKING);
    int fd = nearcall_fd(client), loop = epoll_with(fd);
    nearcall_function *block = find(client, loop, "block");
    for (int round = 0; round < ROUNDS; round++) {
        for (int i = 0; i < AT_ONCE; i++)
            calls[i] = begin(client, block, i % 4);
        if (round % 2) {
            server_kill(&server);
            server_start_at(&server, address);
        }
        for (int i = 0; i < AT_ONCE; i++) {
            int r = finish(client, loop, calls[i], &reply);
            CHECK(r == NEARCALL_OK || (round % 2 && r == NEARCALL_E_UNAVAILABLE));
        }
        CHECK_INT(nearcall_fd(client), fd);
        CHECK_INT(nearcall_events(client), EPOLLIN);
    }
    nearcall_close(client);
    close(loop);
    server_stop(&server);
}

/* The new connection takes the last descriptor there is: nothing about the others can be
 * read any more. */
static void at_the_limit_of_descriptors(const struct server *server)
{
    enum { LIMIT = 64 };
    int filler[LIMIT], count = 0, descriptors = test_open_descriptors();
    struct rlimit limit, low;
    nearcall_reply reply;
    nearcall_client *client = test_open(server->address, NEARCALL_NONBLOCKING | NEARCALL_NO_SHARED_MEMORY);
    int fd = nearcall_fd(client), loop = epoll_with(fd);
    nearcall_function *block = find(client, loop, "block");
    CHECK(getrlimit(RLIMIT_NOFILE, &limit) == 0);
    low = limit;
    low.rlim_cur = LIMIT;
    CHECK(setrlimit(RLIMIT_NOFILE, &low) == 0);
    while ((filler[count] = dup(0)) >= 0)
        count++;
    for (int round = 0; round < 3; round++) {
        nearcall_disconnect(client);
        nearcall_call_id call = begin(client, block, 1);
        CHECK_INT(nearcall_fd(client), fd);
        CHECK_CALL(client, finish(client, loop, call, &reply), NEARCALL_OK);
    }
    CHECK(setrlimit(RLIMIT_NOFILE, &limit) == 0);
    while (count > 0)
        close(filler[--count]);
    nearcall_close(client);
    close(loop);
    CHECK_INT(test_open_descriptors(), descriptors);
}

/* ---- Turns ---- */

static void a_finished_call_is_told_once(const struct server *server)
{
    nearcall_reply reply;
    nearcall_client *client = test_open(server->address, NEARCALL_NONBLOCKING);
    int loop = epoll_with(nearcall_fd(client)), turns = 0;
    nearcall_function *block = find(client, loop, "block");
    nearcall_call_id quick = begin(client, block, 0), slow = begin(client, block, 300);
    int r;
    while ((r = nearcall_poll(client, slow, &reply)) == NEARCALL_E_AGAIN) {
        turn(client, loop);
        turns++;
    }
    CHECK_CALL(client, r, NEARCALL_OK);
    CHECK(turns < 20);
    CHECK_CALL(client, nearcall_poll(client, quick, &reply), NEARCALL_OK);
    nearcall_close(client);
    close(loop);
}

/* What another function has read is told before the loop sleeps. */
static void what_a_wait_read_is_told(const struct server *server)
{
    nearcall_reply reply;
    nearcall_client *client = test_open(server->address, 0);
    int loop = epoll_with(nearcall_fd(client));
    nearcall_function *block = test_find(client, "block");
    nearcall_call_id quick = begin(client, block, 0), slow = begin(client, block, 100);
    CHECK_CALL(client, nearcall_wait(client, slow, &reply), NEARCALL_OK);
    CHECK_INT(nearcall_timeout_ms(client), 0);
    CHECK_INT(nearcall_process(client), 1);
    CHECK(nearcall_timeout_ms(client) != 0);
    CHECK_INT(nearcall_next_finished(client), quick);
    nearcall_close(client);
    close(loop);
}

/* ---- Forking ---- */

struct family {
    nearcall_client *client;
    nearcall_function *block;
    int fd;
    int to_parent[2], to_child[2];
};

/* What a child has from its parent, and what lasts as long as it does: valgrind counts it. */
static void close_all(void)
{
    for (int fd = 3; fd < DESCRIPTORS; fd++)
        close(fd);
}

static void in_the_child(void *argument)
{
    const struct family *family = argument;
    nearcall_reply reply;
    CHECK_INT(nearcall_fd(family->client), family->fd);
    int loop = epoll_with(family->fd);
    for (int i = 0; i < 3; i++)
        CHECK_CALL(family->client,
                   finish(family->client, loop, begin(family->client, family->block, 1), &reply),
                   NEARCALL_OK);
    nearcall_disconnect(family->client);
    nearcall_close(family->client);
    close_all();
}

/* In it the number has become another's. */
static void in_a_child_that_closed_it(void *argument)
{
    const struct family *family = argument;
    nearcall_reply reply;
    int pair[2];
    CHECK(pipe(pair) == 0);
    CHECK(dup2(pair[0], family->fd) == family->fd);
    int loop = epoll_with(nearcall_fd(family->client));
    CHECK(nearcall_fd(family->client) != family->fd);
    CHECK_CALL(family->client,
               finish(family->client, loop, begin(family->client, family->block, 1), &reply),
               NEARCALL_OK);
    nearcall_close(family->client);
    CHECK(write(pair[1], "x", 1) == 1 && read(family->fd, &reply, 1) == 1);
    close_all();
}

/* It may open nothing while it makes the handle its own. What comes for it then is not the
 * parent's event. */
static void in_a_child_at_its_limit(void *argument)
{
    const struct family *family = argument;
    struct rlimit limit, low;
    nearcall_reply reply;
    char byte;
    int fd, first_free = dup(0);
    close(first_free);
    CHECK(getrlimit(RLIMIT_NOFILE, &limit) == 0);
    low = limit;
    low.rlim_cur = (rlim_t)first_free;
    CHECK(setrlimit(RLIMIT_NOFILE, &low) == 0);
    CHECK((fd = nearcall_fd(family->client)) >= 0);
    CHECK(setrlimit(RLIMIT_NOFILE, &limit) == 0);
    int loop = epoll_with(fd);
    CHECK_CALL(family->client,
               finish(family->client, loop, begin(family->client, family->block, 1), &reply),
               NEARCALL_OK);
    (void)begin(family->client, family->block, 1);
    struct pollfd watched = {fd, POLLIN, 0};
    CHECK_INT(poll(&watched, 1, 20000), 1);
    CHECK(write(family->to_parent[1], "x", 1) == 1);
    CHECK(read(family->to_child[0], &byte, 1) == 1);
    nearcall_close(family->client);
    close_all();
}

static void at_the_limit_in_a_child(const struct server *server, bool connected)
{
    struct family family = {.client = test_open(server->address, NEARCALL_NONBLOCKING | NEARCALL_NO_SHARED_MEMORY)};
    char byte;
    family.fd = nearcall_fd(family.client);
    int loop = epoll_with(family.fd);
    family.block = find(family.client, loop, "block");
    if (!connected)
        nearcall_disconnect(family.client);
    CHECK(pipe(family.to_parent) == 0 && pipe(family.to_child) == 0);
    pid_t child = test_fork(in_a_child_at_its_limit, &family);
    close(family.to_parent[1]);
    CHECK(read(family.to_parent[0], &byte, 1) == 1);
    struct pollfd watched = {family.fd, POLLIN, 0};
    CHECK_INT(poll(&watched, 1, 0), 0);
    CHECK(write(family.to_child[1], "x", 1) == 1);
    test_join(child);
    nearcall_close(family.client);
    close(loop);
    close(family.to_parent[0]);
    close(family.to_child[0]);
    close(family.to_child[1]);
}

static void children_have_their_own(const struct server *server)
{
    struct family family = {.client = test_open(server->address, NEARCALL_NONBLOCKING)};
    nearcall_reply reply;
    family.fd = nearcall_fd(family.client);
    int loop = epoll_with(family.fd), descriptors = test_open_descriptors();
    family.block = find(family.client, loop, "block");
    nearcall_call_id call = begin(family.client, family.block, 50);
    test_join(test_fork(in_the_child, &family));
    test_join(test_fork(in_a_child_that_closed_it, &family));
    CHECK_CALL(family.client, finish(family.client, loop, call, &reply), NEARCALL_OK);
    nearcall_disconnect(family.client); /* while no child has a copy any more */
    CHECK_INT(test_open_descriptors(), descriptors);
    nearcall_close(family.client);
    close(loop);
}

int main(void)
{
    struct server server;
    test_begin();
    a_server_comes_and_goes();
    server_start(&server);
    at_the_limit_of_descriptors(&server);
    a_finished_call_is_told_once(&server);
    what_a_wait_read_is_told(&server);
    children_have_their_own(&server);
    at_the_limit_in_a_child(&server, true);
    at_the_limit_in_a_child(&server, false);
    server_stop(&server);
    return 0;
}
