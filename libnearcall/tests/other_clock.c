/* A server that takes its clock for the caller's, which it is not: deadlines are by its own. */
#include "base/clock.h"
#include "script.h"

enum { TIMEOUT_MS = 10000 };

static void expects_deadlines_by_its_clock(struct script *script)
{
    struct nc_frame frame;
    script->clock_ahead_ns = *(int64_t *)script->argument;
    script_greet(script);
    script_expect(script, NC_REQUEST, &frame);
    uint32_t now_ms = (uint32_t)((nc_now_ns() + script->clock_ahead_ns) / NC_NS_PER_MS);
    int32_t left_ms = (int32_t)(frame.deadline_ms - now_ms);
    if (left_ms > TIMEOUT_MS + 2 || left_ms < TIMEOUT_MS / 2)
        fprintf(stderr, "a clock that is %lld ns ahead: %d ms are left\n",
                (long long)script->clock_ahead_ns, left_ms);
    CHECK(left_ms <= TIMEOUT_MS + 2 && left_ms >= TIMEOUT_MS / 2);
    script_reply(script, &frame, "x", 1);
    script_await(script);
}

static void check(int64_t ahead_ms)
{
    struct script script;
    nearcall_reply reply;
    int64_t ahead_ns = ahead_ms * NC_NS_PER_MS;
    script_start(&script, expects_deadlines_by_its_clock, &ahead_ns);
    nearcall_client *client = test_open(script.address, 0);
    CHECK_CALL(client, nearcall_call(client, "f", "x", 1, TIMEOUT_MS, &reply), NEARCALL_OK);
    script_signal(&script);
    script_end(&script);
    nearcall_close(client);
}

int main(void)
{
    test_begin();
    check(-1000);
    check(0);
    check(1000);
    check(3600 * 1000);
    return 0;
}
