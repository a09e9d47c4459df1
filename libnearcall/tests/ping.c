/* Signs of life, both ways. */
#include "script.h"

static void play(struct script *script)
{
    struct nc_frame frame, ping = {.type = NC_PING, .length = 5};
    uint8_t payload[SCRIPT_PAYLOAD_MAX];
    script_greet(script);
    script_send_frame(script, &ping, "hello");
    for (int i = 0; i < 2; i++) { /* the request and the PONG, in any order */
        script_read(script, &frame, payload);
        if (frame.type == NC_REQUEST) {
            script_reply(script, &frame, NULL, 0);
            continue;
        }
        CHECK_INT(frame.type, NC_PONG);
        CHECK_INT(frame.length, 5);
        CHECK(memcmp(payload, "hello", 5) == 0);
    }
    script_serve(script);
}

int main(void)
{
    struct script script;
    nearcall_reply reply;
    uint64_t round_trip_ns = 0;
    test_begin();
    script_start(&script, play, NULL);
    nearcall_client *client = test_open(script.address, 0);
    CHECK_CALL(client, nearcall_call(client, "f", "x", 1, 5000, &reply), NEARCALL_OK);
    CHECK_CALL(client, nearcall_ping(client, 5000, &round_trip_ns), NEARCALL_OK);
    CHECK(round_trip_ns > 0 && round_trip_ns < 5000000000);
    CHECK_CALL(client, nearcall_ping(client, 5000, NULL), NEARCALL_OK);
    CHECK_CALL(client, nearcall_call(client, "f", "x", 1, 5000, &reply), NEARCALL_OK);
    nearcall_close(client);
    script_end(&script);
    return 0;
}
