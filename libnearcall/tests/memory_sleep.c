/* Sleeping and waking: who sleeps is woken through the socket, who is awake is not
 * bothered, and nobody is forgotten between the two. */
#include <poll.h>
#include <sched.h>
#include <sys/socket.h>

#include "handle/handle.h"
#include "script_memory.h"

/* The server sleeps: requests come over the socket, large ones by ring and WAKE. */
static void sleep_and_count(struct script *script)
{
    struct script_memory memory;
    struct nc_memory_offer offer = SCRIPT_OFFER;
    struct nc_frame frame, wake;
    memory_begin(script, &memory, offer);
    for (int i = 0; i < 20; i++) {
        (void)memory_fall_asleep(&memory);
        script_signal(script->argument);
        script_expect(script, i % 2 ? NC_WAKE : NC_REQUEST, &frame);
        memory_awake(&memory);
        if (i % 2) {
            CHECK(memory_take(&memory, &frame, NULL));
            CHECK_INT(frame.type, NC_REQUEST);
        }
        CHECK(!memory_take(&memory, &wake, NULL));
        if (memory_caller_is_asleep(&memory))
            script_reply(script, &frame, "s", 1);
        else if (memory_reply(&memory, &frame, "r", 1))
            memory_wake(script);
    }
    memory_serve(script, &memory);
    memory_end(&memory);
}

static void the_server_sleeps(uint32_t flags)
{
    static uint8_t data[40000];
    struct script script, asleep;
    nearcall_reply reply;
    CHECK(sem_init(&asleep.signals, 0, 0) == 0);
    script_start(&script, sleep_and_count, &asleep);
    nearcall_client *client = memory_client(&script, flags);
    for (int i = 0; i < 20; i++) {
        script_await(&asleep);
        CHECK_CALL(client, nearcall_call(client, "f", data, i % 2 ? sizeof(data) : 100, 5000, &reply),
                   NEARCALL_OK);
        CHECK_INT(reply.bytes, 1);
        if (flags & NEARCALL_SPIN_DEDICATED)
            CHECK_INT(reply.data[0], 'r'); /* awake before it sent */
    }
    nearcall_close(client);
    script_end(&script);
    sem_destroy(&asleep.signals);
}

/* A frame that is put while the caller falls asleep, and WAKE behind it, at every
 * moment of that. The word grows by one each time it changes. */
static void reply_at_any_moment(struct script *script)
{
    struct script_memory memory;
    struct nc_memory_offer offer = SCRIPT_OFFER;
    struct nc_frame frame;
    uint64_t word, last = 0;
    memory_begin(script, &memory, offer);
    for (int i = 0; i < 3000; i++) {
        memory_expect(&memory, NC_REQUEST, &frame);
        for (int wait = 0; wait < i * 7 % 400; wait++)
            atomic_signal_fence(memory_order_seq_cst);
        word = atomic_load(memory_caller_sleeps(&memory));
        CHECK(word >= last);
        last = word;
        if (memory_reply(&memory, &frame, "now", 3)) /* whether it sleeps or not */
            memory_wake(script);
    }
    memory_serve(script, &memory);
    memory_end(&memory);
}

static void falling_asleep_meanwhile(uint32_t flags)
{
    struct script script;
    nearcall_reply reply;
    script_start(&script, reply_at_any_moment, NULL);
    nearcall_client *client = memory_client(&script, flags);
    for (int i = 0; i < 3000; i++) {
        CHECK_CALL(client, nearcall_call(client, "f", "x", 1, 5000, &reply), NEARCALL_OK);
        CHECK(reply.bytes == 3 && memcmp(reply.data, "now", 3) == 0);
    }
    nearcall_close(client);
    script_end(&script);
}

/* A handle whose user watches the descriptor sleeps while it is outside. */
static void reply_when_asleep(struct script *script)
{
    struct script_memory memory;
    struct nc_memory_offer offer = SCRIPT_OFFER;
    struct nc_frame frame;
    memory_begin(script, &memory, offer);
    for (int i = 0; i < 50; i++) {
        memory_expect(&memory, NC_REQUEST, &frame);
        memory_await_sleep(&memory);
        script_reply(script, &frame, "woken", 5);
    }
    memory_serve(script, &memory);
    memory_end(&memory);
}

static nearcall_call_id begin(nearcall_client *client, nearcall_function *function)
{
    nearcall_call_id call;
    CHECK_CALL(client, nearcall_request(client, function, NEARCALL_CODEC_RAW), NEARCALL_OK);
    nearcall_put_raw(client, "abc", 3);
    CHECK_CALL(client, nearcall_request_send(client, 5000, &call), NEARCALL_OK);
    return call;
}

