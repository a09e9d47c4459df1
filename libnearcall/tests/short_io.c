/* Every read and write moves a random few bytes: frames are put together and taken apart all the same. */
#include "short_io.h"

static void check_call(nearcall_client *client, uint8_t *data)
{
    nearcall_reply reply;
    size_t bytes = (size_t)(next_random() % 3000);
    for (size_t i = 0; i < bytes; i++)
        data[i] = (uint8_t)next_random();
    CHECK_CALL(client, nearcall_call(client, "echo", data, bytes, 60000, &reply), NEARCALL_OK);
    CHECK_INT(reply.bytes, bytes);
    CHECK(memcmp(reply.data, data, bytes) == 0);
}

static void check_pipelined(nearcall_client *client, nearcall_function *echo)
{
    nearcall_call_id calls[10];
    nearcall_reply reply;
    for (int i = 0; i < 10; i++) {
        CHECK_CALL(client, nearcall_request(client, echo, NEARCALL_CODEC_RAW), NEARCALL_OK);
        nearcall_put_raw(client, "0123456789", (size_t)i);
        CHECK_CALL(client, nearcall_request_send(client, 60000, &calls[i]), NEARCALL_OK);
    }
    for (int i = 9; i >= 0; i--) {
        CHECK_CALL(client, nearcall_wait(client, calls[i], &reply), NEARCALL_OK);
        CHECK_INT(reply.bytes, i);
    }
}

static void run(const char *address, uint32_t flags)
{
    uint8_t data[3000];
    nearcall_client *client = test_open(address, flags);
    nearcall_function *echo = test_find(client, "echo");
    for (int i = 0; i < 300; i++)
        check_call(client, data);
    for (int i = 0; i < 30; i++)
        check_pipelined(client, echo);
    nearcall_close(client);
}

int main(void)
{
    struct server server;
    test_begin();
    seed_short_io();
    server_start(&server);
    short_io = true;
    run(server.address, 0);
    run(server.address, NEARCALL_NONBLOCKING);
    server_stop(&server);
    return 0;
}
