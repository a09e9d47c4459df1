/* From event to outcome when a call went through shared memory: start marks, replies
 * left in the ring, draining, and slots that are not what they should be. */
#include <sys/socket.h>

#include "script_memory.h"

static struct nc_frame take_request(struct script *script, struct script_memory *memory)
{
    struct nc_memory_offer offer = SCRIPT_OFFER;
    struct nc_frame frame;
    memory_begin(script, memory, offer);
    memory_expect(memory, NC_REQUEST, &frame);
    return frame;
}

static void put(struct script *script, struct script_memory *memory, const struct nc_frame *frame,
                const void *payload)
{
    if (memory_put(memory, frame, payload))
        memory_wake(script);
}

/* ---- The connection ends, or the deadline passes ---- */

static void end_with_mark(struct script *script, enum nc_mark mark)
{
    struct script_memory memory;
    struct nc_frame frame = take_request(script, &memory);
    if (mark != NC_MARK_NONE)
        memory_mark(&memory, frame.call_id, mark);
    script_hang_up(script);
    memory_end(&memory);
}

static void ends_unmarked(struct script *script)
{
    end_with_mark(script, NC_MARK_NONE);
}

static void ends_received(struct script *script)
{
    end_with_mark(script, NC_MARK_RECEIVED);
}

static void ends_started(struct script *script)
{
    end_with_mark(script, NC_MARK_STARTED);
}

static void ends_finished(struct script *script)
{
    end_with_mark(script, NC_MARK_FINISHED);
}

/* The mark of a call 512 before, or of one after. */
static void end_with_neighbour(struct script *script, uint64_t distance)
{
    struct script_memory memory;
    struct nc_frame frame = take_request(script, &memory);
    nc_word64 *mark = (nc_word64 *)(void *)(memory.server + 4096 + 8 * (frame.call_id % 512));
    atomic_store(mark, (frame.call_id + distance) << 2 | NC_MARK_STARTED);
    script_hang_up(script);
    memory_end(&memory);
}

static void ends_with_an_earlier_mark(struct script *script)
{
    end_with_neighbour(script, (uint64_t)-1);
}

static void ends_with_a_later_mark(struct script *script)
{
    end_with_neighbour(script, 512);
}

/* The rule of ECONNRESET is for connections without memory. */
static void is_reset_after_starting(struct script *script)
{
    struct script_memory memory;
    struct nc_memory_offer offer = SCRIPT_OFFER;
    struct nc_frame frame;
    uint8_t byte;
    memory_begin(script, &memory, offer);
    (void)memory_fall_asleep(&memory);
    if (memory_take(&memory, &frame, NULL)) { /* it was quicker */
        memory_mark(&memory, frame.call_id, NC_MARK_STARTED);
    } else {
        CHECK_INT(recv(script->fd, &byte, 1, MSG_PEEK), 1);
        memory_mark(&memory, 67, NC_MARK_STARTED); /* never another call's */
        memory_mark(&memory, 3, NC_MARK_STARTED);
    }
    script_hang_up(script);
    memory_end(&memory);
}

static void never_ends(struct script *script, enum nc_mark mark)
{
    struct script_memory memory;
    struct nc_frame frame = take_request(script, &memory), cancel;
    memory_mark(&memory, frame.call_id, mark);
    memory_expect(&memory, NC_CANCEL, &cancel); /* the way the request went */
    CHECK_INT(cancel.call_id, frame.call_id);
    script_await(script);
    memory_end(&memory);
}

static void never_answers(struct script *script)
{
    never_ends(script, NC_MARK_STARTED);
}

static void never_answers_but_finished(struct script *script)
{
    never_ends(script, NC_MARK_FINISHED);
}

