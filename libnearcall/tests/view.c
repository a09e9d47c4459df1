/* Options and metadata of single calls, against the server of the tests, which tells what came with a
 * call. */
#include "base/limits_gen.h"
#include "test.h"

#define TRACE_PARENT "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
/* Enough calls that some go over the socket and some through shared memory. */
#define CALLS (3 * NC_SHARED_MEMORY_AFTER_CALLS)

static nearcall_view *view_of(nearcall_client *client, const nearcall_view *former,
                              const nearcall_call_options *options)
{
    nearcall_view *view;
    CHECK_CALL(client, nearcall_view_new(client, former, options, &view), NEARCALL_OK);
    return view;
}

static nearcall_view *view_with_pair(nearcall_client *client, const nearcall_view *former, const char *key,
                                     const void *value, size_t value_bytes)
{
    nearcall_metadata pair = {key, value, value_bytes};
    nearcall_call_options options = NEARCALL_CALL_OPTIONS_INIT;
    options.metadata = &pair;
    options.metadata_count = 1;
    return view_of(client, former, &options);
}

static void use(nearcall_client *client, nearcall_view *view)
{
    CHECK_CALL(client, nearcall_use_view(client, view), NEARCALL_OK);
}

/* ---- Metadata of requests ---- */

static void begin_without_arguments(nearcall_client *client, nearcall_function *function)
{
    CHECK_CALL(client, nearcall_request(client, function, NEARCALL_CODEC_MSGPACK), NEARCALL_OK);
    nearcall_put_array(client, 0);
}

static void check_text(const nearcall_reply *reply, const char *expected)
{
    nearcall_reader reader = {reply->data, reply->data + reply->bytes};
    nearcall_value text;
    CHECK_INT(nearcall_read(&reader, &text), NEARCALL_OK);
    CHECK_INT(text.type, NEARCALL_STRING);
    if (text.count != strlen(expected) || memcmp(text.as.data, expected, text.count) != 0) {
        fprintf(stderr, "the function saw %.*s, expected %s\n", (int)text.count, (const char *)text.as.data, expected);
        CHECK(!"what the function saw");
    }
}

static void check_seen(nearcall_client *client, const char *expected)
{
    nearcall_function *seen = test_find(client, "metadata_seen");
    nearcall_reply reply;
    nearcall_call_id call;
    begin_without_arguments(client, seen);
    CHECK_CALL(client, nearcall_request_call(client, 0, &reply), NEARCALL_OK);
    check_text(&reply, expected);
    begin_without_arguments(client, seen);
    CHECK_CALL(client, nearcall_request_send(client, 0, &call), NEARCALL_OK);
    CHECK_CALL(client, nearcall_wait(client, call, &reply), NEARCALL_OK);
    check_text(&reply, expected);
}

static void requests_carry(const char *address)
{
    static const uint8_t key[NEARCALL_IDEMPOTENCY_KEY_BYTES] = {[15] = 1};
    nearcall_metadata pairs[] = {{"tenant", "other", 5}, {"user", "\0\xff", 2}, {"empty", NULL, 0}};
    nearcall_call_options options = NEARCALL_CALL_OPTIONS_INIT;
    nearcall_client *client = test_open(address, 0);
    nearcall_view *tenant = view_with_pair(client, NULL, "tenant", "acme", 4);
    options.trace_parent = TRACE_PARENT;
    options.idempotency_key = key;
    options.metadata = pairs;
    options.metadata_count = 3;
    nearcall_view *all = view_of(client, tenant, &options);
    nearcall_view *sibling = view_with_pair(client, tenant, "sibling", "", 0);
    for (int i = 0; i < CALLS; i++) {
        use(client, NULL);
        check_seen(client, " map[] []");
        use(client, tenant);
        check_seen(client, " map[\"tenant\":[\"acme\"]] []");
        use(client, all);
        check_seen(client, TRACE_PARENT " map[\"empty\":[\"\"] \"tenant\":[\"acme\" \"other\"] \"user\":[\"\\x00\\xff\"]]"
                                        " [0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 1]");
        use(client, sibling);
        check_seen(client, " map[\"sibling\":[\"\"] \"tenant\":[\"acme\"]] []");
    }
    nearcall_view_free(sibling);
    nearcall_view_free(tenant); /* the handle still uses the other one */
    nearcall_view_free(all);
    check_seen(client, " map[\"sibling\":[\"\"] \"tenant\":[\"acme\"]] []");
    nearcall_close(client);
}

