/* Givers that do not keep to the protocol: their channel ends, what they sent is closed,
 * and the handle serves others. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/limits_gen.h"
#include "handoff_test.h"

static nearcall_handoff *taker;
static char own_address[200];
static const char *address = own_address;

/* A connection whose other end tells when nobody has it any more. */
struct gift {
    int fd;
    int other;
};

static struct gift make_gift(void)
{
    int pair[2];
    CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) == 0);
    return (struct gift){pair[0], pair[1]};
}

static void expect_closed(struct gift *gift)
{
    close(gift->fd);
    expect_end(gift->other);
    close(gift->other);
}

/* Runs the taker until the descriptor is readable: an answer, or the end. */
static void run_until_readable(int fd)
{
    struct pollfd watched = {fd, POLLIN, 0};
    double end = test_now_ms() + PATIENCE_MS;
    while (poll(&watched, 1, 0) == 0) {
        CHECK(test_now_ms() < end);
        (void)nearcall_handoff_wait(taker, 1);
    }
}

static int greeted(void)
{
    uint8_t hello[NC_HANDOFF_HELLO_BYTES];
    int fd = raw_connect(address, true);
    run_until_readable(fd);
    CHECK_INT(read(fd, hello, sizeof(hello)), sizeof(hello));
    return fd;
}

/* Nothing more comes but the end. */
static void expect_channel_end(int fd)
{
    uint8_t byte;
    run_until_readable(fd);
    CHECK(read(fd, &byte, 1) <= 0);
    close(fd);
}

/* ---- Breaches: each sends what it likes and gets the end ---- */

static void two_descriptors(int fd, int gift)
{
    uint8_t give[100];
    int fds[] = {gift, gift};
    raw_send(fd, give, raw_give(give, 1), fds, 2);
}

static void as_many_descriptors_as_the_kernel_takes(int fd, int gift)
{
    uint8_t give[100];
    int fds[NC_HANDOFF_FDS_MAX];
    for (int i = 0; i < NC_HANDOFF_FDS_MAX; i++)
        fds[i] = gift;
    raw_send(fd, give, raw_give(give, 1), fds, NC_HANDOFF_FDS_MAX);
}

static void a_descriptor_with_a_ping(int fd, int gift)
{
    struct nc_handoff_frame ping = {.type = NC_HANDOFF_PING, .id = 1};
    uint8_t bytes[100];
    raw_send(fd, bytes, raw_frame(bytes, &ping), &gift, 1);
}

static void a_descriptor_within_a_frame(int fd, int gift)
{
    uint8_t give[100];
    size_t bytes = raw_give(give, 1);
    raw_send(fd, give, NC_HANDOFF_HEADER_BYTES + 2, NULL, 0);
    run_until_readable(nearcall_handoff_fd(taker));
    (void)nearcall_handoff_wait(taker, 0); /* so that the two are not joined */
    raw_send(fd, give + NC_HANDOFF_HEADER_BYTES + 2, bytes - NC_HANDOFF_HEADER_BYTES - 2, &gift, 1);
}

static void a_number_twice(int fd, int gift)
{
    uint8_t give[100];
    size_t bytes = raw_give(give, 1);
    raw_send(fd, give, bytes, &gift, 1);
    raw_send(fd, give, bytes, &gift, 1);
}

static void send_damaged(int fd, int gift, size_t at, uint8_t value)
{
    uint8_t give[100];
    size_t bytes = raw_give(give, 1);
    give[at] = value;
    raw_send(fd, give, bytes, &gift, 1);
}

static void an_unknown_type(int fd, int gift)
{
    send_damaged(fd, gift, 4, 99);
}

static void a_length_that_lies(int fd, int gift)
{
    send_damaged(fd, gift, 0, 250);
}

static void a_prefix_of_4_gib(int fd, int gift)
{
    send_damaged(fd, gift, 19, 255);
}