static void falls_asleep_and_reads_cancel(struct script *script)
{
    struct script_memory memory;
    struct nc_frame frame = take_request(script, &memory), cancel;
    (void)memory_fall_asleep(&memory);
    script_expect(script, NC_CANCEL, &cancel);
    CHECK_INT(cancel.call_id, frame.call_id);
    script_error(script, frame.call_id, 1, NEARCALL_OUTCOME_NOT_EXECUTED, "cancelled");
    script_await(script);
    memory_end(&memory);
}

/* ---- What was sent before the end counts ---- */

static void replies_and_ends(struct script *script)
{
    struct script_memory memory;
    struct nc_frame frame = take_request(script, &memory);
    memory_await_sleep(&memory); /* so that only the end of the socket tells of it */
    (void)memory_reply(&memory, &frame, "left", 4);
    script_hang_up(script);
    memory_end(&memory);
}

static void drains_by_the_ring(struct script *script)
{
    struct script_memory memory;
    struct nc_frame frame = take_request(script, &memory);
    struct nc_frame drain = {.type = NC_DRAIN, .call_id = frame.call_id - 1};
    put(script, &memory, &drain, NULL);
    script_await(script);
    memory_end(&memory);
}

static void drains_by_the_socket(struct script *script)
{
    struct script_memory memory;
    struct nc_frame frame = take_request(script, &memory);
    script_drain(script, frame.call_id - 1);
    script_await(script);
    memory_end(&memory);
}

static void drains_and_replies(struct script *script)
{
    struct script_memory memory;
    struct nc_frame frame = take_request(script, &memory);
    struct nc_frame drain = {.type = NC_DRAIN, .call_id = frame.call_id};
    struct nc_frame reply = {.type = NC_REPLY, .call_id = frame.call_id, .length = 4,
                             .function_id = SCRIPT_FUNCTION_ID};
    put(script, &memory, &drain, NULL);
    put(script, &memory, &reply, "last");
    script_await(script);
    memory_end(&memory);
}

/* The first has said what is served. */
static void drains_twice_and_replies(struct script *script)
{
    struct script_memory memory;
    struct nc_frame frame = take_request(script, &memory);
    struct nc_frame drain = {.type = NC_DRAIN, .call_id = frame.call_id}, again = {.type = NC_DRAIN};
    struct nc_frame reply = {.type = NC_REPLY, .call_id = frame.call_id, .length = 4,
                             .function_id = SCRIPT_FUNCTION_ID};
    put(script, &memory, &drain, NULL);
    put(script, &memory, &again, NULL);
    put(script, &memory, &reply, "last");
    script_await(script);
    memory_end(&memory);
}

/* ---- Errors ---- */

static void put_error(struct script *script, struct script_memory *memory, const struct nc_frame *request, uint32_t status)
{
    static const uint8_t payload[] = "\x92\xa2no\x90";
    struct nc_frame error = {.length = sizeof(payload) - 1, .type = NC_ERROR,
                             .codec = NEARCALL_CODEC_MSGPACK, .call_id = request->call_id,
                             .status = status};
    put(script, memory, &error, payload);
}

static void returns_an_error(struct script *script)
{
    struct script_memory memory;
    struct nc_frame frame = take_request(script, &memory);
    put_error(script, &memory, &frame, 5 | NEARCALL_OUTCOME_EXECUTED << 8);
    script_await(script);
    memory_end(&memory);
}

/* ---- Slots that lie ---- */

struct lie {
    uint32_t place;
    struct nc_frame frame;
};

static void lie(struct script *script, uint32_t place, struct nc_frame frame)
{
    struct script_memory memory;
    struct nc_frame request = take_request(script, &memory);
    if (frame.call_id == 0 && frame.type == NC_REPLY)
        frame.call_id = request.call_id;
    uint8_t *slot = memory_slot(&memory);
    nc_put_u32(slot + 4, place == UINT32_MAX ? (uint32_t)memory.server_bytes : place);
    nc_frame_encode(slot + NC_MEMORY_HEADER_OFFSET, &frame);
    memory_publish(&memory);
    memory_wake(script);
    script_await(script);
    memory_end(&memory);
}

