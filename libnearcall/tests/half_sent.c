/* Calls that end while the server has taken only a part of their request: the rest of it and
 * CANCEL follow, whatever becomes of the caller's memory, and others on the connection are
 * answered. It is dropped only for those who wait behind what the server never takes. */
#include <poll.h>
#include <unistd.h>

#include "base/clock.h"
#include "connection/connection.h"
#include "handle/handle.h"
#include "script.h"

#define LARGE_BYTES (1 << 20)
#define SHORT_MS 50

typedef void end_half_sent(nearcall_client *client, nearcall_function *function);

static void begin_slow(struct script *script, struct nc_frame *slow)
{
    struct nc_frame frame;
    script_greet(script);
    script_expect(script, NC_RESOLVE, &frame);
    script_reply(script, &frame, "\x80", 1);
    script_expect(script, NC_REQUEST, slow);
}

static void reads_late(struct script *script)
{
    struct nc_frame slow, large, cancel;
    begin_slow(script, &slow);
    script_await(script);
    script_expect_filled(script, &large, 'L');
    script_expect(script, NC_CANCEL, &cancel);
    CHECK_INT(cancel.call_id, large.call_id);
    script_error(script, large.call_id, 1, NEARCALL_OUTCOME_NOT_EXECUTED, "cancelled");
    script_reply(script, &slow, "slow", 4);
    script_serve(script);
}

/* As who has no room for it, by its head. */
static void refuses_at_once(struct script *script)
{
    struct nc_frame slow, large;
    uint8_t header[NC_FRAME_HEADER_BYTES];
    begin_slow(script, &slow);
    CHECK_INT(recv(script->fd, header, sizeof(header), MSG_PEEK | MSG_WAITALL), sizeof(header));
    nc_frame_decode(&large, header);
    script_error(script, large.call_id, 8, NEARCALL_OUTCOME_NOT_EXECUTED, "no room");
    script_await(script);
    script_expect_filled(script, &large, 'L');
    script_reply(script, &slow, "slow", 4);
    script_serve(script);
}

static void never_reads_on(struct script *script)
{
    struct nc_frame slow;
    begin_slow(script, &slow);
    int first = script->fd;
    script->fd = -1; /* it stays open */
    script_greet(script);
    script_serve(script);
    close(first);
}

/* As the server of a caller that was held up in the middle of a request. */
static void complains_and_serves(struct script *script)
{
    struct nc_frame slow, large;
    begin_slow(script, &slow);
    script_await(script);
    script_error(script, 0, 3, NEARCALL_OUTCOME_NOT_EXECUTED, "a frame stopped");
    int first = script->fd;
    script->fd = -1; /* it stays open: the error alone is what ends it */
    script_greet(script);
    script_expect_filled(script, &large, 'L');
    script_reply(script, &large, "large", 5);
    script_await(script);
    close(first);
}

static void drains(struct script *script)
{
    struct nc_frame slow;
    begin_slow(script, &slow);
    script_await(script);
    script_drain(script, slow.call_id);
    script_await(script);
    script_reply(script, &slow, "slow", 4);
    script_await(script);
}

/* ---- How calls end by half ---- */

static uint8_t *large_data(void)
{
    uint8_t *data = malloc(LARGE_BYTES);
    CHECK(data != NULL);
    memset(data, 'L', LARGE_BYTES);
    return data;
}

static nearcall_call_id begin_large(nearcall_client *client, nearcall_function *function, int64_t timeout_ms)
{
    nearcall_call_id call;
    uint8_t *data = large_data();
    CHECK_CALL(client, nearcall_request(client, function, NEARCALL_CODEC_RAW), NEARCALL_OK);
    nearcall_put_raw(client, data, LARGE_BYTES);
    free(data);
    CHECK_CALL(client, nearcall_request_send(client, timeout_ms, &call), NEARCALL_OK);
    return call;
}

/* Its memory is the caller's again when the call has ended. */
static void call_large(nearcall_client *client, int64_t timeout_ms, int result, int outcome)
{
    nearcall_reply reply;
    uint8_t *data = large_data();
    CHECK_CALL(client, nearcall_call(client, "f", data, LARGE_BYTES, timeout_ms, &reply), result);
    CHECK_OUTCOME(client, outcome);
    memset(data, 'X', LARGE_BYTES);
    free(data);
}

