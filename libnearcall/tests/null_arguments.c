/* NULL where something is expected is refused, or does nothing, and never crashes: all
 * functions of the three headers, without a handle and with one. */
#include "nearcall_handoff.h"
#include "nearcall_resident.h"
#include "nearcall_generated.h"
#include "test.h"

static nearcall_client *client;
static nearcall_function *function;

#define MISUSE(call) CHECK_INT((call), NEARCALL_E_MISUSE)

static void put_nothing(nearcall_client *handle)
{
    nearcall_put_nil(handle);
    nearcall_put_bool(handle, 1);
    nearcall_put_int(handle, 1);
    nearcall_put_uint(handle, 1);
    nearcall_put_float(handle, 1);
    nearcall_put_double(handle, 1);
    nearcall_put_time(handle, 1, 1);
    nearcall_put_file(handle, 0);
    nearcall_put_array(handle, 1);
    nearcall_put_map(handle, 1);
    nearcall_put_packed(handle, NEARCALL_ELEMENT_BOOL, NULL, 1);
    nearcall_put_string(handle, NULL, 0);
    nearcall_put_bytes(handle, NULL, 0);
    nearcall_put_raw(handle, NULL, 0);
    CHECK(nearcall_put_reserve(handle, 1) == NULL);
    MISUSE(nearcall_put_raw_reserve(handle, 1, NULL));
    MISUSE(nearcall_put_commit(handle, 1));
}

static void calls_without_a_handle(void)
{
    nearcall_reply reply;
    nearcall_call_id call;
    nearcall_function *found;
    int64_t timeout_ms = 1000;
    uint32_t sendings = 0;
    MISUSE(nearcall_open(NULL, "unix:/x", NULL));
    MISUSE(nearcall_connect(NULL, 0));
    MISUSE(nearcall_ping(NULL, 0, NULL));
    MISUSE(nearcall_call(NULL, "one", NULL, 0, 0, &reply));
    MISUSE(nearcall_call_codec(NULL, "one", NEARCALL_CODEC_JSON, "[]", 2, 0, &reply));
    MISUSE(nearcall_find(NULL, "one", 3, 0, &found));
    MISUSE(nearcall_find_begin(NULL, "one", 3, 0, &call));
    MISUSE(nearcall_request(NULL, NULL, 0));
    MISUSE(nearcall_request_call(NULL, 0, &reply));
    MISUSE(nearcall_call_values(NULL, NULL, NEARCALL_CODEC_MSGPACK, NULL, 0, 0, &reply));
    MISUSE(nearcall_request_send(NULL, 0, &call));
    MISUSE(nearcall_request_swap(NULL, NULL));
    MISUSE(nearcall_resume(NULL, 1, &reply));
    MISUSE(nearcall_wait(NULL, 1, &reply));
    MISUSE(nearcall_poll(NULL, 1, &reply));
    MISUSE(nearcall_process(NULL));
    MISUSE(nearcall_wake(NULL));
    MISUSE(nearcall_abandon(NULL));
    MISUSE(nearcall_on_finished(NULL, NULL, NULL));
    MISUSE(nearcall_on_log(NULL, NULL, NULL));
    MISUSE(nearcall_compare(NULL, NULL, NULL, NULL, 0));
    MISUSE(nearcall_generated_request(NULL, "f", 1, NULL, NULL, 0, &timeout_ms));
    MISUSE(nearcall_generated_go_on(NULL, "f", 1, "x"));
    CHECK(!nearcall_generated_is_outdated(NULL, NEARCALL_E_ABORTED, &sendings, &timeout_ms));
    MISUSE(nearcall_request_sent(NULL, 1));
    CHECK(nearcall_sendings(NULL) == 0);
    CHECK(nearcall_request_bytes_max(NULL) > 0);
    MISUSE(nearcall_put_check(NULL));
    MISUSE(nearcall_interruptible_check(NULL, NULL, NULL));
    MISUSE(nearcall_view_new(NULL, NULL, NULL, NULL));
    MISUSE(nearcall_use_view(NULL, NULL));
    nearcall_view_free(NULL);
    nearcall_close(NULL);
    nearcall_disconnect(NULL);
    nearcall_block_signals(NULL, 1);
    nearcall_cancel(NULL, 1);
    CHECK_INT(nearcall_is_unsent(NULL, 1), 0);
    CHECK_INT(nearcall_is_exposed(NULL), 0);
    put_nothing(NULL);
}

