/* A server that sends sockets whose closing waits: for fifteen seconds, because they
 * linger over data that nobody reads. No call and no nearcall_close() waits with them.
 * Linked with --wrap: with option "old" the kernel seems not to know SO_PASSRIGHTS. */
#include <errno.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/rights.h"
#include "c_library.h"
#include "script.h"

#define SO_PASSRIGHTS_NUMBER 83
#define BOUND_MS 5000 /* a busy machine takes its time; what lingers takes TEST_LINGER_S */

static bool kernel_is_old;
static unsigned options_set;

int __real_setsockopt(int fd, int level, int option, const void *value, socklen_t bytes);
int __wrap_setsockopt(int fd, int level, int option, const void *value, socklen_t bytes);

int __wrap_setsockopt(int fd, int level, int option, const void *value, socklen_t bytes)
{
    options_set++;
    if (kernel_is_old && level == SOL_SOCKET && option == SO_PASSRIGHTS_NUMBER) {
        errno = ENOPROTOOPT;
        return -1;
    }
    return __real_setsockopt(fd, level, option, value, bytes);
}

/* ---- What is sent ---- */

/* False: the kernel has refused it to us. */
static bool send_some(int to, int fd, const void *data, size_t bytes, int count, int flags)
{
    union {
        struct cmsghdr header;
        char bytes[CMSG_SPACE(NC_RIGHTS_MESSAGE_MAX * sizeof(int))];
    } room = {0};
    struct iovec part = {(void *)(uintptr_t)data, bytes};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = &room,
                             .msg_controllen = CMSG_SPACE((size_t)count * sizeof(int))};
    room.header = (struct cmsghdr){.cmsg_len = CMSG_LEN((size_t)count * sizeof(int)),
                                   .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS};
    for (int i = 0; i < count; i++)
        memcpy(CMSG_DATA(&room.header) + (size_t)i * sizeof(int), &fd, sizeof(int));
    ssize_t sent = test_send_message(to, &message, MSG_NOSIGNAL | flags);
    CHECK(sent == (ssize_t)bytes || errno == EPERM || errno == EPIPE || errno == ECONNRESET);
    return sent >= 0;
}

static bool send_one(int to, int fd, const void *data, size_t bytes, int count)
{
    return send_some(to, fd, data, bytes, count, 0);
}

enum nesting {
    NOT_NESTED,
    NESTED,
    NESTED_URGENT,
    BEHIND_EMPTY_DATAGRAM,
    BEHIND_EMPTY_RECORD,
    BEHIND_CREDENTIALS
};

/* As many as a message can have, of which the last lingers: the first to lack room. */
static void send_full(int to, int fd)
{
    int fds[NC_RIGHTS_MESSAGE_MAX];
    union nc_rights_room room = {0};
    struct iovec part = {"x", 1};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = &room,
                             .msg_controllen = sizeof(room)};
    for (int i = 0; i < NC_RIGHTS_MESSAGE_MAX; i++)
        fds[i] = i < NC_RIGHTS_MESSAGE_MAX - 1 ? 0 : fd;
    room.header = (struct cmsghdr){.cmsg_len = CMSG_LEN(sizeof(fds)), .cmsg_level = SOL_SOCKET,
                                   .cmsg_type = SCM_RIGHTS};
    memcpy(CMSG_DATA(&room.header), fds, sizeof(fds));
    CHECK(test_send_message(to, &message, MSG_NOSIGNAL) == 1);
}

/* The same within the queue of a local socket. */
static int nested(int fd, enum nesting nesting)
{
    int pair[2], on = 1;
    int type = nesting == BEHIND_EMPTY_DATAGRAM ? SOCK_DGRAM
               : nesting == BEHIND_EMPTY_RECORD ? SOCK_SEQPACKET
                                                : SOCK_STREAM;
    CHECK(socketpair(AF_UNIX, type | SOCK_CLOEXEC, 0, pair) == 0);
    if (type != SOCK_STREAM)
        CHECK(send(pair[0], "", 0, 0) == 0);
    if (nesting == BEHIND_CREDENTIALS) {
        CHECK(__real_setsockopt(pair[1], SOL_SOCKET, SO_PASSCRED, &on, sizeof(on)) == 0);
        send_full(pair[0], fd);
    } else {
        CHECK(send_some(pair[0], fd, "x", 1, 1, nesting == NESTED_URGENT ? MSG_OOB : 0));
    }
    close(pair[0]);
    close(fd);
    return pair[1];
}