static void times_out_in_the_call(nearcall_client *client, nearcall_function *function)
{
    (void)function;
    call_large(client, SHORT_MS, NEARCALL_E_DEADLINE_EXCEEDED, NEARCALL_OUTCOME_UNKNOWN);
}

static void times_out_in_flight(nearcall_client *client, nearcall_function *function)
{
    nearcall_reply reply;
    nearcall_call_id call = begin_large(client, function, SHORT_MS);
    CHECK_CALL(client, nearcall_wait(client, call, &reply), NEARCALL_E_DEADLINE_EXCEEDED);
    CHECK_OUTCOME(client, NEARCALL_OUTCOME_UNKNOWN);
}

static void is_cancelled(nearcall_client *client, nearcall_function *function)
{
    nearcall_cancel(client, begin_large(client, function, 20000));
}

static void is_refused(nearcall_client *client, nearcall_function *function)
{
    (void)function;
    call_large(client, 20000, NEARCALL_E_RESOURCE_EXHAUSTED, NEARCALL_OUTCOME_NOT_EXECUTED);
}

static void is_refused_in_flight(nearcall_client *client, nearcall_function *function)
{
    nearcall_reply reply;
    nearcall_call_id call = begin_large(client, function, 20000);
    CHECK_CALL(client, nearcall_wait(client, call, &reply), NEARCALL_E_RESOURCE_EXHAUSTED);
    CHECK_OUTCOME(client, NEARCALL_OUTCOME_NOT_EXECUTED);
}

/* ---- What becomes of others ---- */

static nearcall_call_id begin_beside(nearcall_client *client, nearcall_function *function)
{
    nearcall_call_id call;
    CHECK_CALL(client, nearcall_request(client, function, NEARCALL_CODEC_RAW), NEARCALL_OK);
    CHECK_CALL(client, nearcall_request_send(client, 20000, &call), NEARCALL_OK);
    return call;
}

static void expect_slow(nearcall_client *client, nearcall_call_id call)
{
    nearcall_reply reply;
    CHECK_CALL(client, nearcall_wait(client, call, &reply), NEARCALL_OK);
    CHECK(reply.bytes == 4 && memcmp(reply.data, "slow", 4) == 0);
}

static void others_are_answered(void (*play)(struct script *), end_half_sent *end, uint32_t flags)
{
    struct script script;
    nearcall_reply reply;
    script_start(&script, play, NULL);
    nearcall_client *client = test_open(script.address, flags);
    nearcall_function *function = test_find(client, "f");
    nearcall_call_id slow = begin_beside(client, function);
    end(client, function);
    script_signal(&script);
    expect_slow(client, slow);
    CHECK_CALL(client, nearcall_call(client, "f", "next", 4, 20000, &reply), NEARCALL_OK);
    CHECK(reply.bytes == 4 && memcmp(reply.data, "next", 4) == 0);
    nearcall_close(client);
    script_end(&script);
}

static void process_until_finished(nearcall_client *client, nearcall_call_id call)
{
    double end_ms = test_now_ms() + 20000;
    nearcall_reply reply;
    int r;
    while ((r = nearcall_poll(client, call, &reply)) == NEARCALL_E_AGAIN) {
        struct pollfd watched = {.fd = nearcall_fd(client), .events = POLLIN};
        CHECK(test_now_ms() < end_ms);
        (void)poll(&watched, 1, (int)nearcall_timeout_ms(client));
        (void)nearcall_process(client);
    }
    CHECK_CALL(client, r, NEARCALL_E_UNAVAILABLE);
}

/* Dropped not before the server had frame_silence_ms, and long before the next call's timeout. */
static void nothing_is_taken(end_half_sent *end, uint32_t flags)
{
    struct script script;
    nearcall_reply reply;
    script_start(&script, never_reads_on, NULL);
    nearcall_client *client = test_open(script.address, flags);
    nearcall_function *function = test_find(client, "f");
    nearcall_call_id slow = begin_beside(client, function);
    end(client, function);
    double before_ms = test_now_ms();
    if (flags & NEARCALL_NONBLOCKING) {
        process_until_finished(client, slow);
    } else {
        CHECK_CALL(client, nearcall_call(client, "f", "next", 4, 20000, &reply), NEARCALL_OK);
        CHECK_CALL(client, nearcall_wait(client, slow, &reply), NEARCALL_E_UNAVAILABLE);
    }
    CHECK_OUTCOME(client, NEARCALL_OUTCOME_UNKNOWN);
    CHECK(strstr(nearcall_error_message(client), "taken nothing") != NULL);
    double took_ms = test_now_ms() - before_ms;
    CHECK(took_ms > NC_FRAME_SILENCE_MS / 2.0 && took_ms < 15000);
    CHECK_CALL(client, nearcall_call(client, "f", "last", 4, 20000, &reply), NEARCALL_OK);
    nearcall_close(client);
    script_end(&script);
}