static void questions_without_a_handle(void)
{
    size_t bytes = 1;
    CHECK_INT(nearcall_fd(NULL), -1);
    CHECK_INT(nearcall_events(NULL), 0);
    CHECK_INT(nearcall_timeout_ms(NULL), -1);
    CHECK_INT(nearcall_next_finished(NULL), 0);
    CHECK_INT(nearcall_interrupted(NULL), 0);
    CHECK_INT(nearcall_server_process_id(NULL), 0);
    CHECK_INT(nearcall_transport(NULL)[0], 0);
    CHECK_INT(nearcall_endpoint(NULL)[0], 0);
    CHECK(nearcall_error_message(NULL)[0] != '\0');
    CHECK_INT(nearcall_error_code(NULL), -NEARCALL_E_RESOURCE_EXHAUSTED);
    CHECK_INT(nearcall_error_outcome(NULL), NEARCALL_OUTCOME_NOT_EXECUTED);
    CHECK(nearcall_error_details(NULL, &bytes) == NULL && bytes == 0);
    CHECK(nearcall_error_details(NULL, NULL) == NULL);
    CHECK_INT(nearcall_take_file(NULL, 0), NEARCALL_E_MISUSE);
    CHECK_INT(nearcall_reply_metadata(NULL, NULL, NULL, NULL), 0);
    bytes = 1;
    CHECK(nearcall_function_schema(NULL, &bytes) == NULL && bytes == 0);
    CHECK_INT(nearcall_function_revision(NULL), 0);
    CHECK_INT(nearcall_function_hash(NULL)[0], 0);
    CHECK_INT(nearcall_room(NULL), UINT32_MAX);
    CHECK_INT(nearcall_unsent_bytes(NULL), 0);
}

static void writing_with_nothing(void)
{
    const uint8_t *data;
    size_t bytes;
    MISUSE(nearcall_writer_new(NULL));
    MISUSE(nearcall_writer_begin(NULL, NULL, NEARCALL_CODEC_RAW));
    MISUSE(nearcall_writer_check(NULL, NULL));
    MISUSE(nearcall_writer_data(NULL, &data, &bytes));
    MISUSE(nearcall_request_written(NULL, NULL));
    nearcall_write_nil(NULL);
    nearcall_write_bool(NULL, 1);
    nearcall_write_int(NULL, 1);
    nearcall_write_uint(NULL, 1);
    nearcall_write_float(NULL, 1);
    nearcall_write_double(NULL, 1);
    nearcall_write_string(NULL, NULL, 1);
    nearcall_write_bytes(NULL, NULL, 1);
    nearcall_write_time(NULL, 1, 1);
    nearcall_write_file(NULL, 0);
    nearcall_write_array(NULL, 1);
    nearcall_write_map(NULL, 1);
    nearcall_write_packed(NULL, NEARCALL_ELEMENT_BOOL, NULL, 1);
    nearcall_write_raw(NULL, NULL, 1);
    CHECK(nearcall_write_reserve(NULL, 1) == NULL);
    MISUSE(nearcall_write_commit(NULL, 1));
    nearcall_writer_free(NULL);
}

static void a_schema_of_nothing(void)
{
    nearcall_schema *schema;
    nearcall_walker walker;
    nearcall_step step;
    nearcall_reader reader = {NULL, NULL};
    nearcall_value value;
    const nearcall_field *field = NULL;
    uint32_t count = 1;
    MISUSE(nearcall_schema_read((const uint8_t *)"\x80", 1, NULL, NULL));
    MISUSE(nearcall_schema_read(NULL, 1, &schema, NULL));
    CHECK_INT(nearcall_schema_read(NULL, 0, &schema, NULL), NEARCALL_E_INVALID_ARGUMENT);
    MISUSE(nearcall_schema_fetch(NULL, 0, &schema));
    CHECK(nearcall_schema_functions(NULL) == NULL);
    CHECK(nearcall_schema_types(NULL, &count) == NULL && count == 0);
    CHECK(nearcall_schema_types(NULL, NULL) == NULL);
    MISUSE(nearcall_read_as(&reader, NULL, &value));
    MISUSE(nearcall_read_field(&reader, NULL, &field));
    CHECK_INT(nearcall_packed_element(NULL), 0);
    MISUSE(nearcall_walk_begin(&walker, NULL, NULL, 0));
    MISUSE(nearcall_walk(NULL, &step));
    nearcall_schema_free(NULL);
}

