/* Calls that were begun, and of which the server is asked: further losses meanwhile, and what the program does to its
 * handle. */
#include "asked_test.h"

/* ---- Further losses ---- */

static void lose_the_question(struct script *script)
{
    static const uint8_t stage = FINISHED;
    struct question question;
    uint64_t id;
    asked_lose(script, KEY_OF_LOST, 1, &id);
    asked_greet(script, KEY_OF_NEXT);
    asked_expect(script, &question, &id, 1);
    script_hang_up(script);
    script_accept(script); /* which no call waits for: its end is no news */
    script_read_hello(script);
    script_hang_up(script);
    asked_greet(script, KEY_OF_NEXT);
    asked_expect(script, &question, &id, 1);
    asked_answer(script, &question, &stage);
    script_serve(script);
}

static void asked_until_there_is_an_answer(void)
{
    struct script script;
    struct loop loop;
    loop_start(&loop, &script, lose_the_question, NULL, NULL);
    loop_begin(&loop, 0, 1, TIMEOUT_MS);
    loop_until(&loop, 1);
    CHECK_INT(loop.outcomes[0], NEARCALL_OUTCOME_EXECUTED_RESULT_LOST);
    CHECK(strstr(loop.text, "before it welcomed it") == NULL);
    CHECK_INT(loop.losses, 2); /* of connections that stood */
    loop_end(&loop, &script);
}

static void drain_before_the_answer(struct script *script)
{
    static const uint8_t stage = FINISHED;
    struct question question;
    uint64_t id;
    asked_lose(script, KEY_OF_LOST, 1, &id);
    asked_greet(script, KEY_OF_NEXT);
    asked_expect(script, &question, &id, 1);
    script_drain(script, 0);
    asked_answer(script, &question, &stage);
    CHECK(script_read_end(script));
}

/* A server that stops answers questions that it has, whatever it says of calls. */
static void answered_by_a_server_that_stops(void)
{
    struct script script;
    struct loop loop;
    loop_start(&loop, &script, drain_before_the_answer, NULL, NULL);
    loop_begin(&loop, 0, 1, TIMEOUT_MS);
    loop_until(&loop, 1);
    CHECK_INT(loop.outcomes[0], NEARCALL_OUTCOME_EXECUTED_RESULT_LOST);
    loop_end(&loop, &script);
}

/* Each with one call, of which the server was asked in vain or not yet. */
#define LOSSES (NC_LOST_MAX + 1)

static void lose_one_after_the_other(struct script *script)
{
    static const uint8_t stage = FINISHED;
    bool is_asked[LOSSES] = {false};
    struct question question;
    for (uint8_t i = 0; i < LOSSES; i++) {
        uint8_t payload[SCRIPT_PAYLOAD_MAX];
        struct nc_frame frame;
        asked_greet(script, (uint8_t)(KEY_OF_LOST + i));
        for (frame.type = 0; frame.type != NC_REQUEST;) {
            script_read(script, &frame, payload);
            if (frame.type == NC_RESOLVE)
                script_reply(script, &frame, "\x81\xa4name\xa1" "f", 7);
        }
        script_hang_up(script);
    }
    asked_greet(script, KEY_OF_LOST + LOSSES);
    for (unsigned i = 0; i < NC_LOST_MAX; i++) {
        asked_read(script, &question);
        is_asked[question.key - KEY_OF_LOST] = true;
        asked_answer(script, &question, &stage);
    }
    CHECK(!is_asked[0]);
    for (unsigned i = 1; i < LOSSES; i++)
        CHECK(is_asked[i]);
    script_serve(script);
}

static void of_so_many_losses_at_most(void)
{
    struct script script;
    struct loop loop;
    loop_start(&loop, &script, lose_one_after_the_other, NULL, NULL);
    for (unsigned i = 0; i < LOSSES; i++) {
        loop_begin(&loop, i, 1, TIMEOUT_MS);
        loop_until_lost(&loop, i + 1);
    }
    loop_until(&loop, LOSSES);
    CHECK(loop.order[0] == loop.ids[0]);
    CHECK_INT(loop.outcomes[0], NEARCALL_OUTCOME_UNKNOWN);
    for (unsigned i = 1; i < LOSSES; i++)
        CHECK_INT(loop.outcomes[i], NEARCALL_OUTCOME_EXECUTED_RESULT_LOST);
    CHECK_INT(loop.losses, LOSSES);
    loop_end(&loop, &script);
}

/* ---- The handle ---- */

static void hold_the_answer(struct script *script)
{
    static const uint8_t stages[] = {FINISHED, FINISHED};
    struct question question;
    uint64_t ids[2];
    asked_lose(script, KEY_OF_LOST, 2, ids);
    asked_greet(script, KEY_OF_NEXT);
    asked_expect(script, &question, ids, 2);
    script_await(script);
    asked_answer(script, &question, stages);
    script_serve(script);
}

