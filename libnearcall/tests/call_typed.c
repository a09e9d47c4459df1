/* Values to values: arguments written, results read, with the real server. */
#include "test.h"

static nearcall_client *client;
static nearcall_reply reply;
static nearcall_reader reader;

static void begin(const char *name, uint32_t arguments)
{
    CHECK_CALL(client, nearcall_request(client, test_find(client, name), NEARCALL_CODEC_MSGPACK),
               NEARCALL_OK);
    nearcall_put_array(client, arguments);
}

static void finish(void)
{
    CHECK_CALL(client, nearcall_request_call(client, 0, &reply), NEARCALL_OK);
    CHECK_INT(reply.codec, NEARCALL_CODEC_MSGPACK);
    reader = (nearcall_reader){reply.data, reply.data + reply.bytes};
}

static nearcall_value next(int type)
{
    nearcall_value value;
    CHECK_INT(nearcall_read(&reader, &value), NEARCALL_OK);
    CHECK_INT(value.type, type);
    return value;
}

static void check_text(nearcall_value value, const char *expected)
{
    CHECK_INT(value.count, strlen(expected));
    CHECK(memcmp(value.as.data, expected, value.count) == 0);
}

static void add(void)
{
    begin("add", 2);
    nearcall_put_double(client, 1.5);
    nearcall_put_float(client, 0.25f);
    finish();
    CHECK(next(NEARCALL_FLOAT).as.real == 1.75);
}

static void divmod_has_two_results(void)
{
    begin("divmod", 2);
    nearcall_put_int(client, 17);
    nearcall_put_int(client, 5);
    finish();
    CHECK_INT(next(NEARCALL_ARRAY).count, 2);
    CHECK_INT(next(NEARCALL_INT).as.integer, 3);
    CHECK_INT(next(NEARCALL_INT).as.integer, 2);
}

static void greet_takes_a_struct(void)
{
    begin("greet", 1);
    nearcall_put_map(client, 3);
    nearcall_put_string(client, "name", 4);
    nearcall_put_string(client, "Ada", 3);
    nearcall_put_string(client, "age", 3);
    nearcall_put_int(client, 36);
    nearcall_put_string(client, "tags", 4);
    nearcall_put_array(client, 2);
    nearcall_put_string(client, "a", 1);
    nearcall_put_string(client, "b", 1);
    finish();
    check_text(next(NEARCALL_STRING), "Hello, Ada, 36 [a,b]");
}

static void kinds_come_back(void)
{
    begin("kinds", 9);
    nearcall_put_bool(client, 1);
    nearcall_put_int(client, -128);
    nearcall_put_int(client, INT64_MIN);
    nearcall_put_uint(client, 255);
    nearcall_put_uint(client, UINT64_MAX);
    nearcall_put_float(client, 0.5f);
    nearcall_put_double(client, -1e300);
    nearcall_put_string(client, "gr\xc3\xbc\xc3\x9f", 6);
    nearcall_put_bytes(client, "\0\xff", 2);
    finish();
    CHECK_INT(next(NEARCALL_ARRAY).count, 9);
    CHECK_INT(next(NEARCALL_BOOL).as.boolean, 1);
    CHECK_INT(next(NEARCALL_INT).as.integer, -128);
    CHECK_INT(next(NEARCALL_INT).as.integer, INT64_MIN);
    CHECK_INT(next(NEARCALL_INT).as.integer, 255);
    CHECK(next(NEARCALL_UINT).as.unsigned_integer == UINT64_MAX);
    CHECK(next(NEARCALL_FLOAT).as.real == 0.5);
    CHECK(next(NEARCALL_FLOAT).as.real == (double)-1e300);
    check_text(next(NEARCALL_STRING), "gr\xc3\xbc\xc3\x9f");
    CHECK_INT(next(NEARCALL_BYTES).count, 2);
}

static void a_moment_goes_through(int64_t seconds, uint32_t nanoseconds)
{
    begin("later", 2);
    nearcall_put_time(client, seconds, nanoseconds);
    nearcall_put_int(client, 1000000001);
    finish();
    nearcall_value value = next(NEARCALL_TIME);
    CHECK_INT(value.as.integer, seconds + 1);
    CHECK_INT(value.count, nanoseconds + 1);
}

