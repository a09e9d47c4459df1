/* From event to outcome: each row of the table in spec/call-semantics.md that the
 * peer can bring about, played by a script. */
#include <sys/socket.h>

#include "script.h"

struct row {
    const char *name;
    void (*play)(struct script *script);
    int64_t timeout_ms;
    int code;
    int outcome;
    const char *said;
};

static void closes_after_reading(struct script *script)
{
    struct nc_frame frame;
    script_greet(script);
    script_expect(script, NC_REQUEST, &frame);
}

/* A close with unread bytes is what the kernel reports as ECONNRESET. */
static void closes_without_reading(struct script *script)
{
    uint8_t byte;
    script_greet(script);
    CHECK_INT(recv(script->fd, &byte, 1, MSG_PEEK), 1);
}

static void closes_in_the_middle_of_a_request(struct script *script)
{
    uint8_t byte;
    script_greet(script);
    CHECK_INT(recv(script->fd, &byte, 1, 0), 1);
    CHECK_INT(recv(script->fd, &byte, 1, MSG_PEEK), 1);
}

static void send_part_of_reply(struct script *script, size_t bytes)
{
    struct nc_frame frame;
    uint8_t header[NC_FRAME_HEADER_BYTES + 8] = {0};
    script_greet(script);
    script_expect(script, NC_REQUEST, &frame);
    struct nc_frame reply = {.length = 16, .type = NC_REPLY, .call_id = frame.call_id,
                             .function_id = SCRIPT_FUNCTION_ID};
    nc_frame_encode(header, &reply);
    script_send(script, header, bytes);
}

static void closes_in_the_middle_of_a_reply(struct script *script)
{
    send_part_of_reply(script, NC_FRAME_HEADER_BYTES + 8);
}

static void closes_in_the_middle_of_a_header(struct script *script)
{
    send_part_of_reply(script, 20);
}

static void closes_before_the_reply_can_be_told(struct script *script)
{
    send_part_of_reply(script, 3);
}

static void stops_in_the_middle_of_a_reply(struct script *script)
{
    send_part_of_reply(script, NC_FRAME_HEADER_BYTES + 8);
    script_await(script);
}

static void never_answers(struct script *script)
{
    struct nc_frame frame;
    script_greet(script);
    script_expect(script, NC_REQUEST, &frame);
    script_expect(script, NC_CANCEL, &frame);
    script_await(script);
}

static void answer_cancel(struct script *script, int outcome)
{
    struct nc_frame frame;
    script_greet(script);
    script_expect(script, NC_REQUEST, &frame);
    script_expect(script, NC_CANCEL, &frame);
    script_error(script, frame.call_id, 1, outcome, "cancelled");
    script_await(script);
}

static void had_not_started(struct script *script)
{
    answer_cancel(script, NEARCALL_OUTCOME_NOT_EXECUTED);
}

static void had_started(struct script *script)
{
    answer_cancel(script, NEARCALL_OUTCOME_UNKNOWN);
}

static void replies_too_late(struct script *script)
{
    struct nc_frame frame, cancel;
    script_greet(script);
    script_expect(script, NC_REQUEST, &frame);
    script_expect(script, NC_CANCEL, &cancel);
    script_reply(script, &frame, "late", 4);
    script_await(script);
}

static void drains_below(struct script *script)
{
    struct nc_frame frame;
    script_greet(script);
    script_expect(script, NC_REQUEST, &frame);
    script_drain(script, frame.call_id - 1);
    script_await(script);
}

static void refuses_the_user(struct script *script)
{
    script_refuse(script, 7, "user 5 is not on the list");
}

static void refuses_the_connection(struct script *script)
{
    script_refuse(script, 8, "too many connections");
}

static void closes_instead_of_a_welcome(struct script *script)
{
    script_accept(script);
    script_read_hello(script);
}

static void never_welcomes(struct script *script)
{
    script_accept(script);
    script_await(script);
}

static void welcomes_by_half(struct script *script)
{
    script_accept(script);
    script_read_hello(script);
    script_send(script, "\x89NCW\r\n\x1a\n\x40\0\0\0", 12);
    script_await(script);
}

static void speaks_http(struct script *script)
{
    script_accept(script);
    script_read_hello(script);
    script_send(script, "HTTP/1.1 400 Bad Request\r\n\r\n", 28);
    script_await(script);
}

static void says_it_is_too_large(struct script *script)
{
    struct nc_frame frame;
    script_greet(script);
    script_expect(script, NC_REQUEST, &frame);
    script_error(script, frame.call_id, 8, NEARCALL_OUTCOME_EXECUTED_RESULT_LOST, "too large");
    script_await(script);
}

static void replies_beyond_the_limit(struct script *script)
{
    struct nc_frame frame;
    script_greet(script);
    script_expect(script, NC_REQUEST, &frame);
    struct nc_frame reply = {.length = (4 << 20) + 1, .type = NC_REPLY, .call_id = frame.call_id,
                             .function_id = SCRIPT_FUNCTION_ID};
    uint8_t header[NC_FRAME_HEADER_BYTES];
    nc_frame_encode(header, &reply);
    script_send(script, header, sizeof(header));
    script_await(script);
}

static void complains_about_the_connection(struct script *script)
{
    struct nc_frame frame;
    script_greet(script);
    script_expect(script, NC_REQUEST, &frame);
    script_error(script, 0, 3, NEARCALL_OUTCOME_UNKNOWN, "field flags is 9");
}

