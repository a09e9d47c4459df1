/* Functions are found once, described, and asked for again only under another
 * schema. */
#include "script.h"

static void serve_two_schemas(struct script *script)
{
    struct nc_frame frame;
    script_greet(script);
    script_expect(script, NC_RESOLVE, &frame);
    script_reply(script, &frame, "\x81\x01\x01", 3);
    script_expect(script, NC_REQUEST, &frame);
    CHECK_INT(frame.function_id, SCRIPT_FUNCTION_ID);
    script_reply(script, &frame, NULL, 0);
    script_hang_up(script);

    script_greet(script); /* the same schema: the id still holds */
    script_expect(script, NC_REQUEST, &frame);
    CHECK_INT(frame.function_id, SCRIPT_FUNCTION_ID);
    script_reply(script, &frame, NULL, 0);
    script_hang_up(script);

    script->schema_hash++; /* another: by name, and the reply teaches the id */
    script_greet(script);
    script_expect(script, NC_REQUEST, &frame);
    CHECK_INT(frame.function_id, 0);
    CHECK_INT(frame.extension_bytes, 4 + 1);
    script_reply(script, &frame, NULL, 0);
    script_expect(script, NC_REQUEST, &frame);
    CHECK_INT(frame.function_id, SCRIPT_FUNCTION_ID);
    script_reply(script, &frame, NULL, 0);
    script_expect(script, NC_RESOLVE, &frame);
    script_reply(script, &frame, "\x81\x02\x02", 3);
    script_expect(script, NC_RESOLVE, &frame);
    script_error(script, frame.call_id, 12, NEARCALL_OUTCOME_NOT_EXECUTED, "no such function");
    CHECK(script_read_end(script));
}

static void call(nearcall_client *client, nearcall_function *function)
{
    nearcall_reply reply;
    CHECK_CALL(client, nearcall_request(client, function, NEARCALL_CODEC_RAW), NEARCALL_OK);
    CHECK_CALL(client, nearcall_request_call(client, 0, &reply), NEARCALL_OK);
}

int main(void)
{
    struct script script;
    size_t bytes;
    nearcall_function *function, *again, *missing = NULL;
    test_begin();
    script_start(&script, serve_two_schemas, NULL);
    nearcall_client *client = test_open(script.address, 0);
    function = test_find(client, "f");
    CHECK_INT(nearcall_function_revision(function), 1);
    CHECK(memcmp(nearcall_function_schema(function, &bytes), "\x81\x01\x01", 3) == 0);
    CHECK_INT(bytes, 3);
    again = test_find(client, "f"); /* no round trip: the script would notice */
    CHECK(again == function);
    call(client, function);
    call(client, function); /* over the second connection */
    CHECK(test_find(client, "f") == function);
    CHECK_INT(nearcall_function_revision(function), 1);
    call(client, function); /* over the third */
    call(client, function);
    CHECK(test_find(client, "f") == function);
    CHECK_INT(nearcall_function_revision(function), 2);
    CHECK(memcmp(nearcall_function_schema(function, &bytes), "\x81\x02\x02", 3) == 0);
    CHECK_CALL(client, nearcall_find(client, "none", 4, 0, &missing), NEARCALL_E_UNIMPLEMENTED);
    CHECK(missing == NULL);
    CHECK_CALL(client, nearcall_find(client, "", 0, 0, &missing), NEARCALL_E_INVALID_ARGUMENT);
    nearcall_close(client);
    script_end(&script);
    return 0;
}
