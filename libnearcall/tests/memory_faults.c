/* What must hold with shared memory when something is not as it should be: the caller
 * itself ends the connection, frames come at the wrong time or without end, a request
 * is interrupted, memory runs out. Linked with --wrap. */
#include <pthread.h>
#include <sched.h>
#include <sys/socket.h>
#include <unistd.h>

#include "handle/handle.h"
#include "script_memory.h"

#define LARGE 20000

static _Thread_local size_t failing_bytes; /* an allocation of that size fails */
static _Thread_local size_t forking_bytes; /* one of that size forks, as a handler might */
static _Thread_local pid_t forked;
static _Thread_local struct script_memory *filling; /* is never empty for the caller */

static void fill_up(struct script_memory *memory);

void *__real_malloc(size_t bytes);
void *__wrap_malloc(size_t bytes);
int __real_clock_gettime(clockid_t clock, struct timespec *now);
int __wrap_clock_gettime(clockid_t clock, struct timespec *now);

void *__wrap_malloc(size_t bytes)
{
    if (filling)
        fill_up(filling);
    if (forking_bytes && bytes == forking_bytes) {
        forking_bytes = 0;
        forked = fork();
    }
    return failing_bytes && bytes == failing_bytes ? NULL : __real_malloc(bytes);
}

int __wrap_clock_gettime(clockid_t clock, struct timespec *now)
{
    if (filling)
        fill_up(filling);
    return __real_clock_gettime(clock, now);
}

/* What a script and its test know of each other. */
struct play {
    struct script script;
    sem_t ready; /* from the script to the test */
    enum nc_mark mark;
    struct script_memory memory;
};

static struct play *play_of(struct script *script)
{
    return script->argument;
}

static void start(struct play *play, void (*script_play)(struct script *))
{
    CHECK(sem_init(&play->ready, 0, 0) == 0);
    script_start(&play->script, script_play, play);
}

static void end(struct play *play, nearcall_client *client)
{
    nearcall_close(client);
    script_end(&play->script);
    sem_destroy(&play->ready);
}

static void await_script(struct play *play)
{
    while (sem_wait(&play->ready) != 0)
        ;
}

static void tell_test(struct script *script)
{
    sem_post(&play_of(script)->ready);
}

static nearcall_call_id begin(nearcall_client *client, const char *function, const void *data,
                              size_t bytes)
{
    nearcall_call_id id;
    CHECK_CALL(client, nearcall_request(client, test_find(client, function), NEARCALL_CODEC_RAW),
               NEARCALL_OK);
    nearcall_put_raw(client, data, bytes);
    CHECK_CALL(client, nearcall_request_send(client, 5000, &id), NEARCALL_OK);
    return id;
}

static void begin_memory(struct script *script, struct script_memory *memory)
{
    struct nc_memory_offer offer = SCRIPT_OFFER;
    memory_begin(script, memory, offer);
}

/* ---- The caller ends the connection: the server may start the call still ---- */

static void is_left_with_mark(struct script *script)
{
    struct script_memory memory;
    struct nc_frame frame;
    begin_memory(script, &memory);
    memory_expect(&memory, NC_REQUEST, &frame);
    memory_mark(&memory, frame.call_id, play_of(script)->mark);
    tell_test(script);
    (void)script_read_end(script);
    memory_end(&memory);
}

static void the_caller_leaves(enum nc_mark mark, int outcome)
{
    struct play play = {.mark = mark};
    nearcall_reply reply;
    start(&play, is_left_with_mark);
    nearcall_client *client = memory_client(&play.script, 0);
    nearcall_call_id id = begin(client, "f", "x", 1);
    await_script(&play);
    nearcall_disconnect(client);
    CHECK_CALL(client, nearcall_wait(client, id, &reply), NEARCALL_E_UNAVAILABLE);
    CHECK_OUTCOME(client, outcome);
    end(&play, client);
}

/* ---- WAKE on a connection without memory, after one that had some ---- */

