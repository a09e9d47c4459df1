/* nearcall_cancel(): the server is told, the late reply is dropped however large,
 * the connection goes on. */
#include "script.h"

static void play(struct script *script)
{
    static uint8_t large[1 << 20];
    struct nc_frame request, frame;
    script_greet(script);
    script_expect(script, NC_RESOLVE, &frame);
    script_reply(script, &frame, "\x80", 1);
    script_expect(script, NC_REQUEST, &request);
    script_expect(script, NC_CANCEL, &frame);
    CHECK_INT(frame.call_id, request.call_id);
    script_reply(script, &request, large, sizeof(large));
    script_serve(script);
}

int main(void)
{
    struct script script;
    nearcall_call_id call;
    nearcall_reply reply;
    test_begin();
    script_start(&script, play, NULL);
    nearcall_client *client = test_open(script.address, 0);
    nearcall_function *function = test_find(client, "f");
    CHECK_CALL(client, nearcall_request(client, function, NEARCALL_CODEC_RAW), NEARCALL_OK);
    CHECK_CALL(client, nearcall_request_send(client, 5000, &call), NEARCALL_OK);
    nearcall_cancel(client, call);
    nearcall_cancel(client, call);
    nearcall_cancel(client, 12345);
    CHECK_CALL(client, nearcall_wait(client, call, &reply), NEARCALL_E_MISUSE);
    for (int i = 0; i < 3; i++) {
        CHECK_CALL(client, nearcall_call(client, "f", "after", 5, 5000, &reply), NEARCALL_OK);
        CHECK(reply.bytes == 5 && memcmp(reply.data, "after", 5) == 0);
    }
    nearcall_close(client);
    script_end(&script);
    return 0;
}
