/* An address with several endpoints: which of them takes a call, when a call moves on and when it does not, and how
 * calls come back to a nearer endpoint. */
#include <unistd.h>

#include "base/limits_gen.h"
#include "endpoints_test.h"

#define CALLS 400
#define BACK_WITHIN_MS (NC_ENDPOINT_RETURN_MS + 1000)

static nearcall_client *open_two(const struct host *first, const char *between, const struct host *second,
                                 uint32_t attempts_max)
{
    nearcall_options options = NEARCALL_OPTIONS_INIT;
    options.attempts_max = attempts_max;
    return test_open_with(two_hosts(first, between, second), &options);
}

/* ---- Which one ---- */

/* Calls, until one has gone to the host. */
static void expect_back(nearcall_client *client, struct host *host)
{
    double begun_ms = test_now_ms();
    (void)host_requests(host);
    do {
        CHECK(test_now_ms() - begun_ms < BACK_WITHIN_MS * test_slowness());
        call_it(client);
    } while (host_requests(host) == 0);
}

static void expect_at(nearcall_client *client, struct host *host, const struct host *other)
{
    int other_requests = atomic_load(&other->requests);
    (void)host_requests(host);
    for (int i = 0; i < 10; i++)
        call_it(client);
    CHECK_INT(host_requests(host), 10);
    CHECK_INT(atomic_load(&other->requests), other_requests);
    CHECK(strcmp(nearcall_endpoint(client), host->script.address) == 0);
}

/* Over TCP nobody knows what became of a call that was sent before the end has arrived. */
static void notice_end(nearcall_client *client)
{
    while (*nearcall_endpoint(client)) /* the test has a bound */
        (void)nearcall_process(client);
}

static void nearest_first(const char *scheme)
{
    struct host near, far;
    host_start(&near, scheme);
    host_start(&far, scheme);
    nearcall_client *client = open_two(&near, " | ", &far, 1);
    CHECK(strcmp(nearcall_endpoint(client), "") == 0);
    expect_at(client, &near, &far);
    CHECK_INT(atomic_load(&far.connections), 0);
    host_stop(&near);
    notice_end(client);
    expect_at(client, &far, &near);
    host_start_again(&near);
    expect_back(client, &near);
    expect_at(client, &near, &far);
    CHECK_INT(atomic_load(&far.connections), 1);
    nearcall_close(client);
    host_end(&near);
    host_end(&far);
}

/* Both get about half of the calls, each over one connection. */
static void equals_share(void)
{
    struct host one, other;
    host_start(&one, "tcp:");
    host_start(&other, "tcp:");
    nearcall_client *client = open_two(&one, ",", &other, 1);
    for (int i = 0; i < CALLS; i++)
        call_it(client);
    int requests = host_requests(&one);
    CHECK(requests > CALLS / 4 && requests < CALLS / 4 * 3);
    CHECK_INT(requests + host_requests(&other), CALLS);
    CHECK_INT(atomic_load(&one.connections), 1);
    CHECK_INT(atomic_load(&other.connections), 1);
    nearcall_close(client);
    host_end(&one);
    host_end(&other);
}

/* ---- Moving on ---- */

static void moves_on(const char *scheme, enum host_way way)
{
    struct host near, far;
    host_start(&near, scheme);
    host_start(&far, scheme);
    atomic_store(&near.way, way);
    nearcall_client *client = open_two(&near, "|", &far, 1);
    call_it(client);
    CHECK_INT(host_requests(&far), 1);
    CHECK(host_requests(&near) <= 1);
    CHECK(strcmp(nearcall_endpoint(client), far.script.address) == 0);
    CHECK_INT(nearcall_sendings(client), 1);
    nearcall_close(client);
    host_end(&near);
    host_end(&far);
}

