/* Calls that were begun and whose connection was lost: their server is asked what became of them, beside whatever
 * the program does, and each ends when its answer has come. */
#include <unistd.h>

#include "asked_test.h"

/* ---- One call ---- */

struct said {
    uint8_t stage;
    int outcome;
    const char *text;
};

static const struct said all_said[] = {
    {NEVER, NEARCALL_OUTCOME_NOT_EXECUTED, "; the server says that the function was not started"},
    {RECEIVED, NEARCALL_OUTCOME_NOT_EXECUTED, "; the server says that the function was not started"},
    {STARTED, NEARCALL_OUTCOME_UNKNOWN, "; the server says that the function was started and is not known to have returned"},
    {FINISHED, NEARCALL_OUTCOME_EXECUTED_RESULT_LOST, "; the server says that the function had returned"},
    {4, NEARCALL_OUTCOME_UNKNOWN, "; the server says that it does not know the call any more"},
};

static void say(struct script *script)
{
    const struct said *said = script->argument;
    struct question question;
    uint64_t id;
    asked_lose(script, KEY_OF_LOST, 1, &id);
    asked_greet(script, KEY_OF_NEXT);
    asked_expect(script, &question, &id, 1);
    CHECK(question.deadline_ms > TIMEOUT_MS / 2); /* the answer may wait for the function */
    asked_answer(script, &question, &said->stage);
    script_serve(script);
}

static void check_said(const struct said *said)
{
    struct script script;
    struct loop loop;
    loop_start(&loop, &script, say, (void *)(uintptr_t)said, NULL);
    loop_begin(&loop, 0, 1, TIMEOUT_MS);
    loop_until(&loop, 1);
    CHECK_INT(loop.losses, 1);
    CHECK_INT(loop.outcomes[0], said->outcome);
    CHECK(strstr(loop.text, said->text) != NULL);
    CHECK(strstr(loop.text, script.address) != NULL);
    loop_begin(&loop, 1, 1, TIMEOUT_MS);
    loop_until(&loop, 2);
    CHECK_INT(loop.outcomes[1], NEARCALL_OUTCOME_NONE);
    loop_end(&loop, &script);
}

/* A program without a loop waits for its call, and makes the connection by that. */
static void waited_for(void)
{
    struct script script;
    nearcall_call_id id;
    nearcall_reply reply;
    script_start(&script, say, (void *)(uintptr_t)&all_said[FINISHED]);
    nearcall_client *client = test_open(script.address, 0);
    nearcall_function *function = test_find(client, "f");
    CHECK_CALL(client, nearcall_request(client, function, NEARCALL_CODEC_RAW), NEARCALL_OK);
    CHECK_CALL(client, nearcall_request_send(client, TIMEOUT_MS, &id), NEARCALL_OK);
    CHECK_CALL(client, nearcall_wait(client, id, &reply), NEARCALL_E_UNAVAILABLE);
    CHECK_OUTCOME(client, NEARCALL_OUTCOME_EXECUTED_RESULT_LOST);
    nearcall_close(client);
    script_end(&script);
}

/* ---- Several calls ---- */

static void say_of_three(struct script *script)
{
    static const uint8_t stages[] = {NEVER, STARTED, FINISHED}, returned = FINISHED;
    struct question question;
    uint64_t ids[3];
    asked_lose(script, KEY_OF_LOST, 3, ids);
    asked_greet(script, KEY_OF_NEXT);
    asked_expect(script, &question, ids, 3);
    CHECK(question.deadline_ms <= 1); /* no call waits for the function of another one */
    asked_answer(script, &question, stages);
    asked_expect(script, &question, &ids[1], 1);
    CHECK(question.deadline_ms > TIMEOUT_MS / 2);
    script_await(script);
    asked_answer(script, &question, &returned);
    script_serve(script);
}

static void each_ends_with_its_answer(void)
{
    struct script script;
    struct loop loop;
    loop_start(&loop, &script, say_of_three, NULL, NULL);
    loop_begin(&loop, 0, 3, TIMEOUT_MS);
    loop_until(&loop, 2);
    CHECK(loop.order[0] == loop.ids[0] && loop.order[1] == loop.ids[2]);
    CHECK_INT(loop.outcomes[0], NEARCALL_OUTCOME_NOT_EXECUTED);
    CHECK_INT(loop.outcomes[2], NEARCALL_OUTCOME_EXECUTED_RESULT_LOST);
    script_signal(&script);
    loop_until(&loop, 3);
    CHECK_INT(loop.outcomes[1], NEARCALL_OUTCOME_EXECUTED_RESULT_LOST);
    CHECK_INT(loop.losses, 1);
    loop_end(&loop, &script);
}

