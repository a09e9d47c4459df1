#include "asked_test.h"

#include <poll.h>

/* ---- The server's side ---- */

void asked_greet(struct script *script, uint8_t key)
{
    script->features = NC_FEATURE_ASKS;
    script->key = key;
    script_greet(script);
}

void asked_lose(struct script *script, uint8_t key, unsigned count, uint64_t *ids)
{
    static const char description[] = "\x81\xa4name\xa1" "f";
    struct nc_frame frame;
    uint8_t payload[SCRIPT_PAYLOAD_MAX];
    asked_greet(script, key);
    for (unsigned taken = 0; taken < count;) {
        script_read(script, &frame, payload);
        if (frame.type == NC_RESOLVE)
            script_reply(script, &frame, description, sizeof(description) - 1);
        else
            ids[taken++] = frame.call_id;
    }
    script_hang_up(script);
}

void asked_read(struct script *script, struct question *question)
{
    uint8_t payload[SCRIPT_PAYLOAD_MAX];
    struct nc_frame frame;
    script_read(script, &frame, payload);
    CHECK_INT(frame.type, NC_ASK);
    question->id = frame.call_id;
    question->deadline_ms = frame.deadline_ms;
    question->key = payload[0];
    question->count = (frame.length - NC_CONNECTION_KEY_BYTES) / NC_ASKED_CALL_BYTES;
    CHECK(frame.deadline_ms != 0);
    CHECK(question->count > 0 && question->count <= NC_ASKED_CALLS_MAX);
    for (unsigned i = 0; i < question->count; i++)
        question->asked[i] = nc_get_u64(payload + NC_CONNECTION_KEY_BYTES + i * NC_ASKED_CALL_BYTES);
}

void asked_expect(struct script *script, struct question *question, const uint64_t *ids, unsigned count)
{
    asked_read(script, question);
    CHECK_INT(question->key, KEY_OF_LOST);
    CHECK_INT(question->count, count);
    for (unsigned i = 0; i < count; i++)
        CHECK(question->asked[i] == ids[i]);
}

void asked_answer(struct script *script, const struct question *question, const uint8_t *stages)
{
    struct nc_frame reply = {.length = question->count, .type = NC_REPLY, .call_id = question->id};
    script_send_frame(script, &reply, stages);
}

/* ---- The program's side ---- */

void loop_start(struct loop *loop, struct script *script, void (*play)(struct script *), void *argument,
                const nearcall_options *given)
{
    nearcall_options options = NEARCALL_OPTIONS_INIT;
    if (given)
        options = *given;
    options.flags |= NEARCALL_NONBLOCKING;
    memset(loop, 0, sizeof(*loop));
    script_start(script, play, argument);
    loop->client = test_open_with(script->address, &options);
}

void loop_end(struct loop *loop, struct script *script)
{
    nearcall_close(loop->client);
    script_end(script);
}

void loop_begin(struct loop *loop, unsigned from, unsigned count, int64_t timeout_ms)
{
    if (!loop->function)
        loop->function = test_find(loop->client, "f");
    for (unsigned i = from; i < from + count; i++) {
        CHECK_CALL(loop->client, nearcall_request(loop->client, loop->function, NEARCALL_CODEC_RAW), NEARCALL_OK);
        CHECK_CALL(loop->client, nearcall_request_send(loop->client, timeout_ms, &loop->ids[i]), NEARCALL_OK);
    }
}

static void fetch(struct loop *loop, nearcall_call_id id)
{
    nearcall_reply reply;
    int r = nearcall_poll(loop->client, id, &reply);
    unsigned i = 0;
    while (i < CALLS_MAX && loop->ids[i] != id)
        i++;
    CHECK(i < CALLS_MAX);
    CHECK(r == NEARCALL_OK || r == NEARCALL_E_UNAVAILABLE);
    loop->outcomes[i] = nearcall_error_outcome(loop->client);
    snprintf(loop->text, sizeof(loop->text), "%s", nearcall_error_message(loop->client));
    loop->order[loop->finished++] = id;
}

void loop_fetch(struct loop *loop)
{
    for (nearcall_call_id id; (id = nearcall_next_finished(loop->client)) != 0;)
        fetch(loop, id);
}

void loop_turn(struct loop *loop)
{
    struct pollfd watched = {nearcall_fd(loop->client), (short)nearcall_events(loop->client), 0};
    poll(&watched, 1, (int)nearcall_timeout_ms(loop->client));
    loop->losses += nearcall_process(loop->client) < 0;
    loop_fetch(loop);
}

void loop_until(struct loop *loop, unsigned finished)
{
    while (loop->finished < finished)
        loop_turn(loop);
}

void loop_until_lost(struct loop *loop, unsigned losses)
{
    while (loop->losses < losses)
        loop_turn(loop);
}
