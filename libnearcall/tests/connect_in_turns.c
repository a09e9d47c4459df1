/* nearcall_connect() with NEARCALL_NONBLOCKING, asked in the turns of a loop: what becomes of
 * the attempt is told by it, within the time it was given, whatever nearcall_process() told. */
#include <arpa/inet.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "test.h"

#define TIMEOUT_MS 20000
#define SHORT_MS 200

static int connect_in_turns(nearcall_client *client, int64_t timeout_ms)
{
    double began_ms = test_now_ms();
    int r;
    while ((r = nearcall_connect(client, timeout_ms)) == NEARCALL_E_AGAIN) {
        struct pollfd watched = {nearcall_fd(client), (short)nearcall_events(client), 0};
        CHECK(test_now_ms() - began_ms < TIMEOUT_MS / 2.0);
        (void)poll(&watched, 1, (int)nearcall_timeout_ms(client));
        (void)nearcall_process(client);
    }
    return r;
}

/* Who connects to it is neither refused nor welcomed. */
static int listening_socket(char *address, size_t bytes)
{
    struct sockaddr_in name = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t name_bytes = sizeof(name);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CHECK(fd >= 0 && bind(fd, (struct sockaddr *)&name, sizeof(name)) == 0 && listen(fd, 8) == 0);
    CHECK(getsockname(fd, (struct sockaddr *)&name, &name_bytes) == 0);
    snprintf(address, bytes, "tcp:127.0.0.1:%d", ntohs(name.sin_port));
    return fd;
}

static void never_welcomed(nearcall_client *client)
{
    for (int i = 0; i < 2; i++) {
        double began_ms = test_now_ms();
        CHECK_CALL(client, connect_in_turns(client, SHORT_MS), NEARCALL_E_DEADLINE_EXCEEDED);
        CHECK(test_now_ms() - began_ms >= SHORT_MS);
    }
}

/* A call that waits longer began it. */
static void begun_by_a_call(nearcall_client *client)
{
    nearcall_call_id call;
    CHECK_CALL(client, nearcall_find_begin(client, "f", 1, TIMEOUT_MS, &call), NEARCALL_OK);
    CHECK_CALL(client, connect_in_turns(client, SHORT_MS), NEARCALL_E_DEADLINE_EXCEEDED);
    CHECK_CALL(client, nearcall_poll(client, call, NULL), NEARCALL_E_AGAIN);
}

/* Who gives up asking is not kept awake; who drops the connection asks for another. */
static void given_up(nearcall_client *client)
{
    CHECK_CALL(client, nearcall_connect(client, 1), NEARCALL_E_AGAIN);
    CHECK_INT(poll(NULL, 0, 5), 0);
    CHECK_CALL(client, nearcall_process(client), NEARCALL_E_DEADLINE_EXCEEDED);
    CHECK_INT(nearcall_timeout_ms(client), -1);
    CHECK_CALL(client, nearcall_connect(client, TIMEOUT_MS), NEARCALL_E_DEADLINE_EXCEEDED);
    CHECK_CALL(client, nearcall_connect(client, TIMEOUT_MS), NEARCALL_E_AGAIN);
    nearcall_disconnect(client);
    CHECK_CALL(client, nearcall_connect(client, TIMEOUT_MS), NEARCALL_E_AGAIN);
}

static void stands(nearcall_client *client)
{
    CHECK_CALL(client, connect_in_turns(client, TIMEOUT_MS), NEARCALL_OK);
    nearcall_disconnect(client);
    CHECK_CALL(client, connect_in_turns(client, NEARCALL_NO_TIMEOUT), NEARCALL_OK);
}

int main(void)
{
    char address[64];
    struct server server;
    test_begin();
    int fd = listening_socket(address, sizeof(address));
    nearcall_client *client = test_open(address, NEARCALL_NONBLOCKING);
    never_welcomed(client);
    begun_by_a_call(client);
    nearcall_close(client);
    client = test_open(address, NEARCALL_NONBLOCKING);
    given_up(client);
    nearcall_close(client);
    server_start(&server);
    client = test_open(server.address, NEARCALL_NONBLOCKING);
    stands(client);
    nearcall_close(client);
    server_stop(&server);
    close(fd);
    return 0;
}
