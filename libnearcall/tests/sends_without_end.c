/* A server that reads no more and sends without an end: the request that it cannot take ends
 * the connection at once, with what had come by then. */
#include <errno.h>
#include <sys/ioctl.h>

#include "base/clock.h"
#include "handle/handle.h"
#include "script.h"

#define CALLS 1000
#define FRAMES_AT_ONCE 2048
#define TIMEOUT_MS 500

/* What the socket holds when the request fails, and as much again while that is read. */
#define TAKEN_BYTES_MAX (1 << 20)

/* So that a library which waits for the end gets there. */
#define FLOOD_MS 10000

static void flood(struct script *script)
{
    static uint8_t frames[FRAMES_AT_ONCE][NC_FRAME_HEADER_BYTES];
    const struct nc_frame drain = {.type = NC_DRAIN, .call_id = UINT64_MAX / 2};
    size_t at = 0, taken = 0;
    ssize_t sent;
    int64_t until_ns = nc_now_ns() + FLOOD_MS * NC_NS_PER_MS;
    for (int i = 0; i < FRAMES_AT_ONCE; i++)
        nc_frame_encode(frames[i], &drain);
    do {
        sent = send(script->fd, (uint8_t *)frames + at, sizeof(frames) - at,
                    MSG_NOSIGNAL | MSG_DONTWAIT);
        taken += sent < 0 ? 0 : (size_t)sent;
        at = taken % sizeof(frames);
    } while ((sent >= 0 || errno == EAGAIN) && nc_now_ns() < until_ns);
    CHECK_INT(errno, EPIPE);
    CHECK(taken < TAKEN_BYTES_MAX);
}

static void play(struct script *script)
{
    script_greet(script);
    script_await(script);
    CHECK_INT(shutdown(script->fd, SHUT_RD), 0);
    flood(script);
}

static void await_the_flood(const nearcall_client *client)
{
    int waiting = 0;
    int64_t until_ns = nc_now_ns() + FLOOD_MS * NC_NS_PER_MS;
    while (ioctl(client->connection.fd, FIONREAD, &waiting) == 0 && waiting < 1 << 16)
        CHECK(nc_now_ns() < until_ns);
}

int main(void)
{
    struct script script;
    nearcall_call_id call;
    test_begin();
    script_start(&script, play, NULL);
    nearcall_client *client = test_open(script.address, NEARCALL_NONBLOCKING);
    int r;
    while ((r = nearcall_connect(client, 5000)) == NEARCALL_E_AGAIN)
        ;
    CHECK_CALL(client, r, NEARCALL_OK);
    for (int i = 0; i < CALLS; i++)
        CHECK_CALL(client, nearcall_find_begin(client, "echo", 4, TIMEOUT_MS, &call), NEARCALL_OK);
    script_signal(&script);
    await_the_flood(client);
    (void)nearcall_find_begin(client, "echo", 4, TIMEOUT_MS, &call); /* it cannot be sent */
    nearcall_close(client);
    script_end(&script);
    return 0;
}
