/* A call whose connection was lost: its server is asked what became of it. The answers themselves are held to
 * the vectors; here is what a program sees of it, with signals, forks and limits. */
#include <errno.h>
#include <stdatomic.h>
#include <sys/wait.h>
#include <unistd.h>

#include "script.h"
#include "script_memory.h"

#define KEY_OF_LOST 0xA1
#define KEY_OF_NEXT 0xB2

static atomic_int returned; /* from the wait, with the signal */
static pthread_t tester;

static void on_signal(int signal_number)
{
    (void)signal_number;
}

static void interrupt_the_test(void)
{
    while (!atomic_load(&returned)) {
        pthread_kill(tester, SIGUSR1);
        usleep(1000);
    }
}

/* Takes a request, and loses its connection. */
static uint64_t lose_a_call(struct script *script)
{
    struct nc_frame frame;
    script->features = NC_FEATURE_ASKS;
    script->key = KEY_OF_LOST;
    script_greet(script);
    script_expect(script, NC_REQUEST, &frame);
    script_hang_up(script);
    script->key = KEY_OF_NEXT;
    return frame.call_id;
}

static void expect_question(struct script *script, uint64_t call_id, struct nc_frame *question)
{
    uint8_t payload[SCRIPT_PAYLOAD_MAX], expected[NC_CONNECTION_KEY_BYTES + NC_ASKED_CALL_BYTES];
    memset(expected, KEY_OF_LOST, NC_CONNECTION_KEY_BYTES);
    nc_put_u64(expected + NC_CONNECTION_KEY_BYTES, call_id);
    script_read(script, question, payload);
    CHECK_INT(question->type, NC_ASK);
    CHECK_INT(question->length, sizeof(expected));
    CHECK(memcmp(payload, expected, sizeof(expected)) == 0);
    CHECK(question->deadline_ms != 0);
}

static void answer(struct script *script, const struct nc_frame *question, uint8_t stage)
{
    struct nc_frame reply = {.length = 1, .type = NC_REPLY, .call_id = question->call_id};
    script_send_frame(script, &reply, &stage);
}

struct said {
    uint8_t stage;
    int outcome;
    const char *text;
};

static const struct said all_said[] = {
    {0, NEARCALL_OUTCOME_NOT_EXECUTED, "; the server says that the function was not started"},
    {1, NEARCALL_OUTCOME_NOT_EXECUTED, "; the server says that the function was not started"},
    {2, NEARCALL_OUTCOME_UNKNOWN, "; the server says that the function was started and is not known to have returned"},
    {3, NEARCALL_OUTCOME_EXECUTED_RESULT_LOST, "; the server says that the function had returned"},
    {4, NEARCALL_OUTCOME_UNKNOWN, "; the server says that it does not know the call any more"},
    {200, NEARCALL_OUTCOME_UNKNOWN, "; the server says that it does not know the call any more"},
};

static void say(struct script *script)
{
    const struct said *said = script->argument;
    struct nc_frame question;
    uint64_t call_id = lose_a_call(script);
    script_greet(script);
    expect_question(script, call_id, &question);
    answer(script, &question, said->stage);
    script_serve(script);
}

static void check_said(const struct said *said)
{
    struct script script;
    nearcall_options options = NEARCALL_OPTIONS_INIT;
    nearcall_reply reply;
    options.attempts_max = 1;
    script_start(&script, say, (void *)(uintptr_t)said);
    nearcall_client *client = test_open_with(script.address, &options);
    CHECK_CALL(client, nearcall_call(client, "f", "x", 1, 20000, &reply), NEARCALL_E_UNAVAILABLE);
    CHECK_OUTCOME(client, said->outcome);
    CHECK(strstr(nearcall_error_message(client), said->text) != NULL);
    CHECK(strstr(nearcall_error_message(client), script.address) != NULL);
    CHECK_CALL(client, nearcall_call(client, "f", "y", 1, 20000, &reply), NEARCALL_OK);
    nearcall_close(client);
    script_end(&script);
}

static void lose_two_connections(struct script *script)
{
    static const char description[] = "\x82\xa4name\xa1" "f\xaaidempotent\xc3";
    struct nc_frame frame, question;
    script->features = NC_FEATURE_ASKS;
    script->key = KEY_OF_LOST;
    script_greet(script);
    script_expect(script, NC_RESOLVE, &frame);
    script_reply(script, &frame, description, sizeof(description) - 1);
    script_expect(script, NC_REQUEST, &frame);
    script_hang_up(script);
    script_accept(script);
    script_read_hello(script);
    script_hang_up(script);
    script->key = KEY_OF_NEXT;
    script_greet(script);
    expect_question(script, frame.call_id, &question);
    answer(script, &question, 2);
    script_serve(script);
}