static void a_reserved_byte(int fd, int gift)
{
    send_damaged(fd, gift, 7, 1);
}

static void a_kind_that_is_none(int fd, int gift)
{
    send_damaged(fd, gift, 5, 9);
}

static void send_type(int fd, enum nc_handoff_type type)
{
    struct nc_handoff_frame frame = {.type = type, .id = 1, .reason = type == NC_HANDOFF_REFUSED};
    uint8_t bytes[100];
    raw_send(fd, bytes, raw_frame(bytes, &frame), NULL, 0);
}

static void an_answer_to_nothing(int fd, int gift)
{
    (void)gift;
    send_type(fd, NC_HANDOFF_TAKEN);
}

static void a_refusal_of_nothing(int fd, int gift)
{
    (void)gift;
    send_type(fd, NC_HANDOFF_REFUSED);
}

static void a_recall_of_nothing(int fd, int gift)
{
    (void)gift;
    send_type(fd, NC_HANDOFF_RECALL);
}

static void a_want_that_was_not_offered(int fd, int gift)
{
    (void)gift;
    send_type(fd, NC_HANDOFF_WANT);
}

static void a_pong_that_nobody_asked_for(int fd, int gift)
{
    (void)gift;
    send_type(fd, NC_HANDOFF_PONG);
}

static void more_than_the_window(int fd, int gift)
{
    uint8_t give[100];
    for (uint64_t id = 1; id <= NC_HANDOFF_WINDOW + 1; id++) {
        raw_send(fd, give, raw_give(give, id), &gift, 1);
        (void)nearcall_handoff_wait(taker, 0);
    }
}

static void noise(int fd, int gift)
{
    static const char text[] = "noise noise noise noise noise noise noise noise";
    raw_send(fd, text, sizeof(text), &gift, 1);
}

static void the_end_within_a_frame(int fd, int gift)
{
    uint8_t give[100];
    raw_give(give, 1);
    raw_send(fd, give, 20, &gift, 1);
    CHECK(shutdown(fd, SHUT_WR) == 0);
}

static void breaches(void)
{
    static void (*const all[])(int, int) = {
        two_descriptors, as_many_descriptors_as_the_kernel_takes, a_descriptor_with_a_ping,
        a_descriptor_within_a_frame, a_number_twice, an_unknown_type, a_length_that_lies,
        a_prefix_of_4_gib, a_reserved_byte, a_kind_that_is_none, an_answer_to_nothing,
        a_refusal_of_nothing, a_recall_of_nothing, a_want_that_was_not_offered,
        a_pong_that_nobody_asked_for, more_than_the_window, noise, the_end_within_a_frame,
    };
    nearcall_handoff_item item;
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
        struct gift gift = make_gift();
        int fd = greeted();
        all[i](fd, gift.fd);
        expect_channel_end(fd);
        CHECK_HANDOFF(taker, nearcall_handoff_accept(taker, 0, &item), NEARCALL_E_AGAIN);
        expect_closed(&gift);
    }
}

/* ---- What is refused and leaves the channel, what is well-formed and odd ---- */

static void no_descriptor_is_refused(void)
{
    struct gift gift = make_gift();
    nearcall_handoff_item item;
    uint8_t gives[200];
    int fd = greeted();
    raw_send(fd, gives, raw_give(gives, 1), NULL, 0);
    run_until_readable(fd);
    raw_expect(fd, NC_HANDOFF_REFUSED, NEARCALL_HANDOFF_NO_DESCRIPTOR);
    size_t bytes = raw_give(gives, 2); /* two gifts glued together, one descriptor */
    raw_send(fd, gives, bytes + raw_give(gives + bytes, 3), &gift.fd, 1);
    run_until_readable(fd);
    raw_expect(fd, NC_HANDOFF_REFUSED, NEARCALL_HANDOFF_NO_DESCRIPTOR);
    CHECK_HANDOFF(taker, nearcall_handoff_accept(taker, PATIENCE_MS, &item), NEARCALL_OK);
    raw_expect(fd, NC_HANDOFF_TAKEN, 0);
    close(item.fd);
    expect_closed(&gift);
    close(fd);
}