/* By name as well as by number, with payloads that are built in shared memory. */
static void raw_requests_carry(const char *address)
{
    static const size_t sizes[] = {0, 1, 500, 5000, 100000, 1000000};
    static char data[1000000];
    nearcall_client *client = test_open(address, 0);
    nearcall_view *tenant = view_with_pair(client, NULL, "tenant", "acme", 4);
    nearcall_reply reply;
    memset(data, 'x', sizeof(data));
    use(client, tenant);
    nearcall_view_free(tenant);
    nearcall_function *raw = test_find(client, "metadata_raw");
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]) * CALLS; i++) {
        size_t bytes = sizes[i % (sizeof(sizes) / sizeof(sizes[0]))];
        if (i % 2) {
            CHECK_CALL(client, nearcall_call(client, "metadata_raw", data, bytes, 0, &reply), NEARCALL_OK);
        } else {
            CHECK_CALL(client, nearcall_request(client, raw, NEARCALL_CODEC_RAW), NEARCALL_OK);
            nearcall_put_raw(client, data, bytes);
            CHECK_CALL(client, nearcall_request_call(client, 0, &reply), NEARCALL_OK);
        }
        CHECK_INT(reply.bytes, bytes + 6);
        CHECK(memcmp(reply.data, "[acme]", 6) == 0 && memcmp(reply.data + 6, data, bytes) == 0);
    }
    nearcall_close(client);
}

static void metadata_have_a_limit(const char *address)
{
    char value[1000] = {0};
    nearcall_client *client = test_open(address, 0);
    nearcall_view *view = NULL, *former = NULL;
    nearcall_reply reply;
    nearcall_call_id call;
    for (int i = 0; i < 5; i++, nearcall_view_free(former)) {
        former = view;
        view = view_with_pair(client, former, "key", value, sizeof(value));
    }
    use(client, view);
    CHECK_CALL(client, nearcall_call(client, "echo", "x", 1, 0, &reply), NEARCALL_E_RESOURCE_EXHAUSTED);
    CHECK_OUTCOME(client, NEARCALL_OUTCOME_NOT_EXECUTED);
    CHECK(strstr(nearcall_error_message(client), "extension_bytes_max") != NULL);
    nearcall_function *one = test_find(client, "one");
    begin_without_arguments(client, one);
    CHECK_CALL(client, nearcall_request_send(client, 0, &call), NEARCALL_E_RESOURCE_EXHAUSTED);
    begin_without_arguments(client, one);
    use(client, NULL);
    CHECK_CALL(client, nearcall_request_call(client, 0, &reply), NEARCALL_OK);
    nearcall_view_free(view);
    nearcall_close(client);
}

/* What fills the room to its last byte travels, by name and by number. */
static void metadata_fill_the_limit(const char *address)
{
    static char value[NC_EXTENSION_BYTES_MAX];
    size_t most = NC_EXTENSION_BYTES_MAX - (4 + strlen("tenant") + 1) - (4 + strlen("metadata_raw"));
    nearcall_client *client = test_open(address, 0);
    nearcall_reply reply;
    memset(value, 'v', sizeof(value));
    for (int more = 0; more <= 1; more++) {
        nearcall_view *view = view_with_pair(client, NULL, "tenant", value, most + (size_t)more);
        use(client, view);
        nearcall_view_free(view);
        for (int i = 0; i < CALLS; i++)
            CHECK_CALL(client, nearcall_call(client, "metadata_raw", "x", 1, 0, &reply),
                       more ? NEARCALL_E_RESOURCE_EXHAUSTED : NEARCALL_OK);
    }
    nearcall_close(client);
}

/* ---- Metadata of replies ---- */

static void check_pair(nearcall_client *client, const char *key, size_t *position, const char *expected_key,
                       const char *expected)
{
    nearcall_metadata pair;
    CHECK_INT(nearcall_reply_metadata(client, key, position, &pair), expected != NULL);
    if (!expected)
        return;
    CHECK(strcmp(pair.key, expected_key) == 0);
    CHECK_INT(pair.value_bytes, strlen(expected));
    CHECK(memcmp(pair.value, expected, pair.value_bytes) == 0);
}

static void check_answer(nearcall_client *client)
{
    size_t all = 0, cost = 0, node = 0, none = 0;
    check_pair(client, NULL, &all, "cost", "7");
    check_pair(client, NULL, &all, "cost", "8");
    check_pair(client, NULL, &all, "node", "a");
    check_pair(client, NULL, &all, NULL, NULL);
    check_pair(client, "cost", &cost, "cost", "7");
    check_pair(client, "cost", &cost, "cost", "8");
    check_pair(client, "cost", &cost, NULL, NULL);
    check_pair(client, "node", &node, "node", "a");
    check_pair(client, "nod", &none, NULL, NULL);
}

static void request_answer(nearcall_client *client, nearcall_function *answer, size_t bytes, int fails)
{
    CHECK_CALL(client, nearcall_request(client, answer, NEARCALL_CODEC_MSGPACK), NEARCALL_OK);
    nearcall_put_array(client, 2);
    nearcall_put_int(client, (int64_t)bytes);
    nearcall_put_bool(client, fails);
}

