/* A request says by which description it was encoded. A server that has another refuses
 * it, and a server that does not look is not sent what may be meant for another. */
#include <poll.h>
#include <sys/socket.h>

#include "base/limits_gen.h"
#include "nearcall_generated.h"
#include "script.h"

#define HASH_ONE "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
#define HASH_TWO "00000000fedcba9800000000fedcba9800000000fedcba9800000000fedcba98"
#define HASH_OF_CHANGES "aaaaaaaabbbbbbbbccccccccddddddddeeeeeeeeffffffff1111111122222222"
#define CHECK_ONE 0x67452301
#define CHECK_TWO 1 /* 0 means without a description */

/* A description whose hash is still to come after so many of its bytes. */
static void describe_as(struct script *script, const char *bytes, size_t count, const char *hash)
{
    uint8_t description[128];
    struct nc_frame frame;
    memcpy(description, bytes, count);
    memcpy(description + count, hash, 64);
    script_expect(script, NC_RESOLVE, &frame);
    script_reply(script, &frame, description, count + 64);
}

static void describe(struct script *script, const char *hash)
{
    describe_as(script, "\x82\xa4name\xa1" "f\xa4hash\xd9\x40", 15, hash);
}

/* What a function is good for is not part of its hash. */
static void describe_with_doc(struct script *script, const char *hash)
{
    describe_as(script, "\x83\xa4name\xa1" "f\xa3" "doc\xa2Up\xa4hash\xd9\x40", 22, hash);
}

static void describe_without_hash(struct script *script)
{
    struct nc_frame frame;
    script_expect(script, NC_RESOLVE, &frame);
    script_reply(script, &frame, "\x81\xa4name\xa1" "f", 8);
}

static void expect_check(struct script *script, struct nc_frame *frame, uint32_t check)
{
    script_expect(script, NC_REQUEST, frame);
    CHECK_INT(frame->status, check);
}

static void answer(struct script *script, uint32_t check)
{
    struct nc_frame frame;
    expect_check(script, &frame, check);
    script_reply(script, &frame, "\x05", 1);
}

static void refuse(struct script *script, uint32_t check)
{
    struct nc_frame frame;
    expect_check(script, &frame, check);
    script_error(script, frame.call_id, 10, NEARCALL_OUTCOME_NOT_EXECUTED, "another description");
}

static void replace(struct script *script)
{
    script_hang_up(script);
    script->schema_hash++;
    script_greet(script);
}

/* ---- A server that is slow to say what has changed ---- */

enum { COMPARE_MS = 400, FIRST_ANSWER_MS = 300 };

static void play_slow_changes(struct script *script)
{
    struct nc_frame frame;
    script_greet(script);
    describe(script, HASH_ONE);
    script_expect(script, NC_RESOLVE, &frame);
    poll(NULL, 0, FIRST_ANSWER_MS);
    script_reply(script, &frame, "\x81\xa4name\xa1" "c", 8);
    script_expect(script, NC_REQUEST, &frame);
    script_await(script);
}

/* Both calls of a comparison share its time. */
static void comparing_ends_in_time(void)
{
    struct script script;
    script_start(&script, play_slow_changes, NULL);
    nearcall_client *client = test_open(script.address, 0);
    nearcall_function *function = test_find(client, "f");
    double before_ms = test_now_ms();
    CHECK_CALL(client, nearcall_compare(client, function, HASH_TWO, "{}", COMPARE_MS),
               NEARCALL_E_DEADLINE_EXCEEDED);
    double took_ms = test_now_ms() - before_ms;
    CHECK(took_ms >= COMPARE_MS - 1 && took_ms < COMPARE_MS + FIRST_ANSWER_MS / 2);
    script_signal(&script);
    nearcall_close(client);
    script_end(&script);
}

/* ---- A server that looks ---- */

static void play_refusal(struct script *script)
{
    script->features |= NC_FEATURE_DESCRIPTIONS;
    script_greet(script);
    describe(script, HASH_ONE);
    answer(script, CHECK_ONE);
    replace(script);
    refuse(script, CHECK_ONE);
    describe(script, HASH_TWO);
    answer(script, CHECK_TWO);
    answer(script, 0); /* raw: the same bytes under every description */
    replace(script);
    answer(script, CHECK_TWO); /* only other functions have changed: nothing is asked */
    describe(script, HASH_TWO);
    refuse(script, CHECK_TWO); /* two in flight, one question */
    refuse(script, CHECK_TWO);
    describe_with_doc(script, HASH_TWO);
    replace(script);
    answer(script, CHECK_TWO);
    describe_with_doc(script, HASH_TWO);
    CHECK(script_read_end(script));
}