static void wrong_kinds_are_refused(void)
{
    uint8_t give[100];
    int fd = greeted(), ends[2], listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CHECK(listen(listener, 1) == 0 && pipe(ends) == 0);
    const int wrong[] = {listener, ends[0], socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0)};
    for (unsigned i = 0; i < 3; i++) {
        raw_send(fd, give, raw_give(give, i + 1), &wrong[i], 1);
        run_until_readable(fd);
        raw_expect(fd, NC_HANDOFF_REFUSED, NEARCALL_HANDOFF_WRONG_KIND);
        close(wrong[i]);
    }
    close(ends[1]);
    close(fd);
}

/* The kernel joins bytes of several sends and takes one apart: the descriptor still finds
 * its frame. */
static void glued_and_torn(void)
{
    struct nc_handoff_frame ping = {.type = NC_HANDOFF_PING, .id = 1};
    struct gift gift = make_gift();
    nearcall_handoff_item item;
    uint8_t pings[100], give[100];
    size_t ping_bytes = raw_frame(pings, &ping), bytes = raw_give(give, 1);
    int fd = greeted();
    raw_send(fd, pings, ping_bytes, NULL, 0);
    raw_send(fd, give, bytes, &gift.fd, 1);
    raw_send(fd, pings, ping_bytes, NULL, 0);
    CHECK_HANDOFF(taker, nearcall_handoff_accept(taker, PATIENCE_MS, &item), NEARCALL_OK);
    close(item.fd);
    raw_give(give, 2);
    for (size_t i = 0; i < bytes; i++) { /* byte by byte, each read by itself */
        raw_send(fd, give + i, 1, &gift.fd, i == 0);
        (void)nearcall_handoff_wait(taker, 0);
    }
    CHECK_HANDOFF(taker, nearcall_handoff_accept(taker, PATIENCE_MS, &item), NEARCALL_OK);
    CHECK(strcmp(item.name, "hostile") == 0);
    close(item.fd);
    expect_closed(&gift);
    raw_expect(fd, NC_HANDOFF_PONG, 0);
    raw_expect(fd, NC_HANDOFF_PONG, 0);
    raw_expect(fd, NC_HANDOFF_TAKEN, 0);
    raw_expect(fd, NC_HANDOFF_TAKEN, 0);
    close(fd);
}

/* ---- Hellos ---- */

static void bad_hellos(void)
{
    static const struct {
        const char *bytes;
        size_t count;
    } all[] = {
        {"noise noise noise noise noise noise noise", 41},
        {"\x89NCH\r\n\x1a\n........................................", 48},
        {"\x8aNCP\r\n\x1a\n\xff\xff\xff\x7f................................", 44},
        {"\x8aNCP\r\n\x1a\n\x01\0\0\0................................", 44},
    };
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
        int fd = raw_connect(address, false);
        raw_send(fd, all[i].bytes, all[i].count, NULL, 0);
        expect_channel_end(fd);
    }
    int silent = raw_connect(address, false); /* ends by the time limit of hellos */
    raw_send(silent, "\x8aNCP", 4, NULL, 0);
    expect_channel_end(silent);
}

static void future_versions_are_told_why(void)
{
    struct nc_handoff_hello hello = {.total_bytes = NC_HANDOFF_HELLO_BYTES, .lowest = 7, .highest = 9};
    struct nc_handoff_fault fault;
    uint8_t bytes[NC_HANDOFF_HELLO_BYTES], answer[500] = {0};
    int fd = raw_connect(address, false);
    nc_handoff_hello_encode(bytes, &hello);
    raw_send(fd, bytes, sizeof(bytes), NULL, 0);
    run_until_readable(fd);
    CHECK(read(fd, answer, sizeof(answer) - 1) > NC_HANDOFF_HELLO_BYTES);
    CHECK_INT(nc_handoff_hello_decode(&hello, answer, sizeof(answer), &fault), 1);
    CHECK_INT(hello.highest, 0);
    CHECK(strstr((char *)answer + NC_HANDOFF_HELLO_BYTES, "7 to 9") != NULL);
    expect_channel_end(fd);
}

