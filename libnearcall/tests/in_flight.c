/* Thousands of calls of one handle, and what the server allows of them: who finds no
 * room waits in line, within its own deadline, also behind calls that were given up. */
#include <poll.h>

#include "base/limits_gen.h"
#include "script.h"

#define MANY 4000
#define ALLOWED 3

static nearcall_call_id send_one(nearcall_client *client, nearcall_function *function,
                                 uint32_t number, int64_t timeout_ms)
{
    nearcall_call_id call;
    CHECK_CALL(client, nearcall_request(client, function, NEARCALL_CODEC_RAW), NEARCALL_OK);
    nearcall_put_raw(client, &number, sizeof(number));
    CHECK_CALL(client, nearcall_request_send(client, timeout_ms, &call), NEARCALL_OK);
    return call;
}

static void check_number(const nearcall_reply *reply, uint32_t expected)
{
    uint32_t number;
    CHECK_INT(reply->bytes, sizeof(number));
    memcpy(&number, reply->data, sizeof(number));
    CHECK_INT(number, expected);
}

static void turn(nearcall_client *client)
{
    struct pollfd watched = {nearcall_fd(client), (short)nearcall_events(client), 0};
    poll(&watched, 1, (int)nearcall_timeout_ms(client));
    CHECK(nearcall_process(client) >= 0);
}

/* ---- The real server ---- */

static nearcall_client *open_for_many(const struct server *server, uint32_t flags)
{
    nearcall_options options = NEARCALL_OPTIONS_INIT;
    options.flags = flags;
    options.calls_in_flight_max = MANY;
    return test_open_with(server->address, &options);
}

static void begin_many(nearcall_client *client, nearcall_call_id *calls)
{
    nearcall_call_id one_more;
    nearcall_function *echo = test_find(client, "echo");
    for (uint32_t i = 0; i < MANY; i++)
        calls[i] = send_one(client, echo, i, 60000);
    CHECK_CALL(client, nearcall_request(client, echo, NEARCALL_CODEC_RAW), NEARCALL_OK);
    CHECK_CALL(client, nearcall_request_send(client, 0, &one_more), NEARCALL_E_RESOURCE_EXHAUSTED);
    CHECK(strstr(nearcall_error_message(client), "calls_in_flight_max") != NULL);
    CHECK_OUTCOME(client, NEARCALL_OUTCOME_NOT_EXECUTED);
}

static void thousands_wait(const struct server *server)
{
    static nearcall_call_id calls[MANY];
    nearcall_reply reply;
    nearcall_client *client = open_for_many(server, 0);
    begin_many(client, calls);
    for (uint32_t i = MANY; i-- > 0;) {
        CHECK_CALL(client, nearcall_wait(client, calls[i], &reply), NEARCALL_OK);
        check_number(&reply, i);
    }
    nearcall_close(client);
}

static void thousands_in_a_loop(const struct server *server)
{
    static nearcall_call_id calls[MANY];
    nearcall_call_id finished;
    nearcall_reply reply;
    nearcall_client *client = open_for_many(server, NEARCALL_NONBLOCKING);
    begin_many(client, calls);
    for (uint32_t count = 0; count < MANY;) {
        turn(client);
        while ((finished = nearcall_next_finished(client)) != 0) {
            uint32_t i = 0;
            while (calls[i] != finished)
                i++;
            CHECK_CALL(client, nearcall_poll(client, finished, &reply), NEARCALL_OK);
            check_number(&reply, i);
            count++;
        }
    }
    CHECK_INT(nearcall_timeout_ms(client), -1);
    nearcall_close(client);
}

/* ---- What a server allows ---- */

/* What comes behind answers to calls whose callers have gone, in the order of ids. */
static void answer_late(struct script *script)
{
    struct nc_frame frames[ALLOWED], frame, last;
    uint8_t ping[NC_PING_BYTES_MAX];
    script->calls_in_flight_max = ALLOWED;
    script_greet(script);
    script_expect(script, NC_RESOLVE, &frame);
    script_reply(script, &frame, "\x80", 1);
    for (int i = 0; i < ALLOWED; i++)
        script_expect(script, NC_REQUEST, &frames[i]);
    for (int i = 0; i < ALLOWED; i++)
        script_expect(script, NC_CANCEL, &frame);
    script_read(script, &frame, ping);
    CHECK_INT(frame.type, NC_PING); /* no request meanwhile */
    struct nc_frame pong = {.type = NC_PONG, .length = frame.length};
    script_send_frame(script, &pong, ping);
    script_await(script);
    script_reply(script, &frames[1], "late", 4);
    script_expect(script, NC_REQUEST, &frame);
    script_reply(script, &frames[0], "late", 4);
    script_expect(script, NC_REQUEST, &last);
    CHECK(frames[ALLOWED - 1].call_id < frame.call_id && frame.call_id < last.call_id);
    script_reply(script, &last, "last", 4);
    script_reply(script, &frame, "first", 5);
    script_serve(script);
}

