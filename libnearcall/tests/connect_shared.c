/* Calls that wait for the same connection keep each its own deadline, whoever began
 * to connect and however little time that one had. */
#include "base/clock.h"
#include "handle/handle.h"
#include "script.h"

static void welcome_late(struct script *script)
{
    script_accept(script);
    script_read_hello(script);
    script_await(script);
    script_welcome(script);
    script_serve(script);
}

static nearcall_call_id find_begin(nearcall_client *client, const char *name, int64_t timeout_ms)
{
    nearcall_call_id call;
    CHECK_CALL(client, nearcall_find_begin(client, name, strlen(name), timeout_ms, &call),
               NEARCALL_OK);
    return call;
}

static void let_pass(int64_t moment_ns)
{
    while (nc_now_ns() <= moment_ns)
        ;
}

static void a_later_call_has_more_time(void)
{
    struct script script;
    nearcall_reply reply;
    script_start(&script, welcome_late, NULL);
    nearcall_client *client = test_open(script.address, NEARCALL_NONBLOCKING);
    nearcall_call_id hasty = find_begin(client, "a", 50);
    nearcall_call_id patient = find_begin(client, "b", 10000);
    while (nearcall_next_finished(client) != hasty)
        CHECK(nearcall_process(client) >= 0);
    CHECK_CALL(client, nearcall_poll(client, hasty, &reply), NEARCALL_E_DEADLINE_EXCEEDED);
    CHECK_OUTCOME(client, NEARCALL_OUTCOME_NOT_EXECUTED);
    CHECK_CALL(client, nearcall_poll(client, patient, &reply), NEARCALL_E_AGAIN);
    script_signal(&script);
    CHECK_CALL(client, nearcall_wait(client, patient, &reply), NEARCALL_OK);
    nearcall_close(client);
    script_end(&script);
}

static void nobody_waits_any_more(int64_t connect_timeout_ms)
{
    struct script script;
    nearcall_options options = NEARCALL_OPTIONS_INIT;
    nearcall_reply reply;
    options.flags = NEARCALL_NONBLOCKING;
    options.connect_timeout_ms = connect_timeout_ms;
    script_start(&script, welcome_late, NULL);
    nearcall_client *client = test_open_with(script.address, &options);
    CHECK_CALL(client, nearcall_connect(client, 1), NEARCALL_E_AGAIN);
    let_pass(client->connection.connect_deadline_ns);
    nearcall_call_id call = find_begin(client, "f", 10000);
    CHECK_INT(nearcall_process(client), 0);
    script_signal(&script);
    CHECK_CALL(client, nearcall_wait(client, call, &reply), NEARCALL_OK);
    nearcall_close(client);
    script_end(&script);
}

/* The option bounds connecting for all who wait, and late ones do not stretch it. */
static void connecting_has_a_limit_of_its_own(void)
{
    struct script script;
    nearcall_options options = NEARCALL_OPTIONS_INIT;
    nearcall_reply reply;
    options.flags = NEARCALL_NONBLOCKING;
    options.connect_timeout_ms = 50;
    script_start(&script, welcome_late, NULL);
    nearcall_client *client = test_open_with(script.address, &options);
    nearcall_call_id first = find_begin(client, "a", 10000);
    let_pass(client->connection.connect_deadline_ns - 20 * NC_NS_PER_MS);
    nearcall_call_id second = find_begin(client, "b", 10000);
    CHECK(client->connection.connect_deadline_ns < nc_now_ns() + 25 * NC_NS_PER_MS);
    CHECK_CALL(client, nearcall_wait(client, second, &reply), NEARCALL_E_DEADLINE_EXCEEDED);
    CHECK_OUTCOME(client, NEARCALL_OUTCOME_NOT_EXECUTED);
    CHECK_CALL(client, nearcall_wait(client, first, &reply), NEARCALL_E_DEADLINE_EXCEEDED);
    script_signal(&script);
    nearcall_close(client);
    script_end(&script);
}

int main(void)
{
    test_begin();
    a_later_call_has_more_time();
    nobody_waits_any_more(0);
    nobody_waits_any_more(5000);
    connecting_has_a_limit_of_its_own();
    return 0;
}
