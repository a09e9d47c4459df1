/* Against the real server, stopped: before it accepts, with the connection
 * standing, with its buffers full, in the middle of a large reply. Every call ends
 * by its deadline, none before it, and the handle works when the server goes on. */
#include "test.h"

#include <poll.h>

#define TIMEOUT_MS 120
#define REPLY_BYTES 3000000

static bool times_out(nearcall_client *client, const void *data, size_t bytes, int outcome)
{
    nearcall_reply reply;
    double before_ms = test_now_ms();
    CHECK_CALL(client, nearcall_call(client, "echo", data, bytes, TIMEOUT_MS, &reply),
               NEARCALL_E_DEADLINE_EXCEEDED);
    double took_ms = test_now_ms() - before_ms;
    CHECK_OUTCOME(client, outcome);
    return test_in_time(took_ms, TIMEOUT_MS);
}

static void expect_deadline(nearcall_client *client, size_t bytes, int outcome)
{
    uint8_t *data = calloc(1, bytes);
    int tries = 0;
    CHECK(data != NULL);
    while (!times_out(client, data, bytes, outcome))
        CHECK(++tries < TEST_TRIES);
    free(data);
}

/* The buffers are full before all of the frame is written; what comes next waits behind it. */
static void expect_deadline_of_half(nearcall_client *client)
{
    int outcome = NEARCALL_OUTCOME_UNKNOWN;
    uint8_t *data = calloc(1, 1 << 20);
    CHECK(data != NULL);
    for (int tries = 0; !times_out(client, data, 1 << 20, outcome); tries++) {
        CHECK(tries < TEST_TRIES);
        outcome = NEARCALL_OUTCOME_NOT_EXECUTED;
    }
    free(data);
}

static void expect_ping_deadline(nearcall_client *client)
{
    for (int i = 0; i < TEST_TRIES; i++) {
        uint64_t round_trip_ns;
        double before_ms = test_now_ms();
        CHECK_CALL(client, nearcall_ping(client, TIMEOUT_MS, &round_trip_ns),
                   NEARCALL_E_DEADLINE_EXCEEDED);
        if (test_in_time(test_now_ms() - before_ms, TIMEOUT_MS))
            return;
    }
    CHECK(!"the ping ended in time");
}

/* Calls in flight that are waited for one after the other end together: the grace
 * of one is that of all. */
static void expect_deadline_together(nearcall_client *client, nearcall_function *function)
{
    nearcall_call_id calls[32];
    nearcall_reply reply;
    for (int i = 0; i < TEST_TRIES; i++) {
        double before_ms = test_now_ms();
        for (size_t k = 0; k < sizeof(calls) / sizeof(calls[0]); k++) {
            test_request_int(client, function, 1);
            CHECK_CALL(client, nearcall_request_send(client, TIMEOUT_MS, &calls[k]), NEARCALL_OK);
        }
        for (size_t k = 0; k < sizeof(calls) / sizeof(calls[0]); k++)
            CHECK_CALL(client, nearcall_wait(client, calls[k], &reply),
                       NEARCALL_E_DEADLINE_EXCEEDED);
        if (test_in_time(test_now_ms() - before_ms, TIMEOUT_MS))
            return;
    }
    CHECK(!"the calls ended in time");
}

static void expect_life(nearcall_client *client)
{
    nearcall_reply reply;
    CHECK_CALL(client, nearcall_call(client, "echo", "x", 1, 20000, &reply), NEARCALL_OK);
    CHECK_INT(reply.bytes, 1);
}

/* The reply is larger than what the sockets hold, so the server is stopped in the
 * middle of writing it. */
static bool reply_times_out(struct server *server)
{
    nearcall_client *client = test_open(server->address, 0);
    nearcall_function *fill = test_find(client, "fill");
    nearcall_call_id call;
    nearcall_reply reply;
    test_request_int(client, fill, REPLY_BYTES);
    double before_ms = test_now_ms();
    CHECK_CALL(client, nearcall_request_send(client, TIMEOUT_MS, &call), NEARCALL_OK);
    struct pollfd watched = {.fd = nearcall_fd(client), .events = POLLIN};
    if (poll(&watched, 1, TIMEOUT_MS) != 1) { /* a busy machine: it has no beginning yet */
        nearcall_close(client);
        return false;
    }
    server_pause(server);
    CHECK_CALL(client, nearcall_wait(client, call, &reply), NEARCALL_E_DEADLINE_EXCEEDED);
    bool in_time = test_in_time(test_now_ms() - before_ms, TIMEOUT_MS) &&
                   test_answered_in_time(client, NEARCALL_OUTCOME_EXECUTED_RESULT_LOST);
    if (in_time)
        CHECK_OUTCOME(client, NEARCALL_OUTCOME_EXECUTED_RESULT_LOST);
    server_go_on(server);
    expect_life(client);
    nearcall_close(client);
    return in_time;
}

static void expect_deadline_within_a_reply(struct server *server)
{
    int tries = 0;
    while (!reply_times_out(server))
        CHECK(++tries < TEST_TRIES);
}

int main(void)
{
    struct server server;
    test_begin();
    server_start(&server);
    nearcall_client *fresh = test_open(server.address, 0);
    nearcall_client *standing = test_open(server.address, 0);
    nearcall_client *non_blocking = test_open(server.address, NEARCALL_NONBLOCKING);
    expect_life(standing);
    expect_life(non_blocking);
    server_pause(&server);
    for (int i = 0; i < 3; i++)
        expect_deadline(fresh, 8, NEARCALL_OUTCOME_NOT_EXECUTED);
    expect_deadline(standing, 8, NEARCALL_OUTCOME_UNKNOWN); /* read no more */
    expect_deadline(non_blocking, 8, NEARCALL_OUTCOME_UNKNOWN);
    expect_deadline_of_half(standing);
    server_go_on(&server);
    expect_life(fresh);
    expect_life(standing);
    expect_life(non_blocking);
    nearcall_function *fill = test_find(standing, "fill");
    server_pause(&server);
    uint64_t round_trip_ns;
    expect_ping_deadline(standing);
    expect_deadline_together(standing, fill);
    server_go_on(&server);
    expect_life(standing); /* the late pong and reply were dropped */
    CHECK_CALL(standing, nearcall_ping(standing, 20000, &round_trip_ns), NEARCALL_OK);
    expect_deadline_within_a_reply(&server);
    nearcall_close(fresh);
    nearcall_close(standing);
    nearcall_close(non_blocking);
    server_stop(&server);
    return 0;
}
