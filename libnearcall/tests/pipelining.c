/* Many calls in flight, answered in any order, waited for in any order. */
#include "script.h"

static void answer_backwards(struct script *script)
{
    struct nc_frame frames[16];
    script_greet(script);
    script_expect(script, NC_RESOLVE, &frames[0]);
    script_reply(script, &frames[0], "\x80", 1);
    for (int i = 0; i < 16; i++)
        script_expect(script, NC_REQUEST, &frames[i]);
    for (int i = 15; i >= 0; i--) {
        uint8_t number = (uint8_t)i;
        script_reply(script, &frames[i], &number, 1);
    }
    script_serve(script);
}

static nearcall_call_id send_one(nearcall_client *client, nearcall_function *function)
{
    nearcall_call_id call;
    CHECK_CALL(client, nearcall_request(client, function, NEARCALL_CODEC_RAW), NEARCALL_OK);
    nearcall_put_raw(client, "abc", 3);
    CHECK_CALL(client, nearcall_request_send(client, 10000, &call), NEARCALL_OK);
    return call;
}

static void any_order(void)
{
    static const int order[] = {3, 0, 15, 14, 1, 2, 4, 5, 6, 13, 12, 11, 10, 9, 8, 7};
    struct script script;
    nearcall_call_id calls[16];
    nearcall_reply reply;
    script_start(&script, answer_backwards, NULL);
    nearcall_client *client = test_open(script.address, 0);
    nearcall_function *function = test_find(client, "f");
    for (int i = 0; i < 16; i++)
        calls[i] = send_one(client, function);
    for (int i = 0; i < 16; i++) {
        CHECK_CALL(client, nearcall_wait(client, calls[order[i]], &reply), NEARCALL_OK);
        CHECK_INT(reply.bytes, 1);
        CHECK_INT(reply.data[0], order[i]);
        CHECK_CALL(client, nearcall_wait(client, calls[order[i]], &reply), NEARCALL_E_MISUSE);
    }
    CHECK_CALL(client, nearcall_wait(client, 0, &reply), NEARCALL_E_MISUSE);
    nearcall_close(client);
    script_end(&script);
}

/* A full table, and calls that mix with those that are waited for at once. */
static void with_the_real_server(void)
{
    struct server server;
    nearcall_call_id calls[64], one_more;
    nearcall_reply reply;
    server_start(&server);
    nearcall_options options = NEARCALL_OPTIONS_INIT;
    options.calls_in_flight_max = 64;
    nearcall_client *client = test_open_with(server.address, &options);
    nearcall_function *echo = test_find(client, "echo");
    for (int round = 0; round < 20; round++) {
        for (int i = 0; i < 63; i++)
            calls[i] = send_one(client, echo);
        CHECK_CALL(client, nearcall_call(client, "echo", "now", 3, 0, &reply), NEARCALL_OK);
        calls[63] = send_one(client, echo);
        CHECK_CALL(client, nearcall_request(client, echo, NEARCALL_CODEC_RAW), NEARCALL_OK);
        CHECK_CALL(client, nearcall_request_send(client, 0, &one_more),
                   NEARCALL_E_RESOURCE_EXHAUSTED);
        CHECK_OUTCOME(client, NEARCALL_OUTCOME_NOT_EXECUTED);
        for (int i = 0; i < 64; i++) {
            CHECK_CALL(client, nearcall_wait(client, calls[63 - i], &reply), NEARCALL_OK);
            CHECK_INT(reply.bytes, 3);
        }
    }
    nearcall_close(client);
    server_stop(&server);
}

/* Both sides write more than the sockets hold: who writes must read meanwhile. */
static void large_both_ways(void)
{
    struct server server;
    nearcall_call_id calls[16];
    nearcall_reply reply;
    size_t bytes = 1 << 20;
    server_start(&server);
    nearcall_client *client = test_open(server.address, 0);
    nearcall_function *echo = test_find(client, "echo");
    for (int i = 0; i < 16; i++) {
        CHECK_CALL(client, nearcall_request(client, echo, NEARCALL_CODEC_RAW), NEARCALL_OK);
        void *room = nearcall_put_reserve(client, bytes);
        CHECK(room != NULL);
        memset(room, i, bytes);
        CHECK_CALL(client, nearcall_request_send(client, 20000, &calls[i]), NEARCALL_OK);
    }
    for (int i = 0; i < 16; i++) {
        CHECK_CALL(client, nearcall_wait(client, calls[i], &reply), NEARCALL_OK);
        CHECK_INT(reply.bytes, bytes);
        CHECK_INT(reply.data[0], i);
        CHECK_INT(reply.data[bytes - 1], i);
    }
    nearcall_close(client);
    server_stop(&server);
}

int main(void)
{
    test_begin();
    any_order();
    with_the_real_server();
    large_both_ways();
    return 0;
}
