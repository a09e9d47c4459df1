/* A loop that watches edges, and was told of the descriptor once, is told of what was ready
 * before the library began to wait for it. Here all is, by the time it does. */
#include <poll.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "handle/handle.h"
#include "script.h"

#define CALLS 20
#define TIMEOUT_MS 20000
#define LARGE_BYTES 3000000 /* more than a socket takes at once */

static const nearcall_client *watched; /* NULL: changes are not held up */
static uint32_t waited_for;
static unsigned waits_to_write, waits_to_read;

static void await(int fd, short events, unsigned *waits)
{
    struct pollfd socket = {fd, events, 0};
    CHECK_INT(poll(&socket, 1, TIMEOUT_MS), 1);
    ++*waits;
}

static void hold_up(int fd, uint32_t events)
{
    uint32_t more = events & ~waited_for;
    if (more & EPOLLOUT)
        await(fd, POLLOUT, &waits_to_write);
    else if (more & EPOLLIN)
        await(fd, POLLIN, &waits_to_read);
    waited_for = events;
}

int __real_epoll_ctl(int epoll_fd, int operation, int fd, struct epoll_event *event);
int __wrap_epoll_ctl(int epoll_fd, int operation, int fd, struct epoll_event *event);
int __wrap_epoll_ctl(int epoll_fd, int operation, int fd, struct epoll_event *event)
{
    if (watched && fd == watched->connection.fd && operation != EPOLL_CTL_DEL)
        hold_up(fd, event->events);
    return __real_epoll_ctl(epoll_fd, operation, fd, event);
}

/* Watched before there is a connection. */
static nearcall_client *open_watched(const char *address, int *ret_loop)
{
    struct epoll_event event = {.events = EPOLLIN | EPOLLET};
    nearcall_client *client = test_open(address, NEARCALL_NONBLOCKING | NEARCALL_NO_SHARED_MEMORY);
    *ret_loop = epoll_create1(EPOLL_CLOEXEC);
    CHECK(*ret_loop >= 0 && epoll_ctl(*ret_loop, EPOLL_CTL_ADD, nearcall_fd(client), &event) == 0);
    watched = client;
    waited_for = waits_to_write = waits_to_read = 0;
    return client;
}

static void close_watched(nearcall_client *client, int loop)
{
    watched = NULL;
    nearcall_close(client);
    close(loop);
}

static void turn(nearcall_client *client, int loop)
{
    struct epoll_event event;
    int timeout_ms = (int)nearcall_timeout_ms(client);
    CHECK(epoll_wait(loop, &event, 1, timeout_ms) > 0 || timeout_ms < TIMEOUT_MS / 2); /* else it slept through */
    (void)nearcall_process(client);
}

static nearcall_function *find(nearcall_client *client, int loop, const char *name)
{
    nearcall_call_id call;
    nearcall_function *function;
    int r;
    CHECK_CALL(client, nearcall_find_begin(client, name, strlen(name), TIMEOUT_MS, &call), NEARCALL_OK);
    while ((r = nearcall_poll(client, call, NULL)) == NEARCALL_E_AGAIN)
        turn(client, loop);
    CHECK_CALL(client, r, NEARCALL_OK);
    CHECK_CALL(client, nearcall_find(client, name, strlen(name), 1, &function), NEARCALL_OK);
    return function;
}

static void call(nearcall_client *client, int loop, nearcall_function *function, size_t bytes)
{
    nearcall_call_id call;
    nearcall_reply reply;
    int r;
    CHECK_CALL(client, nearcall_request(client, function, NEARCALL_CODEC_RAW), NEARCALL_OK);
    void *room = nearcall_put_reserve(client, bytes);
    CHECK(room != NULL);
    memset(room, 'x', bytes);
    CHECK_CALL(client, nearcall_request_send(client, TIMEOUT_MS, &call), NEARCALL_OK);
    while ((r = nearcall_poll(client, call, &reply)) == NEARCALL_E_AGAIN)
        turn(client, loop);
    CHECK_CALL(client, r, NEARCALL_OK);
    CHECK_INT(reply.bytes, bytes);
}

/* There is room to write again before it is waited for. */
static void requests_that_do_not_fit(void)
{
    struct server server;
    int loop;
    server_start(&server);
    nearcall_client *client = open_watched(server.address, &loop);
    nearcall_function *echo = find(client, loop, "echo");
    for (int i = 0; i < CALLS; i++)
        call(client, loop, echo, i % 2 ? LARGE_BYTES : 1);
    CHECK(waits_to_write >= CALLS / 2);
    close_watched(client, loop);
    server_stop(&server);
}

static void greet_and_serve(struct script *script)
{
    script_greet(script);
    script_serve(script);
}

/* The welcome is there before it is waited for. */
static void a_welcome_that_comes_at_once(void)
{
    struct script script;
    int loop;
    script_start_tcp(&script, greet_and_serve, NULL);
    nearcall_client *client = open_watched(script.address, &loop);
    (void)find(client, loop, "f");
    CHECK_INT(waits_to_write, 1);
    CHECK_INT(waits_to_read, 1);
    close_watched(client, loop);
    script_end(&script);
}

int main(void)
{
    test_begin();
    requests_that_do_not_fit();
    a_welcome_that_comes_at_once();
    return 0;
}