/* Its answers are never read: the channel ends instead of growing. */
static void pings_whose_answers_nobody_reads(void)
{
    struct nc_handoff_frame ping = {.type = NC_HANDOFF_PING, .id = 1};
    uint8_t bytes[100];
    size_t count = raw_frame(bytes, &ping);
    int fd = greeted();
    double end = test_now_ms() + PATIENCE_MS;
    for (;;) {
        ssize_t r = send(fd, bytes, count, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (r < 0 && errno != EAGAIN)
            break;
        if (r < 0)
            (void)nearcall_handoff_wait(taker, 1);
        CHECK(test_now_ms() < end);
    }
    close(fd);
}

/* ---- Descriptors whose closing waits ---- */

/* A local socket with such a one in its queue. */
static int nested_trap(int *ret_peer)
{
    int pair[2], inner = test_lingering(ret_peer);
    CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) == 0);
    raw_send(pair[0], "q", 1, &inner, 1);
    close(pair[0]);
    close(inner);
    return pair[1];
}

/* The taker has the last reference of those that it reads, and of those in the queue of a
 * channel that it has ended. */
static void what_lingers_holds_up_nobody(int (*make)(int *), void (*give)(int, int), int count)
{
    enum { TRAPS_MAX = 4, BOUND_MS = 1000 };
    int peers[TRAPS_MAX], traps[TRAPS_MAX];
    int fd = greeted();
    for (int i = 0; i < count; i++) {
        traps[i] = make(&peers[i]);
        give(fd, traps[i]);
        close(traps[i]);
    }
    double begin = test_now_ms();
    expect_channel_end(fd);
    double took_ms = test_now_ms() - begin;
    if (took_ms >= BOUND_MS)
        fprintf(stderr, "the end of a channel with %d traps took %.0f ms\n", count, took_ms);
    CHECK(took_ms < BOUND_MS * test_slowness());
    for (int i = 0; i < count; i++)
        close(peers[i]);
}

static void a_trap_that_is_given(int fd, int gift)
{
    uint8_t give[100];
    raw_send(fd, give, raw_give(give, 1), &gift, 1);
    run_until_readable(nearcall_handoff_fd(taker));
    (void)nearcall_handoff_wait(taker, 0);
    CHECK(shutdown(fd, SHUT_WR) == 0);
}

/* ---- What was not taken is the giver's ---- */

static struct gift make_used_gift(void)
{
    struct gift gift = make_gift();
    send_bytes(gift.other, "mine");
    return gift;
}

static void expect_untouched(struct gift *gift)
{
    expect_bytes(gift->fd, "mine");
    send_bytes(gift->other, "more");
    expect_bytes(gift->fd, "more");
    expect_closed(gift);
}

/* The giver is gone by then as far as the taker knows, and lives. */
static void given_by_half(void)
{
    uint8_t give[100];
    size_t bytes = raw_give(give, 1);
    const size_t parts[] = {1, NC_HANDOFF_HEADER_BYTES - 1, NC_HANDOFF_HEADER_BYTES, bytes - 1};
    for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
        struct gift gift = make_used_gift();
        int fd = greeted();
        raw_send(fd, give, parts[i], &gift.fd, 1);
        CHECK(shutdown(fd, SHUT_WR) == 0);
        expect_channel_end(fd);
        expect_untouched(&gift);
    }
}

