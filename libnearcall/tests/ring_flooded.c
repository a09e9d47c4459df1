/* Frames whose bodies lie on each other in the arena: a server counts a mebibyte as often as the ring has
 * slots. What nobody waits for is not read, and nobody waits longer than their time for what others are
 * told. Linked with --wrap. */
#include "handle/handle.h"
#include "script_memory.h"

#define SLOTS 4096
#define BODY_BYTES (1 << 20)
#define OFFER {SLOTS, 512, BODY_BYTES, 50}

/* Many times what a turn of a loop has time for. */
#define CALLS 24

static _Thread_local unsigned copies; /* of whole bodies, by the library */

void *__real_malloc(size_t bytes);
void *__wrap_malloc(size_t bytes);
void *__wrap_malloc(size_t bytes)
{
    copies += bytes == BODY_BYTES;
    return __real_malloc(bytes);
}

struct play {
    struct script script;
    sem_t ready; /* from the script to the test */
    struct script_memory memory;
    uint64_t ids[CALLS];
};

static nearcall_client *start(struct play *play, void (*script_play)(struct script *), uint32_t flags)
{
    copies = 0;
    CHECK(sem_init(&play->ready, 0, 0) == 0);
    script_start(&play->script, script_play, play);
    return memory_client(&play->script, flags);
}

static void end(struct play *play, nearcall_client *client)
{
    nearcall_close(client);
    script_end(&play->script);
    sem_destroy(&play->ready);
}

static nearcall_call_id begin(nearcall_client *client, int64_t timeout_ms)
{
    nearcall_call_id id;
    CHECK_CALL(client, nearcall_request(client, test_find(client, "f"), NEARCALL_CODEC_RAW), NEARCALL_OK);
    nearcall_put_raw(client, "x", 1);
    CHECK_CALL(client, nearcall_request_send(client, timeout_ms, &id), NEARCALL_OK);
    return id;
}

static void call_and_read(nearcall_client *client, const char *expected)
{
    nearcall_reply reply;
    CHECK_CALL(client, nearcall_call(client, "f", "x", 1, 60000, &reply), NEARCALL_OK);
    CHECK(reply.bytes == strlen(expected) && memcmp(reply.data, expected, reply.bytes) == 0);
}

/* ---- The server ---- */

/* ["no", [["", [nil, ...]]]] all over the arena. */
static void fill_arena(struct script_memory *memory)
{
    static const uint8_t head[] = {0x92, 0xA2, 'n', 'o', 0x91, 0x92, 0xA0, 0xDD};
    uint32_t values = BODY_BYTES - sizeof(head) - 4;
    uint8_t *arena = memory->server + memory->server_bytes - BODY_BYTES;
    memset(arena, 0xC0, BODY_BYTES);
    memcpy(arena, head, sizeof(head));
    for (size_t i = 0; i < 4; i++)
        arena[sizeof(head) + i] = (uint8_t)(values >> (24 - 8 * i));
}

static void put_large(struct script_memory *memory, const struct nc_frame *frame)
{
    uint8_t *slot = memory_slot(memory);
    nc_put_u32(slot + 4, (uint32_t)(memory->server_bytes - BODY_BYTES));
    nc_frame_encode(slot + NC_MEMORY_HEADER_OFFSET, frame);
    memory_publish(memory);
}

static void put_error(struct script_memory *memory, uint64_t call_id)
{
    const struct nc_frame error = {.length = BODY_BYTES, .type = NC_ERROR, .codec = NEARCALL_CODEC_MSGPACK,
                                   .call_id = call_id,
                                   .status = -NEARCALL_E_NOT_FOUND | NEARCALL_OUTCOME_EXECUTED << 8};
    put_large(memory, &error);
}

static void put_reply(struct script_memory *memory, uint64_t call_id)
{
    const struct nc_frame reply = {.length = BODY_BYTES, .type = NC_REPLY, .call_id = call_id,
                                   .function_id = SCRIPT_FUNCTION_ID};
    put_large(memory, &reply);
}

static void begin_memory(struct script *script)
{
    struct play *play = script->argument;
    struct nc_memory_offer offer = OFFER;
    memory_begin(script, &play->memory, offer);
    fill_arena(&play->memory);
}

static void expect_calls(struct play *play, unsigned count)
{
    struct nc_frame frame;
    for (unsigned i = 0; i < count; i++) {
        memory_expect(&play->memory, NC_REQUEST, &frame);
        play->ids[i] = frame.call_id;
    }
}

/* So that only the end of the socket tells of what it puts into the ring. */
static struct nc_frame expect_last(struct play *play)
{
    struct nc_frame frame;
    memory_expect(&play->memory, NC_REQUEST, &frame);
    memory_await_sleep(&play->memory);
    return frame;
}

/* ---- Errors for a call that was given up ---- */

static void floods_and_ends(struct script *script)
{
    struct play *play = script->argument;
    struct nc_frame cancel, last;
    begin_memory(script);
    expect_calls(play, 1);
    memory_expect(&play->memory, NC_CANCEL, &cancel);
    last = expect_last(play);
    for (int i = 1; i < SLOTS; i++)
        put_error(&play->memory, play->ids[0]);
    (void)memory_reply(&play->memory, &last, "left", 4);
    script_hang_up(script);
    memory_end(&play->memory);
}