static void wakes_without_memory(struct script *script)
{
    struct script_memory memory;
    struct nc_frame frame;
    begin_memory(script, &memory);
    memory_expect(&memory, NC_REQUEST, &frame);
    memory_await_sleep(&memory);
    script_hang_up(script);
    memory_end(&memory);
    script_greet(script);
    memory_wake(script);
    script_serve(script);
}

static void a_wake_for_nothing(void)
{
    struct play play = {0};
    nearcall_reply reply;
    start(&play, wakes_without_memory);
    nearcall_client *client = memory_client(&play.script, NEARCALL_SPIN_OFF);
    CHECK_CALL(client, nearcall_wait(client, begin(client, "f", "x", 1), &reply),
               NEARCALL_E_UNAVAILABLE);
    CHECK_CALL(client, nearcall_call(client, "f", "x", 1, 5000, &reply), NEARCALL_OK);
    CHECK(reply.bytes == 1 && reply.data[0] == 'x');
    end(&play, client);
}

/* ---- The function's number is learned while a request by its name is sent ---- */

static void tells_the_number_late(struct script *script)
{
    struct script_memory memory;
    struct nc_memory_offer offer = SCRIPT_OFFER;
    struct nc_frame frame;
    uint8_t payload[SCRIPT_PAYLOAD_MAX];
    script->features |= NC_FEATURE_SHARED_MEMORY;
    script_greet(script);
    script_expect(script, NC_RESOLVE, &frame);
    script_reply(script, &frame, "\x80", 1);
    script->schema_hash++; /* what was learned is worth nothing on the next connection */
    script_greet(script);
    script_read(script, &frame, payload);
    memory_give(script, &memory, offer);
    frame.type = NC_PONG;
    script_send_frame(script, &frame, payload);
    memory_await_use(&memory);
    memory_expect(&memory, NC_REQUEST, &frame);
    CHECK_INT(frame.function_id, 0);
    script_reply(script, &frame, "1", 1);
    tell_test(script);
    while (!memory_take(&memory, &frame, payload))
        sched_yield();
    CHECK_INT(frame.length - frame.extension_bytes, 3);
    CHECK(memcmp(payload + frame.extension_bytes, "abc", 3) == 0);
    (void)memory_reply(&memory, &frame, "2", 1);
    memory_wake(script);
    (void)script_read_end(script);
    memory_end(&memory);
}

static nearcall_call_id send_to(nearcall_client *client, nearcall_function *function)
{
    nearcall_call_id id;
    CHECK_CALL(client, nearcall_request(client, function, NEARCALL_CODEC_RAW), NEARCALL_OK);
    nearcall_put_raw(client, "abc", 3);
    CHECK_CALL(client, nearcall_request_send(client, 5000, &id), NEARCALL_OK);
    return id;
}

static void a_number_comes_between(void)
{
    struct play play = {0};
    nearcall_reply reply;
    start(&play, tells_the_number_late);
    nearcall_client *client = test_open(play.script.address, 0);
    nearcall_function *function = test_find(client, "f");
    nearcall_disconnect(client);
    CHECK_CALL(client, nearcall_ping(client, 5000, NULL), NEARCALL_OK);
    nearcall_call_id first = send_to(client, function);
    await_script(&play);
    for (double since_ms = test_now_ms(); test_now_ms() < since_ms + 1;)
        ; /* the socket is looked at once in a while only */
    nearcall_call_id second = send_to(client, function);
    CHECK_CALL(client, nearcall_wait(client, first, &reply), NEARCALL_OK);
    CHECK_CALL(client, nearcall_wait(client, second, &reply), NEARCALL_OK);
    CHECK(reply.bytes == 1 && reply.data[0] == '2');
    end(&play, client);
}

/* ---- A ring that is never empty ---- */

#define FRAMES_MAX 1000000
#define BODY_BYTES 100

