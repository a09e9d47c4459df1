/* Every read and write moves a random few bytes: handshakes and records are put together all the same. */
#include "short_io.h"
#include "tls_test.h"

static void echo(nearcall_client *client, size_t bytes)
{
    static uint8_t data[100000];
    nearcall_reply reply;
    for (size_t i = 0; i < bytes; i++)
        data[i] = (uint8_t)next_random();
    CHECK_CALL(client, nearcall_call(client, "echo", data, bytes, 60000, &reply), NEARCALL_OK);
    CHECK_INT(reply.bytes, bytes);
    CHECK(memcmp(reply.data, data, bytes) == 0);
}

/* Beside each other, and fetched in another order. */
static void several(nearcall_client *client)
{
    nearcall_call_id calls[10];
    nearcall_reply reply;
    nearcall_function *function = test_find(client, "echo");
    for (int i = 0; i < 10; i++) {
        CHECK_CALL(client, nearcall_request(client, function, NEARCALL_CODEC_RAW), NEARCALL_OK);
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
    nearcall_options options = tls_options(flags);
    options.tls_certificate = tls_file("client.pem"); /* makes the handshake longer */
    options.tls_key = tls_file("client.key");
    nearcall_client *client = test_open_with(address, &options);
    for (int i = 0; i < 5; i++) {
        short_io = true;
        for (int call = 0; call < 20; call++)
            echo(client, (size_t)(next_random() % 3000));
        several(client);
        short_io = false;
        echo(client, sizeof(uint8_t[100000]));
        nearcall_disconnect(client);
    }
    nearcall_close(client);
}

int main(void)
{
    struct server server;
    struct relay relay;
    test_begin();
    seed_short_io();
    server_start(&server);
    relay_start(&relay, server.address, "clients=required", NULL);
    run(relay.address, 0);
    run(relay.address, NEARCALL_NONBLOCKING);
    relay_stop(&relay);
    server_stop(&server);
    return 0;
}