#define REPLY(bytes) ((struct nc_frame){.type = NC_REPLY, .function_id = 7, .length = (bytes)})

static void slot_too_long(struct script *script)
{
    lie(script, 0, REPLY(89));
}

static void place_in_the_marks(struct script *script)
{
    lie(script, 4096, REPLY(8));
}

static void place_not_aligned(struct script *script)
{
    lie(script, 4096 + 4096 + 128 * 128 + 32, REPLY(8));
}

static void place_beyond_the_end(struct script *script)
{
    lie(script, 0xFFFFFFC0, REPLY(8));
}

static void body_beyond_the_end(struct script *script)
{
    lie(script, UINT32_MAX - 0, REPLY(1));
}

static void body_larger_than_the_arena(struct script *script)
{
    lie(script, 4096 + 4096 + 128 * 128, REPLY((1 << 20) + 1));
}

static void unknown_type(struct script *script)
{
    lie(script, 0, (struct nc_frame){.type = 99});
}

static void wake_in_the_ring(struct script *script)
{
    lie(script, 0, (struct nc_frame){.type = NC_WAKE});
}

static void id_never_used(struct script *script)
{
    lie(script, 0, (struct nc_frame){.type = NC_REPLY, .function_id = 7, .call_id = 1000000});
}

static void reply_too_large(struct script *script)
{
    lie(script, 4096 + 4096 + 128 * 128, REPLY(5 << 20));
}

struct row {
    const char *name;
    void (*play)(struct script *script);
    int64_t timeout_ms;
    int code;
    int outcome;
    const char *said;
};

#define NONE NEARCALL_OUTCOME_NONE
#define NOT_EXECUTED NEARCALL_OUTCOME_NOT_EXECUTED
#define UNKNOWN NEARCALL_OUTCOME_UNKNOWN
#define LOST NEARCALL_OUTCOME_EXECUTED_RESULT_LOST
#define ROW(play, timeout_ms, code, outcome, said) {#play, play, timeout_ms, code, outcome, said}

static const struct row rows[] = {
    ROW(ends_unmarked, 5000, NEARCALL_E_UNAVAILABLE, NOT_EXECUTED, ""),
    ROW(ends_received, 5000, NEARCALL_E_UNAVAILABLE, NOT_EXECUTED, ""),
    ROW(ends_started, 5000, NEARCALL_E_UNAVAILABLE, UNKNOWN, ""),
    ROW(ends_finished, 5000, NEARCALL_E_UNAVAILABLE, LOST, ""),
    ROW(ends_with_an_earlier_mark, 5000, NEARCALL_E_UNAVAILABLE, NOT_EXECUTED, ""),
    ROW(ends_with_a_later_mark, 5000, NEARCALL_E_UNAVAILABLE, UNKNOWN, ""),
    ROW(is_reset_after_starting, 5000, NEARCALL_E_UNAVAILABLE, UNKNOWN, ""),
    ROW(never_answers, 100, NEARCALL_E_DEADLINE_EXCEEDED, UNKNOWN, "deadline"),
    ROW(never_answers_but_finished, 100, NEARCALL_E_DEADLINE_EXCEEDED, LOST, "deadline"),
    ROW(falls_asleep_and_reads_cancel, 100, NEARCALL_E_DEADLINE_EXCEEDED, NOT_EXECUTED, "deadline"),
    ROW(replies_and_ends, 5000, NEARCALL_OK, NONE, "left"),
    ROW(drains_by_the_ring, 5000, NEARCALL_E_UNAVAILABLE, NOT_EXECUTED, "stopping"),
    ROW(drains_by_the_socket, 5000, NEARCALL_E_UNAVAILABLE, NOT_EXECUTED, "stopping"),
    ROW(drains_and_replies, 5000, NEARCALL_OK, NONE, "last"),
    ROW(drains_twice_and_replies, 5000, NEARCALL_OK, NONE, "last"),
    ROW(returns_an_error, 5000, NEARCALL_E_NOT_FOUND, NEARCALL_OUTCOME_EXECUTED, "no"),
    ROW(slot_too_long, 5000, NEARCALL_E_INTERNAL, LOST, "length"),
    ROW(place_in_the_marks, 5000, NEARCALL_E_INTERNAL, LOST, "place"),
    ROW(place_not_aligned, 5000, NEARCALL_E_INTERNAL, LOST, "place"),
    ROW(place_beyond_the_end, 5000, NEARCALL_E_INTERNAL, LOST, "place"),
    ROW(body_beyond_the_end, 5000, NEARCALL_E_INTERNAL, LOST, "place"),
    ROW(body_larger_than_the_arena, 5000, NEARCALL_E_INTERNAL, LOST, "place"),
    ROW(unknown_type, 5000, NEARCALL_E_INTERNAL, UNKNOWN, "type"),
    ROW(wake_in_the_ring, 5000, NEARCALL_E_INTERNAL, UNKNOWN, "type"),
    ROW(id_never_used, 5000, NEARCALL_E_INTERNAL, UNKNOWN, "call id"),
    ROW(reply_too_large, 5000, NEARCALL_E_RESOURCE_EXHAUSTED, LOST, "frame_bytes_max"),
};

