/* Givers that do not read what they are told hold up nobody: neither other givers, nor a taker
 * beyond its time. */
#include <errno.h>
#include <poll.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "handoff_test.h"

#define UNREAD_CHANNELS 4

/* More answers than a socket holds, and fewer than end a channel. */
#define UNREAD_ANSWERS 1000

#define ACCEPT_MS 300

/* Far less than the second for which an answer is kept. */
#define AT_ONCE_MS 500

static nearcall_handoff *taker;
static char address[200];

static int greeted(void)
{
    uint8_t hello[NC_HANDOFF_HELLO_BYTES];
    int fd = raw_connect(address, true);
    ssize_t r;
    while ((r = recv(fd, hello, sizeof(hello), MSG_DONTWAIT)) < 0 && errno == EAGAIN)
        (void)nearcall_handoff_wait(taker, 1);
    CHECK_INT(r, sizeof(hello));
    return fd;
}

static int give(int fd)
{
    uint8_t bytes[100];
    int pair[2];
    CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) == 0);
    raw_send(fd, bytes, raw_give(bytes, 1), &pair[0], 1);
    close(pair[0]);
    return pair[1];
}

static int unread_channel(void)
{
    struct nc_handoff_frame ping = {.type = NC_HANDOFF_PING, .id = 1};
    uint8_t bytes[100];
    size_t count = raw_frame(bytes, &ping);
    int fd = greeted();
    for (int i = 0; i < UNREAD_ANSWERS; i++) {
        while (send(fd, bytes, count, MSG_NOSIGNAL | MSG_DONTWAIT) < 0) {
            CHECK_INT(errno, EAGAIN);
            (void)nearcall_handoff_wait(taker, 0);
        }
    }
    (void)nearcall_handoff_wait(taker, 0);
    return fd;
}

static void accept_at_once(int expected)
{
    nearcall_handoff_item item;
    double before_ms = test_now_ms();
    CHECK_HANDOFF(taker, nearcall_handoff_accept(taker, 0, &item), expected);
    CHECK(test_now_ms() - before_ms < AT_ONCE_MS);
    if (expected == NEARCALL_OK)
        close(item.fd);
}

/* Without reading a byte. */
static void await_end(int fd)
{
    struct pollfd watched = {fd, POLLRDHUP, 0};
    double end = test_now_ms() + PATIENCE_MS;
    while (poll(&watched, 1, 0) == 0) {
        CHECK(test_now_ms() < end);
        (void)nearcall_handoff_wait(taker, 1);
    }
    close(fd);
}

static void others_are_served(void)
{
    uint8_t bytes[4096];
    int fds[UNREAD_CHANNELS], gifts[UNREAD_CHANNELS];
    for (int i = 0; i < UNREAD_CHANNELS; i++) {
        fds[i] = unread_channel();
        gifts[i] = give(fds[i]);
    }
    int good = greeted();
    int gift = give(good);
    accept_at_once(NEARCALL_OK);
    raw_expect(good, NC_HANDOFF_TAKEN, 0);
    accept_at_once(NEARCALL_E_AGAIN);
    CHECK(nearcall_handoff_timeout_ms(taker) != 0); /* a loop need not come again at once */
    while (recv(fds[0], bytes, sizeof(bytes), MSG_DONTWAIT) > 0)
        ;
    nearcall_handoff_item item;
    CHECK_HANDOFF(taker, nearcall_handoff_accept(taker, PATIENCE_MS, &item), NEARCALL_OK);
    close(item.fd);
    for (int i = 1; i < UNREAD_CHANNELS; i++)
        await_end(fds[i]);
    for (int i = 0; i < UNREAD_CHANNELS; i++)
        close(gifts[i]);
    close(fds[0]);
    close(gift);
    close(good);
}

/* ---- One after the other, which cannot be answered ---- */

static atomic_bool is_over, gave_up, has_ended;

static void *give_without_end(void *argument)
{
    uint8_t hello[NC_HANDOFF_HELLO_BYTES];
    double end = test_now_ms() + PATIENCE_MS;
    while (!atomic_load(&is_over) && !atomic_load(&gave_up)) {
        int fd = raw_connect(address, true);
        if (recv(fd, hello, sizeof(hello), MSG_WAITALL) == sizeof(hello)) {
            shutdown(fd, SHUT_RD);
            close(give(fd));
        }
        close(fd);
        if (test_now_ms() > end)
            atomic_store(&gave_up, true);
    }
    atomic_store(&has_ended, true);
    return argument;
}

static void the_time_is_that_of_all(void)
{
    pthread_t giver;
    nearcall_handoff_item item;
    CHECK_INT(pthread_create(&giver, NULL, give_without_end, NULL), 0);
    CHECK_HANDOFF(taker, nearcall_handoff_accept(taker, ACCEPT_MS, &item),
                  NEARCALL_E_DEADLINE_EXCEEDED);
    CHECK(!atomic_load(&gave_up));
    atomic_store(&is_over, true);
    while (!atomic_load(&has_ended))
        (void)nearcall_handoff_wait(taker, 1); /* the giver may wait for its hello */
    CHECK_INT(pthread_join(giver, NULL), 0);
    nearcall_handoff_close(taker);
}

int main(void)
{
    test_begin();
    snprintf(address, sizeof(address), "%s", handoff_address());
    taker = handoff_listen(address, 0);
    others_are_served();
    the_time_is_that_of_all();
    return 0;
}
