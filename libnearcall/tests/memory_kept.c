/* What a handle keeps: a giant reply or request is given back once calls are small
 * again, and memory grows with what arrived, not with what was announced. */

#include "handle/handle.h"
#include "script.h"

static void announce_much_send_little(struct script *script)
{
    struct nc_frame frame;
    uint8_t header[NC_FRAME_HEADER_BYTES];
    script_greet(script);
    script_expect(script, NC_REQUEST, &frame);
    struct nc_frame reply = {.length = 4 << 20, .type = NC_REPLY, .call_id = frame.call_id,
                             .function_id = SCRIPT_FUNCTION_ID};
    nc_frame_encode(header, &reply);
    script_send(script, header, sizeof(header));
    script_send(script, "little", 6);
    script_await(script);
}

static void memory_follows_what_arrived(void)
{
    struct script script;
    nearcall_reply reply;
    script_start(&script, announce_much_send_little, NULL);
    nearcall_client *client = test_open(script.address, 0);
    CHECK_CALL(client, nearcall_connect(client, 0), NEARCALL_OK);
    CHECK_CALL(client, nearcall_call(client, "f", NULL, 0, 500, &reply),
               NEARCALL_E_DEADLINE_EXCEEDED);
    CHECK_OUTCOME(client, NEARCALL_OUTCOME_EXECUTED_RESULT_LOST);
    CHECK(client->connection.in.capacity <= 65536);
    nearcall_close(client);
    script_signal(&script);
    script_end(&script);
}

static size_t kept(const nearcall_client *client)
{
    size_t bytes = client->connection.in.capacity;
    if (client->connection.out.capacity > bytes)
        bytes = client->connection.out.capacity;
    if (client->request.buffer.capacity > bytes)
        bytes = client->request.buffer.capacity;
    return client->lent.capacity > bytes ? client->lent.capacity : bytes;
}

static void giants_are_given_back(uint32_t flags)
{
    struct server server;
    nearcall_reply reply;
    nearcall_call_id call;
    server_start(&server);
    nearcall_client *client = test_open(server.address, flags);
    nearcall_function *echo = test_find(client, "echo");
    CHECK_CALL(client, nearcall_request(client, echo, NEARCALL_CODEC_RAW), NEARCALL_OK);
    memset(nearcall_put_reserve(client, 3 << 20), 1, 3 << 20);
    CHECK_CALL(client, nearcall_request_send(client, 20000, &call), NEARCALL_OK);
    CHECK_CALL(client, nearcall_wait(client, call, &reply), NEARCALL_OK);
    CHECK_INT(reply.bytes, 3 << 20);
    CHECK_CALL(client, nearcall_call(client, "echo", "s", 1, 20000, &reply), NEARCALL_OK);
    CHECK(reply.bytes == 1 && reply.data[0] == 's');
    CHECK(kept(client) <= NC_BUFFER_KEEP_BYTES);
    nearcall_close(client);
    server_stop(&server);
}

int main(void)
{
    test_begin();
    memory_follows_what_arrived();
    giants_are_given_back(0);
    giants_are_given_back(NEARCALL_NONBLOCKING);
    return 0;
}