static void nobody_waits(void)
{
    struct play play;
    nearcall_client *client = start(&play, floods_and_ends, NEARCALL_SPIN_OFF);
    nearcall_cancel(client, begin(client, 60000));
    call_and_read(client, "left");
    CHECK_INT(copies, 0);
    end(&play, client);
}

/* ---- Answers to many calls, of which no honest server could have left as many ---- */

#define IN_FULL 2 /* the second is one too many for the arena */
#define OTHERS 8

static void answers_all_and_ends(struct script *script)
{
    struct play *play = script->argument;
    struct nc_frame last;
    begin_memory(script);
    expect_calls(play, OTHERS);
    last = expect_last(play);
    for (int i = 0; i < OTHERS / 2; i++)
        put_error(&play->memory, play->ids[i]);
    for (int i = OTHERS / 2; i < OTHERS; i++)
        put_reply(&play->memory, play->ids[i]);
    (void)memory_reply(&play->memory, &last, "left", 4);
    script_hang_up(script);
    memory_end(&play->memory);
}

static void heads_tell_the_rest(void)
{
    struct play play;
    nearcall_call_id ids[OTHERS];
    nearcall_client *client = start(&play, answers_all_and_ends, NEARCALL_SPIN_OFF);
    for (int i = 0; i < OTHERS; i++)
        ids[i] = begin(client, 60000);
    call_and_read(client, "left");
    CHECK_INT(copies, IN_FULL);
    for (int i = 0; i < OTHERS; i++) {
        bool is_error = i < OTHERS / 2;
        CHECK_CALL(client, nearcall_poll(client, ids[i], NULL),
                   is_error ? NEARCALL_E_NOT_FOUND : NEARCALL_E_UNAVAILABLE);
        CHECK_OUTCOME(client, is_error ? NEARCALL_OUTCOME_EXECUTED : NEARCALL_OUTCOME_EXECUTED_RESULT_LOST);
        CHECK(strstr(nearcall_error_message(client), i < IN_FULL ? "no" : "time to read"));
    }
    end(&play, client);
}

/* ---- The same while the server lives ---- */

static void answers_all(struct script *script)
{
    struct play *play = script->argument;
    begin_memory(script);
    expect_calls(play, CALLS);
    for (int i = 0; i < CALLS; i++)
        put_error(&play->memory, play->ids[i]);
    sem_post(&play->ready);
    (void)script_read_end(script);
    memory_end(&play->memory);
}

/* Each turn of a loop takes some, and says that it has not taken all. */
static void a_turn_ends(void)
{
    struct play play;
    nearcall_call_id ids[CALLS];
    nearcall_client *client = start(&play, answers_all, NEARCALL_NONBLOCKING);
    for (int i = 0; i < CALLS; i++)
        ids[i] = begin(client, NEARCALL_NO_TIMEOUT);
    while (sem_wait(&play.ready) != 0)
        ;
    int finished = nearcall_process(client);
    CHECK(finished > 0 && finished < CALLS);
    CHECK_INT(nearcall_timeout_ms(client), 0);
    while (finished < CALLS) {
        int before = finished;
        CHECK((finished = nearcall_process(client)) > before);
    }
    for (int i = 0; i < CALLS; i++)
        CHECK_CALL(client, nearcall_poll(client, ids[i], NULL), NEARCALL_E_NOT_FOUND);
    end(&play, client);
}

/* ---- The same by the socket ---- */

#define GARBAGE_BYTES (3 << 20)
#define KEPT_BYTES_MAX (256 << 10)

static void sends_garbage_to_nobody(struct script *script)
{
    struct nc_frame frame, cancel, last;
    script_greet(script);
    script_expect(script, NC_RESOLVE, &frame);
    script_reply(script, &frame, "\x80", 1);
    script_expect(script, NC_REQUEST, &frame);
    script_expect(script, NC_CANCEL, &cancel);
    script_expect(script, NC_REQUEST, &last);
    uint8_t *garbage = calloc(1, GARBAGE_BYTES);
    CHECK(garbage != NULL);
    for (uint32_t bytes = 1; bytes <= GARBAGE_BYTES; bytes += GARBAGE_BYTES - 1) {
        struct nc_frame error = {.length = bytes, .type = NC_ERROR, .codec = NEARCALL_CODEC_MSGPACK,
                                 .call_id = frame.call_id, .status = -NEARCALL_E_NOT_FOUND};
        script_send_frame(script, &error, garbage);
    }
    free(garbage);
    script_reply(script, &last, "last", 4);
    script_await(script);
}

static void nobody_waits_at_the_socket(void)
{
    struct script script;
    script_start(&script, sends_garbage_to_nobody, NULL);
    nearcall_client *client = test_open(script.address, 0);
    nearcall_cancel(client, begin(client, 60000));
    call_and_read(client, "last");
    CHECK(client->connection.in.capacity <= KEPT_BYTES_MAX);
    script_signal(&script);
    nearcall_close(client);
    script_end(&script);
}

int main(void)
{
    test_begin();
    nobody_waits();
    heads_tell_the_rest();
    a_turn_ends();
    nobody_waits_at_the_socket();
    return 0;
}