/* A call that may be sent again, and is not for want of attempts. The other connection was lost for reasons of its
 * own. */
static void the_first_loss_is_told(void)
{
    struct script script;
    nearcall_call_options options = NEARCALL_CALL_OPTIONS_INIT;
    nearcall_view *view;
    nearcall_reply reply;
    script_start(&script, lose_two_connections, NULL);
    nearcall_client *client = test_open(script.address, 0);
    options.attempts_max = 1;
    options.flags = NEARCALL_CALL_RETRY_UNKNOWN;
    CHECK_CALL(client, nearcall_view_new(client, NULL, &options, &view), NEARCALL_OK);
    CHECK_CALL(client, nearcall_use_view(client, view), NEARCALL_OK);
    CHECK_CALL(client, nearcall_call(client, "f", "x", 1, 20000, &reply), NEARCALL_E_UNAVAILABLE);
    CHECK_OUTCOME(client, NEARCALL_OUTCOME_UNKNOWN);
    CHECK(strstr(nearcall_error_message(client), "is not known to have returned") != NULL);
    CHECK(strstr(nearcall_error_message(client), "before it welcomed it") == NULL);
    nearcall_view_free(view);
    nearcall_close(client);
    script_end(&script);
}

static void be_interrupted(struct script *script)
{
    struct nc_frame question;
    uint64_t call_id = lose_a_call(script);
    script_greet(script);
    expect_question(script, call_id, &question);
    interrupt_the_test();
    script_await(script);
    answer(script, &question, 0); /* nobody waits for this one any more */
    expect_question(script, call_id, &question);
    answer(script, &question, 3);
    script_serve(script);
}

static void resumed_after_a_signal(void)
{
    struct script script;
    nearcall_reply reply;
    atomic_store(&returned, 0);
    script_start(&script, be_interrupted, NULL);
    nearcall_client *client = test_open(script.address, NEARCALL_INTERRUPTIBLE);
    int r = nearcall_call(client, "f", "x", 1, 20000, &reply);
    atomic_store(&returned, 1);
    CHECK_CALL(client, r, NEARCALL_E_INTERRUPTED);
    script_signal(&script);
    do
        r = nearcall_resume(client, nearcall_interrupted(client), &reply);
    while (r == NEARCALL_E_INTERRUPTED);
    CHECK_CALL(client, r, NEARCALL_E_UNAVAILABLE);
    CHECK_OUTCOME(client, NEARCALL_OUTCOME_EXECUTED_RESULT_LOST);
    nearcall_close(client);
    script_end(&script);
}

static void wait_for_parent_and_child(struct script *script)
{
    struct nc_frame question;
    uint64_t call_id = lose_a_call(script);
    script_greet(script);
    expect_question(script, call_id, &question);
    interrupt_the_test();
    script_await(script); /* the child is gone by then, and has sent nothing */
    expect_question(script, call_id, &question);
    answer(script, &question, 0);
    struct nc_frame again;
    script_expect(script, NC_REQUEST, &again);
    script_reply(script, &again, "once", 4);
    script_serve(script);
}

/* The child does not ask: it would send the parent's call once more. */
static void only_the_parent_asks(void)
{
    struct script script;
    nearcall_reply reply;
    int status;
    atomic_store(&returned, 0);
    script_start(&script, wait_for_parent_and_child, NULL);
    nearcall_client *client = test_open(script.address, NEARCALL_INTERRUPTIBLE);
    int r = nearcall_call(client, "f", "x", 1, 20000, &reply);
    atomic_store(&returned, 1);
    CHECK_CALL(client, r, NEARCALL_E_INTERRUPTED);
    pid_t child = fork();
    if (child == 0) {
        CHECK_CALL(client, nearcall_resume(client, nearcall_interrupted(client), &reply), NEARCALL_E_UNAVAILABLE);
        CHECK_OUTCOME(client, NEARCALL_OUTCOME_UNKNOWN);
        _exit(0);
    }
    while (waitpid(child, &status, 0) < 0)
        CHECK_INT(errno, EINTR);
    CHECK_INT(status, 0);
    script_signal(&script);
    do
        r = nearcall_resume(client, nearcall_interrupted(client), &reply);
    while (r == NEARCALL_E_INTERRUPTED);
    CHECK_CALL(client, r, NEARCALL_OK);
    CHECK(reply.bytes == 4 && memcmp(reply.data, "once", 4) == 0);
    nearcall_close(client);
    script_end(&script);
}

