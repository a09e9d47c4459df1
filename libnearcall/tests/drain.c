/* DRAIN with calls in flight: those the server took are answered, those above are
 * not executed, what comes next goes over a new connection. */
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
    return 0;
}