static void wait_in_a_loop(nearcall_client *client, nearcall_call_id call, nearcall_reply *reply)
{
    int r;
    while ((r = nearcall_poll(client, call, reply)) == NEARCALL_E_AGAIN) {
        struct pollfd watched = {nearcall_fd(client), (short)nearcall_events(client), 0};
        int timeout_ms = (int)nearcall_timeout_ms(client);
        CHECK(poll(&watched, 1, timeout_ms) >= 0);
        CHECK(timeout_ms == 0 || watched.revents); /* not by its deadline */
        CHECK(nearcall_process(client) >= 0);
    }
    CHECK_CALL(client, r, NEARCALL_OK);
}

static void in_an_event_loop(uint32_t flags)
{
    struct script script;
    nearcall_reply reply;
    script_start(&script, reply_when_asleep, NULL);
    nearcall_client *client = memory_client(&script, flags);
    nearcall_function *function = test_find(client, "f");
    for (int i = 0; i < 50; i++) {
        wait_in_a_loop(client, begin(client, function), &reply);
        CHECK_INT(reply.bytes, 5);
    }
    for (int i = 0; i < 2000; i++) { /* the same with a server that does as it likes */
        wait_in_a_loop(client, begin(client, function), &reply);
        CHECK_INT(reply.bytes, 3);
    }
    nearcall_close(client);
    script_end(&script);
}

/* Nobody asked for the descriptor: what comes in the ring is found by waiting. */
static void reply_to_64(struct script *script)
{
    struct script_memory memory;
    struct nc_memory_offer offer = SCRIPT_OFFER;
    struct nc_frame frame;
    memory_begin(script, &memory, offer);
    for (int i = 0; i < 64; i++) {
        memory_expect(&memory, NC_REQUEST, &frame);
        CHECK(!memory_caller_is_asleep(&memory));
        CHECK(!memory_reply(&memory, &frame, "r", 1));
    }
    script_signal(script->argument);
    memory_serve(script, &memory);
    memory_end(&memory);
}

static void outside_without_a_promise(void)
{
    struct script script, replied;
    nearcall_call_id calls[64];
    nearcall_reply reply;
    CHECK(sem_init(&replied.signals, 0, 0) == 0);
    script_start(&script, reply_to_64, &replied);
    nearcall_client *client = memory_client(&script, 0);
    nearcall_function *function = test_find(client, "f");
    for (int i = 0; i < 64; i++)
        calls[i] = begin(client, function);
    script_await(&replied);
    CHECK_INT(nearcall_timeout_ms(client), 0); /* now they wait there, and the handle is awake */
    CHECK_INT(nearcall_process(client), 64);
    for (int i = 0; i < 64; i++)
        CHECK_CALL(client, nearcall_poll(client, calls[i], &reply), NEARCALL_OK);
    nearcall_close(client);
    script_end(&script);
    sem_destroy(&replied.signals);
}

/* A server that stands still costs no call more than its deadline. */
static void stand_still(struct script *script)
{
    struct script_memory memory;
    struct nc_memory_offer offer = SCRIPT_OFFER;
    memory_begin(script, &memory, offer);
    script_await(script);
    memory_end(&memory);
}

static bool deadlines_hold(uint32_t flags)
{
    struct script script;
    nearcall_reply reply;
    bool in_time = true;
    script_start(&script, stand_still, NULL);
    nearcall_client *client = memory_client(&script, flags);
    for (int i = 0; i < 140; i++) { /* more than the ring has room for, with cancellations */
        double before_ms = test_now_ms();
        int64_t timeout_ms = i < 135 ? 1 : 60;
        CHECK_CALL(client, nearcall_call(client, "f", "x", 1, timeout_ms, &reply),
                   NEARCALL_E_DEADLINE_EXCEEDED);
        if (i >= 135)
            in_time = test_in_time(test_now_ms() - before_ms, (double)timeout_ms) && in_time;
        if (i == 0)
            CHECK_OUTCOME(client, NEARCALL_OUTCOME_UNKNOWN);
    }
    script_signal(&script);
    nearcall_close(client);
    script_end(&script);
    return in_time;
}

int main(void)
{
    static const uint32_t spins[] = {0, NEARCALL_SPIN_OFF, NEARCALL_SPIN_DEDICATED};
    test_begin();
    for (size_t i = 0; i < sizeof(spins) / sizeof(spins[0]); i++) {
        the_server_sleeps(spins[i]);
        falling_asleep_meanwhile(spins[i]);
        in_an_event_loop(spins[i]);
        in_an_event_loop(spins[i] | NEARCALL_NONBLOCKING);
    }
    outside_without_a_promise();
    for (int tries = 0; !deadlines_hold(0); tries++)
        CHECK(tries < TEST_TRIES);
    for (int tries = 0; !deadlines_hold(NEARCALL_SPIN_DEDICATED); tries++)
        CHECK(tries < TEST_TRIES);
    return 0;
}