static void give_way(struct script *script)
{
    struct nc_frame question, request;
    uint64_t call_id = lose_a_call(script);
    script_greet(script);
    expect_question(script, call_id, &question);
    interrupt_the_test();
    script_expect(script, NC_REQUEST, &request);
    answer(script, &question, 0); /* late: must not be taken for a reply */
    script_reply(script, &request, "next", 4);
    script_serve(script);
}

static void given_up_for_another(void)
{
    struct script script;
    nearcall_reply reply;
    atomic_store(&returned, 0);
    script_start(&script, give_way, NULL);
    nearcall_client *client = test_open(script.address, NEARCALL_INTERRUPTIBLE);
    CHECK_CALL(client, nearcall_call(client, "f", "x", 1, 20000, &reply), NEARCALL_E_INTERRUPTED);
    uint64_t lost = nearcall_interrupted(client);
    atomic_store(&returned, 1);
    int r = nearcall_call(client, "f", "y", 1, 20000, &reply);
    while (r == NEARCALL_E_INTERRUPTED)
        r = nearcall_resume(client, nearcall_interrupted(client), &reply);
    CHECK_CALL(client, r, NEARCALL_OK);
    CHECK(reply.bytes == 4 && memcmp(reply.data, "next", 4) == 0);
    CHECK_CALL(client, nearcall_resume(client, lost, &reply), NEARCALL_E_CANCELLED);
    CHECK_OUTCOME(client, NEARCALL_OUTCOME_UNKNOWN);
    nearcall_close(client);
    script_end(&script);
}

static void lose_and_serve(struct script *script)
{
    (void)lose_a_call(script);
    script_greet(script);
    script_serve(script);
}

static void answer_through_memory(struct script *script)
{
    static const uint8_t stage = 3;
    struct script_memory memory;
    struct nc_frame question;
    uint64_t call_id = lose_a_call(script);
    script->features |= NC_FEATURE_SHARED_MEMORY;
    script_greet(script);
    expect_question(script, call_id, &question);
    memory_give(script, &memory, (struct nc_memory_offer)SCRIPT_OFFER);
    memory_await_use(&memory);
    struct nc_frame reply = {.length = 1, .type = NC_REPLY, .call_id = question.call_id};
    if (memory_put(&memory, &reply, &stage))
        memory_wake(script);
    memory_serve(script, &memory);
    memory_end(&memory);
}

/* A server may give memory before it answers. */
static void answered_through_memory(void)
{
    struct script script;
    nearcall_options options = NEARCALL_OPTIONS_INIT;
    nearcall_reply reply;
    script_start(&script, answer_through_memory, NULL);
    options.attempts_max = 1;
    nearcall_client *client = test_open_with(script.address, &options);
    CHECK_CALL(client, nearcall_call(client, "f", "x", 1, 20000, &reply), NEARCALL_E_UNAVAILABLE);
    CHECK_OUTCOME(client, NEARCALL_OUTCOME_EXECUTED_RESULT_LOST);
    CHECK_CALL(client, nearcall_call(client, "f", "y", 1, 20000, &reply), NEARCALL_OK);
    CHECK(strcmp(nearcall_transport(client), "shared memory") == 0);
    nearcall_close(client);
    script_end(&script);
}

/* There is no place for the question. */
static void not_asked_for_want_of_room(void)
{
    struct script script;
    nearcall_options options = NEARCALL_OPTIONS_INIT;
    nearcall_reply reply;
    options.calls_in_flight_max = 1;
    script_start(&script, lose_and_serve, NULL);
    nearcall_client *client = test_open_with(script.address, &options);
    CHECK_CALL(client, nearcall_call(client, "f", "x", 1, 20000, &reply), NEARCALL_E_UNAVAILABLE);
    CHECK_OUTCOME(client, NEARCALL_OUTCOME_UNKNOWN);
    CHECK_CALL(client, nearcall_call(client, "f", "x", 1, 20000, &reply), NEARCALL_OK);
    nearcall_close(client);
    script_end(&script);
}

int main(void)
{
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
    test_begin();
    CHECK(sigaction(SIGUSR1, &action, NULL) == 0);
    tester = pthread_self();
    for (size_t i = 0; i < sizeof(all_said) / sizeof(all_said[0]); i++)
        check_said(&all_said[i]);
    the_first_loss_is_told();
    resumed_after_a_signal();
    only_the_parent_asks();
    given_up_for_another();
    answered_through_memory();
    not_asked_for_want_of_room();
    return 0;
}
