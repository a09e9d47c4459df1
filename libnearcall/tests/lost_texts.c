/* A call that was lost says what became of it, whatever was tried since. */
#include <poll.h>
#include <unistd.h>

#include "script.h"

#define TIMEOUT_MS 20000

/* Takes two calls, and listens no more once it has lost them. */
static void takes_and_ends(struct script *script)
{
    struct nc_frame frame;
    script->calls_in_flight_max = 2;
    script_greet(script);
    script_expect(script, NC_RESOLVE, &frame);
    script_reply(script, &frame, "\x80", 1);
    script_expect(script, NC_REQUEST, &frame);
    script_expect(script, NC_REQUEST, &frame);
    script_await(script);
    close(script->listener);
    script->listener = -1;
    script_hang_up(script);
}

static nearcall_call_id begin(nearcall_client *client, nearcall_function *function)
{
    nearcall_call_id call;
    CHECK_CALL(client, nearcall_request(client, function, NEARCALL_CODEC_RAW), NEARCALL_OK);
    nearcall_put_raw(client, "x", 1);
    CHECK_CALL(client, nearcall_request_send(client, TIMEOUT_MS, &call), NEARCALL_OK);
    return call;
}

static void check_lost(nearcall_client *client, nearcall_call_id call)
{
    nearcall_reply reply;
    CHECK_CALL(client, nearcall_wait(client, call, &reply), NEARCALL_E_UNAVAILABLE);
    CHECK_OUTCOME(client, NEARCALL_OUTCOME_UNKNOWN);
    CHECK(strstr(nearcall_error_message(client), "closed the connection") != NULL);
}

static void after_another_call_could_not_connect(void)
{
    struct script script;
    nearcall_reply reply;
    script_start(&script, takes_and_ends, NULL);
    nearcall_client *client = test_open(script.address, 0);
    nearcall_function *function = test_find(client, "f");
    nearcall_call_id first = begin(client, function), second = begin(client, function);
    script_signal(&script);
    check_lost(client, first);
    for (int i = 0; i < 2; i++) {
        CHECK_CALL(client, nearcall_call(client, "f", "y", 1, TIMEOUT_MS, &reply), NEARCALL_E_UNAVAILABLE);
        CHECK(strstr(nearcall_error_message(client), "cannot connect") != NULL);
        CHECK_OUTCOME(client, NEARCALL_OUTCOME_NOT_EXECUTED);
    }
    check_lost(client, second);
    nearcall_close(client);
    script_end(&script);
}

/* What waits in line makes nearcall_process() connect again, before it tells of the loss. */
static void in_a_loop(void)
{
    struct script script;
    nearcall_reply reply;
    script_start(&script, takes_and_ends, NULL);
    nearcall_client *client = test_open(script.address, 0);
    nearcall_function *function = test_find(client, "f");
    nearcall_call_id first = begin(client, function), second = begin(client, function);
    nearcall_call_id third = begin(client, function);
    script_signal(&script);
    struct pollfd watched = {nearcall_fd(client), POLLIN, 0};
    int r;
    while ((r = nearcall_process(client)) >= 0)
        CHECK(poll(&watched, 1, TIMEOUT_MS) == 1);
    CHECK_CALL(client, r, NEARCALL_E_UNAVAILABLE);
    CHECK(strstr(nearcall_error_message(client), "closed the connection") != NULL);
    CHECK_OUTCOME(client, NEARCALL_OUTCOME_UNKNOWN);
    check_lost(client, first);
    check_lost(client, second);
    CHECK_CALL(client, nearcall_wait(client, third, &reply), NEARCALL_E_UNAVAILABLE);
    CHECK_OUTCOME(client, NEARCALL_OUTCOME_NOT_EXECUTED);
    CHECK(strstr(nearcall_error_message(client), "cannot connect") != NULL);
    nearcall_close(client);
    script_end(&script);
}

static void hangs_up_first(struct script *script)
{
    script_accept(script);
    script_read_hello(script);
    script_hang_up(script);
}

/* What the loop is told of a connection that never stood: nothing was sent. */
static void none_stood(void)
{
    struct script script;
    script_start(&script, hangs_up_first, NULL);
    nearcall_client *client = test_open(script.address, NEARCALL_NONBLOCKING);
    struct pollfd watched = {nearcall_fd(client), POLLIN, 0};
    int r = nearcall_connect(client, TIMEOUT_MS);
    CHECK_CALL(client, r, NEARCALL_E_AGAIN);
    while ((r = nearcall_process(client)) >= 0)
        CHECK(poll(&watched, 1, TIMEOUT_MS) == 1);
    CHECK_CALL(client, r, NEARCALL_E_UNAVAILABLE);
    CHECK_OUTCOME(client, NEARCALL_OUTCOME_NOT_EXECUTED);
    nearcall_close(client);
    script_end(&script);
}

int main(void)
{
    test_begin();
    after_another_call_could_not_connect();
    in_a_loop();
    none_stood();
    return 0;
}