static void json_is_a_codec_too(void)
{
    CHECK_CALL(client, nearcall_request(client, test_find(client, "sum"), NEARCALL_CODEC_JSON),
               NEARCALL_OK);
    nearcall_put_raw(client, "[1,2,", 5);
    nearcall_put_raw(client, "3]", 2);
    CHECK_CALL(client, nearcall_request_call(client, 0, &reply), NEARCALL_OK);
    CHECK_INT(reply.codec, NEARCALL_CODEC_JSON);
    CHECK_INT(reply.bytes, 1);
    CHECK_INT(reply.data[0], '6');
}

static void wrong_arguments_are_refused_by_the_server(void)
{
    begin("add", 1);
    nearcall_put_string(client, "x", 1);
    CHECK_CALL(client, nearcall_request_call(client, 0, &reply), NEARCALL_E_INVALID_ARGUMENT);
    CHECK_OUTCOME(client, NEARCALL_OUTCOME_NOT_EXECUTED);
}

/* What the writer itself refuses, without the server. */
static void misuse_is_found_when_sending(void)
{
    CHECK_CALL(client, nearcall_request_call(client, 0, &reply), NEARCALL_E_MISUSE);
    begin("add", 2);
    nearcall_put_int(client, 1);
    CHECK_CALL(client, nearcall_request_call(client, 0, &reply), NEARCALL_E_MISUSE);
    begin("add", 1);
    nearcall_put_int(client, 1);
    nearcall_put_int(client, 1);
    CHECK_CALL(client, nearcall_request_call(client, 0, &reply), NEARCALL_E_MISUSE);
    CHECK_CALL(client, nearcall_request(client, test_find(client, "echo"), NEARCALL_CODEC_RAW),
               NEARCALL_OK);
    nearcall_put_nil(client);
    CHECK_CALL(client, nearcall_request_call(client, 0, &reply), NEARCALL_E_MISUSE);
    begin("later", 2);
    nearcall_put_time(client, 0, 1000000000);
    nearcall_put_int(client, 0);
    CHECK_CALL(client, nearcall_request_call(client, 0, &reply), NEARCALL_E_INVALID_ARGUMENT);
    CHECK_CALL(client, nearcall_request(client, NULL, NEARCALL_CODEC_RAW), NEARCALL_E_MISUSE);
    CHECK_CALL(client, nearcall_request(client, test_find(client, "echo"), 3), NEARCALL_E_MISUSE);
}

/* Calls with an argument of empty arrays inside each other, or of maps of these. */
static int call_nested(int levels, bool maps)
{
    begin("identity", 1);
    for (int i = 0; i < levels; i++) {
        if (!maps || i == levels - 1)
            nearcall_put_array(client, i < levels - 1);
        else
            nearcall_put_map(client, 1);
        if (maps && i < levels - 1)
            nearcall_put_string(client, "key", 3);
    }
    return nearcall_request_call(client, 0, &reply);
}

/* The last value of a level, and an empty array or map, nest like any other. */
static void nesting_is_limited(void)
{
    CHECK_CALL(client, call_nested(32, false), NEARCALL_OK);
    CHECK_CALL(client, call_nested(32, true), NEARCALL_OK);
    for (int maps = 0; maps <= 1; maps++) {
        CHECK_CALL(client, call_nested(33, maps), NEARCALL_E_INVALID_ARGUMENT);
        CHECK_OUTCOME(client, NEARCALL_OUTCOME_NOT_EXECUTED);
        CHECK(strstr(nearcall_error_message(client), "nesting_depth_max") != NULL);
        CHECK(strstr(nearcall_error_message(client), "an argument nests") != NULL);
    }
}