/* ---- When ---- */

struct attack {
    const char *name;
    bool before_the_welcome;
    enum nesting nesting;
    int count;
    uint64_t features;
    bool is_urgent;
};

static int peer; /* of the socket that was sent, until the attack is over */

/* Not sent: the kernel has refused it, or the client has gone, and it would be this test that lingers. */
static void let_go(int fd, bool sent)
{
    if (sent)
        close(fd);
    else
        nc_rights_close(fd);
}

static sem_t is_sent; /* the urgent byte */

/* Only the urgent byte has it, and nobody but the client when that begins to read. */
static void send_urgently(const struct script *script, const struct attack *plan, int fd, const uint8_t *bytes,
                          size_t count)
{
    let_go(fd, send_some(script->fd, fd, bytes, 1, plan->count, MSG_OOB));
    (void)send(script->fd, bytes + 1, count - 1, MSG_NOSIGNAL);
    CHECK(sem_post(&is_sent) == 0);
}

static void wait_for_urgent_byte(struct script *script)
{
    script_signal(script);
    CHECK(sem_wait(&is_sent) == 0);
}

/* One whose queue holds the trap is sent once: emptied for the first time, it would be no
 * trap for the second. */
static void send_in_reply(const struct script *script, const struct attack *plan, int fd, const uint8_t *bytes,
                          size_t count)
{
    bool sent = send_one(script->fd, fd, bytes, count, plan->count);
    if (!plan->nesting)
        sent = send_one(script->fd, fd, bytes, 1, plan->count); /* for whoever closes unread */
    let_go(fd, sent);
}

static void attack_in_reply(struct script *script, const struct attack *plan, int fd)
{
    struct nc_frame frame = {.call_id = 1};
    struct nc_frame reply = {.type = NC_REPLY, .length = 3, .function_id = SCRIPT_FUNCTION_ID,
                             .descriptors = plan->features & NC_FEATURE_DESCRIPTORS ? 1 : 0};
    uint8_t bytes[NC_FRAME_HEADER_BYTES + 3];
    script_welcome(script);
    if (plan->is_urgent)
        script_await(script);
    else
        script_expect(script, NC_REQUEST, &frame);
    reply.call_id = frame.call_id;
    nc_frame_encode(bytes, &reply);
    memcpy(bytes + NC_FRAME_HEADER_BYTES, "yes", 3);
    (plan->is_urgent ? send_urgently : send_in_reply)(script, plan, fd, bytes, sizeof(bytes));
}

static void attack(struct script *script)
{
    const struct attack *plan = script->argument;
    int fd = test_lingering(&peer);
    if (plan->nesting)
        fd = nested(fd, plan->nesting);
    script->features |= plan->features;
    script_accept(script);
    script_read_hello(script);
    if (plan->before_the_welcome)
        let_go(fd, send_one(script->fd, fd, "\x89", 1, plan->count));
    else
        attack_in_reply(script, plan, fd);
    script_await(script);
}

static void is_not_held_up(const struct attack *plan)
{
    struct script script;
    nearcall_reply reply;
    script_start(&script, attack, (void *)(uintptr_t)plan);
    nearcall_client *client = test_open(script.address, 0);
    /* The request has to be sent, however long the welcome takes: only the call is measured. */
    if (!plan->before_the_welcome)
        CHECK_CALL(client, nearcall_connect(client, 0), NEARCALL_OK);
    if (plan->is_urgent)
        wait_for_urgent_byte(&script);
    double before_ms = test_now_ms();
    int r = nearcall_call(client, "f", "x", 1, 500, &reply);
    nearcall_close(client);
    double took_ms = test_now_ms() - before_ms;
    if (took_ms > BOUND_MS)
        fprintf(stderr, "%s%s: the call returned %d after %.0f ms\n", plan->name,
                kernel_is_old ? ", on an old kernel" : "", r, took_ms);
    CHECK(took_ms < BOUND_MS);
    script_signal(&script);
    script_end(&script);
    close(peer);
}

