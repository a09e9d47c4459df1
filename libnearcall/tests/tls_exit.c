/* A handler of exit(3) that was there before the first "tls:" address runs after all that were registered later. The
 * handle works there all the same. */
#include <unistd.h>

#include "tls_test.h"

/* exit(3) itself would end with this. */
#define NOT_CALLED 7

static nearcall_client *client;

static void call_echo(void)
{
    nearcall_reply reply;
    CHECK_CALL(client, nearcall_call(client, "echo", "x", 1, 20000, &reply), NEARCALL_OK);
    CHECK(reply.bytes == 1 && memcmp(reply.data, "x", 1) == 0);
}

static void at_exit(void)
{
    call_echo();
    nearcall_disconnect(client);
    call_echo();
    nearcall_close(client);
    _exit(0);
}

static void call_and_exit(void *address)
{
    CHECK(atexit(at_exit) == 0);
    client = tls_open(address, 0);
    call_echo();
    exit(NOT_CALLED);
}

int main(void)
{
    struct tls_server server;
    test_begin();
    tls_server_start(&server);
    test_join(test_fork(call_and_exit, server.relay.address));
    tls_server_stop(&server);
    return 0;
}