#define NONE NEARCALL_OUTCOME_NONE
#define NOT_EXECUTED NEARCALL_OUTCOME_NOT_EXECUTED
#define UNKNOWN NEARCALL_OUTCOME_UNKNOWN
#define LOST NEARCALL_OUTCOME_EXECUTED_RESULT_LOST
#define ROW(play, timeout_ms, code, outcome, said) {#play, play, timeout_ms, code, outcome, said}

static const struct row rows[] = {
    ROW(closes_after_reading, 5000, NEARCALL_E_UNAVAILABLE, UNKNOWN, "closed"),
    ROW(closes_without_reading, 5000, NEARCALL_E_UNAVAILABLE, NOT_EXECUTED, "reset"),
    ROW(closes_in_the_middle_of_a_request, 5000, NEARCALL_E_UNAVAILABLE, NOT_EXECUTED, "reset"),
    ROW(closes_in_the_middle_of_a_reply, 5000, NEARCALL_E_UNAVAILABLE, LOST, "closed"),
    ROW(closes_in_the_middle_of_a_header, 5000, NEARCALL_E_UNAVAILABLE, LOST, "closed"),
    ROW(closes_before_the_reply_can_be_told, 5000, NEARCALL_E_UNAVAILABLE, UNKNOWN, "closed"),
    ROW(stops_in_the_middle_of_a_reply, 100, NEARCALL_E_DEADLINE_EXCEEDED, LOST, "deadline"),
    ROW(never_answers, 100, NEARCALL_E_DEADLINE_EXCEEDED, UNKNOWN, "deadline"),
    ROW(had_not_started, 100, NEARCALL_E_DEADLINE_EXCEEDED, NOT_EXECUTED, "deadline"),
    ROW(had_started, 100, NEARCALL_E_DEADLINE_EXCEEDED, UNKNOWN, "deadline"),
    ROW(replies_too_late, 100, NEARCALL_E_DEADLINE_EXCEEDED, UNKNOWN, "deadline"),
    ROW(drains_below, 5000, NEARCALL_E_UNAVAILABLE, NOT_EXECUTED, "stopping"),
    ROW(refuses_the_user, 5000, NEARCALL_E_PERMISSION_DENIED, NOT_EXECUTED, "not on the list"),
    ROW(refuses_the_connection, 5000, NEARCALL_E_RESOURCE_EXHAUSTED, NOT_EXECUTED, "too many"),
    ROW(closes_instead_of_a_welcome, 5000, NEARCALL_E_UNAVAILABLE, NOT_EXECUTED, "welcome"),
    ROW(never_welcomes, 100, NEARCALL_E_DEADLINE_EXCEEDED, NOT_EXECUTED, "welcome"),
    ROW(welcomes_by_half, 100, NEARCALL_E_DEADLINE_EXCEEDED, NOT_EXECUTED, "welcome"),
    ROW(speaks_http, 5000, NEARCALL_E_INTERNAL, NOT_EXECUTED, "is this a Nearcall server?"),
    ROW(says_it_is_too_large, 5000, NEARCALL_E_RESOURCE_EXHAUSTED, LOST, "too large"),
    ROW(replies_beyond_the_limit, 5000, NEARCALL_E_RESOURCE_EXHAUSTED, LOST, "frame_bytes_max"),
    ROW(complains_about_the_connection, 5000, NEARCALL_E_UNAVAILABLE, UNKNOWN, "flags is 9"),
};

static bool ends_as_told(const struct row *row)
{
    struct script script;
    nearcall_options options = NEARCALL_OPTIONS_INIT;
    nearcall_reply reply;
    options.attempts_max = 1;
    fprintf(stderr, "%s\n", row->name);
    script_start(&script, row->play, NULL);
    nearcall_client *client = test_open_with(script.address, &options);
    double before_ms = test_now_ms();
    CHECK_CALL(client, nearcall_call(client, "f", "x", 1, row->timeout_ms, &reply), row->code);
    double took_ms = test_now_ms() - before_ms;
    bool in_time = row->code != NEARCALL_E_DEADLINE_EXCEEDED
                       ? took_ms < (double)row->timeout_ms
                       : test_in_time(took_ms, (double)row->timeout_ms) && test_answered_in_time(client, row->outcome);
    if (in_time)
        CHECK_OUTCOME(client, row->outcome);
    if (!strstr(nearcall_error_message(client), row->said))
        fprintf(stderr, "message: %s\n", nearcall_error_message(client));
    CHECK(strstr(nearcall_error_message(client), row->said) != NULL);
    script_signal(&script);
    script_end(&script);
    nearcall_close(client);
    return in_time;
}

static void check(const struct row *row)
{
    int tries = 0;
    while (!ends_as_told(row))
        CHECK(++tries < TEST_TRIES);
}

static void no_server_at_all(void)
{
    nearcall_reply reply;
    char address[160];
    snprintf(address, sizeof(address), "unix:%s/none.sock", test_directory());
    nearcall_client *client = test_open(address, 0);
    CHECK_CALL(client, nearcall_call(client, "f", NULL, 0, 5000, &reply), NEARCALL_E_UNAVAILABLE);
    CHECK_OUTCOME(client, NOT_EXECUTED);
    CHECK(strstr(nearcall_error_message(client), "is the server running") != NULL);
    nearcall_close(client);
}

int main(void)
{
    test_begin();
    no_server_at_all();
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        check(&rows[i]);
    return 0;
}
