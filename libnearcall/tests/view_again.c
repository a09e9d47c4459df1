/* How often calls are sent, and when again, as the options of single calls have it: against scripts that lose
 * them, and against the server of the tests. */
#include <pthread.h>
#include <sys/socket.h>

#include "nearcall_generated.h"
#include "script.h"

static nearcall_view *view_with_flags(nearcall_client *client, uint32_t flags, uint32_t attempts_max)
{
    nearcall_call_options options = NEARCALL_CALL_OPTIONS_INIT;
    nearcall_view *view;
    options.flags = flags;
    options.attempts_max = attempts_max;
    options.backoff_first_us = 1;
    options.backoff_most_us = 1000;
    CHECK_CALL(client, nearcall_view_new(client, NULL, &options, &view), NEARCALL_OK);
    return view;
}

static void use(nearcall_client *client, nearcall_view *view)
{
    CHECK_CALL(client, nearcall_use_view(client, view), NEARCALL_OK);
}

/* ---- Attempts ---- */

/* Takes so many connections and a byte of what comes over each, which resets it: that call did not run. */
static void reset(struct script *script, int times)
{
    uint8_t byte;
    for (int i = 0; i < times; i++) {
        script_greet(script);
        CHECK_INT(recv(script->fd, &byte, 1, MSG_PEEK), 1);
    }
}

static void reset_four_times(struct script *script)
{
    reset(script, 4);
    script_greet(script);
    script_serve(script);
}

static void reset_five_times(struct script *script)
{
    reset(script, 5);
}

static void attempts(void (*play)(struct script *), uint32_t attempts_max, uint32_t flags, int code)
{
    struct script script;
    nearcall_reply reply;
    script_start(&script, play, NULL);
    nearcall_client *client = test_open(script.address, 0);
    nearcall_view *view = view_with_flags(client, flags, attempts_max);
    use(client, view);
    CHECK_CALL(client, nearcall_call(client, "f", "x", 1, 5000, &reply), code);
    if (code != NEARCALL_OK) {
        CHECK_OUTCOME(client, NEARCALL_OUTCOME_NOT_EXECUTED);
        CHECK_INT(nearcall_sendings(client), attempts_max);
    }
    nearcall_view_free(view);
    nearcall_close(client);
    script_end(&script);
}

/* ---- Waiting for a server ---- */

struct late {
    char address[160];
    nearcall_client *client;
};

static void *call_early(void *argument)
{
    struct late *late = argument;
    nearcall_reply reply;
    nearcall_view *view = view_with_flags(late->client, NEARCALL_CALL_WAIT_FOR_READY, 1);
    use(late->client, view);
    nearcall_view_free(view);
    (void)test_find(late->client, "echo");
    CHECK_CALL(late->client, nearcall_call(late->client, "echo", "early", 5, NEARCALL_NO_TIMEOUT, &reply), NEARCALL_OK);
    CHECK(reply.bytes == 5 && memcmp(reply.data, "early", 5) == 0);
    return NULL;
}

static void waits_for_its_server(void)
{
    struct late late;
    struct server server;
    nearcall_function *function;
    nearcall_reply reply;
    pthread_t thread;
    snprintf(late.address, sizeof(late.address), "unix:%s/late.sock", test_directory());
    nearcall_client *client = test_open(late.address, 0);
    CHECK_CALL(client, nearcall_call(client, "echo", "x", 1, 5000, &reply), NEARCALL_E_UNAVAILABLE);
    nearcall_view *view = view_with_flags(client, NEARCALL_CALL_WAIT_FOR_READY, 1);
    use(client, view);
    double began_ms = test_now_ms();
    int r = nearcall_call(client, "echo", "x", 1, 60, &reply);
    CHECK(r == NEARCALL_E_UNAVAILABLE || r == NEARCALL_E_DEADLINE_EXCEEDED);
    CHECK_OUTCOME(client, NEARCALL_OUTCOME_NOT_EXECUTED);
    CHECK(test_now_ms() - began_ms >= 50); /* it waited until little of its time was left */
    began_ms = test_now_ms();
    CHECK(nearcall_find(client, "echo", 4, 60, &function) < 0);
    CHECK(test_now_ms() - began_ms >= 50);
    nearcall_view_free(view);
    nearcall_close(client);
    late.client = test_open(late.address, 0);
    CHECK(pthread_create(&thread, NULL, call_early, &late) == 0);
    server_start_at(&server, late.address);
    CHECK(pthread_join(thread, NULL) == 0);
    nearcall_close(late.client);
    server_stop(&server);
}

