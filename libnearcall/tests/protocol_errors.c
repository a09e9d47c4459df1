/* Whatever a server sends that it may not: the call ends with INTERNAL, outcome
 * unknown, or, if it was its reply, executed and the result lost; the connection is closed at once, and the next call opens another. */
#include "script.h"

struct lie {
    const char *field; /* as the message names it */
    struct nc_frame frame;
    const char *payload;
};

#define REPLY_OF_1(...) {.type = NC_REPLY, .call_id = 1, .function_id = 7, __VA_ARGS__}

static const struct lie lies[] = {
    {"type", {.type = 0}, ""},
    {"type", {.type = NC_REQUEST, .call_id = 1}, ""},
    {"type", {.type = NC_CANCEL, .call_id = 1}, ""},
    {"type", {.type = NC_RESOLVE, .call_id = 1, .length = 1}, "f"},
    {"type", {.type = NC_STREAM_DATA, .call_id = 1}, ""},
    {"type", {.type = NC_STREAM_END, .call_id = 1}, ""},
    {"type", {.type = NC_CREDIT, .call_id = 1}, ""},
    {"type", {.type = 12}, ""},
    {"type", {.type = 255}, ""},
    {"flags", REPLY_OF_1(.flags = 1), ""},
    {"flags", REPLY_OF_1(.flags = 128), ""},
    {"codec", REPLY_OF_1(.codec = 1), ""},
    {"codec", REPLY_OF_1(.codec = 200), ""},
    {"fds", REPLY_OF_1(.descriptors = 1), ""},
    {"deadline", REPLY_OF_1(.deadline_ms = 1), ""},
    {"status", REPLY_OF_1(.status = 1), ""},
    {"call id", {.type = NC_REPLY, .function_id = 7}, ""},
    {"call id", {.type = NC_REPLY, .function_id = 7, .call_id = 2}, ""},
    {"call id", {.type = NC_REPLY, .function_id = 7, .call_id = UINT64_MAX}, ""},
    {"function id", {.type = NC_REPLY, .call_id = 1}, ""},
    {"extension bytes", REPLY_OF_1(.extension_bytes = 1), ""},
    {"extension bytes", REPLY_OF_1(.extension_bytes = UINT32_MAX, .length = 4), "abcd"},
    {"extension header bytes", REPLY_OF_1(.extension_bytes = 3, .length = 3), "abc"},
    {"extension bytes", REPLY_OF_1(.extension_bytes = 5, .length = 5), "\1\0\2\0a"},
    {"length", {.type = NC_PING, .length = UINT32_MAX}, NULL},
    {"payload bytes of a PING frame is 65 (0x41), allowed: at most 64 (limit ping_bytes_max, which is fixed)",
     {.type = NC_PING, .length = 65}, NULL},
    {"extension bytes of a REPLY frame is 4097 (0x1001), allowed: at most 4096 (limit extension_bytes_max, which is fixed)",
     REPLY_OF_1(.extension_bytes = 4097, .length = 5000), NULL},
    {"(option frame_bytes_max, at most 16777215)", {.type = NC_PING, .length = UINT32_MAX}, NULL},
    {"call id", {.type = NC_PING, .call_id = 1}, ""},
    {"payload", {.type = NC_PONG}, ""},
    {"payload", {.type = NC_PONG, .length = 8}, "\1\0\0\0\0\0\0\0"},
    {"status", {.type = NC_ERROR, .call_id = 1, .codec = 1, .length = 3}, "\x92\xa0\x90"},
    {"status", {.type = NC_ERROR, .call_id = 1, .codec = 1, .length = 3, .status = 0x10001},
     "\x92\xa0\x90"},
    {"codec", {.type = NC_ERROR, .call_id = 1, .length = 3, .status = 1}, "\x92\xa0\x90"},
    {"payload bytes", {.type = NC_ERROR, .call_id = 1, .codec = 1, .status = 1}, ""},
    {"payload", {.type = NC_ERROR, .call_id = 1, .codec = 1, .length = 2, .status = 1}, "\x92\xa0"},
    {"payload", {.type = NC_ERROR, .call_id = 1, .codec = 1, .length = 4, .status = 1},
     "\x92\xa0\x90\x90"},
    {"payload", {.type = NC_ERROR, .call_id = 1, .codec = 1, .length = 3, .status = 1},
     "\x92\x01\x90"},
    {"payload", {.type = NC_ERROR, .call_id = 1, .codec = 1, .length = 4, .status = 1},
     "\x92\xa0\x91\x01"},
    {"payload", {.type = NC_ERROR, .call_id = 1, .codec = 1, .length = 4, .status = 1},
     "\x92\xa1\xff\x90"},
    {"call id", {.type = NC_ERROR, .call_id = 9, .codec = 1, .length = 3, .status = 1},
     "\x92\xa0\x90"},
    {"codec", {.type = NC_DRAIN, .codec = 1}, ""},
};