static void say_that_they_run(struct script *script)
{
    static const uint8_t running[] = {STARTED, STARTED}, first[] = {FINISHED, STARTED}, last = STARTED;
    struct question question;
    uint64_t ids[2];
    asked_lose(script, KEY_OF_LOST, 2, ids);
    asked_greet(script, KEY_OF_NEXT);
    for (int i = 0; i < 3; i++) {
        asked_expect(script, &question, ids, 2);
        asked_answer(script, &question, running);
    }
    asked_expect(script, &question, ids, 2);
    asked_answer(script, &question, first);
    asked_expect(script, &question, &ids[1], 1);
    asked_answer(script, &question, &last);
    script_serve(script);
}

static void asked_again_while_they_run(void)
{
    struct script script;
    struct loop loop;
    loop_start(&loop, &script, say_that_they_run, NULL, NULL);
    loop_begin(&loop, 0, 2, TIMEOUT_MS);
    loop_until(&loop, 2);
    CHECK_INT(loop.outcomes[0], NEARCALL_OUTCOME_EXECUTED_RESULT_LOST);
    CHECK_INT(loop.outcomes[1], NEARCALL_OUTCOME_UNKNOWN);
    CHECK(strstr(loop.text, "is not known to have returned") != NULL);
    loop_end(&loop, &script);
}

static void say_that_they_run_on(struct script *script)
{
    static const uint8_t running[] = {STARTED, STARTED};
    uint8_t payload[SCRIPT_PAYLOAD_MAX];
    struct question question;
    struct nc_frame frame;
    uint64_t ids[2];
    asked_lose(script, KEY_OF_LOST, 2, ids);
    asked_greet(script, KEY_OF_NEXT);
    while (script_try_read(script, &frame, payload)) {
        CHECK_INT(frame.type, NC_ASK);
        question = (struct question){.id = frame.call_id, .count = 2};
        asked_answer(script, &question, running);
    }
}

/* Not for as long as the calls have time. */
static void not_asked_for_ever(void)
{
    struct script script;
    struct loop loop;
    loop_start(&loop, &script, say_that_they_run_on, NULL, NULL);
    loop_begin(&loop, 0, 2, TIMEOUT_MS);
    double since_ms = test_now_ms();
    loop_until(&loop, 2);
    CHECK(test_now_ms() - since_ms >= NC_ASK_WAIT_MS);
    CHECK(test_now_ms() - since_ms < TIMEOUT_MS / 2);
    CHECK_INT(loop.outcomes[0], NEARCALL_OUTCOME_UNKNOWN);
    CHECK_INT(loop.outcomes[1], NEARCALL_OUTCOME_UNKNOWN);
    loop_end(&loop, &script);
}

static void say_of_many(struct script *script)
{
    uint8_t stages[CALLS_MAX];
    uint64_t ids[CALLS_MAX];
    struct question question;
    asked_lose(script, KEY_OF_LOST, CALLS_MAX, ids);
    asked_greet(script, KEY_OF_NEXT);
    for (unsigned i = 0; i < CALLS_MAX; i++)
        stages[i] = i % 2 ? FINISHED : NEVER;
    asked_expect(script, &question, ids, NC_ASKED_CALLS_MAX);
    asked_answer(script, &question, stages);
    asked_expect(script, &question, ids + NC_ASKED_CALLS_MAX, CALLS_MAX - NC_ASKED_CALLS_MAX);
    asked_answer(script, &question, stages + NC_ASKED_CALLS_MAX);
    script_serve(script);
}

static void more_than_a_question_takes(void)
{
    struct script script;
    static struct loop loop;
    loop_start(&loop, &script, say_of_many, NULL, NULL);
    loop_begin(&loop, 0, CALLS_MAX, TIMEOUT_MS);
    loop_until(&loop, CALLS_MAX);
    for (unsigned i = 0; i < CALLS_MAX; i++) {
        CHECK(loop.order[i] == loop.ids[i]);
        CHECK_INT(loop.outcomes[i], i % 2 ? NEARCALL_OUTCOME_EXECUTED_RESULT_LOST : NEARCALL_OUTCOME_NOT_EXECUTED);
    }
    CHECK_INT(loop.losses, 1);
    loop_end(&loop, &script);
}