/* A handle that has as many calls as it may can ask all the same, and the question counts for nobody. */
static void a_full_handle_asks(void)
{
    struct script script;
    struct loop loop;
    nearcall_options options = NEARCALL_OPTIONS_INIT;
    options.calls_in_flight_max = 2;
    loop_start(&loop, &script, hold_the_answer, NULL, &options);
    loop_begin(&loop, 0, 2, TIMEOUT_MS);
    loop_until_lost(&loop, 1);
    CHECK_CALL(loop.client, nearcall_request(loop.client, loop.function, NEARCALL_CODEC_RAW), NEARCALL_OK);
    CHECK_CALL(loop.client, nearcall_request_send(loop.client, TIMEOUT_MS, &loop.ids[2]), NEARCALL_E_RESOURCE_EXHAUSTED);
    CHECK(strstr(nearcall_error_message(loop.client), "2 calls of this handle") != NULL);
    nearcall_cancel(loop.client, loop.ids[0]);
    loop_begin(&loop, 2, 1, TIMEOUT_MS);
    script_signal(&script);
    loop_until(&loop, 2);
    CHECK_INT(loop.outcomes[1], NEARCALL_OUTCOME_EXECUTED_RESULT_LOST);
    CHECK_INT(loop.outcomes[2], NEARCALL_OUTCOME_NONE);
    loop_end(&loop, &script);
}

static void given_up(void)
{
    struct script script;
    struct loop loop;
    loop_start(&loop, &script, hold_the_answer, NULL, NULL);
    loop_begin(&loop, 0, 2, TIMEOUT_MS);
    loop_until_lost(&loop, 1);
    while (strcmp(nearcall_transport(loop.client), "") == 0)
        loop_turn(&loop);
    nearcall_cancel(loop.client, loop.ids[0]);
    nearcall_cancel(loop.client, loop.ids[1]);
    script_signal(&script);
    loop_begin(&loop, 2, 1, TIMEOUT_MS);
    loop_until(&loop, 1);
    CHECK(loop.order[0] == loop.ids[2]);
    loop_end(&loop, &script);
}

/* Nobody welcomes the connection that asks. */
static void lose_and_leave(struct script *script)
{
    uint64_t ids[2];
    asked_lose(script, KEY_OF_LOST, 2, ids);
}

static void closed_meanwhile(void)
{
    struct script script;
    struct loop loop;
    loop_start(&loop, &script, lose_and_leave, NULL, NULL);
    loop_begin(&loop, 0, 2, TIMEOUT_MS);
    loop_until_lost(&loop, 1);
    CHECK_INT(loop.finished, 0);
    loop_end(&loop, &script);
}

static void serve_twice(struct script *script)
{
    asked_greet(script, KEY_OF_LOST);
    script_serve(script);
    asked_greet(script, KEY_OF_NEXT);
    script_serve(script);
}

/* A program that drops the connection wants its calls to end. */
static void disconnected_on_purpose(void)
{
    struct script script;
    struct loop loop;
    loop_start(&loop, &script, serve_twice, NULL, NULL);
    loop_begin(&loop, 0, 2, TIMEOUT_MS);
    nearcall_disconnect(loop.client);
    loop_fetch(&loop);
    CHECK_INT(loop.finished, 2);
    CHECK(strstr(loop.text, "dropped by this program") != NULL);
    loop_begin(&loop, 2, 1, TIMEOUT_MS);
    loop_until(&loop, 3);
    loop_end(&loop, &script);
}

static void disconnected_meanwhile(void)
{
    struct script script;
    struct loop loop;
    loop_start(&loop, &script, lose_and_leave, NULL, NULL);
    loop_begin(&loop, 0, 2, TIMEOUT_MS);
    loop_until_lost(&loop, 1);
    nearcall_disconnect(loop.client);
    loop_fetch(&loop);
    CHECK_INT(loop.finished, 2);
    CHECK_INT(loop.outcomes[0], NEARCALL_OUTCOME_UNKNOWN);
    CHECK_INT(nearcall_timeout_ms(loop.client), -1);
    loop_end(&loop, &script);
}


static void look_from_a_child(void *argument)
{
    struct loop *loop = argument;
    loop_until(loop, 2);
    CHECK_INT(loop->outcomes[0], NEARCALL_OUTCOME_UNKNOWN);
    CHECK_INT(loop->outcomes[1], NEARCALL_OUTCOME_UNKNOWN);
    CHECK(strstr(loop->text, "parent") != NULL);
    CHECK_INT(nearcall_timeout_ms(loop->client), -1);
    nearcall_close(loop->client);
}

static void only_the_parent_asks(void)
{
    struct script script;
    static struct loop loop;
    loop_start(&loop, &script, hold_the_answer, NULL, NULL);
    loop_begin(&loop, 0, 2, TIMEOUT_MS);
    loop_until_lost(&loop, 1);
    test_join(test_fork(look_from_a_child, &loop));
    script_signal(&script);
    loop_until(&loop, 2);
    CHECK_INT(loop.outcomes[0], NEARCALL_OUTCOME_EXECUTED_RESULT_LOST);
    CHECK_INT(loop.outcomes[1], NEARCALL_OUTCOME_EXECUTED_RESULT_LOST);
    loop_end(&loop, &script);
}

int main(void)
{
    test_begin();
    asked_until_there_is_an_answer();
    answered_by_a_server_that_stops();
    of_so_many_losses_at_most();
    a_full_handle_asks();
    given_up();
    closed_meanwhile();
    disconnected_on_purpose();
    disconnected_meanwhile();
    only_the_parent_asks();
    return 0;
}
