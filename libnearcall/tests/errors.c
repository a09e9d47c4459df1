/* What a function's own error, a panic and a refusal look like to the caller. */
#include "test.h"

static nearcall_client *client;

static int call_with_text(const char *name, const char *text)
{
    nearcall_reply reply;
    CHECK_CALL(client, nearcall_request(client, test_find(client, name), NEARCALL_CODEC_MSGPACK),
               NEARCALL_OK);
    nearcall_put_array(client, 1);
    nearcall_put_string(client, text, strlen(text));
    return nearcall_request_call(client, 0, &reply);
}

static void fail_carries_code_message_and_details(void)
{
    nearcall_reply reply;
    size_t bytes;
    CHECK_CALL(client, nearcall_request(client, test_find(client, "fail"), NEARCALL_CODEC_MSGPACK),
               NEARCALL_OK);
    nearcall_put_array(client, 2);
    nearcall_put_int(client, 9);
    nearcall_put_string(client, "not today", 9);
    CHECK_CALL(client, nearcall_request_call(client, 0, &reply), NEARCALL_E_FAILED_PRECONDITION);
    CHECK_OUTCOME(client, NEARCALL_OUTCOME_EXECUTED);
    CHECK_INT(nearcall_error_code(client), 9);
    CHECK(strcmp(nearcall_error_message(client), "not today") == 0);
    const uint8_t *details = nearcall_error_details(client, &bytes);
    nearcall_reader reader = {details, details + bytes};
    nearcall_value value;
    CHECK_INT(nearcall_read(&reader, &value), NEARCALL_OK);
    CHECK_INT(value.type, NEARCALL_ARRAY);
    CHECK_INT(value.count, 1);
    CHECK_INT(nearcall_read(&reader, &value), NEARCALL_OK);
    CHECK_INT(value.count, 2);
    CHECK_INT(nearcall_read(&reader, &value), NEARCALL_OK);
    CHECK(memcmp(value.as.data, "example.Hint", value.count) == 0);
    CHECK_INT(nearcall_skip(&reader), NEARCALL_OK);
    CHECK(reader.next == reader.end);
}

int main(void)
{
    struct server server;
    size_t bytes = 1;
    test_begin();
    server_start(&server);
    client = test_open(server.address, 0);
    fail_carries_code_message_and_details();
    CHECK_CALL(client, call_with_text("plain_error", "as it is"), NEARCALL_E_UNKNOWN);
    CHECK_OUTCOME(client, NEARCALL_OUTCOME_EXECUTED);
    CHECK(strcmp(nearcall_error_message(client), "as it is") == 0);
    CHECK(nearcall_error_details(client, &bytes) == NULL);
    CHECK_INT(bytes, 0);
    CHECK_CALL(client, call_with_text("panic", "oops"), NEARCALL_E_INTERNAL);
    CHECK_OUTCOME(client, NEARCALL_OUTCOME_EXECUTED);
    CHECK_CALL(client, call_with_text("upper", "a"), NEARCALL_OK);
    CHECK_INT(nearcall_error_code(client), 0);
    CHECK(strcmp(nearcall_error_message(client), "") == 0);
    CHECK(strcmp(nearcall_code_name(NEARCALL_E_ABORTED), "ABORTED") == 0);
    CHECK(strcmp(nearcall_code_name(10), "ABORTED") == 0);
    CHECK(strcmp(nearcall_outcome_text(NEARCALL_OUTCOME_NOT_EXECUTED), "not executed") == 0);
    nearcall_close(client);
    server_stop(&server);
    return 0;
}