static void begin(nearcall_client *client, nearcall_function *function)
{
    test_request_int(client, function, 5);
}

static void call(nearcall_client *client, nearcall_function *function, int expected)
{
    nearcall_reply reply;
    begin(client, function);
    CHECK_CALL(client, nearcall_request_call(client, 0, &reply), expected);
    if (expected < 0)
        CHECK_OUTCOME(client, NEARCALL_OUTCOME_NOT_EXECUTED);
    else
        CHECK_INT(test_read_int(&reply), 5);
}

static void call_raw(nearcall_client *client, nearcall_function *function)
{
    CHECK_CALL(client, nearcall_request(client, function, NEARCALL_CODEC_RAW), NEARCALL_OK);
    CHECK_CALL(client, nearcall_request_call(client, 0, NULL), NEARCALL_OK);
}

static void refused_in_flight(nearcall_client *client, nearcall_function *function)
{
    nearcall_call_id calls[2];
    for (int i = 0; i < 2; i++) {
        begin(client, function);
        CHECK_CALL(client, nearcall_request_send(client, 0, &calls[i]), NEARCALL_OK);
    }
    CHECK_CALL(client, nearcall_wait(client, calls[0], NULL), NEARCALL_E_ABORTED);
    CHECK_OUTCOME(client, NEARCALL_OUTCOME_NOT_EXECUTED);
    CHECK(test_find(client, "f") == function);
    CHECK_INT(nearcall_function_revision(function), 2); /* the same: it is final */
    CHECK_CALL(client, nearcall_wait(client, calls[1], NULL), NEARCALL_E_ABORTED);
}

/* What was not refused is taken as it is written, for who shows it. */
static void documented(nearcall_client *client, nearcall_function *function)
{
    size_t bytes;
    call(client, function, NEARCALL_OK);
    CHECK(test_find(client, "f") == function);
    CHECK_INT(nearcall_function_revision(function), 3);
    const uint8_t *schema = nearcall_function_schema(function, &bytes);
    CHECK(memmem(schema, bytes, "doc", 3) != NULL);
}

static void test_refusal(void)
{
    struct script script;
    script_start(&script, play_refusal, NULL);
    nearcall_client *client = test_open(script.address, 0);
    nearcall_function *function = test_find(client, "f");
    CHECK(strcmp(nearcall_function_hash(function), HASH_ONE) == 0);
    call(client, function, NEARCALL_OK);
    call(client, function, NEARCALL_E_ABORTED);
    CHECK_INT(nearcall_function_revision(function), 0);
    CHECK(test_find(client, "f") == function); /* asks the server anew */
    CHECK_INT(nearcall_function_revision(function), 2);
    CHECK(strcmp(nearcall_function_hash(function), HASH_TWO) == 0);
    call(client, function, NEARCALL_OK);
    call_raw(client, function);
    call(client, function, NEARCALL_OK);
    CHECK(test_find(client, "f") == function);
    refused_in_flight(client, function);
    documented(client, function);
    nearcall_close(client);
    script_end(&script);
}

/* ---- A server that does not look ---- */

static void play_old_server(struct script *script)
{
    script_greet(script);
    describe_without_hash(script);
    answer(script, 0);
    script_hang_up(script);
    script_greet(script); /* the same schema */
    answer(script, 0);
    replace(script); /* no request comes before the question */
    describe_without_hash(script);
    answer(script, 0);
    script->features |= NC_FEATURE_DESCRIPTIONS; /* has learned to look meanwhile */
    replace(script);
    describe(script, HASH_ONE);
    answer(script, CHECK_ONE);
    script->features &= ~(uint64_t)NC_FEATURE_DESCRIPTIONS; /* is taken back */
    replace(script);
    describe(script, HASH_ONE);
    answer(script, 0);
    CHECK(script_read_end(script));
}