/* ---- Nobody can be asked ---- */

static void come_as_another(struct script *script)
{
    uint64_t id;
    asked_lose(script, KEY_OF_LOST, 1, &id);
    script->server_instance = 7;
    asked_greet(script, KEY_OF_NEXT);
    script_serve(script); /* which reads no ASK */
}

static void another_server_is_not_asked(void)
{
    struct script script;
    struct loop loop;
    loop_start(&loop, &script, come_as_another, NULL, NULL);
    loop_begin(&loop, 0, 1, TIMEOUT_MS);
    loop_until(&loop, 1);
    CHECK_INT(loop.outcomes[0], NEARCALL_OUTCOME_UNKNOWN);
    loop_begin(&loop, 1, 1, TIMEOUT_MS);
    loop_until(&loop, 2);
    CHECK_INT(loop.outcomes[1], NEARCALL_OUTCOME_NONE);
    loop_end(&loop, &script);
}

static void go_for_good(struct script *script)
{
    uint64_t ids[2];
    asked_greet(script, KEY_OF_LOST);
    close(script->listener);
    script->listener = -1;
    struct nc_frame frame;
    script_expect(script, NC_RESOLVE, &frame);
    script_reply(script, &frame, "\x81\xa4name\xa1" "f", 7);
    for (int i = 0; i < 2; i++) {
        script_expect(script, NC_REQUEST, &frame);
        ids[i] = frame.call_id;
    }
    CHECK(ids[0] < ids[1]);
    script_hang_up(script);
}

/* The turn that tells of the loss has ended the calls. */
static void a_server_that_is_gone(void)
{
    struct script script;
    struct loop loop;
    loop_start(&loop, &script, go_for_good, NULL, NULL);
    loop_begin(&loop, 0, 2, TIMEOUT_MS);
    loop_until_lost(&loop, 1);
    CHECK_INT(loop.finished, 2);
    CHECK_INT(loop.outcomes[0], NEARCALL_OUTCOME_UNKNOWN);
    CHECK_INT(loop.outcomes[1], NEARCALL_OUTCOME_UNKNOWN);
    CHECK(strstr(loop.text, "cannot connect") == NULL);
    loop_end(&loop, &script);
}

static void be_asked_and_say_nothing(struct script *script)
{
    struct question question;
    uint64_t id;
    asked_lose(script, KEY_OF_LOST, 1, &id);
    asked_greet(script, KEY_OF_NEXT);
    asked_expect(script, &question, &id, 1);
    script_serve(script);
}

static double until_the_deadline(int64_t timeout_ms)
{
    struct script script;
    struct loop loop;
    loop_start(&loop, &script, be_asked_and_say_nothing, NULL, NULL);
    nearcall_function *function = test_find(loop.client, "f");
    double since_ms = test_now_ms();
    CHECK_CALL(loop.client, nearcall_request(loop.client, function, NEARCALL_CODEC_RAW), NEARCALL_OK);
    CHECK_CALL(loop.client, nearcall_request_send(loop.client, timeout_ms, &loop.ids[0]), NEARCALL_OK);
    loop_until(&loop, 1);
    double took_ms = test_now_ms() - since_ms;
    CHECK_INT(loop.outcomes[0], NEARCALL_OUTCOME_UNKNOWN);
    loop_end(&loop, &script);
    return took_ms;
}

static void asking_ends_by_the_deadline(void)
{
    int tries = 1;
    while (!test_in_time(until_the_deadline(300), 300))
        CHECK(tries++ < TEST_TRIES);
}

int main(void)
{
    test_begin();
    for (size_t i = 0; i < sizeof(all_said) / sizeof(all_said[0]); i++)
        check_said(&all_said[i]);
    waited_for();
    each_ends_with_its_answer();
    asked_again_while_they_run();
    not_asked_for_ever();
    more_than_a_question_takes();
    another_server_is_not_asked();
    a_server_that_is_gone();
    asking_ends_by_the_deadline();
    return 0;
}