static void given_and_never_read(void)
{
    nearcall_handoff *former = taker;
    struct gift gift = make_used_gift();
    uint8_t give[100];
    char other_address[sizeof(own_address)];
    snprintf(other_address, sizeof(other_address), "%s", handoff_address());
    address = other_address;
    taker = handoff_listen(address, 0);
    int fd = greeted();
    raw_send(fd, give, raw_give(give, 1), &gift.fd, 1);
    nearcall_handoff_close(taker);
    taker = former;
    address = own_address;
    expect_untouched(&gift);
    close(fd);
}

/* Sends a descriptor before it was asked who it is, and tells what became of that. */
static pid_t stranger(int gift, int told)
{
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) {
        struct iovec part = {"x", 1};
        union {
            struct cmsghdr header;
            uint8_t bytes[CMSG_SPACE(sizeof(int))];
        } control = {.header = {.cmsg_len = CMSG_LEN(sizeof(int)), .cmsg_level = SOL_SOCKET,
                                .cmsg_type = SCM_RIGHTS}};
        struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = &control,
                                 .msg_controllen = sizeof(control)};
        memcpy(CMSG_DATA(&control.header), &gift, sizeof(int));
        CHECK(setuid(65534) == 0);
        int fd = raw_connect(address, false);
        int error = sendmsg(fd, &message, MSG_NOSIGNAL) < 0 ? errno : 0;
        if (write(told, &error, sizeof(error)) == sizeof(error))
            execlp("true", "true", (char *)NULL); /* or it ends with what is its parent's */
        _exit(1);
    }
    return pid;
}

/* Where the kernel can, who may give nothing cannot even send it: nobody has to close it. */
static void who_may_not_give_sends_nothing(void)
{
    enum { PASSRIGHTS = 83 };
    int passes, error, told[2];
    socklen_t bytes = sizeof(passes);
    const char *path = address + strlen("unix:");
    struct gift gift = make_gift();
    if (geteuid() == 0 && getsockopt(gift.fd, SOL_SOCKET, PASSRIGHTS, &passes, &bytes) == 0) {
        CHECK(chmod(test_directory(), 0711) == 0 && chmod(path, 0666) == 0);
        CHECK(pipe2(told, O_CLOEXEC) == 0);
        pid_t pid = stranger(gift.fd, told[1]);
        CHECK_INT(read(told[0], &error, sizeof(error)), sizeof(error));
        CHECK(waitpid(pid, NULL, 0) == pid);
        CHECK_INT(error, EPERM);
        close(told[0]);
        close(told[1]);
        (void)nearcall_handoff_wait(taker, 0);
    }
    expect_closed(&gift);
}

int main(void)
{
    test_begin();
    snprintf(own_address, sizeof(own_address), "%s", handoff_address());
    taker = handoff_listen(address, 0);
    CHECK(nearcall_handoff_fd(taker) >= 0); /* it needs a descriptor more */
    no_descriptor_is_refused();
    int descriptors = test_open_descriptors();
    breaches();
    given_by_half();
    given_and_never_read();
    what_lingers_holds_up_nobody(test_lingering, a_descriptor_with_a_ping, 4);
    what_lingers_holds_up_nobody(nested_trap, a_descriptor_with_a_ping, 4);
    what_lingers_holds_up_nobody(test_lingering, the_end_within_a_frame, 1);
    what_lingers_holds_up_nobody(nested_trap, the_end_within_a_frame, 1);
    what_lingers_holds_up_nobody(nested_trap, a_trap_that_is_given, 1);
    who_may_not_give_sends_nothing();
    wrong_kinds_are_refused();
    glued_and_torn();
    bad_hellos();
    future_versions_are_told_why();
    pings_whose_answers_nobody_reads();
    (void)nearcall_handoff_wait(taker, 0);
    no_descriptor_is_refused(); /* it serves on */
    CHECK_INT(test_open_descriptors(), descriptors);
    nearcall_handoff_close(taker);
    return 0;
}
