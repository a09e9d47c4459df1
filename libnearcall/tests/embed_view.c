/* Options and metadata of calls that stay in this process, and of those that cannot. */
#include "embed_test.h"

static void use_with_pair(nearcall_client *client, const char *value, uint32_t flags)
{
    nearcall_metadata pair = {"tenant", value, strlen(value)};
    nearcall_call_options options = NEARCALL_CALL_OPTIONS_INIT;
    nearcall_view *view;
    options.metadata = &pair;
    options.metadata_count = 1;
    options.flags = flags;
    CHECK_CALL(client, nearcall_view_new(client, NULL, &options, &view), NEARCALL_OK);
    CHECK_CALL(client, nearcall_use_view(client, view), NEARCALL_OK);
    nearcall_view_free(view);
}

static void check_raw(nearcall_client *client, const char *expected)
{
    nearcall_reply reply;
    CHECK_CALL(client, nearcall_call(client, "metadata_raw", "!", 1, 0, &reply), NEARCALL_OK);
    CHECK_INT(reply.bytes, strlen(expected));
    CHECK(memcmp(reply.data, expected, reply.bytes) == 0);
}

static void requests_carry(nearcall_client *client)
{
    check_raw(client, "[]!");
    use_with_pair(client, "acme", 0);
    check_raw(client, "[acme]!");
    embed_expect_transport(client, "same process");
    CHECK_CALL(client, nearcall_use_view(client, NULL), NEARCALL_OK);
    check_raw(client, "[]!");
}

/* Payloads that fit the first memory for replies, and such that do not. */
static void replies_carry(nearcall_client *client, size_t bytes, int fails)
{
    nearcall_function *answer = test_find(client, "metadata_answer");
    nearcall_reply reply;
    nearcall_metadata pair;
    size_t position = 0;
    CHECK_CALL(client, nearcall_request(client, answer, NEARCALL_CODEC_MSGPACK), NEARCALL_OK);
    nearcall_put_array(client, 2);
    nearcall_put_int(client, (int64_t)bytes);
    nearcall_put_bool(client, fails);
    CHECK_CALL(client, nearcall_request_call(client, 0, &reply), fails ? NEARCALL_E_NOT_FOUND : NEARCALL_OK);
    if (fails) {
        CHECK(strcmp(nearcall_error_message(client), "there is none") == 0);
    } else {
        nearcall_reader reader = {reply.data, reply.data + reply.bytes};
        nearcall_value value;
        CHECK_INT(nearcall_read(&reader, &value), NEARCALL_OK);
        CHECK_INT(value.type, NEARCALL_BYTES);
        CHECK_INT(value.count, bytes);
        CHECK(reader.next == reader.end);
    }
    CHECK_INT(nearcall_reply_metadata(client, "node", &position, &pair), 1);
    CHECK(pair.value_bytes == 1 && memcmp(pair.value, "a", 1) == 0);
    CHECK_INT(embed_call_none(client, "one"), 1);
    position = 0;
    CHECK_INT(nearcall_reply_metadata(client, NULL, &position, &pair), 0);
}

static void limits_and_promises(nearcall_client *client)
{
    static char value[4090];
    nearcall_reply reply;
    memset(value, 'v', sizeof(value) - 1);
    use_with_pair(client, "acme", NEARCALL_CALL_RETRY_UNKNOWN);
    CHECK_CALL(client, nearcall_call(client, "metadata_raw", "!", 1, 0, &reply), NEARCALL_E_FAILED_PRECONDITION);
    CHECK_OUTCOME(client, NEARCALL_OUTCOME_NOT_EXECUTED);
    CHECK_CALL(client, nearcall_call(client, "echo", "!", 1, 0, &reply), NEARCALL_OK);
    value[4070] = '\0';
    use_with_pair(client, value, 0);
    CHECK_CALL(client, nearcall_call(client, "metadata_raw", "!", 1, 0, &reply), NEARCALL_E_RESOURCE_EXHAUSTED);
    CHECK_CALL(client, nearcall_use_view(client, NULL), NEARCALL_OK);
}

static void children_carry(void *argument)
{
    nearcall_client *client = argument;
    use_with_pair(client, "child", 0);
    check_raw(client, "[child]!");
    replies_carry(client, 10, 0);
    nearcall_close(client);
}

int main(void)
{
    test_begin();
    nearcall_client *client = test_open(embed_address(""), 0);
    requests_carry(client);
    for (size_t bytes = 0; bytes < 1000000; bytes = bytes * 9 + 1)
        for (int fails = 0; fails <= 1; fails++)
            replies_carry(client, bytes, fails);
    limits_and_promises(client);
    test_join(test_fork(children_carry, client));
    nearcall_close(client);
    return 0;
}
