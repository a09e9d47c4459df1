/* What generated code of C asks a server before a call: that is no call of the program's, so nothing
 * of it can be resumed, and it is gone on with only if the function is what has changed. */
#include <stdatomic.h>

#include "base/limits_gen.h"
#include "nearcall_generated.h"
#include "script.h"

#define HASH "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
#define TIMEOUT_MS 20000
#define NO_CHANGES "\x82\xa7" "changes\x90\xa4hash\xa0"
#define CHANGES "\x82\xa7" "changes\x91\xa4less\xa4hash\xa0"

static atomic_int rings; /* a signal has come */

static int has_rung(void *argument)
{
    (void)argument;
    return atomic_exchange(&rings, 0);
}

static int begin(nearcall_client *client)
{
    int64_t timeout_ms = TIMEOUT_MS;
    int r = nearcall_generated_request(client, "f", 1, HASH, "{}", 0, &timeout_ms);
    if (r == NEARCALL_OK)
        nearcall_put_array(client, 0);
    return r;
}

/* ---- Questions that are interrupted ---- */

static void expect_cancel(struct script *script, const struct nc_frame *asked)
{
    struct nc_frame frame;
    script_expect(script, NC_CANCEL, &frame);
    CHECK_INT(frame.call_id, asked->call_id);
}

/* What is asked first, and what then: the description of the function, that of the question, and the
 * question itself. The answer to the one that was interrupted comes late. */
static void play_interrupted(struct script *script)
{
    int interrupted = *(const int *)script->argument;
    struct nc_frame frame, late = {0};
    script_greet(script);
    for (int i = 0; i < 3; i++) {
        enum nc_frame_type type = i < 2 ? NC_RESOLVE : NC_REQUEST;
        const char *answer = i < 2 ? "\x80" : NO_CHANGES;
        size_t bytes = i < 2 ? 1 : sizeof(NO_CHANGES) - 1;
        script_expect(script, type, &frame);
        if (i == interrupted) {
            late = frame;
            atomic_store(&rings, 1);
            if (type == NC_REQUEST)
                expect_cancel(script, &late);
            script_expect(script, type, &frame);
            script_reply(script, &late, answer, bytes);
        }
        script_reply(script, &frame, answer, bytes);
    }
    script_expect(script, NC_REQUEST, &frame);
    script_reply(script, &frame, "\x07", 1);
    CHECK(script_read_end(script));
}

static void the_question_is_given_up(int interrupted)
{
    struct script script;
    nearcall_reply reply = {0};
    nearcall_client *client;
    script_start(&script, play_interrupted, &interrupted);
    client = test_open(script.address, NEARCALL_INTERRUPTIBLE);
    CHECK_CALL(client, nearcall_interruptible_check(client, has_rung, NULL), NEARCALL_OK);
    CHECK_CALL(client, begin(client), NEARCALL_E_INTERRUPTED);
    CHECK_INT(nearcall_interrupted(client), 0);
    CHECK_OUTCOME(client, NEARCALL_OUTCOME_NOT_EXECUTED); /* what that is about did not run */
    CHECK_CALL(client, nearcall_resume(client, nearcall_interrupted(client), &reply), NEARCALL_E_MISUSE);
    CHECK_OUTCOME(client, NEARCALL_OUTCOME_NOT_EXECUTED);
    CHECK_CALL(client, begin(client), NEARCALL_OK);
    CHECK_CALL(client, nearcall_request_call(client, TIMEOUT_MS, &reply), NEARCALL_OK);
    CHECK_INT(test_read_int(&reply), 7);
    nearcall_close(client);
    script_end(&script);
}

/* ---- Functions that are called all the same ---- */

/* The answer to each question, as long as there is one; then a call. */
struct answers {
    struct {
        const char *data; /* NULL: the server refuses to say */
        size_t bytes;
    } all[2];
    int count;
};

static void play_answers(struct script *script)
{
    const struct answers *answers = script->argument;
    struct nc_frame frame;
    script_greet(script);
    for (int i = 0; i < 2; i++) {
        script_expect(script, NC_RESOLVE, &frame);
        script_reply(script, &frame, "\x80", 1);
    }
    for (int i = 0; i < answers->count; i++) {
        script_expect(script, NC_REQUEST, &frame);
        if (answers->all[i].data)
            script_reply(script, &frame, answers->all[i].data, answers->all[i].bytes);
        else
            script_error(script, frame.call_id, -NEARCALL_E_FAILED_PRECONDITION, NEARCALL_OUTCOME_NOT_EXECUTED,
                         "not for you");
    }
    script_expect(script, NC_REQUEST, &frame);
    script_reply(script, &frame, "\x07", 1);
    CHECK(script_read_end(script));
}