static void stays(enum host_way way, int code, int outcome)
{
    struct host near, far;
    nearcall_reply reply;
    host_start(&near, "unix:");
    host_start(&far, "unix:");
    atomic_store(&near.way, way);
    nearcall_client *client = open_two(&near, "|", &far, 1);
    CHECK_CALL(client, nearcall_call(client, "f", "x", 1, 20000, &reply), code);
    CHECK_OUTCOME(client, outcome);
    CHECK_INT(host_requests(&far), 0);
    if (way == HOST_REFUSES_CALLER) /* the endpoint rests */
        expect_at(client, &far, &near);
    nearcall_close(client);
    host_end(&near);
    host_end(&far);
}

/* A function that the nearer server lacks is not asked for there with each call. */
static void lack_is_remembered(void)
{
    struct host near, far;
    host_start(&near, "unix:");
    host_start(&far, "unix:");
    near.script.schema_hash++;
    atomic_store(&near.way, HOST_LACKS);
    nearcall_client *client = open_two(&near, "|", &far, 1);
    for (int i = 0; i < 5; i++)
        call_it(client);
    CHECK_INT(host_requests(&near), 1);
    CHECK_INT(host_requests(&far), 5);
    nearcall_close(client);
    host_end(&near);
    host_end(&far);
}

/* The nearer server has the function by now, but its connection is that of the former one. */
static void lacking_is_asked_last(void)
{
    struct host near, far;
    host_start(&near, "unix:");
    host_start(&far, "unix:");
    near.script.schema_hash++;
    atomic_store(&near.way, HOST_LACKS);
    nearcall_client *client = open_two(&near, "|", &far, 1);
    call_it(client);
    atomic_store(&near.way, HOST_SERVES);
    call_it(client);
    CHECK_INT(host_requests(&near), 1);
    CHECK_INT(host_requests(&far), 2);
    host_stop(&far);
    for (int i = 0; i < 3; i++)
        call_it(client);
    CHECK_INT(host_requests(&near), 3);
    nearcall_close(client);
    host_end(&near);
}

/* ---- When no endpoint is left ---- */

/* Of a function that one of them had, one is asked each time; what nobody ever had is not remembered. */
static void all_lack(bool had_it)
{
    struct host near, far;
    nearcall_reply reply;
    host_start(&near, "unix:");
    host_start(&far, "unix:");
    near.script.schema_hash++;
    nearcall_client *client = open_two(&near, "|", &far, 3);
    if (had_it)
        call_it(client);
    atomic_store(&near.way, HOST_LACKS);
    atomic_store(&far.way, HOST_LACKS);
    for (int i = 0; i < 3; i++) {
        (void)host_requests(&near);
        (void)host_requests(&far);
        CHECK_CALL(client, nearcall_call(client, "f", "x", 1, 20000, &reply), NEARCALL_E_UNIMPLEMENTED);
        CHECK_OUTCOME(client, NEARCALL_OUTCOME_NOT_EXECUTED);
        CHECK(strncmp(nearcall_error_message(client), "there is no such function", 25) == 0);
        CHECK_INT(host_requests(&near), 1);
        CHECK_INT(host_requests(&far), !had_it || i == 0);
    }
    nearcall_close(client);
    host_end(&near);
    host_end(&far);
}

/* The error is that of the one that may take the call later, with the details that it has. */
static void error_of_all(void)
{
    struct host near, far;
    nearcall_reply reply;
    char expected[300];
    host_start(&near, "unix:");
    host_start(&far, "unix:");
    atomic_store(&near.way, HOST_LACKS);
    atomic_store(&far.way, HOST_FULL);
    nearcall_client *client = open_two(&near, "|", &far, 1);
    CHECK_CALL(client, nearcall_call(client, "f", "x", 1, 20000, &reply), NEARCALL_E_RESOURCE_EXHAUSTED);
    CHECK_OUTCOME(client, NEARCALL_OUTCOME_NOT_EXECUTED);
    snprintf(expected, sizeof(expected), "full\n%s: there is no such function", near.script.address);
    CHECK(strcmp(nearcall_error_message(client), expected) == 0);
    size_t details_bytes;
    const uint8_t *details = nearcall_error_details(client, &details_bytes);
    CHECK(details && memmem(details, details_bytes, "nearcall.limit", 14) != NULL);
    host_stop(&far);
    CHECK_CALL(client, nearcall_call(client, "f", "x", 1, 20000, &reply), NEARCALL_E_UNAVAILABLE);
    CHECK(strstr(nearcall_error_message(client), "cannot connect to ") != NULL);
    CHECK(strstr(nearcall_error_message(client), "there is no such function") != NULL);
    nearcall_close(client);
    host_end(&near);
    host_end(&far);
}