static void give_all_up(nearcall_client *client, nearcall_function *function)
{
    nearcall_call_id calls[ALLOWED];
    nearcall_reply reply;
    for (uint32_t i = 0; i < ALLOWED; i++)
        calls[i] = send_one(client, function, i, 50);
    for (uint32_t i = 0; i < ALLOWED; i++) {
        CHECK_CALL(client, nearcall_wait(client, calls[i], &reply), NEARCALL_E_DEADLINE_EXCEEDED);
        CHECK_OUTCOME(client, NEARCALL_OUTCOME_UNKNOWN);
    }
}

static void functions_outlive_their_calls(void)
{
    struct script script;
    nearcall_reply reply;
    script_start(&script, answer_late, NULL);
    nearcall_client *client = test_open(script.address, 0);
    CHECK(nearcall_room(client) == UINT32_MAX); /* not connected */
    nearcall_function *function = test_find(client, "f");
    CHECK_INT(nearcall_room(client), ALLOWED);
    give_all_up(client, function);
    CHECK_INT(nearcall_room(client), 0);
    CHECK_CALL(client, nearcall_ping(client, 20000, NULL), NEARCALL_OK);
    CHECK_CALL(client, nearcall_call(client, "f", "x", 1, 50, &reply), NEARCALL_E_DEADLINE_EXCEEDED);
    CHECK_OUTCOME(client, NEARCALL_OUTCOME_NOT_EXECUTED);
    CHECK(strstr(nearcall_error_message(client), "calls_in_flight_max") != NULL);
    nearcall_call_id first = send_one(client, function, 1, 20000);
    script_signal(&script);
    CHECK_CALL(client, nearcall_call(client, "f", "x", 1, 20000, &reply), NEARCALL_OK);
    CHECK(reply.bytes == 4 && memcmp(reply.data, "last", 4) == 0);
    CHECK_CALL(client, nearcall_wait(client, first, &reply), NEARCALL_OK);
    CHECK(reply.bytes == 5 && memcmp(reply.data, "first", 5) == 0);
    CHECK_INT(nearcall_room(client), ALLOWED - 1); /* one that was given up is not answered yet */
    CHECK(nearcall_room(NULL) == UINT32_MAX);
    nearcall_close(client);
    script_end(&script);
}

/* The line is not lost with the connection: it goes on over the next. */
static void lose_one(struct script *script)
{
    struct nc_frame frame;
    script->calls_in_flight_max = 1;
    script_greet(script);
    script_expect(script, NC_RESOLVE, &frame);
    script_reply(script, &frame, "\x80", 1);
    script_expect(script, NC_REQUEST, &frame);
    script_await(script);
    script_hang_up(script);
    script_greet(script);
    script_serve(script);
}

static void the_line_survives_its_connection(void)
{
    struct script script;
    nearcall_reply reply;
    nearcall_call_id calls[ALLOWED];
    script_start(&script, lose_one, NULL);
    nearcall_client *client = test_open(script.address, 0);
    nearcall_function *function = test_find(client, "f");
    for (uint32_t i = 0; i < ALLOWED; i++)
        calls[i] = send_one(client, function, i, 20000);
    nearcall_cancel(client, calls[1]);
    script_signal(&script);
    CHECK_CALL(client, nearcall_wait(client, calls[2], &reply), NEARCALL_OK);
    check_number(&reply, 2);
    CHECK_CALL(client, nearcall_wait(client, calls[0], &reply), NEARCALL_E_UNAVAILABLE);
    CHECK_CALL(client, nearcall_wait(client, calls[1], &reply), NEARCALL_E_MISUSE);
    nearcall_close(client);
    script_end(&script);
}

int main(void)
{
    struct server server;
    test_begin();
    server_start(&server);
    thousands_wait(&server);
    thousands_in_a_loop(&server);
    server_stop(&server);
    functions_outlive_their_calls();
    the_line_survives_its_connection();
    return 0;
}
