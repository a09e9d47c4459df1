/* Calls of which the kernel has nothing yet are given up, or expire, by thousands: what that takes
 * grows with their number only, and what others have sent arrives whole and in order. */
#include <poll.h>

#include "calls/calls.h"
#include "script.h"

#define MANY 4000
#define REQUEST_BYTES 1000
#define MIXED 1500
#define MIXED_BYTES_MAX 3000
#define READ_AT_ONCE 20

static size_t moved_bytes;

void *__real_memmove(void *to, const void *from, size_t bytes);
void *__wrap_memmove(void *to, const void *from, size_t bytes);
void *__wrap_memmove(void *to, const void *from, size_t bytes)
{
    moved_bytes += bytes;
    return __real_memmove(to, from, bytes);
}

/* A request says its number in each of its words. */
static nearcall_call_id begin(nearcall_client *client, nearcall_function *function, uint32_t number,
                              size_t bytes, int64_t timeout_ms)
{
    static uint32_t words[MIXED_BYTES_MAX / sizeof(uint32_t)];
    nearcall_call_id call;
    for (size_t i = 0; i < bytes / sizeof(*words); i++)
        words[i] = number;
    CHECK_CALL(client, nearcall_request(client, function, NEARCALL_CODEC_RAW), NEARCALL_OK);
    nearcall_put_raw(client, words, bytes);
    CHECK_CALL(client, nearcall_request_send(client, timeout_ms, &call), NEARCALL_OK);
    return call;
}

static void turn(nearcall_client *client, int64_t timeout_ms)
{
    struct pollfd watched = {.fd = nearcall_fd(client), .events = POLLIN};
    (void)poll(&watched, 1, (int)timeout_ms);
    CHECK(nearcall_process(client) >= 0);
}

static nearcall_client *open_for_many(const struct script *script)
{
    nearcall_options options = NEARCALL_OPTIONS_INIT;
    options.flags = NEARCALL_NONBLOCKING;
    options.calls_in_flight_max = MANY;
    return test_open_with(script->address, &options);
}

static void greet(struct script *script)
{
    struct nc_frame frame;
    script->calls_in_flight_max = MANY;
    script_greet(script);
    script_expect(script, NC_RESOLVE, &frame);
    script_reply(script, &frame, "\x80", 1);
}

/* ---- What it takes ---- */

static void reads_late(struct script *script)
{
    greet(script);
    script_await(script);
    script_serve(script);
}

static void give_up(nearcall_client *client, const nearcall_call_id *calls)
{
    for (uint32_t i = 0; i < MANY; i++)
        nearcall_cancel(client, calls[i]);
}

static void give_up_here_and_there(nearcall_client *client, const nearcall_call_id *calls)
{
    for (uint32_t i = 0; i < MANY; i++)
        nearcall_cancel(client, calls[i * 1237 % MANY]);
}

static void let_expire(nearcall_client *client, const nearcall_call_id *calls)
{
    nearcall_call_id finished;
    (void)calls;
    for (uint32_t count = 0; count < MANY;) {
        turn(client, nearcall_timeout_ms(client));
        for (; (finished = nearcall_next_finished(client)) != 0; count++) {
            CHECK_CALL(client, nearcall_poll(client, finished, NULL), NEARCALL_E_DEADLINE_EXCEEDED);
            bool was_sent = strstr(nearcall_error_message(client), "before the request was sent") == NULL;
            CHECK_OUTCOME(client, was_sent ? NEARCALL_OUTCOME_UNKNOWN : NEARCALL_OUTCOME_NOT_EXECUTED);
        }
    }
}

static void many(void (*end)(nearcall_client *, const nearcall_call_id *), int64_t timeout_ms)
{
    static nearcall_call_id calls[MANY];
    struct script script;
    nearcall_reply reply;
    script_start(&script, reads_late, NULL);
    nearcall_client *client = open_for_many(&script);
    nearcall_function *function = test_find(client, "f");
    for (uint32_t i = 0; i < MANY; i++)
        calls[i] = begin(client, function, i, REQUEST_BYTES, timeout_ms);
    CHECK(nearcall_unsent_bytes(client) > MANY / 2 * REQUEST_BYTES);
    moved_bytes = 0;
    end(client, calls);
    CHECK(moved_bytes <= 2 * (size_t)MANY * (REQUEST_BYTES + NC_FRAME_HEADER_BYTES));
    CHECK(nearcall_unsent_bytes(client) < MANY / 2 * REQUEST_BYTES);
    CHECK(nc_output_bytes(&client->connection) <= 2 * nearcall_unsent_bytes(client));
    script_signal(&script);
    CHECK_CALL(client, nearcall_call(client, "f", "next", 4, 20000, &reply), NEARCALL_OK);
    CHECK(reply.bytes == 4 && memcmp(reply.data, "next", 4) == 0);
    nearcall_close(client);
    script_end(&script);
}

/* ---- What becomes of others ---- */

enum fate { UNKNOWN, TO_BE_ANSWERED, TAKEN_BACK, CANCELLED, ANSWERED };

struct mixed {
    nearcall_client *client;
    nearcall_function *function;
    nearcall_call_id calls[MIXED];
    enum fate fates[MIXED];
    bool arrived[MIXED]; /* the script's, until that has ended */
    uint32_t begun;
    uint32_t open;
    uint32_t draw;
};

static uint32_t draw(struct mixed *mixed, uint32_t below)
{
    mixed->draw = mixed->draw * 1664525 + 1013904223;
    return (mixed->draw >> 8) % below;
}