static nearcall_client *start_answers(struct script *script, struct answers *answers)
{
    script_start(script, play_answers, answers);
    return test_open(script->address, 0);
}

static void call(nearcall_client *client)
{
    nearcall_reply reply;
    CHECK_CALL(client, begin(client), NEARCALL_OK);
    CHECK_CALL(client, nearcall_request_call(client, TIMEOUT_MS, &reply), NEARCALL_OK);
    CHECK_INT(test_read_int(&reply), 7);
}

static int go_on(nearcall_client *client, const char *name)
{
    return nearcall_generated_go_on(client, name, strlen(name), HASH);
}

static void gone_on_with_what_has_changed(void)
{
    struct answers answers = {{{CHANGES, sizeof(CHANGES) - 1}}, 1};
    struct script script;
    nearcall_client *client = start_answers(&script, &answers);
    CHECK_CALL(client, go_on(client, "f"), NEARCALL_E_FAILED_PRECONDITION); /* nothing has failed */
    CHECK_CALL(client, begin(client), NEARCALL_E_FAILED_PRECONDITION);
    CHECK(strstr(nearcall_error_message(client), "f has changed since this code was generated: less") != NULL);
    CHECK_CALL(client, go_on(client, "nearcall.changes"), NEARCALL_E_FAILED_PRECONDITION); /* another function */
    CHECK_CALL(client, go_on(client, "f"), NEARCALL_OK);
    call(client);
    CHECK_CALL(client, go_on(client, "f"), NEARCALL_E_FAILED_PRECONDITION);
    nearcall_close(client);
    script_end(&script);
}

/* The same code, and the function is not known to have changed: it is asked about again. */
static void not_gone_on_with_what_cannot_be_asked(void)
{
    struct answers answers = {{{NULL, 0}, {NO_CHANGES, sizeof(NO_CHANGES) - 1}}, 2};
    struct script script;
    nearcall_client *client = start_answers(&script, &answers);
    CHECK_CALL(client, begin(client), NEARCALL_E_FAILED_PRECONDITION);
    CHECK_CALL(client, go_on(client, "f"), NEARCALL_E_FAILED_PRECONDITION);
    CHECK(strcmp(nearcall_error_message(client), "not for you") == 0);
    call(client);
    nearcall_close(client);
    script_end(&script);
}

/* The server is replaced as it answers: its successor is asked as well, as often as calls are attempted. */
static void play_replaced(struct script *script)
{
    int times = *(const int *)script->argument;
    struct nc_frame frame;
    for (int i = 0; i <= times; i++) {
        script_greet(script);
        for (int j = 0; j < (i ? 1 : 2); j++) { /* the question is known to all servers of the schema */
            script_expect(script, NC_RESOLVE, &frame);
            script_reply(script, &frame, "\x80", 1);
        }
        script_expect(script, NC_REQUEST, &frame);
        if (i < times)
            script_drain(script, frame.call_id);
        script_reply(script, &frame, CHANGES, sizeof(CHANGES) - 1);
        if (i < times)
            CHECK(script_read_end(script));
    }
    script_expect(script, NC_REQUEST, &frame);
    script_reply(script, &frame, "\x07", 1);
    CHECK(script_read_end(script));
}

static void gone_on_with_where_the_server_is_replaced(int times)
{
    struct script script;
    script_start(&script, play_replaced, &times);
    nearcall_client *client = test_open(script.address, 0);
    for (int i = 0; i <= times; i++) {
        CHECK_CALL(client, begin(client), NEARCALL_E_FAILED_PRECONDITION);
        CHECK_CALL(client, go_on(client, "nearcall.changes"), NEARCALL_E_FAILED_PRECONDITION);
        bool goes_on = i < NC_ATTEMPTS_MAX - 1 || i == times;
        CHECK_INT(go_on(client, "f"), goes_on ? NEARCALL_OK : NEARCALL_E_FAILED_PRECONDITION);
    }
    call(client);
    nearcall_close(client);
    script_end(&script);
}

int main(void)
{
    test_begin();
    for (int interrupted = 0; interrupted < 3; interrupted++)
        the_question_is_given_up(interrupted);
    gone_on_with_what_has_changed();
    not_gone_on_with_what_cannot_be_asked();
    gone_on_with_where_the_server_is_replaced(1);
    gone_on_with_where_the_server_is_replaced(NC_ATTEMPTS_MAX);
    return 0;
}