/* Who walks a value need not end the walk to learn that it was in vain. */
static void a_failure_of_the_writers_can_be_asked_for(void)
{
    CHECK(nearcall_put_check(NULL) == NEARCALL_E_MISUSE);
    begin("identity", 1);
    CHECK(nearcall_put_check(client) == NEARCALL_OK);
    for (int level = 0; level < 33; level++)
        nearcall_put_array(client, 1);
    CHECK_CALL(client, nearcall_put_check(client), NEARCALL_E_INVALID_ARGUMENT);
    CHECK(strstr(nearcall_error_message(client), "deeper than 32 levels") != NULL);
    CHECK_CALL(client, nearcall_request_call(client, 0, &reply), NEARCALL_E_INVALID_ARGUMENT);
}

static void a_request_too_large_is_kept_from_the_wire(void)
{
    begin("md5", 1);
    CHECK(nearcall_put_reserve(client, 17 << 20) == NULL);
    CHECK_CALL(client, nearcall_put_check(client), NEARCALL_E_RESOURCE_EXHAUSTED);
    CHECK(strstr(nearcall_error_message(client), "16777215 bytes") != NULL);
    CHECK_CALL(client, nearcall_request_call(client, 0, &reply), NEARCALL_E_RESOURCE_EXHAUSTED);
    begin("md5", 1);
    uint8_t *room = nearcall_put_reserve(client, 5 << 20);
    CHECK(room != NULL);
    memset(room, 0, 5 << 20);
    CHECK_CALL(client, nearcall_request_call(client, 0, &reply), NEARCALL_E_RESOURCE_EXHAUSTED);
    CHECK_OUTCOME(client, NEARCALL_OUTCOME_NOT_EXECUTED);
}

/* ---- All values at once ---- */

static int call_values(const char *name, const nearcall_value *values, size_t count)
{
    int r = nearcall_call_values(client, test_find(client, name), NEARCALL_CODEC_MSGPACK, values, count, 0, &reply);
    reader = (nearcall_reader){reply.data, reply.data + reply.bytes};
    return r;
}

static nearcall_value array(uint32_t count)
{
    return (nearcall_value){.type = NEARCALL_ARRAY, .count = count};
}

static nearcall_value text(int type, const char *text, uint32_t bytes)
{
    return (nearcall_value){.type = type, .count = bytes, .as.data = (const uint8_t *)text};
}

static nearcall_value whole(int64_t integer)
{
    return (nearcall_value){.type = NEARCALL_INT, .as.integer = integer};
}

static void values_of_all_kinds_come_back(void)
{
    const nearcall_value values[] = {
        array(1), {.type = NEARCALL_MAP, .count = 1}, text(NEARCALL_STRING, "list", 4), array(7),
        {.type = NEARCALL_NIL}, {.type = NEARCALL_BOOL, .as.boolean = 1}, whole(INT64_MIN),
        {.type = NEARCALL_UINT, .as.unsigned_integer = UINT64_MAX}, {.type = NEARCALL_FLOAT, .as.real = -1e300},
        text(NEARCALL_BYTES, "\0\xff", 2),
        {.type = NEARCALL_TIME, .as.integer = 1700000000, .count = 5}};
    CHECK_CALL(client, call_values("identity", values, sizeof(values) / sizeof(values[0])), NEARCALL_OK);
    CHECK_INT(next(NEARCALL_MAP).count, 1); /* more come back in any order */
    check_text(next(NEARCALL_STRING), "list");
    CHECK_INT(next(NEARCALL_ARRAY).count, 7);
    next(NEARCALL_NIL);
    CHECK_INT(next(NEARCALL_BOOL).as.boolean, 1);
    CHECK_INT(next(NEARCALL_INT).as.integer, INT64_MIN);
    CHECK(next(NEARCALL_UINT).as.unsigned_integer == UINT64_MAX);
    CHECK(next(NEARCALL_FLOAT).as.real == (double)-1e300);
    CHECK_INT(next(NEARCALL_BYTES).count, 2);
    nearcall_value moment = next(NEARCALL_TIME);
    CHECK(moment.as.integer == 1700000000 && moment.count == 5);
}

