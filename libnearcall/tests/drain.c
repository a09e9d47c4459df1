/* DRAIN with calls in flight: those the server took are answered, those above are
 * not executed, what comes next goes over a new connection. */
#include "handle/handle.h"
#include "script.h"

static void play(struct script *script)
{
    struct nc_frame frames[4];
    script_greet(script);
    script_expect(script, NC_RESOLVE, &frames[0]);
    script_reply(script, &frames[0], "\x80", 1);
    for (int i = 0; i < 3; i++)
        script_expect(script, NC_REQUEST, &frames[i]);
    script_drain(script, frames[1].call_id);
    script_reply(script, &frames[0], "0", 1);
    script_await(script);
    script_reply(script, &frames[1], "1", 1);
    CHECK(script_read_end(script)); /* nothing was sent after DRAIN */
    script_greet(script);
    script_serve(script);
}

/* A call that outlives its deadline on a draining connection holds nobody up. */
static void play_stuck(struct script *script)
{
    struct nc_frame frame;
    script_greet(script);
    script_expect(script, NC_RESOLVE, &frame);
    script_reply(script, &frame, "\x80", 1);
    script_expect(script, NC_REQUEST, &frame);
    script_drain(script, frame.call_id);
    CHECK(script_read_end(script));
    script_greet(script);
    script_serve(script);
}

static void stuck(uint32_t flags)
{
    struct script script;
    nearcall_call_id call, next;
    nearcall_reply reply;
    script_start(&script, play_stuck, NULL);
    nearcall_client *client = test_open(script.address, flags);
    nearcall_function *function = test_find(client, "f");
    CHECK_CALL(client, nearcall_request(client, function, NEARCALL_CODEC_RAW), NEARCALL_OK);
    CHECK_CALL(client, nearcall_request_send(client, 200, &call), NEARCALL_OK);
    while (nearcall_poll(client, call, &reply) == NEARCALL_E_AGAIN && !client->connection.draining)
        CHECK(nearcall_process(client) >= 0);
    CHECK_CALL(client, nearcall_request(client, function, NEARCALL_CODEC_RAW), NEARCALL_OK);
    double before_ms = test_now_ms();
    CHECK_CALL(client, nearcall_request_send(client, 20000, &next), NEARCALL_OK);
    CHECK_CALL(client, nearcall_wait(client, next, &reply), NEARCALL_OK);
    CHECK(test_now_ms() - before_ms < 10000);
    CHECK_CALL(client, nearcall_wait(client, call, &reply), NEARCALL_E_DEADLINE_EXCEEDED);
    CHECK_OUTCOME(client, NEARCALL_OUTCOME_UNKNOWN);
    nearcall_close(client);
    script_end(&script);
}

/* A server that names more than it was sent has not taken that all the same. */
static void play_lie(struct script *script)
{
    struct nc_frame frame;
    script_greet(script);
    script_expect(script, NC_RESOLVE, &frame);
    script_reply(script, &frame, "\x80", 1);
    script_await(script);
    script_drain(script, UINT64_MAX);
    script_await(script);
    script_greet(script);
    script_serve(script);
}

static nearcall_call_id send_large(nearcall_client *client, nearcall_function *function)
{
    nearcall_call_id call;
    CHECK_CALL(client, nearcall_request(client, function, NEARCALL_CODEC_RAW), NEARCALL_OK);
    void *room = nearcall_put_reserve(client, 1 << 20);
    CHECK(room != NULL);
    memset(room, 0, 1 << 20);
    CHECK_CALL(client, nearcall_request_send(client, 20000, &call), NEARCALL_OK);
    return call;
}

static void beyond_what_was_sent(void)
{
    struct script script;
    nearcall_call_id calls[3];
    nearcall_reply reply;
    script_start(&script, play_lie, NULL);
    nearcall_client *client = test_open(script.address, NEARCALL_NONBLOCKING);
    nearcall_function *function = test_find(client, "f");
    for (int i = 0; i < 3; i++) /* more than the socket holds */
        calls[i] = send_large(client, function);
    script_signal(&script);
    while (!client->connection.draining && nearcall_process(client) == 0)
        ;
    nearcall_cancel(client, calls[1]); /* its frame is no longer there to be taken back */
    for (int i = 0; i < 3; i += 2) {
        CHECK_CALL(client, nearcall_poll(client, calls[i], &reply), NEARCALL_E_UNAVAILABLE);
        CHECK_OUTCOME(client, NEARCALL_OUTCOME_NOT_EXECUTED);
    }
    script_signal(&script);
    CHECK_CALL(client, nearcall_call(client, "f", "new", 3, 5000, &reply), NEARCALL_OK);
    nearcall_close(client);
    script_end(&script);
}