static void nobody_is_there(void)
{
    struct host near, far;
    nearcall_reply reply;
    host_start(&near, "unix:");
    host_start(&far, "unix:");
    nearcall_client *client = open_two(&near, "|", &far, 2);
    host_stop(&near);
    host_stop(&far);
    for (int i = 0; i < 3; i++) {
        CHECK_CALL(client, nearcall_call(client, "f", "x", 1, 20000, &reply), NEARCALL_E_UNAVAILABLE);
        CHECK_OUTCOME(client, NEARCALL_OUTCOME_NOT_EXECUTED);
        CHECK(strncmp(nearcall_error_message(client), "cannot connect to ", 18) == 0);
        CHECK(strstr(nearcall_error_message(client), "\nunix:") != NULL);
        CHECK(strstr(nearcall_error_message(client), near.script.address) != NULL);
        CHECK(strstr(nearcall_error_message(client), far.script.address) != NULL);
    }
    CHECK_CALL(client, nearcall_connect(client, 20000), NEARCALL_E_UNAVAILABLE);
    host_start_again(&far);
    call_it(client); /* no call fails only because everything rests */
    nearcall_close(client);
    host_end(&far);
}

/* ---- Time ---- */

/* A call waits for half of its time at most; connecting goes on without it, and calls use that later. */
static void one_says_nothing(const char *scheme)
{
    struct host near, far;
    nearcall_reply reply;
    host_start(&near, scheme);
    host_start(&far, scheme);
    atomic_store(&near.way, HOST_SAYS_NOTHING);
    nearcall_client *client = open_two(&near, "|", &far, 1);
    double begun_ms = test_now_ms();
    CHECK_CALL(client, nearcall_call(client, "f", "x", 1, 1200, &reply), NEARCALL_OK);
    CHECK(test_now_ms() - begun_ms >= 599);
    for (int i = 0; i < 100; i++)
        call_it(client);
    CHECK_INT(host_requests(&far), 101);
    atomic_store(&near.way, HOST_SERVES);
    expect_back(client, &near);
    nearcall_close(client);
    host_end(&near);
    host_end(&far);
}

int main(void)
{
    test_begin();
    nearest_first("unix:");
    nearest_first("tcp:");
    equals_share();
    moves_on("unix:", HOST_LACKS);
    moves_on("unix:", HOST_FULL);
    moves_on("unix:", HOST_REFUSES);
    moves_on("unix:", HOST_DRAINS);
    moves_on("unix:", HOST_RESETS);
    moves_on("tcp:", HOST_DRAINS);
    moves_on("tcp:", HOST_FULL);
    stays(HOST_REFUSES_ARGUMENTS, NEARCALL_E_INVALID_ARGUMENT, NEARCALL_OUTCOME_NOT_EXECUTED);
    stays(HOST_REFUSES_CALLER, NEARCALL_E_PERMISSION_DENIED, NEARCALL_OUTCOME_NOT_EXECUTED);
    stays(HOST_ENDS, NEARCALL_E_UNAVAILABLE, NEARCALL_OUTCOME_UNKNOWN);
    lack_is_remembered();
    lacking_is_asked_last();
    all_lack(true);
    all_lack(false);
    error_of_all();
    nobody_is_there();
    one_says_nothing("unix:");
    one_says_nothing("tcp:");
    return 0;
}