/* A program closes what it takes when that suits it. */
static void what_is_taken_does_not_linger(void)
{
    static const struct attack plan = {"taken", false, NOT_NESTED, 1, NC_FEATURE_DESCRIPTORS, false};
    struct script script;
    struct linger linger;
    socklen_t bytes = sizeof(linger);
    nearcall_reply reply;
    script_start(&script, attack, (void *)(uintptr_t)&plan);
    nearcall_client *client = test_open(script.address, 0);
    CHECK_CALL(client, nearcall_call(client, "f", "x", 1, 20000, &reply), NEARCALL_OK);
    int fd = nearcall_take_file(client, 0);
    CHECK(fd >= 0 && getsockopt(fd, SOL_SOCKET, SO_LINGER, &linger, &bytes) == 0);
    nc_rights_close(fd);
    CHECK_INT(linger.l_onoff, 0);
    nearcall_close(client);
    script_signal(&script);
    script_end(&script);
    close(peer);
}

/* Whoever goes on sending, without descriptors as well, is stopped first: nobody empties a
 * queue, or the queue of a socket in it, while it is filled. */
static void stops_the_sender(bool is_nested)
{
    int pair[2];
    CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) == 0);
    CHECK(send(pair[1], "some", 4, MSG_NOSIGNAL) == 4);
    if (is_nested)
        nc_rights_close(dup(pair[0]));
    else
        nc_rights_drain(pair[0]);
    CHECK(send(pair[1], "more", 4, MSG_NOSIGNAL) < 0);
    CHECK_INT(errno, EPIPE);
    close(pair[0]);
    close(pair[1]);
}

/* What waits in a listener that came costs no more than some of it would. */
static void emptying_ends(void)
{
    struct sockaddr_un to = {.sun_family = AF_UNIX};
    int listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    snprintf(to.sun_path + 1, sizeof(to.sun_path) - 1, "nearcall-emptying-%d", getpid());
    CHECK_INT(bind(listener, (struct sockaddr *)&to, sizeof(to)), 0);
    CHECK_INT(listen(listener, 3000), 0);
    for (int i = 0; i < 3000; i++) {
        int caller = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
        CHECK_INT(connect(caller, (struct sockaddr *)&to, sizeof(to)), 0);
        close(caller);
    }
    options_set = 0;
    nc_rights_close(listener);
    CHECK(options_set > 1000 && options_set < 12000);
}

int main(void)
{
    static const struct attack attacks[] = {
        {"before the welcome", true, NOT_NESTED, 1, 0, false},
        {"where none are agreed to", false, NOT_NESTED, 1, 0, false},
        {"where memory may come", false, NOT_NESTED, 2, NC_FEATURE_SHARED_MEMORY, false},
        {"more than memory has", false, NOT_NESTED, 20, NC_FEATURE_SHARED_MEMORY, false},
        {"with a reply that may have them", false, NOT_NESTED, 1, NC_FEATURE_DESCRIPTORS, false},
        {"more than a frame has", false, NOT_NESTED, 20, NC_FEATURE_DESCRIPTORS, false},
        {"in a socket's queue, more than announced", false, NESTED, 2, NC_FEATURE_DESCRIPTORS, false},
        {"in a socket's queue, for memory", false, NESTED, 2, NC_FEATURE_SHARED_MEMORY, false},
        {"urgent", false, NOT_NESTED, 1, NC_FEATURE_DESCRIPTORS, true},
        {"urgent, for memory", false, NOT_NESTED, 2, NC_FEATURE_SHARED_MEMORY, true},
        {"urgent in a queue", false, NESTED_URGENT, 1, NC_FEATURE_SHARED_MEMORY, false},
        {"behind an empty datagram", false, BEHIND_EMPTY_DATAGRAM, 1, NC_FEATURE_SHARED_MEMORY, false},
        {"behind an empty record", false, BEHIND_EMPTY_RECORD, 1, NC_FEATURE_SHARED_MEMORY, false},
        {"behind credentials", false, BEHIND_CREDENTIALS, 1, NC_FEATURE_SHARED_MEMORY, false},
    };
    test_begin();
    CHECK(sem_init(&is_sent, 0, 0) == 0);
    for (int old = 0; old < 2; old++)
        for (size_t i = 0; i < sizeof(attacks) / sizeof(attacks[0]); i++) {
            kernel_is_old = old;
            is_not_held_up(&attacks[i]);
        }
    what_is_taken_does_not_linger();
    for (int i = 0; i < 4; i++) {
        kernel_is_old = i / 2;
        stops_the_sender(i % 2);
    }
    emptying_ends();
    return 0;
}
