/* System calls that do a part of their work or fail, memory that runs out, and time that
 * passes while the program is elsewhere. */
#include <errno.h>
#include <stdatomic.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/limits_gen.h"
#include "handoff_test.h"

static _Atomic(time_t) seconds_later;
static atomic_bool one_byte_each;
static atomic_int failure;    /* errno of the next sends */
static atomic_int fail_sends; /* how many */
static _Thread_local int allocations_left = -1; /* -1: any number */

int __real_clock_gettime(clockid_t clock, struct timespec *now);
int __wrap_clock_gettime(clockid_t clock, struct timespec *now);
int __wrap_clock_gettime(clockid_t clock, struct timespec *now)
{
    int r = __real_clock_gettime(clock, now);
    now->tv_sec += seconds_later;
    return r;
}

ssize_t __real_sendmsg(int fd, const struct msghdr *message, int flags);
ssize_t __wrap_sendmsg(int fd, const struct msghdr *message, int flags);
ssize_t __wrap_sendmsg(int fd, const struct msghdr *message, int flags)
{
    struct msghdr shorter = *message;
    struct iovec part = message->msg_iov[0];
    if (fail_sends > 0) {
        fail_sends--;
        errno = failure;
        return -1;
    }
    if (one_byte_each)
        part.iov_len = 1;
    shorter.msg_iov = &part;
    return __real_sendmsg(fd, &shorter, flags);
}

static bool allocation_fails(void)
{
    if (allocations_left > 0)
        allocations_left--;
    else if (allocations_left == 0)
        return true;
    return false;
}

#define FAILING(name, parameters, arguments)                                              \
    void *__real_##name parameters;                                                       \
    void *__wrap_##name parameters;                                                       \
    void *__wrap_##name parameters                                                        \
    {                                                                                     \
        return allocation_fails() ? NULL : __real_##name arguments;                       \
    }

FAILING(malloc, (size_t bytes), (bytes))
FAILING(calloc, (size_t count, size_t bytes), (count, bytes))
FAILING(realloc, (void *block, size_t bytes), (block, bytes))

/* Gives one connection, takes it, and hands it back. */
static void there_and_back(nearcall_handoff *giver, nearcall_handoff *taker)
{
    struct giving giving = {.item = {.name = "shop", .prefix = (const uint8_t *)"GET ", .prefix_bytes = 4}};
    struct giving back;
    nearcall_handoff_item item;
    int client, served;
    tcp_pair(&client, &served);
    giving_start(&giving, giver, served, PATIENCE_MS);
    CHECK_HANDOFF(taker, nearcall_handoff_accept(taker, PATIENCE_MS, &item), NEARCALL_OK);
    CHECK_HANDOFF(giver, giving_end(&giving), NEARCALL_OK);
    back = (struct giving){.item = item, .channel = item.channel};
    giving_start(&back, taker, item.fd, PATIENCE_MS);
    CHECK_HANDOFF(giver, nearcall_handoff_accept(giver, PATIENCE_MS, &item), NEARCALL_OK);
    CHECK_HANDOFF(taker, giving_end(&back), NEARCALL_OK);
    CHECK(item.prefix_bytes == 4 && memcmp(item.prefix, "GET ", 4) == 0);
    close(item.fd);
    expect_end(client);
    close(client);
}

static void sends_that_do_a_part(nearcall_handoff *giver, nearcall_handoff *taker)
{
    static const int errors[] = {EINTR, EAGAIN, ETOOMANYREFS};
    one_byte_each = true;
    there_and_back(giver, taker);
    one_byte_each = false;
    for (size_t i = 0; i < sizeof(errors) / sizeof(errors[0]); i++) {
        failure = errors[i];
        fail_sends = 1; /* the giver's: the other has nothing to send before */
        there_and_back(giver, taker);
        CHECK_INT(fail_sends, 0);
    }
}

/* TAKEN cannot be written: the connection is its giver's, whatever the taker would like. */
static void an_answer_that_cannot_be_written(void)
{
    const char *address = handoff_address();
    nearcall_handoff *taker = handoff_listen(address, 0);
    nearcall_handoff *giver = handoff_connect(address, 0, taker);
    struct giving giving = {0};
    nearcall_handoff_item item;
    int client, served;
    tcp_pair(&client, &served);
    giving_start(&giving, giver, served, PATIENCE_MS);
    CHECK_HANDOFF(taker, nearcall_handoff_wait(taker, PATIENCE_MS), NEARCALL_OK);
    failure = EPIPE;
    fail_sends = 1;
    CHECK_HANDOFF(taker, nearcall_handoff_accept(taker, 0, &item), NEARCALL_E_AGAIN);
    CHECK_HANDOFF(giver, giving_end(&giving), NEARCALL_E_UNAVAILABLE);
    send_bytes(served, "mine");
    expect_bytes(client, "mine");
    close(served);
    expect_end(client);
    close(client);
    nearcall_handoff_close(giver);
    nearcall_handoff_close(taker);
}

