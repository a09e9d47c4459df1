/* The kernel refuses a piece once, and would take others: the call is not mixed with itself, and the connection
 * is given up. Linked with --wrap. */
#include <errno.h>
#include <sys/socket.h>

#include "tls_test.h"

/* More than a request has pieces. */
#define SENDS_MAX 40

static int countdown; /* to the send that fails; 0: none */

ssize_t __real_send(int fd, const void *data, size_t bytes, int flags);
ssize_t __wrap_send(int fd, const void *data, size_t bytes, int flags);
ssize_t __wrap_send(int fd, const void *data, size_t bytes, int flags)
{
    if (countdown > 0 && --countdown == 0) {
        errno = ENOBUFS;
        return -1;
    }
    return __real_send(fd, data, bytes, flags);
}

static void echo(nearcall_client *client)
{
    static uint8_t data[300000];
    nearcall_reply reply;
    for (size_t i = 0; i < sizeof(data); i++)
        data[i] = (uint8_t)(i * 7 + i / 251);
    CHECK_CALL(client, nearcall_call(client, "echo", data, sizeof(data), 60000, &reply), NEARCALL_OK);
    CHECK_INT(reply.bytes, sizeof(data));
    CHECK(memcmp(reply.data, data, sizeof(data)) == 0);
}

int main(void)
{
    struct tls_server server;
    int at = 0;
    test_begin();
    tls_server_start(&server);
    nearcall_client *client = tls_open(server.relay.address, 0);
    echo(client);
    do {
        countdown = ++at;
        echo(client);
    } while (countdown == 0 && at < SENDS_MAX);
    CHECK(at > 3 && at < SENDS_MAX);
    countdown = 0;
    nearcall_close(client);
    tls_server_stop(&server);
    return 0;
}