/* Replies to a call that was answered long ago, with an extension, so that the
 * caller copies each and allocates, which fills the ring again. */
static void fill_up(struct script_memory *memory)
{
    uint32_t taken = atomic_load((const nc_word32 *)(const void *)(memory->caller + 128));
    struct nc_frame reply = {.type = NC_REPLY, .function_id = SCRIPT_FUNCTION_ID, .call_id = 1,
                             .codec = NEARCALL_CODEC_MSGPACK, .extension_bytes = 8,
                             .length = BODY_BYTES};
    static const uint8_t body[BODY_BYTES] = {1, 0, 4, 0};
    uint32_t place = (uint32_t)memory->server_bytes - memory->offer.arena_bytes;
    memcpy(memory->server + place, body, sizeof(body));
    while (memory->put < FRAMES_MAX && memory->put - taken < memory->offer.slots) {
        nc_put_u32(memory_slot(memory) + 4, place);
        nc_frame_encode(memory_slot(memory) + NC_MEMORY_HEADER_OFFSET, &reply);
        memory_publish(memory);
    }
}

static struct nc_frame take_and_tell(struct script *script)
{
    struct nc_frame frame;
    begin_memory(script, &play_of(script)->memory);
    memory_expect(&play_of(script)->memory, NC_REQUEST, &frame);
    tell_test(script);
    script_await(script);
    return frame;
}

static void is_full_after_its_end(struct script *script)
{
    (void)take_and_tell(script);
    script_hang_up(script);
    tell_test(script);
}

static void replies_by_the_socket(struct script *script)
{
    struct nc_frame frame = take_and_tell(script);
    script_reply(script, &frame, "x", 1);
    tell_test(script);
    (void)script_read_end(script);
}

static void replies_never(struct script *script)
{
    (void)take_and_tell(script);
    tell_test(script);
    (void)script_read_end(script);
}

/* The script has done its part when the ring begins to be full. */
static nearcall_client *begin_filling(struct play *play, void (*script_play)(struct script *),
                                      uint32_t flags, nearcall_call_id *ret_id)
{
    start(play, script_play);
    nearcall_client *client = memory_client(&play->script, flags);
    *ret_id = begin(client, "f", "x", 1);
    await_script(play);
    script_signal(&play->script);
    await_script(play);
    filling = &play->memory;
    return client;
}

static void end_filling(struct play *play, nearcall_client *client)
{
    filling = NULL;
    CHECK(play->memory.put > 0);
    CHECK(play->memory.put < FRAMES_MAX);
    end(play, client);
    memory_end(&play->memory);
}

static void is_never_empty(void (*script_play)(struct script *), int expected, uint32_t flags)
{
    struct play play = {0};
    nearcall_reply reply;
    nearcall_call_id id;
    nearcall_client *client = begin_filling(&play, script_play, flags, &id);
    CHECK_CALL(client, nearcall_wait(client, id, &reply), expected);
    end_filling(&play, client);
}

static void is_never_empty_in_an_event_loop(void)
{
    struct play play = {0};
    nearcall_call_id id;
    nearcall_client *client = begin_filling(&play, replies_never, NEARCALL_NONBLOCKING, &id);
    for (int i = 0; i < 3; i++)
        CHECK_INT(nearcall_process(client), 0);
    CHECK_INT(nearcall_timeout_ms(client), 0);
    end_filling(&play, client);
}

/* ---- A large request is interrupted, and its room used by another ---- */

static atomic_bool returned;
static pthread_t tester;

static void on_signal(int signal_number)
{
    (void)signal_number;
}