static void call_unsent(nearcall_client *client, nearcall_function *function)
{
    uint32_t revision = nearcall_function_revision(function);
    call(client, function, NEARCALL_E_ABORTED);
    CHECK(strstr(nearcall_error_message(client), "was not sent") != NULL);
    CHECK(test_find(client, "f") == function);
    CHECK(nearcall_function_revision(function) > revision);
    call(client, function, NEARCALL_OK);
}

static void test_old_server(void)
{
    struct script script;
    script_start(&script, play_old_server, NULL);
    nearcall_client *client = test_open(script.address, 0);
    nearcall_function *function = test_find(client, "f");
    CHECK(strcmp(nearcall_function_hash(function), "") == 0);
    call(client, function, NEARCALL_OK);
    call(client, function, NEARCALL_OK);
    call_unsent(client, function); /* though nothing has changed: nobody could know */
    call_unsent(client, function);
    call_unsent(client, function);
    nearcall_close(client);
    script_end(&script);
}

/* ---- Servers that take each other's place ---- */

static void play_coming_back(struct script *script)
{
    script->features |= NC_FEATURE_DESCRIPTIONS;
    script_greet(script);
    describe(script, HASH_ONE);
    refuse(script, CHECK_ONE);
    CHECK(script_read_end(script));
    replace(script);
    describe(script, HASH_ONE);
    answer(script, CHECK_ONE);
    CHECK(script_read_end(script));
}

/* Who refused is gone when it is asked: its refusal is not final. */
static void refused_by_one_that_is_gone(void)
{
    struct script script;
    script_start(&script, play_coming_back, NULL);
    nearcall_client *client = test_open(script.address, 0);
    nearcall_function *function = test_find(client, "f");
    call(client, function, NEARCALL_E_ABORTED);
    nearcall_disconnect(client);
    CHECK(test_find(client, "f") == function);
    CHECK_INT(nearcall_function_revision(function), 2);
    call(client, function, NEARCALL_OK);
    nearcall_close(client);
    script_end(&script);
}

/* Answers nearcall.changes, as for a function of that hash: with a change, or without. */
static void compare_as(struct script *script, const char *hash, bool has_changed)
{
    uint8_t answer[128];
    struct nc_frame frame;
    size_t bytes = 8;
    memcpy(answer, "\x82\xa4hash\xd9\x40", bytes);
    memcpy(answer + bytes, hash, 64);
    bytes += 64;
    memcpy(answer + bytes, "\xa7" "changes\x91\xa5moved", 15);
    answer[bytes + 8] = has_changed ? 0x91 : 0x90;
    script_expect(script, NC_REQUEST, &frame);
    script_reply(script, &frame, answer, bytes + (has_changed ? 15 : 9));
}

static void compare(nearcall_client *client, nearcall_function *function, int expected)
{
    CHECK_CALL(client, nearcall_compare(client, function, HASH_TWO, "{}", 0), expected);
    if (expected < 0)
        CHECK_OUTCOME(client, NEARCALL_OUTCOME_NOT_EXECUTED);
}

/* Afterwards the one that was there first is there again. */
static void compare_with_the_first(nearcall_client *client, nearcall_function *function)
{
    call(client, function, NEARCALL_E_ABORTED);
    CHECK(test_find(client, "f") == function);
    CHECK(strcmp(nearcall_function_hash(function), HASH_ONE) == 0);
    compare(client, function, NEARCALL_E_FAILED_PRECONDITION);
    CHECK(strstr(nearcall_error_message(client), "moved") != NULL);
}

static void play_answer_of_another(struct script *script)
{
    script->features |= NC_FEATURE_DESCRIPTIONS;
    script_greet(script);
    describe(script, HASH_ONE);
    describe(script, HASH_OF_CHANGES);
    replace(script);
    compare_as(script, HASH_TWO, false);
    describe(script, HASH_TWO);
    answer(script, CHECK_TWO);
    replace(script);
    refuse(script, CHECK_TWO);
    describe(script, HASH_ONE);
    describe(script, HASH_OF_CHANGES);
    compare_as(script, HASH_ONE, true);
    CHECK(script_read_end(script));
}