/* None of its calls has done anything wrong: each ends as with any other end of the
 * connection, and what certainly did not run is sent again. */
static void a_held_up_connection_is_the_fault_of_no_call(void)
{
    struct script script;
    nearcall_reply reply;
    script_start(&script, complains_and_serves, NULL);
    nearcall_client *client = test_open(script.address, NEARCALL_NONBLOCKING);
    nearcall_function *function = test_find(client, "f");
    nearcall_call_id slow = begin_beside(client, function);
    nearcall_call_id half = begin_large(client, function, 20000);
    nearcall_call_id behind = begin_beside(client, function);
    uint8_t *data = large_data();
    script_signal(&script);
    CHECK_CALL(client, nearcall_call(client, "f", data, LARGE_BYTES, 20000, &reply), NEARCALL_OK);
    CHECK(reply.bytes == 5 && memcmp(reply.data, "large", 5) == 0);
    free(data);
    CHECK_CALL(client, nearcall_wait(client, slow, &reply), NEARCALL_E_UNAVAILABLE);
    CHECK_OUTCOME(client, NEARCALL_OUTCOME_UNKNOWN);
    CHECK(strstr(nearcall_error_message(client), "a frame stopped") != NULL);
    CHECK_CALL(client, nearcall_wait(client, half, &reply), NEARCALL_E_UNAVAILABLE);
    CHECK_OUTCOME(client, NEARCALL_OUTCOME_NOT_EXECUTED);
    CHECK_CALL(client, nearcall_wait(client, behind, &reply), NEARCALL_E_UNAVAILABLE);
    CHECK_OUTCOME(client, NEARCALL_OUTCOME_NOT_EXECUTED);
    script_signal(&script);
    nearcall_close(client);
    script_end(&script);
}

/* A server that is stopping takes no rest, and is given its time to answer. */
static void the_rest_ends_with_drain(void)
{
    struct script script;
    script_start(&script, drains, NULL);
    nearcall_client *client = test_open(script.address, NEARCALL_NONBLOCKING);
    nearcall_function *function = test_find(client, "f");
    nearcall_call_id slow = begin_beside(client, function);
    is_cancelled(client, function);
    CHECK(nc_output_stuck_ns(&client->connection) != NC_NEVER);
    script_signal(&script);
    while (!client->connection.draining)
        CHECK(nearcall_process(client) == 0);
    CHECK(nc_output_stuck_ns(&client->connection) == NC_NEVER);
    CHECK_INT(nearcall_room(client), 0);
    script_signal(&script);
    expect_slow(client, slow);
    CHECK(nearcall_room(client) == UINT32_MAX);
    script_signal(&script);
    nearcall_close(client);
    script_end(&script);
}

int main(void)
{
    test_begin();
    others_are_answered(reads_late, times_out_in_the_call, 0);
    others_are_answered(reads_late, times_out_in_the_call, NEARCALL_NONBLOCKING);
    others_are_answered(reads_late, times_out_in_flight, 0);
    others_are_answered(reads_late, times_out_in_flight, NEARCALL_NONBLOCKING);
    others_are_answered(reads_late, is_cancelled, NEARCALL_NONBLOCKING);
    others_are_answered(refuses_at_once, is_refused, 0);
    others_are_answered(refuses_at_once, is_refused, NEARCALL_NONBLOCKING);
    others_are_answered(refuses_at_once, is_refused_in_flight, NEARCALL_NONBLOCKING);
    nothing_is_taken(times_out_in_the_call, 0);
    nothing_is_taken(times_out_in_flight, NEARCALL_NONBLOCKING);
    nothing_is_taken(is_cancelled, NEARCALL_NONBLOCKING);
    a_held_up_connection_is_the_fault_of_no_call();
    the_rest_ends_with_drain();
    return 0;
}