/* ---- Sending again when nobody knows ---- */

static void describe(struct script *script, bool idempotent)
{
    static const char yes[] = "\x82\xa4name\xa1" "f\xaaidempotent\xc3";
    static const char no[] = "\x81\xa4name\xa1" "f";
    struct nc_frame frame;
    script_expect(script, NC_RESOLVE, &frame);
    script_reply(script, &frame, idempotent ? yes : no, idempotent ? sizeof(yes) - 1 : sizeof(no) - 1);
}

static void lose_request(struct script *script)
{
    struct nc_frame frame;
    script_expect(script, NC_REQUEST, &frame);
    script_hang_up(script);
}

static void lose_one_then_serve(struct script *script)
{
    script_greet(script);
    describe(script, true);
    lose_request(script);
    script_greet(script);
    script_serve(script);
}

static void lose_two(struct script *script)
{
    script_greet(script);
    describe(script, true);
    lose_request(script);
    script_greet(script);
    lose_request(script);
}

static void lose_one_then_refuse(struct script *script)
{
    struct nc_frame frame;
    script_greet(script);
    describe(script, true);
    lose_request(script);
    script_greet(script);
    script_expect(script, NC_REQUEST, &frame);
    script_error(script, frame.call_id, 14, NEARCALL_OUTCOME_NOT_EXECUTED, "stopping");
    CHECK(script_read_end(script));
}

/* The server that takes the place of the first has the function otherwise. */
static void lose_one_then_another(struct script *script)
{
    script_greet(script);
    describe(script, true);
    lose_request(script);
    script->schema_hash++;
    script_greet(script);
    describe(script, false);
    CHECK(script_read_end(script));
}

static void not_idempotent(struct script *script)
{
    script_greet(script);
    describe(script, false);
    CHECK(script_read_end(script));
}

static void no_such_function(struct script *script)
{
    struct nc_frame frame;
    script_greet(script);
    script_expect(script, NC_RESOLVE, &frame);
    script_error(script, frame.call_id, 12, NEARCALL_OUTCOME_NOT_EXECUTED, "there is no f");
    CHECK(script_read_end(script));
}

/* A connection that is lost while the server is asked is an attempt as any other. */
static void lose_the_question(struct script *script)
{
    struct nc_frame frame;
    script_greet(script);
    script_expect(script, NC_RESOLVE, &frame);
    script_hang_up(script);
    lose_one_then_serve(script);
}

static void again(void (*play)(struct script *), uint32_t attempts_max, int code, int outcome)
{
    struct script script;
    nearcall_reply reply;
    script_start(&script, play, NULL);
    nearcall_client *client = test_open(script.address, 0);
    nearcall_view *view = view_with_flags(client, NEARCALL_CALL_RETRY_UNKNOWN, attempts_max);
    use(client, view);
    CHECK_CALL(client, nearcall_call(client, "f", "again", 5, 5000, &reply), code);
    CHECK_OUTCOME(client, outcome);
    if (code == NEARCALL_OK)
        CHECK(reply.bytes == 5 && memcmp(reply.data, "again", 5) == 0);
    use(client, NULL);
    nearcall_view_free(view);
    nearcall_close(client);
    script_end(&script);
}

static void not_asked_for(void)
{
    struct script script;
    nearcall_reply reply;
    nearcall_function *function;
    script_start(&script, lose_one_then_serve, NULL);
    nearcall_client *client = test_open(script.address, 0);
    CHECK_CALL(client, nearcall_find(client, "f", 1, 5000, &function), NEARCALL_OK);
    CHECK_CALL(client, nearcall_call(client, "f", "x", 1, 5000, &reply), NEARCALL_E_UNAVAILABLE);
    CHECK_OUTCOME(client, NEARCALL_OUTCOME_UNKNOWN);
    CHECK_CALL(client, nearcall_call(client, "f", "x", 1, 5000, &reply), NEARCALL_OK);
    nearcall_close(client);
    script_end(&script);
}