static void expect_large(struct script *script, struct script_memory *memory, uint8_t filled)
{
    struct nc_frame frame;
    uint8_t payload[SCRIPT_PAYLOAD_MAX];
    while (!memory_take(memory, &frame, payload))
        sched_yield();
    if (frame.type == NC_CANCEL) {
        expect_large(script, memory, filled);
        return;
    }
    CHECK_INT(frame.type, NC_REQUEST);
    CHECK_INT(frame.length, LARGE);
    for (size_t i = 0; i < LARGE; i++)
        CHECK_INT(payload[i], filled);
    if (filled == 'a' && !atomic_load(&returned)) {
        while (!atomic_load(&returned)) {
            pthread_kill(tester, SIGUSR1);
            sched_yield();
        }
        return;
    }
    if (memory_reply(memory, &frame, "ok", 2))
        memory_wake(script);
}

static void takes_large_ones(struct script *script)
{
    struct script_memory memory;
    begin_memory(script, &memory);
    expect_large(script, &memory, 'a');
    expect_large(script, &memory, 'b');
    expect_large(script, &memory, 'a');
    (void)script_read_end(script);
    memory_end(&memory);
}

static void an_interrupted_request_is_kept(void)
{
    static uint8_t other[LARGE];
    struct play play = {0};
    struct sigaction action = {.sa_handler = on_signal};
    nearcall_reply reply;
    uint8_t *data;
    int r;
    CHECK(sigaction(SIGUSR1, &action, NULL) == 0);
    tester = pthread_self();
    atomic_store(&returned, false);
    memset(other, 'b', sizeof(other));
    start(&play, takes_large_ones);
    nearcall_client *client =
        memory_client(&play.script, NEARCALL_INTERRUPTIBLE | NEARCALL_SPIN_OFF);
    CHECK_CALL(client, nearcall_request(client, test_find(client, "f"), NEARCALL_CODEC_RAW),
               NEARCALL_OK);
    CHECK_CALL(client, nearcall_put_raw_reserve(client, LARGE, &data), NEARCALL_OK);
    memset(data, 'a', LARGE);
    CHECK_CALL(client, nearcall_request_call(client, 5000, &reply), NEARCALL_E_INTERRUPTED);
    atomic_store(&returned, true);
    r = nearcall_call(client, "f", other, sizeof(other), 5000, &reply);
    while (r == NEARCALL_E_INTERRUPTED) /* a signal that came late */
        r = nearcall_resume(client, nearcall_interrupted(client), &reply);
    CHECK_CALL(client, r, NEARCALL_OK);
    CHECK_CALL(client, nearcall_request_call(client, 5000, &reply), NEARCALL_OK);
    end(&play, client);
}

/* ---- No memory for a copy of what the server answered ---- */

#define ANSWER_BYTES 211

static void answers(struct script *script, const struct nc_frame *given, const uint8_t *body)
{
    struct script_memory memory;
    struct nc_frame frame, answer = *given;
    begin_memory(script, &memory);
    memory_expect(&memory, NC_REQUEST, &frame);
    answer.call_id = frame.call_id;
    answer.length = ANSWER_BYTES;
    if (memory_put(&memory, &answer, body))
        memory_wake(script);
    memory_serve(script, &memory);
    memory_end(&memory);
}

static void answers_with_an_error(struct script *script)
{
    uint8_t body[ANSWER_BYTES] = {0x92, 0xD9, ANSWER_BYTES - 4};
    struct nc_frame error = {.type = NC_ERROR, .codec = NEARCALL_CODEC_MSGPACK,
                             .status = -NEARCALL_E_NOT_FOUND | NEARCALL_OUTCOME_EXECUTED << 8};
    memset(body + 3, 'e', ANSWER_BYTES - 4);
    body[ANSWER_BYTES - 1] = 0x90;
    answers(script, &error, body);
}

static void answers_with_an_extension(struct script *script)
{
    uint8_t body[ANSWER_BYTES] = {1, 0, 4, 0};
    struct nc_frame reply = {.type = NC_REPLY, .function_id = SCRIPT_FUNCTION_ID,
                             .extension_bytes = 8};
    answers(script, &reply, body);
}

