/* Against the real server, stopped: before it accepts, with the connection
 * standing, with its buffers full, in the middle of a large reply. Every call ends
 * by its deadline, none before it, and the handle works when the server goes on. */
#include "test.h"

#define TIMEOUT_MS 120

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

static void expect_life(nearcall_client *client)
{
    nearcall_reply reply;
    CHECK_CALL(client, nearcall_call(client, "echo", "x", 1, 20000, &reply), NEARCALL_OK);
    CHECK_INT(reply.bytes, 1);
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
    /* buffers full: half of the frame is written, so the connection is dropped */
    expect_deadline(standing, 1 << 20, NEARCALL_OUTCOME_NOT_EXECUTED);
    server_go_on(&server);
    expect_life(fresh);
    expect_life(standing);
    expect_life(non_blocking);
    server_pause(&server);
    uint64_t round_trip_ns;
    expect_ping_deadline(standing);
    server_go_on(&server);
    expect_life(standing); /* the late pong and reply were dropped */
    CHECK_CALL(standing, nearcall_ping(standing, 20000, &round_trip_ns), NEARCALL_OK);
    nearcall_close(fresh);
    nearcall_close(standing);
    nearcall_close(non_blocking);
    server_stop(&server);
    return 0;
}