/* The deadline is final, also when DRAIN then says that the call did not run. */
static void play_late(struct script *script)
{
    struct nc_frame frame;
    script_greet(script);
    script_expect(script, NC_REQUEST, &frame);
    script_expect(script, NC_CANCEL, &frame);
    script_drain(script, 0);
    CHECK(script_read_end(script));
}

static bool says_not_executed_in_time(void)
{
    struct script script;
    nearcall_reply reply;
    script_start(&script, play_late, NULL);
    nearcall_client *client = test_open(script.address, 0);
    CHECK_CALL(client, nearcall_connect(client, 5000), NEARCALL_OK);
    CHECK_CALL(client, nearcall_call(client, "f", NULL, 0, 100, &reply),
               NEARCALL_E_DEADLINE_EXCEEDED);
    bool in_time = nearcall_error_outcome(client) == NEARCALL_OUTCOME_NOT_EXECUTED;
    nearcall_close(client);
    script_end(&script);
    return in_time;
}

/* Connecting without blocking goes on behind a connection that drains. */
static void play_behind(struct script *script)
{
    struct nc_frame frame;
    script_greet(script);
    script_expect(script, NC_RESOLVE, &frame);
    script_reply(script, &frame, "\x80", 1);
    script_expect(script, NC_REQUEST, &frame);
    script_drain(script, frame.call_id);
    script_await(script);
    script_reply(script, &frame, "old", 3);
    script_greet(script);
    script_serve(script);
}

static void connecting_again(void)
{
    struct script script;
    nearcall_call_id call;
    nearcall_reply reply;
    int r;
    script_start(&script, play_behind, NULL);
    nearcall_client *client = test_open(script.address, NEARCALL_NONBLOCKING);
    nearcall_function *function = test_find(client, "f");
    CHECK_CALL(client, nearcall_request(client, function, NEARCALL_CODEC_RAW), NEARCALL_OK);
    CHECK_CALL(client, nearcall_request_send(client, 5000, &call), NEARCALL_OK);
    while (!client->connection.draining)
        CHECK(nearcall_process(client) == 0);
    CHECK_CALL(client, nearcall_connect(client, 5000), NEARCALL_E_AGAIN);
    script_signal(&script);
    while ((r = nearcall_connect(client, 5000)) == NEARCALL_E_AGAIN)
        ;
    CHECK_CALL(client, r, NEARCALL_OK);
    CHECK(nearcall_server_process_id(client) != 0);
    CHECK_CALL(client, nearcall_poll(client, call, &reply), NEARCALL_OK);
    nearcall_close(client);
    script_end(&script);
}

int main(void)
{
    struct script script;
    nearcall_call_id calls[3];
    nearcall_reply reply;
    test_begin();
    script_start(&script, play, NULL);
    nearcall_client *client = test_open(script.address, 0);
    nearcall_function *function = test_find(client, "f");
    for (int i = 0; i < 3; i++) {
        CHECK_CALL(client, nearcall_request(client, function, NEARCALL_CODEC_RAW), NEARCALL_OK);
        CHECK_CALL(client, nearcall_request_send(client, 5000, &calls[i]), NEARCALL_OK);
    }
    CHECK_CALL(client, nearcall_wait(client, calls[2], &reply), NEARCALL_E_UNAVAILABLE);
    CHECK_OUTCOME(client, NEARCALL_OUTCOME_NOT_EXECUTED);
    CHECK_CALL(client, nearcall_wait(client, calls[0], &reply), NEARCALL_OK);
    script_signal(&script);
    CHECK_CALL(client, nearcall_call(client, "f", "new", 3, 5000, &reply), NEARCALL_OK);
    CHECK(reply.bytes == 3 && memcmp(reply.data, "new", 3) == 0);
    CHECK_CALL(client, nearcall_wait(client, calls[1], &reply), NEARCALL_OK);
    CHECK(reply.bytes == 1 && reply.data[0] == '1');
    nearcall_close(client);
    script_end(&script);
    stuck(0);
    stuck(NEARCALL_NONBLOCKING);
    beyond_what_was_sent();
    for (int tries = 0; !says_not_executed_in_time(); tries++)
        CHECK(tries < TEST_TRIES);
    connecting_again();
    return 0;
}