static void without_memory(void (*script_play)(struct script *), int code, int outcome)
{
    struct play play = {0};
    nearcall_reply reply;
    start(&play, script_play);
    nearcall_client *client = memory_client(&play.script, NEARCALL_SPIN_DEDICATED);
    failing_bytes = ANSWER_BYTES;
    CHECK_CALL(client, nearcall_call(client, "f", "x", 1, 5000, &reply), code);
    failing_bytes = 0;
    CHECK_OUTCOME(client, outcome);
    CHECK_CALL(client, nearcall_call(client, "f", "x", 1, 5000, &reply), NEARCALL_OK);
    end(&play, client);
}

/* ---- A handler of a signal forks while a large reply is handled ---- */

static void forked_while_copying(void)
{
    struct play play = {0};
    nearcall_reply reply;
    start(&play, answers_with_an_extension);
    nearcall_client *client = memory_client(&play.script, 0);
    forked = -1;
    forking_bytes = ANSWER_BYTES;
    int r = nearcall_call(client, "f", "x", 1, 5000, &reply);
    if (forked == 0) {
        nearcall_close(client);
        _exit(0);
    }
    CHECK_CALL(client, r, NEARCALL_OK);
    CHECK_INT(reply.bytes, ANSWER_BYTES - 8);
    test_join(forked);
    end(&play, client);
}

/* ---- A server that has never been awake is not to find anything in its ring ---- */

static void has_never_been_awake(struct script *script)
{
    struct script_memory memory;
    struct nc_memory_offer offer = SCRIPT_OFFER;
    struct nc_frame frame;
    script->features |= NC_FEATURE_SHARED_MEMORY;
    script_greet(script);
    memory_make(&memory, offer);
    memory_seal(&memory);
    script_expect(script, NC_RESOLVE, &frame);
    memory_send_offer(script, &memory.offer, memory.caller_fd, memory.server_fd);
    script_reply(script, &frame, "\x80", 1);
    script_expect(script, NC_REQUEST, &frame);
    script_reply(script, &frame, "ok", 2);
    (void)script_read_end(script);
    memory_end(&memory);
}

static void a_server_that_has_not_begun(void)
{
    static uint8_t data[LARGE];
    struct play play = {0};
    nearcall_reply reply;
    start(&play, has_never_been_awake);
    nearcall_client *client = test_open(play.script.address, 0);
    CHECK(test_find(client, "f") != NULL);
    CHECK(strcmp(nearcall_transport(client), "shared memory") == 0);
    CHECK_CALL(client, nearcall_call(client, "f", data, sizeof(data), 5000, &reply), NEARCALL_OK);
    end(&play, client);
}

int main(void)
{
    test_begin();
    the_caller_leaves(NC_MARK_NONE, NEARCALL_OUTCOME_UNKNOWN);
    the_caller_leaves(NC_MARK_RECEIVED, NEARCALL_OUTCOME_UNKNOWN);
    the_caller_leaves(NC_MARK_STARTED, NEARCALL_OUTCOME_UNKNOWN);
    the_caller_leaves(NC_MARK_FINISHED, NEARCALL_OUTCOME_EXECUTED_RESULT_LOST);
    a_wake_for_nothing();
    a_number_comes_between();
    is_never_empty(is_full_after_its_end, NEARCALL_E_UNAVAILABLE, NEARCALL_SPIN_OFF);
    is_never_empty(is_full_after_its_end, NEARCALL_E_UNAVAILABLE, NEARCALL_NONBLOCKING);
    is_never_empty(replies_by_the_socket, NEARCALL_OK, 0);
    is_never_empty_in_an_event_loop();
    an_interrupted_request_is_kept();
    without_memory(answers_with_an_error, NEARCALL_E_NOT_FOUND, NEARCALL_OUTCOME_EXECUTED);
    without_memory(answers_with_an_extension, NEARCALL_E_RESOURCE_EXHAUSTED,
                   NEARCALL_OUTCOME_EXECUTED_RESULT_LOST);
    forked_while_copying();
    a_server_that_has_not_begun();
    return 0;
}