/* A peer that does not read its answers is let go after a second of waiting. */
static void a_giver_that_does_not_read(void)
{
    const char *address = handoff_address();
    nearcall_handoff *taker = handoff_listen(address, 0);
    nearcall_handoff *giver = handoff_connect(address, 0, taker);
    struct giving giving = {0};
    nearcall_handoff_item item;
    int client, served;
    tcp_pair(&client, &served);
    giving_start(&giving, giver, served, PATIENCE_MS);
    CHECK_HANDOFF(taker, nearcall_handoff_wait(taker, PATIENCE_MS), NEARCALL_OK);
    failure = EAGAIN;
    fail_sends = 1 << 30;
    CHECK_HANDOFF(taker, nearcall_handoff_accept(taker, 0, &item), NEARCALL_E_AGAIN);
    fail_sends = 0;
    CHECK_HANDOFF(giver, giving_end(&giving), NEARCALL_E_UNAVAILABLE);
    close(served);
    close(client);
    nearcall_handoff_close(giver);
    nearcall_handoff_close(taker);
}

static void a_frame_that_does_not_end(void)
{
    const char *address = handoff_address();
    nearcall_handoff *taker = handoff_listen(address, 0);
    nearcall_handoff_item item;
    uint8_t give[100], hello[NC_HANDOFF_HELLO_BYTES];
    size_t bytes = raw_give(give, 1);
    int client, served;
    tcp_pair(&client, &served);
    int fd = raw_connect(address, true);
    CHECK(nearcall_handoff_wait(taker, 0) == NEARCALL_E_AGAIN);
    CHECK_INT(read(fd, hello, sizeof(hello)), sizeof(hello));
    raw_send(fd, give, 20, &served, 1);
    CHECK(nearcall_handoff_wait(taker, 0) == NEARCALL_E_AGAIN);
    CHECK(nearcall_handoff_timeout_ms(taker) > 0);
    raw_send(fd, give + 20, bytes - 20, NULL, 0);
    seconds_later += NC_FRAME_TIMEOUT_MS / 1000 + 1; /* it came while the program was elsewhere */
    CHECK_HANDOFF(taker, nearcall_handoff_accept(taker, 0, &item), NEARCALL_OK);
    close(item.fd);
    raw_expect(fd, NC_HANDOFF_TAKEN, 0);
    raw_give(give, 2);
    raw_send(fd, give, 20, &served, 1);
    CHECK(nearcall_handoff_wait(taker, 0) == NEARCALL_E_AGAIN);
    seconds_later += NC_FRAME_TIMEOUT_MS / 1000 + 1;
    CHECK(nearcall_handoff_wait(taker, 0) == NEARCALL_E_AGAIN);
    CHECK_INT(read(fd, hello, 1), 0); /* the channel has ended */
    close(served);
    expect_end(client);
    close(client);
    close(fd);
    nearcall_handoff_close(taker);
}

/* Whatever allocation fails, the taker lives on, and nothing is lost or kept. */
static void memory_that_runs_out(void)
{
    const char *address = handoff_address();
    nearcall_handoff *taker = handoff_listen(address, 0);
    uint8_t give[100];
    size_t bytes = raw_give(give, 1);
    for (int allowed = 0; allowed < 12; allowed++) {
        nearcall_handoff_item item;
        int client, served;
        tcp_pair(&client, &served);
        int unlucky = raw_connect(address, true);
        allocations_left = allowed;
        (void)nearcall_handoff_wait(taker, 0);
        allocations_left = -1;
        close(unlucky);
        int fd = raw_connect(address, true);
        (void)nearcall_handoff_wait(taker, 0); /* it is admitted by that */
        raw_send(fd, give, bytes, &served, 1);
        close(served);
        allocations_left = allowed;
        int r = nearcall_handoff_accept(taker, 0, &item);
        allocations_left = -1;
        if (r == NEARCALL_OK)
            close(item.fd);
        else
            CHECK_HANDOFF(taker, r, NEARCALL_E_AGAIN);
        close(fd);
        (void)nearcall_handoff_wait(taker, 0);
        expect_end(client);
        close(client);
    }
    nearcall_handoff_close(taker);
    for (int allowed = 0; allowed < 3; allowed++) {
        nearcall_handoff_options options = NEARCALL_HANDOFF_OPTIONS_INIT;
        uint32_t user = 1;
        options.peer_user_ids = &user;
        options.peer_user_ids_count = 1;
        allocations_left = allowed;
        int r = nearcall_handoff_listen(&taker, address, &options);
        allocations_left = -1;
        CHECK(r == (allowed < 2 ? NEARCALL_E_RESOURCE_EXHAUSTED : NEARCALL_OK));
        CHECK(strlen(nearcall_handoff_error_message(taker)) > 0 || r == NEARCALL_OK);
        nearcall_handoff_close(taker);
    }
}

int main(void)
{
    test_begin();
    const char *address = handoff_address();
    nearcall_handoff *taker = handoff_listen(address, 0);
    nearcall_handoff *giver = handoff_connect(address, NEARCALL_HANDOFF_TAKE_CONNECTIONS, taker);
    int descriptors = test_open_descriptors();
    sends_that_do_a_part(giver, taker);
    an_answer_that_cannot_be_written();
    a_giver_that_does_not_read();
    memory_that_runs_out();
    a_frame_that_does_not_end();
    CHECK_INT(test_open_descriptors(), descriptors);
    nearcall_handoff_close(giver);
    nearcall_handoff_close(taker);
    return 0;
}