/* What the server has not even received is sent again by calls that are waited for as
 * a whole, to another server. */
static bool is_sent_again(const struct row *row)
{
    return row->play == ends_unmarked || row->play == ends_with_an_earlier_mark;
}

static int call(nearcall_client *client, int64_t timeout_ms, bool begun, nearcall_reply *ret_reply)
{
    nearcall_call_id id;
    if (!begun)
        return nearcall_call(client, "f", "x", 1, timeout_ms, ret_reply);
    CHECK_CALL(client, nearcall_request(client, test_find(client, "f"), NEARCALL_CODEC_RAW), NEARCALL_OK);
    nearcall_put_raw(client, "x", 1);
    CHECK_CALL(client, nearcall_request_send(client, timeout_ms, &id), NEARCALL_OK);
    return nearcall_wait(client, id, ret_reply);
}

static bool ends_as_told(const struct row *row, uint32_t flags, bool begun)
{
    struct script script;
    nearcall_reply reply;
    fprintf(stderr, "%s\n", row->name);
    script_start(&script, row->play, NULL);
    nearcall_client *client = memory_client(&script, flags);
    double before_ms = test_now_ms();
    CHECK_CALL(client, call(client, row->timeout_ms, begun || is_sent_again(row), &reply), row->code);
    double took_ms = test_now_ms() - before_ms;
    bool in_time = row->code != NEARCALL_E_DEADLINE_EXCEEDED ||
                   (test_in_time(took_ms, (double)row->timeout_ms) && test_answered_in_time(client, row->outcome));
    if (in_time)
        CHECK_OUTCOME(client, row->outcome);
    const char *said = row->code ? nearcall_error_message(client) : (const char *)reply.data;
    if (row->code == NEARCALL_OK)
        CHECK(reply.bytes == strlen(row->said) && memcmp(said, row->said, reply.bytes) == 0);
    else
        CHECK(strstr(said, row->said) != NULL);
    script_signal(&script);
    nearcall_close(client);
    script_end(&script);
    return in_time;
}

int main(void)
{
    static const uint32_t flags[] = {0, NEARCALL_SPIN_OFF, NEARCALL_SPIN_DEDICATED, NEARCALL_NONBLOCKING};
    test_begin();
    for (size_t f = 0; f < sizeof(flags) / sizeof(flags[0]); f++)
        for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
            if (rows[i].play == replies_and_ends && flags[f] == NEARCALL_SPIN_DEDICATED)
                continue; /* it never sleeps */
            for (int tries = 0; !ends_as_told(&rows[i], flags[f], i % 2 == f / 2); tries++)
                CHECK(tries < TEST_TRIES);
        }
    return 0;
}