static uint32_t number_of(const uint8_t *payload, size_t bytes)
{
    uint32_t number, word;
    CHECK(bytes >= sizeof(number));
    memcpy(&number, payload, sizeof(number));
    for (size_t at = 0; at < bytes; at += sizeof(word)) {
        memcpy(&word, payload + at, sizeof(word));
        CHECK_INT(word, number);
    }
    return number;
}

static void arrives(struct script *script, const struct nc_frame *frame, const uint8_t *payload, int64_t *last)
{
    struct mixed *mixed = script->argument;
    const uint8_t *body = payload + frame->extension_bytes;
    struct nc_frame pong = {.type = NC_PONG, .length = frame->length};
    if (frame->type == NC_PING) {
        script_send_frame(script, &pong, payload);
    } else if (frame->type == NC_REQUEST) {
        uint32_t number = number_of(body, frame->length - frame->extension_bytes);
        CHECK((int64_t)number > *last && number < MIXED);
        *last = number;
        mixed->arrived[number] = true;
        script_reply(script, frame, body, sizeof(number));
    } else {
        CHECK_INT(frame->type, NC_CANCEL);
    }
}

/* By a few frames at a time, so that much is given up while others arrive. */
static void reads_by_pieces(struct script *script)
{
    static uint8_t payload[SCRIPT_PAYLOAD_MAX];
    struct nc_frame frame;
    int64_t last = -1;
    greet(script);
    for (int count = 0; script_try_read(script, &frame, payload); count++) {
        if (count % READ_AT_ONCE == 0 && count < MIXED / 4)
            script_await(script);
        arrives(script, &frame, payload, &last);
    }
}

static void begin_some(struct mixed *mixed)
{
    for (uint32_t some = draw(mixed, 60); some > 0 && mixed->begun < MIXED; some--) {
        size_t bytes = sizeof(uint32_t) * (1 + draw(mixed, MIXED_BYTES_MAX / sizeof(uint32_t)));
        mixed->calls[mixed->begun] = begin(mixed->client, mixed->function, mixed->begun, bytes, 60000);
        mixed->fates[mixed->begun++] = TO_BE_ANSWERED;
        mixed->open++;
    }
}

static void give_some_up(struct mixed *mixed)
{
    for (uint32_t some = draw(mixed, 60); some > 0 && mixed->begun; some--) {
        uint32_t number = draw(mixed, mixed->begun);
        const struct nc_call *call = nc_call_by_id(mixed->client, mixed->calls[number]);
        if (mixed->fates[number] != TO_BE_ANSWERED || call->state != NC_CALL_SENT)
            continue;
        mixed->fates[number] = nc_frame_is_untouched(mixed->client, call) ? TAKEN_BACK : CANCELLED;
        nearcall_cancel(mixed->client, mixed->calls[number]);
        mixed->open--;
    }
}

static void fetch(struct mixed *mixed)
{
    nearcall_call_id finished;
    nearcall_reply reply;
    while ((finished = nearcall_next_finished(mixed->client)) != 0) {
        CHECK_CALL(mixed->client, nearcall_poll(mixed->client, finished, &reply), NEARCALL_OK);
        uint32_t number = number_of(reply.data, reply.bytes);
        CHECK(mixed->calls[number] == finished);
        CHECK_INT(mixed->fates[number], TO_BE_ANSWERED);
        mixed->fates[number] = ANSWERED;
        mixed->open--;
    }
}

static void expect_fates(const struct mixed *mixed)
{
    unsigned taken_back = 0, answered = 0;
    for (uint32_t i = 0; i < MIXED; i++) {
        taken_back += mixed->fates[i] == TAKEN_BACK;
        answered += mixed->fates[i] == ANSWERED;
        CHECK(mixed->fates[i] == ANSWERED || mixed->fates[i] == TAKEN_BACK || mixed->fates[i] == CANCELLED);
        CHECK_INT(mixed->arrived[i], mixed->fates[i] != TAKEN_BACK);
    }
    CHECK(taken_back > MIXED / 20 && answered > MIXED / 20);
}

static void others_arrive(uint32_t seed)
{
    static struct mixed mixed;
    struct script script;
    mixed = (struct mixed){.draw = seed};
    script_start(&script, reads_by_pieces, &mixed);
    mixed.client = open_for_many(&script);
    mixed.function = test_find(mixed.client, "f");
    for (int round = 0; mixed.begun < MIXED || mixed.open > 0; round++) {
        begin_some(&mixed);
        if (mixed.begun < MIXED)
            give_some_up(&mixed);
        if (mixed.begun == MIXED || round % 3 == 0)
            script_signal(&script);
        turn(mixed.client, mixed.begun < MIXED ? 0 : 10);
        fetch(&mixed);
    }
    CHECK_CALL(mixed.client, nearcall_ping(mixed.client, 20000, NULL), NEARCALL_OK);
    nearcall_close(mixed.client);
    script_end(&script);
    expect_fates(&mixed);
}

int main(void)
{
    test_begin();
    bool is_slow = test_slowness() > 1; /* what is counted is counted as well without valgrind */
    if (!is_slow) {
        many(give_up, 60000);
        many(give_up_here_and_there, 60000);
        many(let_expire, 500);
    }
    for (uint32_t seed = 1; seed <= (is_slow ? 2 : 10); seed++)
        others_arrive(seed);
    return 0;
}
