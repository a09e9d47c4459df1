/* A loop that watches edges is told of what was ready before the library began to wait for it:
 * room for an answer, and what has arrived already. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "handoff/handoff.h"
#include "handoff_test.h"

static int giver = -1; /* who does not read, until the library waits for that */
static unsigned waits_to_write;

static void read_all(int fd)
{
    static char bytes[65536];
    while (recv(fd, bytes, sizeof(bytes), MSG_DONTWAIT) > 0)
        ;
    CHECK_INT(errno, EAGAIN);
}

int __real_epoll_ctl(int epoll_fd, int operation, int fd, struct epoll_event *event);
int __wrap_epoll_ctl(int epoll_fd, int operation, int fd, struct epoll_event *event);
int __wrap_epoll_ctl(int epoll_fd, int operation, int fd, struct epoll_event *event)
{
    struct pollfd socket = {fd, POLLOUT, 0};
    if (giver >= 0 && operation != EPOLL_CTL_DEL && event->events & EPOLLOUT) {
        read_all(giver);
        CHECK_INT(poll(&socket, 1, PATIENCE_MS), 1);
        waits_to_write++;
    }
    return __real_epoll_ctl(epoll_fd, operation, fd, event);
}

static int loop_of(nearcall_handoff *handoff)
{
    struct epoll_event event = {.events = EPOLLIN | EPOLLET};
    int loop = epoll_create1(EPOLL_CLOEXEC);
    CHECK(loop >= 0 && epoll_ctl(loop, EPOLL_CTL_ADD, nearcall_handoff_fd(handoff), &event) == 0);
    return loop;
}

static void await_edge(int loop)
{
    struct epoll_event event;
    CHECK_INT(epoll_wait(loop, &event, 1, PATIENCE_MS), 1);
}

/* Turns until something has arrived. */
static void await_arrival(nearcall_handoff *taker, int loop)
{
    int r;
    do
        await_edge(loop);
    while ((r = nearcall_handoff_wait(taker, 0)) == NEARCALL_E_AGAIN);
    CHECK_HANDOFF(taker, r, NEARCALL_OK);
}

static int connect_giver(nearcall_handoff *taker, int loop, const char *address)
{
    uint8_t hello[NC_HANDOFF_HELLO_BYTES];
    struct pollfd watched = {raw_connect(address, true), POLLIN, 0};
    while (poll(&watched, 1, 0) == 0) {
        await_edge(loop);
        CHECK_HANDOFF(taker, nearcall_handoff_wait(taker, 0), NEARCALL_E_AGAIN);
    }
    CHECK_INT(read(watched.fd, hello, sizeof(hello)), sizeof(hello));
    return watched.fd;
}

static void give(int fd, uint64_t first, unsigned count)
{
    uint8_t bytes[NC_HANDOFF_HELLO_BYTES + 4096];
    int pair[2];
    for (unsigned i = 0; i < count; i++) {
        CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) == 0);
        raw_send(fd, bytes, raw_give(bytes, first + i), pair, 1);
        close(pair[0]);
        close(pair[1]);
    }
}

static void fill(int fd)
{
    static const char bytes[4096];
    while (send(fd, bytes, sizeof(bytes), MSG_DONTWAIT | MSG_NOSIGNAL) > 0)
        ;
    while (send(fd, bytes, 1, MSG_DONTWAIT | MSG_NOSIGNAL) > 0)
        ;
    CHECK_INT(errno, EAGAIN);
}

/* The giver reads just before the library waits for room. */
static void an_answer_that_did_not_fit(void)
{
    const char *address = handoff_address();
    nearcall_handoff *taker = handoff_listen(address, 0);
    int loop = loop_of(taker), fd = connect_giver(taker, loop, address);
    give(fd, 1, 1);
    await_arrival(taker, loop);
    fill(taker->channels->fd);
    giver = fd;
    CHECK_HANDOFF(taker, nearcall_handoff_refuse(taker, NEARCALL_HANDOFF_BUSY, ""), NEARCALL_OK);
    giver = -1;
    CHECK_INT(waits_to_write, 1);
    await_edge(loop);
    CHECK_HANDOFF(taker, nearcall_handoff_wait(taker, 0), NEARCALL_E_AGAIN);
    raw_expect(fd, NC_HANDOFF_REFUSED, NEARCALL_HANDOFF_BUSY);
    close(fd);
    close(loop);
    nearcall_handoff_close(taker);
}

/* A loop that takes one at a time is told of the next. */
static void one_arrival_after_the_other(void)
{
    const unsigned count = 5;
    const char *address = handoff_address();
    nearcall_handoff *taker = handoff_listen(address, 0);
    int loop = loop_of(taker), fd = connect_giver(taker, loop, address);
    give(fd, 1, count);
    await_arrival(taker, loop);
    for (unsigned i = 0; i < count; i++) {
        await_edge(loop);
        CHECK_HANDOFF(taker, nearcall_handoff_refuse(taker, NEARCALL_HANDOFF_BUSY, ""), NEARCALL_OK);
        raw_expect(fd, NC_HANDOFF_REFUSED, NEARCALL_HANDOFF_BUSY);
    }
    close(fd);
    close(loop);
    nearcall_handoff_close(taker);
}

int main(void)
{
    test_begin();
    an_answer_that_did_not_fit();
    one_arrival_after_the_other();
    return 0;
}