/* What a server says is of its own description, not of the one that is known here. */
static void answer_of_another(void)
{
    struct script script;
    script_start(&script, play_answer_of_another, NULL);
    nearcall_client *client = test_open(script.address, 0);
    nearcall_function *function = test_find(client, "f");
    compare(client, function, NEARCALL_OK);
    CHECK(strcmp(nearcall_function_hash(function), HASH_TWO) == 0);
    call(client, function, NEARCALL_OK);
    compare_with_the_first(client, function);
    nearcall_close(client);
    script_end(&script);
}

static void cannot_say(struct script *script, enum nc_frame_type type)
{
    struct nc_frame frame;
    script_expect(script, type, &frame);
    script_error(script, frame.call_id, 12, NEARCALL_OUTCOME_NOT_EXECUTED, "nearcall.changes");
}

static void play_too_old(struct script *script)
{
    script->features |= NC_FEATURE_DESCRIPTIONS;
    script_greet(script);
    describe(script, HASH_ONE);
    describe(script, HASH_OF_CHANGES);
    script->features &= ~(uint64_t)NC_FEATURE_DESCRIPTIONS;
    replace(script);
    describe_without_hash(script);
    cannot_say(script, NC_RESOLVE);
    answer(script, 0); /* it is not asked twice */
    script->features |= NC_FEATURE_DESCRIPTIONS;
    replace(script);
    describe(script, HASH_ONE);
    describe(script, HASH_OF_CHANGES);
    compare_as(script, HASH_ONE, true);
    CHECK(script_read_end(script));
}

/* A server that is too old to say is taken as it is, and no other for its sake. */
static void too_old_to_say(void)
{
    struct script script;
    script_start(&script, play_too_old, NULL);
    nearcall_client *client = test_open(script.address, 0);
    nearcall_function *function = test_find(client, "f");
    compare(client, function, NEARCALL_OK);
    compare(client, function, NEARCALL_OK);
    CHECK(strcmp(nearcall_function_hash(function), "") == 0);
    call(client, function, NEARCALL_OK);
    compare_with_the_first(client, function);
    nearcall_close(client);
    script_end(&script);
}

static void play_another_that_cannot_say(struct script *script)
{
    script->features |= NC_FEATURE_DESCRIPTIONS;
    script_greet(script);
    describe(script, HASH_ONE);
    describe(script, HASH_OF_CHANGES);
    replace(script);
    cannot_say(script, NC_REQUEST);
    describe(script, HASH_TWO);
    CHECK(script_read_end(script));
}

static void another_that_cannot_say(void)
{
    struct script script;
    script_start(&script, play_another_that_cannot_say, NULL);
    nearcall_client *client = test_open(script.address, 0);
    nearcall_function *function = test_find(client, "f");
    compare(client, function, NEARCALL_OK);
    CHECK(strcmp(nearcall_function_hash(function), HASH_TWO) == 0);
    nearcall_close(client);
    script_end(&script);
}

static void play_contradiction(struct script *script)
{
    script->features |= NC_FEATURE_DESCRIPTIONS;
    script_greet(script);
    describe(script, HASH_ONE);
    describe(script, HASH_OF_CHANGES);
    for (int i = 0; i < NC_ATTEMPTS_MAX; i++)
        compare_as(script, HASH_TWO, false);
    CHECK(script_read_end(script));
}

/* One that speaks of another description than its own is not asked for ever. */
static void contradicting_itself(void)
{
    struct script script;
    script_start(&script, play_contradiction, NULL);
    nearcall_client *client = test_open(script.address, 0);
    nearcall_function *function = test_find(client, "f");
    compare(client, function, NEARCALL_E_ABORTED);
    nearcall_close(client);
    script_end(&script);
}

/* Takes the question, and the connection away. */
static void lose_question(struct script *script)
{
    struct nc_frame frame;
    script_expect(script, NC_REQUEST, &frame);
    script_hang_up(script);
    script_greet(script);
}

static void play_lost_questions(struct script *script)
{
    script->features |= NC_FEATURE_DESCRIPTIONS;
    script_greet(script);
    describe(script, HASH_ONE);
    for (int i = 0; i < NC_ATTEMPTS_MAX; i++) {
        describe(script, HASH_OF_CHANGES);
        lose_question(script);
    }
    describe(script, HASH_ONE); /* for the next comparison */
    lose_question(script);
    describe(script, HASH_OF_CHANGES);
    compare_as(script, HASH_ONE, false);
    CHECK(script_read_end(script));
}

