/* A whole handle against a server that says anything. The first byte chooses where
 * the session begins, at the welcome or with calls in flight, and how it goes on; the
 * rest is what the server sends, then it hangs up. Whatever that was: every call ends,
 * and nothing is left. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "functions/functions.h"
#include "fuzz.h"
#include "handle/handle.h"

enum { BEGIN_AT_WELCOME = 1, IN_PIECES = 2, CANCEL_THE_FIRST = 4, PING = 8 };

#define CALLS 3

static nearcall_client *open_over(int fd, int mode)
{
    nearcall_options options = NEARCALL_OPTIONS_INIT;
    nearcall_client *client;
    struct stat status;
    options.attempts_max = 1;
    options.flags = NEARCALL_NONBLOCKING;
    FUZZ_CHECK(nearcall_open(&client, "unix:/nowhere/fuzz.sock", &options) == NEARCALL_OK);
    struct nc_connection *connection = &client->connection;
    FUZZ_CHECK(nc_buffer_reserve(&connection->in, 16384) == NEARCALL_OK);
    FUZZ_CHECK(fstat(fd, &status) == 0);
    connection->fd = fd;
    connection->device = status.st_dev;
    connection->inode = status.st_ino;
    connection->non_blocking = true;
    connection->connect_deadline_ns = NC_NEVER;
    connection->state = mode & BEGIN_AT_WELCOME ? NC_HELLO : NC_READY;
    connection->welcome.frame_bytes_max = 65536;
    connection->welcome.features = NC_FEATURE_SHARED_CLOCK;
    return client;
}

static void begin_calls(nearcall_client *client, nearcall_call_id *calls)
{
    nearcall_function *function = nc_function_intern(client, "echo", 4);
    FUZZ_CHECK(function != NULL);
    function->revision = 1; /* as if it had been found, so that it stays */
    for (int i = 0; i < CALLS - 1; i++) {
        FUZZ_CHECK(nearcall_request(client, function, NEARCALL_CODEC_RAW) == NEARCALL_OK);
        nearcall_put_raw(client, "hi", 2);
        if (nearcall_request_send(client, NEARCALL_NO_TIMEOUT, &calls[i]) != NEARCALL_OK)
            calls[i] = 0;
    }
    if (nearcall_find_begin(client, "other", 5, NEARCALL_NO_TIMEOUT, &calls[CALLS - 1]) !=
        NEARCALL_OK)
        calls[CALLS - 1] = 0;
}

/* Gives the handle some bytes to read; the socket takes what it has room for. */
static void say(nearcall_client *client, int server, const uint8_t *data, size_t bytes, int mode)
{
    while (bytes > 0) {
        size_t piece = mode & IN_PIECES && bytes > 7 ? 7 : bytes;
        ssize_t sent = send(server, data, piece, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (sent < 0 && errno != EAGAIN)
            return; /* the handle has closed */
        if (sent > 0) {
            data += sent;
            bytes -= (size_t)sent;
        }
        (void)nearcall_process(client);
        if (client->connection.fd < 0)
            return;
    }
}

static void check_result(nearcall_client *client, nearcall_call_id call)
{
    static volatile uint8_t sink;
    nearcall_reply reply;
    size_t bytes = 0;
    int r = nearcall_wait(client, call, &reply);
    FUZZ_CHECK(r != NEARCALL_E_AGAIN && r != NEARCALL_E_INTERRUPTED && r != NEARCALL_E_MISUSE);
    if (r == NEARCALL_OK) {
        FUZZ_CHECK(reply.data != NULL);
        for (size_t i = 0; i < reply.bytes; i++)
            sink = (uint8_t)(sink + reply.data[i]);
        return;
    }
    const uint8_t *details = nearcall_error_details(client, &bytes);
    for (size_t i = 0; i < bytes; i++)
        sink = (uint8_t)(sink + details[i]);
    FUZZ_CHECK(nearcall_error_code(client) == -r && strlen(nearcall_error_message(client)) > 0);
    FUZZ_CHECK(nearcall_error_outcome(client) != NEARCALL_OUTCOME_NONE);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    int pair[2];
    nearcall_call_id calls[CALLS];
    if (bytes < 1)
        return 0;
    int mode = data[0];
    FUZZ_CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, pair) == 0);
    nearcall_client *client = open_over(pair[0], mode);
    begin_calls(client, calls);
    if (mode & CANCEL_THE_FIRST) {
        nearcall_cancel(client, calls[0]);
        calls[0] = 0;
    }
    say(client, pair[1], data + 1, bytes - 1, mode);
    if (mode & PING && client->connection.fd >= 0)
        (void)nearcall_ping(client, 1, NULL);
    close(pair[1]);
    for (int i = CALLS - 1; i >= 0; i--)
        if (calls[i])
            check_result(client, calls[i]);
    FUZZ_CHECK(client->calls.used_count == 0);
    FUZZ_CHECK(client->connection.in.capacity <= 4 * bytes + 65536);
    nearcall_close(client);
    FUZZ_CHECK(fcntl(pair[0], F_GETFD) < 0); /* or it leaks with each input */
    return 0;
}