static void fetch_answers(nearcall_client *client, nearcall_function *answer, size_t bytes, int fails)
{
    int expected = fails ? NEARCALL_E_NOT_FOUND : NEARCALL_OK;
    nearcall_reply reply;
    nearcall_call_id calls[2];
    size_t position = 0;
    request_answer(client, answer, bytes, fails);
    CHECK_CALL(client, nearcall_request_call(client, 0, &reply), expected);
    check_answer(client);
    CHECK(fails || reply.bytes >= bytes);
    for (int i = 0; i < 2; i++) {
        request_answer(client, answer, bytes, fails);
        CHECK_CALL(client, nearcall_request_send(client, 0, &calls[i]), NEARCALL_OK);
    }
    for (int i = 1; i >= 0; i--) {
        CHECK_CALL(client, nearcall_wait(client, calls[i], &reply), expected);
        check_answer(client);
    }
    CHECK_CALL(client, nearcall_ping(client, 0, NULL), NEARCALL_OK);
    check_pair(client, NULL, &position, NULL, NULL);
}

static void replies_carry(const char *address)
{
    static const size_t sizes[] = {0, 100, 20 << 10, 1 << 20};
    nearcall_client *client = test_open(address, 0);
    nearcall_function *answer = test_find(client, "metadata_answer");
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
        for (int n = 0; n < CALLS; n++)
            fetch_answers(client, answer, sizes[i], n % 2);
    nearcall_close(client);
}

/* ---- Options out of range ---- */

static void check_refused(nearcall_client *client, const nearcall_call_options *options, int code, const char *word)
{
    nearcall_view *view = NULL;
    CHECK_CALL(client, nearcall_view_new(client, NULL, options, &view), code);
    CHECK(view == NULL);
    CHECK_OUTCOME(client, NEARCALL_OUTCOME_NOT_EXECUTED);
    CHECK(strstr(nearcall_error_message(client), word) != NULL);
}

#define REFUSED(change, word)                                                             \
    do {                                                                                  \
        nearcall_call_options options = NEARCALL_CALL_OPTIONS_INIT;                       \
        options.change;                                                                   \
        check_refused(client, &options, NEARCALL_E_INVALID_ARGUMENT, (word));             \
    } while (0)

static void refused_pair(nearcall_client *client, const char *key, const void *value, size_t bytes, int code)
{
    nearcall_metadata pair = {key, value, bytes};
    nearcall_call_options options = NEARCALL_CALL_OPTIONS_INIT;
    options.metadata = &pair;
    options.metadata_count = 1;
    check_refused(client, &options, code, "metadata");
}

static void out_of_range(void)
{
    static char long_value[5000];
    nearcall_client *client = test_open("unix:/nowhere", 0);
    REFUSED(struct_size = 1, "struct_size");
    REFUSED(timeout_ms = -2, "timeout_ms");
    REFUSED(attempts_max = NC_ATTEMPTS_MAX_CEILING + 1, "attempts_max");
    REFUSED(flags = 4, "flags");
    REFUSED(backoff_first_us = -1, "backoff_first_us");
    REFUSED(backoff_first_us = INT64_MAX, "backoff_first_us");
    REFUSED(backoff_first_us = 1000001, "backoff_most_us");
    REFUSED(backoff_most_us = -1, "backoff_most_us");
    REFUSED(backoff_most_us = INT64_MAX, "backoff_most_us");
    REFUSED(backoff_most_us = 999, "backoff_most_us");
    REFUSED(metadata_count = 1, "metadata_count");
    REFUSED(trace_parent = "", "trace_parent");
    REFUSED(trace_parent = "00-xyz", "trace_parent");
    REFUSED(trace_parent = "00-4BF92F3577B34DA6A3CE929D0E0E4736-00f067aa0ba902b7-01", "trace_parent");
    REFUSED(trace_parent = "00_4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", "trace_parent");
    REFUSED(trace_parent = TRACE_PARENT "-", "trace_parent");
    refused_pair(client, "", "x", 1, NEARCALL_E_INVALID_ARGUMENT);
    refused_pair(client, "Tenant", "x", 1, NEARCALL_E_INVALID_ARGUMENT);
    refused_pair(client, "a b", "x", 1, NEARCALL_E_INVALID_ARGUMENT);
    refused_pair(client, "k", long_value, sizeof(long_value), NEARCALL_E_INVALID_ARGUMENT);
    refused_pair(client, "k", long_value, SIZE_MAX, NEARCALL_E_INVALID_ARGUMENT);
    refused_pair(client, NULL, "x", 1, NEARCALL_E_MISUSE);
    refused_pair(client, "k", NULL, 1, NEARCALL_E_MISUSE);
    nearcall_close(client);
}

