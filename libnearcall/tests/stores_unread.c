/* A server that names stores to nobody and reads nothing loses the connection before much waits for it. */
#include "script.h"

#define NAMES_AT_ONCE 1024
#define NAMES_MAX (128 * NAMES_AT_ONCE) /* far more than may wait, and than sockets hold */

static void name_to_nobody(struct script *script)
{
    uint8_t one[NC_FRAME_HEADER_BYTES + NC_EXTENSION_HEADER_BYTES + NC_STORED_BYTES], content[NC_STORED_BYTES];
    uint8_t *many = malloc(NAMES_AT_ONCE * sizeof(one));
    struct nc_frame request, reply = {.type = NC_REPLY, .function_id = SCRIPT_FUNCTION_ID,
                                      .length = NC_EXTENSION_HEADER_BYTES + NC_STORED_BYTES,
                                      .extension_bytes = NC_EXTENSION_HEADER_BYTES + NC_STORED_BYTES};
    script_greet(script);
    script_expect(script, NC_REQUEST, &request);
    script_reply(script, &request, "small", 5);
    reply.call_id = request.call_id;
    nc_frame_encode(one, &reply);
    nc_stored_encode(content, &(struct nc_stored){2, 1, 1});
    nc_extension_encode(one + NC_FRAME_HEADER_BYTES, NC_EXTENSION_STORED, content, sizeof(content));
    CHECK(many != NULL);
    for (size_t i = 0; i < NAMES_AT_ONCE; i++)
        memcpy(many + i * sizeof(one), one, sizeof(one));
    for (int sent = 0; sent < NAMES_MAX; sent += NAMES_AT_ONCE) /* after the end it goes nowhere */
        script_send(script, many, NAMES_AT_ONCE * sizeof(one));
    free(many);
}

int main(void)
{
    struct script script;
    nearcall_options options = NEARCALL_OPTIONS_INIT;
    nearcall_reply reply;
    const int64_t timeout_ms = (int64_t)(20000 * test_slowness());
    test_begin();
    script_start(&script, name_to_nobody, NULL);
    script.features |= NC_FEATURE_STORES;
    options.attempts_max = 1;
    options.value_bytes_max = (size_t)16 << 20;
    nearcall_client *client = test_open_with(script.address, &options);
    CHECK_CALL(client, nearcall_call(client, "f", "x", 1, timeout_ms, &reply), NEARCALL_OK);
    CHECK_CALL(client, nearcall_call(client, "f", "x", 1, timeout_ms, &reply), NEARCALL_E_INTERNAL);
    nearcall_close(client);
    script_end(&script);
    return 0;
}