static void real_functions(const char *address)
{
    nearcall_client *client = test_open(address, 0);
    nearcall_view *view = view_with_flags(client, NEARCALL_CALL_RETRY_UNKNOWN, 0);
    nearcall_reply reply;
    use(client, view);
    CHECK_CALL(client, nearcall_request(client, test_find(client, "count"), NEARCALL_CODEC_MSGPACK), NEARCALL_OK);
    nearcall_put_array(client, 0);
    CHECK_CALL(client, nearcall_request_call(client, 0, &reply), NEARCALL_E_FAILED_PRECONDITION);
    CHECK_OUTCOME(client, NEARCALL_OUTCOME_NOT_EXECUTED);
    CHECK(strstr(nearcall_error_message(client), "idempotent") != NULL);
    CHECK_CALL(client, nearcall_call(client, "echo", "x", 1, 0, &reply), NEARCALL_OK);
    CHECK_CALL(client, nearcall_call(client, "metadata_raw", "x", 1, 0, &reply), NEARCALL_E_FAILED_PRECONDITION);
    nearcall_view_free(view);
    nearcall_close(client);
}

/* ---- Generated code ---- */

/* What the library asks for generated code is no call of the program's: it needs no option. */
static void generated(const char *address)
{
    static const char hash[] = "0000000000000000000000000000000000000000000000000000000000000000";
    static const char description[] = "{\"name\":\"one\",\"params\":[],\"results\":[\"int64\"],\"idempotent\":true}";
    nearcall_client *client = test_open(address, 0);
    nearcall_view *view = view_with_flags(client, NEARCALL_CALL_RETRY_UNKNOWN, 0);
    nearcall_reply reply;
    int64_t timeout_ms = 5000;
    use(client, view);
    int r = nearcall_generated_request(client, "one", 3, hash, description, 0, &timeout_ms);
    CHECK_CALL(client, r, NEARCALL_OK);
    nearcall_put_array(client, 0);
    CHECK_CALL(client, nearcall_request_call(client, timeout_ms, &reply), NEARCALL_OK);
    CHECK_INT(test_read_int(&reply), 1);
    nearcall_view_free(view);
    nearcall_close(client);
}

static void against_a_server(void)
{
    struct server server;
    server_start(&server);
    real_functions(server.address);
    generated(server.address);
    server_stop(&server);
}

int main(void)
{
    test_begin();
    against_a_server();
    attempts(reset_four_times, 5, 0, NEARCALL_OK);
    attempts(reset_five_times, 5, 0, NEARCALL_E_UNAVAILABLE);
    attempts(reset_four_times, 1, NEARCALL_CALL_WAIT_FOR_READY, NEARCALL_OK);
    waits_for_its_server();
    again(lose_one_then_serve, 0, NEARCALL_OK, NEARCALL_OUTCOME_NONE);
    again(lose_two, 2, NEARCALL_E_UNAVAILABLE, NEARCALL_OUTCOME_UNKNOWN);
    again(lose_one_then_refuse, 2, NEARCALL_E_UNAVAILABLE, NEARCALL_OUTCOME_UNKNOWN);
    again(lose_one_then_another, 0, NEARCALL_E_FAILED_PRECONDITION, NEARCALL_OUTCOME_UNKNOWN);
    again(not_idempotent, 0, NEARCALL_E_FAILED_PRECONDITION, NEARCALL_OUTCOME_NOT_EXECUTED);
    again(no_such_function, 0, NEARCALL_E_UNIMPLEMENTED, NEARCALL_OUTCOME_NOT_EXECUTED);
    again(lose_the_question, 0, NEARCALL_OK, NEARCALL_OUTCOME_NONE);
    not_asked_for();
    return 0;
}