/* ---- Timeouts ---- */

static void timeouts(const char *address)
{
    nearcall_call_options options = NEARCALL_CALL_OPTIONS_INIT;
    nearcall_client *client = test_open(address, 0);
    nearcall_function *sleep = test_find(client, "sleep");
    nearcall_reply reply;
    options.timeout_ms = 30;
    nearcall_view *brief = view_of(client, NULL, &options);
    use(client, brief);
    test_request_int(client, sleep, 60000);
    CHECK_CALL(client, nearcall_request_call(client, 0, &reply), NEARCALL_E_DEADLINE_EXCEEDED);
    options.timeout_ms = NEARCALL_NO_TIMEOUT;
    nearcall_view *endless = view_of(client, brief, &options);
    use(client, endless);
    test_request_int(client, sleep, 60000);
    CHECK_CALL(client, nearcall_request_call(client, 20, &reply), NEARCALL_E_DEADLINE_EXCEEDED);
    test_request_int(client, sleep, 50);
    CHECK_CALL(client, nearcall_request_call(client, 0, &reply), NEARCALL_OK);
    use(client, NULL);
    test_request_int(client, sleep, 50);
    CHECK_CALL(client, nearcall_request_call(client, 0, &reply), NEARCALL_OK);
    nearcall_view_free(brief);
    nearcall_view_free(endless);
    nearcall_close(client);
}

/* ---- What the call has left ---- */

/* A program takes its view back right after the call, and looks at the outcome then. */
static void a_failure_stays(nearcall_client *client)
{
    nearcall_reply reply;
    nearcall_view *view = view_with_pair(client, NULL, "tenant", "acme", 4);
    use(client, view);
    CHECK_CALL(client, nearcall_call(client, "nobody", "", 0, 0, &reply), NEARCALL_E_UNIMPLEMENTED);
    use(client, NULL);
    CHECK_INT(nearcall_error_code(client), -NEARCALL_E_UNIMPLEMENTED);
    CHECK_OUTCOME(client, NEARCALL_OUTCOME_NOT_EXECUTED);
    CHECK(strstr(nearcall_error_message(client), "nobody") != NULL);
    nearcall_view_free(view);
}

static void a_reply_stays(nearcall_client *client)
{
    char text[20];
    nearcall_reply reply;
    nearcall_view *view = view_with_pair(client, NULL, "tenant", "acme", 4);
    for (int i = 0; i < CALLS; i++) {
        size_t bytes = (size_t)snprintf(text, sizeof(text), "reply %d", i);
        use(client, view);
        CHECK_CALL(client, nearcall_call(client, "echo", text, bytes, 0, &reply), NEARCALL_OK);
        use(client, NULL);
        CHECK_INT(reply.bytes, bytes);
        CHECK(memcmp(reply.data, text, bytes) == 0);
    }
    nearcall_view_free(view);
}

static void metadata_of_a_reply_stay(nearcall_client *client)
{
    size_t position = 0;
    nearcall_reply reply;
    nearcall_function *answer = test_find(client, "metadata_answer");
    request_answer(client, answer, 10, 0);
    CHECK_CALL(client, nearcall_request_call(client, 0, &reply), NEARCALL_OK);
    use(client, NULL);
    check_pair(client, NULL, &position, "cost", "7");
}

static void what_a_call_left_stays(const char *address)
{
    nearcall_client *client = test_open(address, 0);
    a_failure_stays(client);
    a_reply_stays(client);
    metadata_of_a_reply_stay(client);
    nearcall_close(client);
}

/* ---- Forks ---- */

struct inherited {
    nearcall_client *client;
};

static void call_in_child(void *argument)
{
    struct inherited *inherited = argument;
    check_seen(inherited->client, " map[\"tenant\":[\"acme\"]] []");
    nearcall_close(inherited->client);
}

static void forks(const char *address)
{
    struct inherited inherited = {test_open(address, 0)};
    nearcall_view *view = view_with_pair(inherited.client, NULL, "tenant", "acme", 4);
    use(inherited.client, view);
    check_seen(inherited.client, " map[\"tenant\":[\"acme\"]] []");
    test_join(test_fork(call_in_child, &inherited));
    check_seen(inherited.client, " map[\"tenant\":[\"acme\"]] []");
    nearcall_view_free(view);
    nearcall_close(inherited.client);
}

static void against_a_server(void)
{
    struct server server;
    server_start(&server);
    requests_carry(server.address);
    raw_requests_carry(server.address);
    metadata_have_a_limit(server.address);
    metadata_fill_the_limit(server.address);
    replies_carry(server.address);
    timeouts(server.address);
    what_a_call_left_stays(server.address);
    forks(server.address);
    server_stop(&server);
}

int main(void)
{
    test_begin();
    against_a_server();
    out_of_range();
    return 0;
}