static void reading_nothing(void)
{
    nearcall_reader empty = {NULL, NULL};
    nearcall_value value;
    const void *elements;
    size_t count;
    MISUSE(nearcall_read(NULL, &value));
    MISUSE(nearcall_read(&empty, NULL));
    MISUSE(nearcall_skip(NULL));
    CHECK_INT(nearcall_read(&empty, &value), NEARCALL_E_OUT_OF_RANGE);
    CHECK_INT(nearcall_skip(&empty), NEARCALL_E_OUT_OF_RANGE);
    MISUSE(nearcall_read_numbers(NULL, NEARCALL_ELEMENT_BOOL, NULL, 0, &count));
    MISUSE(nearcall_read_numbers(&empty, NEARCALL_ELEMENT_BOOL, NULL, 1, &count));
    MISUSE(nearcall_read_numbers(&empty, NEARCALL_ELEMENT_BOOL, NULL, 0, NULL));
    CHECK_INT(nearcall_read_numbers(&empty, NEARCALL_ELEMENT_BOOL, NULL, 0, &count), NEARCALL_E_OUT_OF_RANGE);
    memset(&value, 0, sizeof(value));
    MISUSE(nearcall_read_elements(NULL, &value, NEARCALL_ELEMENT_BOOL, &count));
    MISUSE(nearcall_read_elements(&empty, NULL, NEARCALL_ELEMENT_BOOL, &count));
    MISUSE(nearcall_read_elements(&empty, &value, 0, &count));
    CHECK_INT(nearcall_read_elements(&empty, &value, NEARCALL_ELEMENT_BOOL, NULL), NEARCALL_OK);
    value.type = NEARCALL_ARRAY;
    value.count = 1;
    MISUSE(nearcall_read_elements(&empty, &value, NEARCALL_ELEMENT_BOOL, NULL));
    value.type = NEARCALL_BOOL;
    CHECK_INT(nearcall_read_elements(&empty, &value, NEARCALL_ELEMENT_BOOL, &count), NEARCALL_E_INVALID_ARGUMENT);
    MISUSE(nearcall_borrow_numbers(NULL, NEARCALL_ELEMENT_BOOL, &elements, &count));
    MISUSE(nearcall_borrow_numbers(&empty, NEARCALL_ELEMENT_BOOL, NULL, &count));
    MISUSE(nearcall_borrow_numbers(&empty, NEARCALL_ELEMENT_BOOL, &elements, NULL));
    MISUSE(nearcall_packed_at(NULL, 0, &value));
    memset(&value, 0, sizeof(value));
    MISUSE(nearcall_packed_at(&value, 0, NULL));
    CHECK_INT(nearcall_packed_at(&value, 0, &value), NEARCALL_E_INVALID_ARGUMENT);
    CHECK_INT(nearcall_borrow_numbers(&empty, NEARCALL_ELEMENT_BOOL, &elements, &count), NEARCALL_E_OUT_OF_RANGE);
}

/* A request that was begun, and what spoils it. */
static void request_with(void (*spoil)(void))
{
    nearcall_reply reply;
    CHECK_CALL(client, nearcall_request(client, function, NEARCALL_CODEC_MSGPACK), NEARCALL_OK);
    nearcall_put_array(client, 1);
    spoil();
    MISUSE(nearcall_request_call(client, 0, &reply));
    CHECK_OUTCOME(client, NEARCALL_OUTCOME_NOT_EXECUTED);
}

static void put_no_string(void)
{
    nearcall_put_string(client, NULL, 3);
}

static void put_no_bytes(void)
{
    nearcall_put_bytes(client, NULL, 3);
}

static void put_nothing_raw(void)
{
    nearcall_put_raw(client, NULL, 3);
}

static void with_a_handle(void)
{
    nearcall_reply reply;
    int64_t timeout_ms = 1000;
    size_t bytes;
    MISUSE(nearcall_call(client, NULL, NULL, 0, 0, &reply));
    MISUSE(nearcall_call(client, "echo", NULL, 3, 0, &reply));
    MISUSE(nearcall_call_codec(client, NULL, NEARCALL_CODEC_JSON, "[]", 2, 0, &reply));
    MISUSE(nearcall_call_codec(client, "add", NEARCALL_CODEC_JSON, NULL, 2, 0, &reply));
    CHECK_CALL(client, nearcall_call_codec(client, "add", NEARCALL_CODEC_JSON, "[1,2]", 5, 0, NULL), NEARCALL_OK);
    CHECK_CALL(client, nearcall_call(client, "echo", NULL, 0, 0, NULL), NEARCALL_OK);
    MISUSE(nearcall_find(client, NULL, 3, 0, &function));
    MISUSE(nearcall_find(client, "echo", 4, 0, NULL));
    MISUSE(nearcall_find_begin(client, "echo", 4, 0, NULL));
    MISUSE(nearcall_request(client, NULL, NEARCALL_CODEC_RAW));
    function = test_find(client, "echo");
    MISUSE(nearcall_compare(client, NULL, "x", "{}", 0));
    MISUSE(nearcall_compare(client, function, NULL, "{}", 0));
    MISUSE(nearcall_compare(client, function, "x", NULL, 0));
    MISUSE(nearcall_generated_request(client, NULL, 1, NULL, NULL, 0, &timeout_ms));
    MISUSE(nearcall_generated_request(client, "f", 1, "x", NULL, 0, &timeout_ms));
    MISUSE(nearcall_generated_request(client, "f", 1, NULL, NULL, 0, NULL));
    MISUSE(nearcall_generated_go_on(client, NULL, 1, "x"));
    MISUSE(nearcall_generated_go_on(client, "f", 1, NULL));
    CHECK(!nearcall_generated_is_outdated(client, NEARCALL_E_ABORTED, NULL, NULL));
    CHECK(nearcall_function_schema(function, NULL) != NULL);
    CHECK(nearcall_function_schema(function, &bytes) != NULL);
    CHECK_CALL(client, nearcall_request(client, function, NEARCALL_CODEC_RAW), NEARCALL_OK);
    MISUSE(nearcall_request_send(client, 0, NULL));
    CHECK_CALL(client, nearcall_ping(client, 0, NULL), NEARCALL_OK);
    MISUSE(nearcall_view_new(client, NULL, NULL, NULL));
    CHECK_INT(nearcall_reply_metadata(client, NULL, NULL, NULL), 0);
    CHECK_CALL(client, nearcall_use_view(client, NULL), NEARCALL_OK);
    request_with(put_no_string);
    request_with(put_no_bytes);
    request_with(put_nothing_raw);
    nearcall_client *nowhere;
    MISUSE(nearcall_open(&nowhere, NULL, NULL));
    nearcall_close(nowhere);
}

