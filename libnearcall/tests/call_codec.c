/* Arguments that were encoded elsewhere: what the result is encoded in, and what is refused, over a connection
 * and through memory. */
#include "test.h"

static void expect(nearcall_client *client, const char *name, const char *arguments, const char *result)
{
    nearcall_reply reply;
    CHECK_CALL(client, nearcall_call_codec(client, name, NEARCALL_CODEC_JSON, arguments, strlen(arguments), 0, &reply),
               NEARCALL_OK);
    CHECK_INT(reply.codec, NEARCALL_CODEC_JSON);
    CHECK_INT(reply.bytes, strlen(result));
    CHECK(memcmp(reply.data, result, reply.bytes) == 0);
}

static void json(nearcall_client *client)
{
    expect(client, "add", "[1.5, 0.25]", "1.75");
    expect(client, "divmod", "[17, 5]", "[3,2]");
    expect(client, "greet", "[{\"name\": \"Ada\", \"age\": 36}]", "\"Hello, Ada, 36\"");
}

static void msgpack(nearcall_client *client)
{
    static const uint8_t arguments[] = {0x92, 17, 5};
    static const uint8_t result[] = {0x92, 3, 2};
    nearcall_reply reply;
    CHECK_CALL(client, nearcall_call_codec(client, "divmod", NEARCALL_CODEC_MSGPACK, arguments, sizeof(arguments), 0, &reply),
               NEARCALL_OK);
    CHECK_INT(reply.codec, NEARCALL_CODEC_MSGPACK);
    CHECK_INT(reply.bytes, sizeof(result));
    CHECK(memcmp(reply.data, result, sizeof(result)) == 0);
}

static void refused(nearcall_client *client, int codec, const char *arguments, int code)
{
    nearcall_reply reply;
    CHECK_CALL(client, nearcall_call_codec(client, "add", codec, arguments, strlen(arguments), 0, &reply), code);
    CHECK_OUTCOME(client, NEARCALL_OUTCOME_NOT_EXECUTED);
}

static void refusals(nearcall_client *client)
{
    refused(client, NEARCALL_CODEC_JSON, "[1", NEARCALL_E_INVALID_ARGUMENT);
    refused(client, NEARCALL_CODEC_JSON, "[1, \"two\"]", NEARCALL_E_INVALID_ARGUMENT);
    refused(client, NEARCALL_CODEC_JSON, "[1]", NEARCALL_E_INVALID_ARGUMENT);
    refused(client, NEARCALL_CODEC_JSON + 1, "[1, 2]", NEARCALL_E_MISUSE);
    refused(client, -1, "[1, 2]", NEARCALL_E_MISUSE);
}

int main(void)
{
    struct server server;
    test_begin();
    server_start(&server);
    nearcall_client *client = test_open(server.address, 0);
    for (int i = 0; i < 100; i++) { /* far enough for shared memory */
        json(client);
        msgpack(client);
    }
    refusals(client);
    json(client);
    nearcall_close(client);
    server_stop(&server);
    return 0;
}