/* The server may have answered a question that was lost, which says nothing about the function. */
static void losing_questions(void)
{
    struct script script;
    script_start(&script, play_lost_questions, NULL);
    nearcall_client *client = test_open(script.address, 0);
    nearcall_function *function = test_find(client, "f");
    compare(client, function, NEARCALL_E_UNAVAILABLE);
    compare(client, function, NEARCALL_OK);
    nearcall_close(client);
    script_end(&script);
}

/* ---- Attempts ---- */

static void take_away(struct script *script)
{
    uint8_t byte;
    CHECK_INT(recv(script->fd, &byte, 1, MSG_PEEK), 1);
    script_hang_up(script);
    script_greet(script);
}

static void play_one_attempt(struct script *script)
{
    script->features |= NC_FEATURE_DESCRIPTIONS;
    script_greet(script);
    describe(script, HASH_ONE);
    refuse(script, CHECK_ONE);
    CHECK(script_read_end(script));
}

static void play_four_attempts(struct script *script)
{
    script->features |= NC_FEATURE_DESCRIPTIONS;
    script_greet(script);
    describe(script, HASH_ONE);
    take_away(script);
    refuse(script, CHECK_ONE);
    describe(script, HASH_TWO);
    take_away(script);
    refuse(script, CHECK_TWO);
    CHECK(script_read_end(script));
}

/* As generated code does. Whatever is sent, by the library or encoded anew, is an attempt. */
static void generated_ends(void (*play)(struct script *), uint32_t attempts_max)
{
    nearcall_options options = NEARCALL_OPTIONS_INIT;
    int64_t timeout_ms = 5000;
    uint32_t sendings = 0;
    struct script script;
    int r;
    options.attempts_max = attempts_max;
    script_start(&script, play, NULL);
    nearcall_client *client = test_open_with(script.address, &options);
    do {
        r = nearcall_generated_request(client, "f", 1, NULL, NULL, sendings, &timeout_ms);
        CHECK_CALL(client, r, NEARCALL_OK);
        nearcall_put_array(client, 0);
        r = nearcall_request_call(client, timeout_ms, NULL);
    } while (nearcall_generated_is_outdated(client, r, &sendings, &timeout_ms));
    CHECK_CALL(client, r, NEARCALL_E_ABORTED);
    CHECK_OUTCOME(client, NEARCALL_OUTCOME_NOT_EXECUTED);
    CHECK_INT(nearcall_sendings(client), attempts_max);
    nearcall_close(client);
    script_end(&script);
}

/* ---- Descriptions that say no hash ---- */

static const struct {
    const char *description;
    size_t bytes;
} without_hash[] = {
    {"\xc0", 1},
    {"\x81\x01\x01", 3},
    {"\x81\xa4hash\x05", 7},
    {"\x81\xa4hash\xa2" "ab", 9},
    {"\x81\xa4hash", 6},
    {"\x82\xa4name", 6},
};

static void play_without_hash(struct script *script)
{
    struct nc_frame frame;
    script->features |= NC_FEATURE_DESCRIPTIONS;
    script_greet(script);
    for (size_t i = 0; i < sizeof(without_hash) / sizeof(without_hash[0]); i++) {
        script_expect(script, NC_RESOLVE, &frame);
        script_reply(script, &frame, without_hash[i].description, without_hash[i].bytes);
    }
    describe(script, "0123456789ABCDEFg123456789abcdef0123456789abcdef0123456789abcdef");
    CHECK(script_read_end(script));
}

static void test_without_hash(void)
{
    struct script script;
    char name[] = "a";
    script_start(&script, play_without_hash, NULL);
    nearcall_client *client = test_open(script.address, 0);
    for (; name[0] <= 'a' + (int)(sizeof(without_hash) / sizeof(without_hash[0])); name[0]++)
        CHECK(strcmp(nearcall_function_hash(test_find(client, name)), "") == 0);
    nearcall_close(client);
    script_end(&script);
}

int main(void)
{
    test_begin();
    test_refusal();
    test_old_server();
    test_without_hash();
    refused_by_one_that_is_gone();
    answer_of_another();
    too_old_to_say();
    another_that_cannot_say();
    contradicting_itself();
    losing_questions();
    comparing_ends_in_time();
    generated_ends(play_one_attempt, 1);
    generated_ends(play_four_attempts, 4);
    return 0;
}
