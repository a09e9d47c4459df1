/* What a server must not do with descriptors, and what the caller makes of it. */
#include <unistd.h>

#include "script.h"

struct attack {
    const char *name;
    void (*play)(struct script *, const struct nc_frame *);
    int code;
    int outcome;
};

static const uint8_t one_file[] = {0xD4, 1, 0};

/* A reply that announces so many files. */
static size_t reply_to(const struct nc_frame *request, uint8_t announced, uint8_t *bytes)
{
    struct nc_frame reply = {.length = sizeof(one_file), .type = NC_REPLY, .codec = request->codec,
                             .descriptors = announced, .call_id = request->call_id,
                             .function_id = SCRIPT_FUNCTION_ID};
    nc_frame_encode(bytes, &reply);
    memcpy(bytes + NC_FRAME_HEADER_BYTES, one_file, sizeof(one_file));
    return NC_FRAME_HEADER_BYTES + sizeof(one_file);
}

static void none(struct script *script, const struct nc_frame *request)
{
    uint8_t bytes[64];
    script_send(script, bytes, reply_to(request, 1, bytes));
}

static void two(struct script *script, const struct nc_frame *request)
{
    uint8_t bytes[64];
    size_t count = reply_to(request, 1, bytes);
    script_send_files(script, bytes, count, 2);
}

static void unannounced(struct script *script, const struct nc_frame *request)
{
    uint8_t bytes[64];
    size_t count = reply_to(request, 0, bytes);
    script_send_files(script, bytes, count, 1);
}

static void in_the_middle(struct script *script, const struct nc_frame *request)
{
    uint8_t bytes[64];
    size_t count = reply_to(request, 1, bytes);
    script_send(script, bytes, 20);
    usleep(20000); /* so that it is read alone */
    script_send_files(script, bytes + 20, count - 20, 1);
}

static void too_many_announced(struct script *script, const struct nc_frame *request)
{
    uint8_t bytes[64];
    size_t count = reply_to(request, 17, bytes);
    script_send_files(script, bytes, count, 17);
}

static void more_than_there_is_room_for(struct script *script, const struct nc_frame *request)
{
    uint8_t bytes[64];
    size_t count = reply_to(request, 16, bytes);
    script_send_files(script, bytes, count, 60);
}

static void in_two_parts(struct script *script, const struct nc_frame *request)
{
    uint8_t bytes[64];
    size_t count = reply_to(request, 1, bytes);
    script_send_files(script, bytes, 5, 1);
    usleep(5000);
    script_send(script, bytes + 5, 10);
    script_send(script, bytes + 15, count - 15);
}

static const struct attack attacks[] = {
    {"none where one is announced", none, NEARCALL_E_INTERNAL,
     NEARCALL_OUTCOME_EXECUTED_RESULT_LOST},
    {"two where one is announced", two, NEARCALL_E_INTERNAL, NEARCALL_OUTCOME_EXECUTED_RESULT_LOST},
    {"one that is not announced", unannounced, NEARCALL_E_INTERNAL,
     NEARCALL_OUTCOME_EXECUTED_RESULT_LOST},
    {"in the middle", in_the_middle, NEARCALL_E_INTERNAL, NEARCALL_OUTCOME_EXECUTED_RESULT_LOST},
    {"too many announced", too_many_announced, NEARCALL_E_INTERNAL,
     NEARCALL_OUTCOME_EXECUTED_RESULT_LOST},
    {"truncated", more_than_there_is_room_for, NEARCALL_E_RESOURCE_EXHAUSTED,
     NEARCALL_OUTCOME_EXECUTED_RESULT_LOST},
    {"in two parts", in_two_parts, NEARCALL_OK, NEARCALL_OUTCOME_NONE},
};

static void play(struct script *script)
{
    const struct attack *attack = script->argument;
    struct nc_frame request;
    script_greet(script);
    script_expect(script, NC_REQUEST, &request);
    attack->play(script, &request);
    CHECK(script_read_end(script));
}

static void run(const struct attack *attack)
{
    struct script script;
    nearcall_options options = NEARCALL_OPTIONS_INIT;
    nearcall_reply reply;
    int before = test_open_descriptors();
    options.attempts_max = 1;
    script_start(&script, play, (void *)(uintptr_t)attack);
    script.features |= NC_FEATURE_DESCRIPTORS;
    nearcall_client *client = test_open_with(script.address, &options);
    int r = nearcall_call(client, "f", "x", 1, 5000, &reply);
    if (r != attack->code)
        fprintf(stderr, "%s\n", attack->name);
    CHECK_CALL(client, r, attack->code);
    CHECK_OUTCOME(client, attack->outcome);
    if (r == NEARCALL_OK)
        close(nearcall_take_file(client, 0));
    nearcall_close(client);
    script_end(&script);
    CHECK_INT(test_open_descriptors(), before);
}

int main(void)
{
    test_begin();
    for (size_t i = 0; i < sizeof(attacks) / sizeof(attacks[0]); i++)
        run(&attacks[i]);
    return 0;
}