static void play(struct script *script)
{
    const struct lie *lie = script->argument;
    struct nc_frame frame;
    uint8_t header[NC_FRAME_HEADER_BYTES];
    script_greet(script);
    script_expect(script, NC_REQUEST, &frame);
    nc_frame_encode(header, &lie->frame);
    script_send(script, header, sizeof(header));
    if (lie->payload)
        script_send(script, lie->payload, lie->frame.length);
    CHECK(script_read_end(script));
    script_greet(script);
    script_serve(script);
}

static void check(const struct lie *lie)
{
    struct script script;
    nearcall_reply reply;
    script_start(&script, play, (void *)(uintptr_t)lie);
    nearcall_client *client = test_open(script.address, 0);
    CHECK_CALL(client, nearcall_call(client, "f", "x", 1, 5000, &reply), NEARCALL_E_INTERNAL);
    CHECK_OUTCOME(client, lie->frame.type == NC_REPLY && lie->frame.call_id == 1
                              ? NEARCALL_OUTCOME_EXECUTED_RESULT_LOST
                              : NEARCALL_OUTCOME_UNKNOWN);
    if (!strstr(nearcall_error_message(client), lie->field))
        fprintf(stderr, "%s\n", nearcall_error_message(client));
    CHECK(strstr(nearcall_error_message(client), lie->field) != NULL);
    CHECK_INT(nearcall_transport(client)[0], 0);
    CHECK_CALL(client, nearcall_call(client, "f", "again", 5, 5000, &reply), NEARCALL_OK);
    CHECK_INT(reply.bytes, 5);
    nearcall_close(client);
    script_end(&script);
}

/* A welcome with one field changed. */
struct false_welcome {
    size_t offset;
    uint32_t value;
    const char *field;
};

static const struct false_welcome welcomes[] = {
    {0, 0x48434E89, "magic"},    {8, 63, "total bytes"},      {8, 4097, "total bytes"},
    {12, 2, "version"},          {12, 0x00010001, "status"},  {12, 0, "status"},
    {16, 2, "features"},         {24, 0, "server instance"},  {36, 65535, "largest frame"},
};

static void play_welcome(struct script *script)
{
    const struct false_welcome *lie = script->argument;
    uint8_t welcome[NC_HELLO_HEADER_BYTES] = "\x89NCW\r\n\x1a\n";
    script_accept(script);
    script_read_hello(script);
    nc_put_u32(welcome + 8, sizeof(welcome));
    nc_put_u32(welcome + 12, 1);
    nc_put_u32(welcome + 24, 5);
    nc_put_u32(welcome + 36, 65536);
    nc_put_u32(welcome + lie->offset, lie->value);
    script_send(script, welcome, sizeof(welcome));
    CHECK(script_read_end(script));
}

static void check_welcome(const struct false_welcome *lie)
{
    struct script script;
    nearcall_reply reply;
    script_start(&script, play_welcome, (void *)(uintptr_t)lie);
    nearcall_client *client = test_open(script.address, 0);
    CHECK_CALL(client, nearcall_call(client, "f", "x", 1, 5000, &reply), NEARCALL_E_INTERNAL);
    CHECK_OUTCOME(client, NEARCALL_OUTCOME_NOT_EXECUTED);
    CHECK(strstr(nearcall_error_message(client), lie->field) != NULL);
    nearcall_close(client);
    script_end(&script);
}

static void reply_with_required_extension(struct script *script)
{
    struct nc_frame frame;
    script_greet(script);
    script_expect(script, NC_REQUEST, &frame);
    struct nc_frame reply = {.length = 4, .type = NC_REPLY, .call_id = frame.call_id,
                             .function_id = SCRIPT_FUNCTION_ID, .extension_bytes = 4};
    script_send_frame(script, &reply, "\xff\xff\0\0");
    script_serve(script);
}

static void a_required_extension_costs_the_call_only(void)
{
    struct script script;
    nearcall_reply reply;
    script_start(&script, reply_with_required_extension, NULL);
    nearcall_client *client = test_open(script.address, 0);
    CHECK_CALL(client, nearcall_call(client, "f", "x", 1, 5000, &reply), NEARCALL_E_UNIMPLEMENTED);
    CHECK_OUTCOME(client, NEARCALL_OUTCOME_EXECUTED_RESULT_LOST);
    CHECK_CALL(client, nearcall_call(client, "f", "x", 1, 5000, &reply), NEARCALL_OK);
    nearcall_close(client);
    script_end(&script);
}

int main(void)
{
    test_begin();
    for (size_t i = 0; i < sizeof(lies) / sizeof(lies[0]); i++)
        check(&lies[i]);
    for (size_t i = 0; i < sizeof(welcomes) / sizeof(welcomes[0]); i++)
        check_welcome(&welcomes[i]);
    a_required_extension_costs_the_call_only();
    return 0;
}