static void handing_off_nothing(void)
{
    nearcall_handoff_item item = {0};
    nearcall_handoff *handoff;
    char address[160];
    MISUSE(nearcall_handoff_listen(NULL, "unix:/x", NULL));
    MISUSE(nearcall_handoff_listen_fd(NULL, 0, NULL));
    MISUSE(nearcall_handoff_connect(NULL, "unix:/x", NULL, 0));
    MISUSE(nearcall_handoff_wait(NULL, 0));
    MISUSE(nearcall_handoff_interruptible_check(NULL, NULL, NULL));
    MISUSE(nearcall_handoff_accept(NULL, 0, &item));
    MISUSE(nearcall_handoff_refuse(NULL, 1, NULL));
    MISUSE(nearcall_handoff_drain(NULL, NULL));
    MISUSE(nearcall_handoff_abandon(NULL));
    MISUSE(nearcall_handoff_give(NULL, 0, &item, 0));
    CHECK(nearcall_handoff_fd(NULL) < 0);
    CHECK_INT(nearcall_handoff_timeout_ms(NULL), -1);
    CHECK(nearcall_handoff_error_message(NULL)[0] != '\0');
    CHECK_INT(nearcall_handoff_error_reason(NULL), 0);
    CHECK_INT(nearcall_handoff_host_matches(NULL, "*"), 0);
    CHECK_INT(nearcall_handoff_host_matches("*", NULL), 0);
    nearcall_handoff_close(NULL);
    snprintf(address, sizeof(address), "unix:%s/handoff.sock", test_directory());
    CHECK_INT(nearcall_handoff_listen(&handoff, address, NULL), NEARCALL_OK);
    MISUSE(nearcall_handoff_accept(handoff, 0, NULL));
    MISUSE(nearcall_handoff_give(handoff, 0, NULL, 0));
    nearcall_handoff_close(handoff);
    CHECK(nearcall_handoff_listen(&handoff, NULL, NULL) < 0);
    nearcall_handoff_close(handoff);
    CHECK(nearcall_handoff_connect(&handoff, NULL, NULL, 0) < 0);
    nearcall_handoff_close(handoff);
}

static void being_resident_with_nothing(void)
{
    nearcall_resident_run run;
    CHECK_INT(nearcall_resident_started(NULL), 0);
    CHECK(nearcall_resident_open(NULL, NULL) < 0);
    CHECK(nearcall_resident_watch(NULL, "/x") < 0);
    CHECK(nearcall_resident_reads(NULL, NEARCALL_RESIDENT_DIRECTORY, NULL) < 0);
    CHECK(nearcall_resident_interruptible_check(NULL, NULL, NULL) < 0);
    CHECK(nearcall_resident_next(NULL) < 0);
    CHECK(nearcall_resident_forked(NULL, 1) < 0);
    CHECK(nearcall_resident_child(NULL) < 0);
    CHECK(nearcall_resident_accept(NULL, &run) < 0);
    CHECK(nearcall_resident_error_message(NULL)[0] != '\0');
    nearcall_resident_ending(NULL, 0);
    nearcall_resident_close(NULL);
}

int main(void)
{
    struct server server;
    test_begin();
    calls_without_a_handle();
    questions_without_a_handle();
    reading_nothing();
    writing_with_nothing();
    a_schema_of_nothing();
    server_start(&server);
    client = test_open(server.address, 0);
    with_a_handle();
    nearcall_close(client);
    server_stop(&server);
    handing_off_nothing();
    being_resident_with_nothing();
    return 0;
}
