/* A request that is sent whole is sent, even if an answer to the server's ping that
 * stands behind it cannot be. Linked with --wrap. */
#include <errno.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include "handle/handle.h"
#include "script.h"

static struct script script;
static size_t byte_budget = SIZE_MAX; /* what the kernel takes at most */
static bool is_pinged;

ssize_t __real_sendmsg(int fd, const struct msghdr *message, int flags);
ssize_t __wrap_sendmsg(int fd, const struct msghdr *message, int flags);
ssize_t __wrap_send(int fd, const void *data, size_t bytes, int flags);

/* The request's last byte is still missing when the ping arrives, and is the last that
 * goes out. */
static void let_the_ping_come(int fd)
{
    struct pollfd watched = {fd, POLLIN, 0};
    is_pinged = true;
    script_signal(&script);
    CHECK(poll(&watched, 1, -1) == 1);
}

ssize_t __wrap_sendmsg(int fd, const struct msghdr *message, int flags)
{
    struct iovec parts[2] = {message->msg_iov[0]};
    struct msghdr shorter = {.msg_iov = parts, .msg_iovlen = message->msg_iovlen};
    if (byte_budget == SIZE_MAX)
        return __real_sendmsg(fd, message, flags);
    if (message->msg_iovlen > 1)
        parts[1] = message->msg_iov[1];
    struct iovec *last = &parts[message->msg_iovlen - 1];
    size_t all = message->msg_iovlen > 1 ? parts[0].iov_len + last->iov_len : last->iov_len;
    if (all > byte_budget)
        last->iov_len -= all - byte_budget;
    if (byte_budget == 0) {
        errno = EAGAIN;
        return -1;
    }
    ssize_t sent = __real_sendmsg(fd, &shorter, flags);
    byte_budget = is_pinged ? byte_budget - (size_t)sent : 1;
    if (!is_pinged)
        let_the_ping_come(fd);
    return sent;
}

ssize_t __wrap_send(int fd, const void *data, size_t bytes, int flags)
{
    struct iovec all = {(void *)(uintptr_t)data, bytes};
    struct msghdr message = {.msg_iov = &all, .msg_iovlen = 1};
    if (fd == script.fd)
        return __real_sendmsg(fd, &message, flags);
    return __wrap_sendmsg(fd, &message, flags);
}

static void play(struct script *played)
{
    struct nc_frame ping = {.type = NC_PING, .length = 4}, frame;
    script_greet(played);
    script_expect(played, NC_RESOLVE, &frame);
    script_reply(played, &frame, "\x80", 1);
    script_await(played);
    script_send_frame(played, &ping, "ping");
    script_expect(played, NC_REQUEST, &frame);
    script_await(played);
    script_reply(played, &frame, "yes", 3);
    script_expect(played, NC_PONG, &frame);
    script_serve(played);
}

/* ---- A flood ---- */

#define PINGS 20000

static void ping_and_not_read(struct script *played)
{
    struct nc_frame ping = {.type = NC_PING, .length = NC_PING_BYTES_MAX}, frame;
    uint8_t payload[NC_PING_BYTES_MAX] = {0}, last[SCRIPT_PAYLOAD_MAX];
    script_greet(played);
    script_expect(played, NC_REQUEST, &frame);
    for (uint32_t i = 1; i <= PINGS; i++) {
        nc_put_u32(payload, i);
        script_send_frame(played, &ping, payload);
    }
    script_reply(played, &frame, "yes", 3);
    for (uint32_t number = 0; number != PINGS; number = nc_get_u32(last)) {
        script_read(played, &frame, last); /* the newest is answered in the end */
        CHECK_INT(frame.type, NC_PONG);
    }
    script_serve(played);
}

/* The library holds one answer or two, however many the server asks for. */
static void a_flood(void)
{
    nearcall_reply reply;
    script_start(&script, ping_and_not_read, NULL);
    nearcall_client *client = test_open(script.address, 0);
    CHECK_CALL(client, nearcall_call(client, "f", "x", 1, 20000, &reply), NEARCALL_OK);
    CHECK(client->connection.out.capacity <= 4096);
    while (client->connection.pong_waits || nc_output_bytes(&client->connection) > 0)
        CHECK(nearcall_process(client) >= 0);
    CHECK_CALL(client, nearcall_call(client, "f", "after", 5, 20000, &reply), NEARCALL_OK);
    nearcall_close(client);
    script_end(&script);
}

int main(void)
{
    nearcall_call_id call;
    nearcall_reply reply;
    test_begin();
    script_start(&script, play, NULL);
    nearcall_client *client = test_open(script.address, 0);
    nearcall_function *function = test_find(client, "f");
    CHECK_CALL(client, nearcall_request(client, function, NEARCALL_CODEC_RAW), NEARCALL_OK);
    nearcall_put_raw(client, "0123456789", 10);
    byte_budget = NC_FRAME_HEADER_BYTES + 9;
    CHECK_CALL(client, nearcall_request_send(client, 500, &call), NEARCALL_OK);
    CHECK(is_pinged);
    byte_budget = SIZE_MAX;
    script_signal(&script);
    CHECK_CALL(client, nearcall_wait(client, call, &reply), NEARCALL_OK);
    CHECK_CALL(client, nearcall_ping(client, 5000, NULL), NEARCALL_OK);
    nearcall_close(client);
    script_end(&script);
    a_flood();
    return 0;
}
