/* A begun request that waits for a store keeps the handle at its endpoint, also while its server has answered everything
 * that it was asked. */
#include <stdlib.h>
#include <unistd.h>

#include "calls/calls.h"
#include "endpoints_test.h"
#include "handle/handle.h"

/* Larger than a frame. */
#define VALUE ((size_t)5 << 20)

/* An error that names a limit. */
static void crowd(struct script *script, uint64_t call_id)
{
    static const uint8_t payload[] = "\x92\xA5later\x91\x92\xAEnearcall.limit\xB4stores_per_direction";
    struct nc_frame error = {.length = sizeof(payload) - 1, .type = NC_ERROR, .codec = NEARCALL_CODEC_MSGPACK, .call_id = call_id,
                             .status = (uint32_t)(-NEARCALL_E_RESOURCE_EXHAUSTED | NEARCALL_OUTCOME_NOT_EXECUTED << 8)};
    script_send_frame(script, &error, payload);
}

/* Has no store, until two requests have come, none of which it takes. Afterwards it refuses large ones. */
static void has_no_store(struct script *script)
{
    struct nc_frame frame;
    uint8_t payload[SCRIPT_PAYLOAD_MAX];
    int requests = 0;
    script_greet(script);
    while (script_try_read(script, &frame, payload)) {
        if (frame.type == NC_RESOLVE)
            script_reply(script, &frame, "\x80", 1);
        if (frame.type == NC_REQUEST) {
            requests++;
            script_error(script, frame.call_id, -NEARCALL_E_UNIMPLEMENTED, NEARCALL_OUTCOME_NOT_EXECUTED, "there is no such function");
        }
        if (frame.type == NC_STORE && requests < 2)
            crowd(script, frame.call_id);
        else if (frame.type == NC_STORE)
            script_error(script, frame.call_id, -NEARCALL_E_RESOURCE_EXHAUSTED, NEARCALL_OUTCOME_NOT_EXECUTED, "no room");
    }
}

static nearcall_call_id begin_large(nearcall_client *client, nearcall_function *function)
{
    nearcall_call_id call;
    uint8_t *value = calloc(1, VALUE);
    CHECK(value != NULL);
    CHECK_CALL(client, nearcall_request(client, function, NEARCALL_CODEC_RAW), NEARCALL_OK);
    nearcall_put_raw(client, value, VALUE);
    CHECK_CALL(client, nearcall_request_send(client, 20000, &call), NEARCALL_OK);
    free(value);
    return call;
}

static void await_crowd(nearcall_client *client, nearcall_call_id id)
{
    const struct nc_call *call = nc_call_by_known_id(client, id);
    CHECK(call != NULL);
    while (nc_store_stage_of(call) != NC_STORE_CROWDED) /* the test has a bound */
        CHECK(nearcall_process(client) >= 0);
}

int main(void)
{
    struct host near = {0}, far;
    nearcall_options options = NEARCALL_OPTIONS_INIT;
    nearcall_reply reply;
    test_begin();
    script_start(&near.script, has_no_store, NULL);
    near.script.features |= NC_FEATURE_STORES;
    near.script.value_bytes_max = 2 * VALUE;
    near.script.schema_hash++;
    host_start(&far, "unix:");
    options.value_bytes_max = 2 * VALUE;
    options.attempts_max = 1;
    nearcall_client *client = test_open_with(two_hosts(&near, "|", &far), &options);
    nearcall_function *function = test_find(client, "f");
    CHECK_CALL(client, nearcall_call(client, "g", "x", 1, 20000, &reply), NEARCALL_OK);
    CHECK_INT(host_requests(&far), 1);
    nearcall_call_id large = begin_large(client, function);
    await_crowd(client, large);
    CHECK_CALL(client, nearcall_call(client, "g", "x", 1, 20000, &reply), NEARCALL_E_UNIMPLEMENTED);
    CHECK_OUTCOME(client, NEARCALL_OUTCOME_NOT_EXECUTED);
    CHECK_CALL(client, nearcall_wait(client, large, &reply), NEARCALL_E_RESOURCE_EXHAUSTED);
    CHECK_OUTCOME(client, NEARCALL_OUTCOME_NOT_EXECUTED);
    CHECK_CALL(client, nearcall_call(client, "g", "x", 1, 20000, &reply), NEARCALL_OK);
    CHECK_INT(host_requests(&far), 1);
    nearcall_close(client);
    script_end(&near.script);
    host_end(&far);
    return 0;
}