/* Beside each other, as many as there may be, and one more. */
static void short_values_come_back(uint32_t count)
{
    static const int64_t numbers[] = {0, 127, 128, -32, -33, INT64_MIN, UINT32_MAX, -129, 65535};
    nearcall_value values[20] = {array(count)};
    for (uint32_t i = 1; i <= count; i++)
        values[i] = whole(numbers[i % 9]);
    CHECK_CALL(client, call_values("sum", values, count + 1), NEARCALL_OK);
    uint64_t sum = 0;
    for (uint32_t i = 1; i <= count; i++)
        sum += (uint64_t)numbers[i % 9];
    CHECK_INT(next(NEARCALL_INT).as.integer, (int64_t)sum);
}

static void short_texts_come_back(void)
{
    char letters[600];
    memset(letters, 'x', sizeof(letters));
    for (uint32_t bytes = 0; bytes < sizeof(letters); bytes++) {
        const nearcall_value values[] = {array(1), text(NEARCALL_STRING, letters, bytes)};
        CHECK_CALL(client, call_values("upper", values, 2), NEARCALL_OK);
        CHECK_INT(next(NEARCALL_STRING).count, bytes);
    }
}

/* What is refused of values that are put one by one. */
static void wrong_values_are_not_sent(void)
{
    const nearcall_value three[] = {array(2), whole(1), whole(2), whole(3)};
    const nearcall_value packed[] = {array(1), {.type = NEARCALL_PACKED, .count = 1}};
    const nearcall_value nothing[] = {array(1), text(NEARCALL_STRING, NULL, 3)};
    nearcall_value nested[34];
    for (int i = 0; i < 34; i++)
        nested[i] = array(1);
    CHECK_CALL(client, call_values("add", three, 2), NEARCALL_E_MISUSE);
    CHECK_CALL(client, call_values("add", three, 4), NEARCALL_E_MISUSE);
    CHECK_CALL(client, call_values("add", three, 0), NEARCALL_E_MISUSE);
    CHECK_CALL(client, call_values("add", NULL, 3), NEARCALL_E_MISUSE);
    CHECK_CALL(client, call_values("identity", packed, 2), NEARCALL_E_MISUSE);
    CHECK_CALL(client, call_values("identity", nothing, 2), NEARCALL_E_MISUSE);
    CHECK_CALL(client, call_values("identity", nested, 34), NEARCALL_E_INVALID_ARGUMENT);
    CHECK_OUTCOME(client, NEARCALL_OUTCOME_NOT_EXECUTED);
    CHECK_CALL(client, nearcall_call_values(client, NULL, 1, three, 3, 0, NULL), NEARCALL_E_MISUSE);
    CHECK_CALL(client, nearcall_call_values(client, test_find(client, "add"), 3, three, 3, 0, NULL), NEARCALL_E_MISUSE);
    CHECK_CALL(client, nearcall_call_values(client, test_find(client, "add"), NEARCALL_CODEC_RAW, three, 3, 0, NULL), NEARCALL_E_MISUSE);
    CHECK_CALL(client, call_values("add", three, 3), NEARCALL_OK);
    CHECK(next(NEARCALL_FLOAT).as.real == 3);
}

int main(void)
{
    struct server server;
    test_begin();
    server_start(&server);
    client = test_open(server.address, 0);
    add();
    divmod_has_two_results();
    greet_takes_a_struct();
    kinds_come_back();
    values_of_all_kinds_come_back();
    short_values_come_back(0);
    short_values_come_back(9);
    short_values_come_back(15);
    short_values_come_back(16);
    short_texts_come_back();
    wrong_values_are_not_sent();
    a_moment_goes_through(0, 1);
    a_moment_goes_through(1700000000, 5);
    a_moment_goes_through(((int64_t)1 << 34) + 5, 7);
    a_moment_goes_through(-62135596800 + 5, 999999998);
    json_is_a_codec_too();
    wrong_arguments_are_refused_by_the_server();
    misuse_is_found_when_sending();
    nesting_is_limited();
    a_failure_of_the_writers_can_be_asked_for();
    a_request_too_large_is_kept_from_the_wire();
    add();
    nearcall_close(client);
    server_stop(&server);
    return 0;
}
