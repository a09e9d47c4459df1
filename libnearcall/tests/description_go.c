/* A server that is replaced by one that declares its functions otherwise: no call runs
 * otherwise than its caller meant, over the socket and through shared memory. */
#include "test.h"

#define CALLS_FOR_MEMORY 64

/* Puts (src, dst) as the program was written for, or as the description has it now. */
static void request_transfer(nearcall_client *client, nearcall_function *function, bool swapped)
{
    CHECK_CALL(client, nearcall_request(client, function, NEARCALL_CODEC_MSGPACK), NEARCALL_OK);
    nearcall_put_array(client, 2);
    nearcall_put_string(client, swapped ? "bob" : "alice", swapped ? 3 : 5);
    nearcall_put_string(client, swapped ? "alice" : "bob", swapped ? 5 : 3);
}

static void check_text(const nearcall_reply *reply, const char *expected)
{
    nearcall_reader reader = {reply->data, reply->data + reply->bytes};
    nearcall_value value;
    CHECK_INT(nearcall_read(&reader, &value), NEARCALL_OK);
    CHECK_INT(value.type, NEARCALL_STRING);
    CHECK_INT(value.count, strlen(expected));
    CHECK(memcmp(value.as.data, expected, value.count) == 0);
}

static void transfer(nearcall_client *client, nearcall_function *function, bool swapped)
{
    nearcall_reply reply;
    request_transfer(client, function, swapped);
    CHECK_CALL(client, nearcall_request_call(client, 0, &reply), NEARCALL_OK);
    check_text(&reply, "alice to bob");
}

static void check_refused(nearcall_client *client, int code)
{
    CHECK_INT(-nearcall_error_code(client), code);
    CHECK_OUTCOME(client, NEARCALL_OUTCOME_NOT_EXECUTED);
}

/* What has run on the server so far: that many things. */
static void check_history(nearcall_client *client, uint32_t expected)
{
    nearcall_function *history = test_find(client, "history");
    nearcall_reply reply;
    nearcall_value value;
    CHECK_CALL(client, nearcall_request(client, history, NEARCALL_CODEC_MSGPACK), NEARCALL_OK);
    nearcall_put_array(client, 0);
    CHECK_CALL(client, nearcall_request_call(client, 0, &reply), NEARCALL_OK);
    nearcall_reader reader = {reply.data, reply.data + reply.bytes};
    CHECK_INT(nearcall_read(&reader, &value), NEARCALL_OK);
    CHECK_INT(value.count, expected);
}

static void warm_up(nearcall_client *client, nearcall_function *function, const char *transport)
{
    for (int i = 0; i < CALLS_FOR_MEMORY; i++)
        transfer(client, function, false);
    CHECK(strcmp(nearcall_transport(client), transport) == 0);
}

/* The first call after the server was replaced, and the one by its own description. */
static void test_changed(uint32_t flags, const char *transport, bool pipelined)
{
    struct server server;
    nearcall_call_id call;
    nearcall_reply reply;
    server_start_generation(&server, "1");
    nearcall_client *client = test_open(server.address, flags);
    nearcall_function *function = test_find(client, "transfer");
    nearcall_function *lost = test_find(client, "lost");
    warm_up(client, function, transport);
    server_replace(&server, "2");

    request_transfer(client, function, false);
    if (pipelined) {
        CHECK_CALL(client, nearcall_request_send(client, 0, &call), NEARCALL_OK);
        CHECK_CALL(client, nearcall_wait(client, call, &reply), NEARCALL_E_ABORTED);
    } else {
        CHECK_CALL(client, nearcall_request_call(client, 0, &reply), NEARCALL_E_ABORTED);
    }
    check_refused(client, NEARCALL_E_ABORTED);
    check_history(client, 0);
    uint32_t revision = nearcall_function_revision(function);
    CHECK(test_find(client, "transfer") == function);
    CHECK(nearcall_function_revision(function) > revision);
    transfer(client, function, true);
    check_history(client, 1);

    CHECK_CALL(client, nearcall_request(client, lost, NEARCALL_CODEC_MSGPACK), NEARCALL_OK);
    nearcall_put_array(client, 0);
    CHECK_CALL(client, nearcall_request_call(client, 0, &reply), NEARCALL_E_UNIMPLEMENTED);
    check_refused(client, NEARCALL_E_UNIMPLEMENTED);
    nearcall_close(client);
    server_stop(&server);
}

/* Another function more is no reason to refuse. */
static void test_grown(void)
{
    struct server server;
    server_start_generation(&server, "1");
    nearcall_client *client = test_open(server.address, 0);
    nearcall_function *function = test_find(client, "transfer");
    transfer(client, function, false);
    server_replace(&server, "3");
    transfer(client, function, false);
    CHECK_INT(nearcall_function_revision(function), 1);
    nearcall_close(client);
    server_stop(&server);
}

int main(void)
{
    test_begin();
    test_changed(NEARCALL_NO_SHARED_MEMORY, "unix socket", false);
    test_changed(NEARCALL_NO_SHARED_MEMORY, "unix socket", true);
    test_changed(0, "shared memory", false);
    test_changed(0, "shared memory", true);
    test_grown();
    return 0;
}
