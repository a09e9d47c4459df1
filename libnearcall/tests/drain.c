/* DRAIN with calls in flight: those the server took are answered, those above are
 * not executed, what comes next goes over a new connection. */
#include "client.h"
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
    return 0;
}
