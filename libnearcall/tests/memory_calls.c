/* Calls through shared memory: bodies of all sizes, a full ring, many in flight, and
 * what stays readable for how long. */
#include <sys/socket.h>

#include "base/limits_gen.h"
#include "calls/calls.h"
#include "handle/handle.h"
#include "script_memory.h"

static void serve(struct script *script)
{
    struct script_memory memory;
    struct nc_memory_offer offer = SCRIPT_OFFER;
    memory_begin(script, &memory, offer);
    memory_serve(script, &memory);
    memory_end(&memory);
}

static void fill(uint8_t *data, size_t bytes, unsigned seed)
{
    for (size_t i = 0; i < bytes; i++)
        data[i] = (uint8_t)(i * 31 + i / 251 + seed);
}

static void bodies_of_all_sizes(void)
{
    static const size_t sizes[] = {0, 1, 23, 24, 25, 81, 82, 88, 89, 1000, 4095, 4096, 16384, 60000};
    static uint8_t data[60000];
    struct script script;
    nearcall_reply reply;
    script_start(&script, serve, NULL);
    nearcall_client *client = memory_client(&script, 0);
    for (int round = 0; round < 30; round++)
        for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
            fill(data, sizes[i], (unsigned)round);
            CHECK_CALL(client, nearcall_call(client, "f", data, sizes[i], 5000, &reply), NEARCALL_OK);
            CHECK_INT(reply.bytes, sizes[i]);
            CHECK(memcmp(reply.data, data, sizes[i]) == 0);
        }
    nearcall_close(client);
    script_end(&script);
}

/* Of what was reserved only what is committed is sent: in private memory, in the arena, and
 * where a second reservation follows the first. */
static void less_than_was_reserved(void)
{
    static const size_t used[] = {0, 5, 80, 30000};
    struct script script;
    nearcall_reply reply;
    uint8_t *room;
    script_start(&script, serve, NULL);
    nearcall_client *client = memory_client(&script, 0);
    nearcall_function *function = test_find(client, "f");
    for (size_t i = 0; i < sizeof(used) / sizeof(used[0]); i++)
        for (size_t reserved = used[i]; reserved <= 60000; reserved = 3 * reserved + 1000) {
            CHECK_CALL(client, nearcall_request(client, function, NEARCALL_CODEC_RAW), NEARCALL_OK);
            nearcall_put_raw(client, "head", 4);
            CHECK_CALL(client, nearcall_put_raw_reserve(client, reserved, &room), NEARCALL_OK);
            fill(room, used[i], 7);
            CHECK_CALL(client, nearcall_put_commit(client, used[i]), NEARCALL_OK);
            nearcall_put_raw(client, "tail", 4);
            CHECK_CALL(client, nearcall_request_call(client, 5000, &reply), NEARCALL_OK);
            CHECK_INT(reply.bytes, used[i] + 8);
            CHECK(memcmp(reply.data, "head", 4) == 0 && memcmp(reply.data + 4 + used[i], "tail", 4) == 0);
            CHECK(used[i] == 0 || reply.data[3 + used[i]] == (uint8_t)((used[i] - 1) * 31 + (used[i] - 1) / 251 + 7));
        }
    CHECK_CALL(client, nearcall_request(client, function, NEARCALL_CODEC_RAW), NEARCALL_OK);
    CHECK_CALL(client, nearcall_put_raw_reserve(client, 10, &room), NEARCALL_OK);
    CHECK_INT(nearcall_put_commit(client, 11), NEARCALL_E_MISUSE);
    nearcall_close(client);
    script_end(&script);
}

/* Built in place, piece by piece, so that it moves to the arena on its way. */
static void requests_built_in_place(void)
{
    struct script script;
    nearcall_reply reply;
    uint8_t *room;
    script_start(&script, serve, NULL);
    nearcall_client *client = memory_client(&script, 0);
    nearcall_function *function = test_find(client, "f");
    for (int round = 0; round < 20; round++) {
        CHECK_CALL(client, nearcall_request(client, function, NEARCALL_CODEC_RAW), NEARCALL_OK);
        CHECK_CALL(client, nearcall_put_raw_reserve(client, 60000, &room), NEARCALL_OK);
        CHECK(room >= client->connection.memory.caller &&
              room < client->connection.memory.caller + client->connection.memory.caller_bytes);
        fill(room, 60000, (unsigned)round);
        CHECK_CALL(client, nearcall_request_call(client, 5000, &reply), NEARCALL_OK);
        CHECK_INT(reply.bytes, 60000);
        CHECK_INT(reply.data[59999], (uint8_t)(59999 * 31 + 59999 / 251 + (size_t)round));
        CHECK_CALL(client, nearcall_request(client, function, NEARCALL_CODEC_MSGPACK), NEARCALL_OK);
        nearcall_put_array(client, 3000);
        for (int i = 0; i < 3000; i++)
            nearcall_put_int(client, 1000000 + i);
        CHECK(client->request.in_arena);
        CHECK_CALL(client, nearcall_request_call(client, 5000, &reply), NEARCALL_OK);
        CHECK_INT(reply.bytes, 3 + 3000 * 5);
    }
    CHECK_CALL(client, nearcall_request(client, function, NEARCALL_CODEC_RAW), NEARCALL_OK);
    CHECK_CALL(client, nearcall_put_raw_reserve(client, 50000, &room), NEARCALL_OK);
    CHECK_INT(nearcall_put_raw_reserve(client, 0x1000000, &room), NEARCALL_E_RESOURCE_EXHAUSTED);
    CHECK_INT(nearcall_put_raw_reserve(client, 1, NULL), NEARCALL_E_MISUSE);
    nearcall_close(client); /* a request that is never sent */
    script_end(&script);
}

/* One that outgrows the arena goes on in private memory, and over the socket. */
static void take_a_large_one(struct script *script)
{
    struct script_memory memory;
    struct nc_memory_offer offer = {32, 512, 65536, 50};
    struct nc_frame frame;
    uint8_t header[NC_FRAME_HEADER_BYTES];
    uint8_t byte;
    memory_begin(script, &memory, offer);
    for (int round = 0; round < 2; round++) {
        for (size_t i = 0; i < sizeof(header); i++)
            CHECK_INT(recv(script->fd, &header[i], 1, 0), 1);
        nc_frame_decode(&frame, header);
        CHECK_INT(frame.length, 200000);
        for (uint32_t i = 0; i < frame.length; i++) {
            CHECK_INT(recv(script->fd, &byte, 1, 0), 1);
            CHECK_INT(byte, (uint8_t)(i / 1000));
        }
        CHECK(!memory_take(&memory, &frame, NULL));
        nc_frame_decode(&frame, header);
        script_reply(script, &frame, "large", 5);
    }
    memory_serve(script, &memory);
    memory_end(&memory);
}

static void too_large_for_the_arena(void)
{
    static uint8_t data[200000];
    struct script script;
    nearcall_reply reply;
    script_start(&script, take_a_large_one, NULL);
    nearcall_client *client = memory_client(&script, 0);
    nearcall_function *function = test_find(client, "f");
    for (size_t i = 0; i < sizeof(data); i++)
        data[i] = (uint8_t)(i / 1000);
    CHECK_CALL(client, nearcall_request(client, function, NEARCALL_CODEC_RAW), NEARCALL_OK);
    for (size_t i = 0; i < sizeof(data); i += 5000) {
        nearcall_put_raw(client, data + i, 5000);
        CHECK_INT(client->request.in_arena, i + 5000 <= 65536);
    }
    CHECK_CALL(client, nearcall_request_call(client, 20000, &reply), NEARCALL_OK);
    CHECK(reply.bytes == 5 && memcmp(reply.data, "large", 5) == 0);
    CHECK_CALL(client, nearcall_call(client, "f", data, sizeof(data), 20000, &reply), NEARCALL_OK);
    CHECK_CALL(client, nearcall_call(client, "f", data, 100, 20000, &reply), NEARCALL_OK);
    CHECK_INT(reply.bytes, 100);
    nearcall_close(client);
    script_end(&script);
}

static nearcall_call_id send_one(nearcall_client *client, nearcall_function *function, int number)
{
    nearcall_call_id call;
    uint8_t data[200] = {(uint8_t)number};
    CHECK_CALL(client, nearcall_request(client, function, NEARCALL_CODEC_RAW), NEARCALL_OK);
    nearcall_put_raw(client, data, number % 3 ? 10 : 200);
    CHECK_CALL(client, nearcall_request_send(client, 10000, &call), NEARCALL_OK);
    return call;
}

/* A ring of 32 takes 32; the others come over the socket, their ids rising on each way. */
static void answer_a_full_ring(struct script *script)
{
    struct script_memory memory;
    struct nc_memory_offer offer = {32, 512, 65536, 50};
    struct nc_frame frames[64];
    static uint8_t payloads[64][200];
    uint64_t last = 0;
    int count = 0;
    memory_begin(script, &memory, offer);
    script_await(script);
    for (; memory_take(&memory, &frames[count], payloads[count]); count++, last = frames[count - 1].call_id)
        CHECK(frames[count].call_id > last);
    CHECK_INT(count, 32);
    for (last = 0; count < 64; last = frames[count++].call_id) {
        script_read(script, &frames[count], payloads[count]);
        CHECK(frames[count].call_id > last);
    }
    for (int i = 0; i < 64; i++) { /* odd ones by the socket, even ones by the ring, backwards */
        int at = 63 - i;
        if (i % 2)
            script_reply(script, &frames[at], payloads[at], frames[at].length);
        else if (memory_reply(&memory, &frames[at], payloads[at], frames[at].length))
            script_send_frame(script, &(struct nc_frame){.type = NC_WAKE}, NULL);
    }
    memory_serve(script, &memory);
    memory_end(&memory);
}

static void a_full_ring(void)
{
    struct script script;
    nearcall_call_id calls[64];
    nearcall_reply reply;
    script_start(&script, answer_a_full_ring, NULL);
    nearcall_client *client = memory_client(&script, 0);
    nearcall_function *function = test_find(client, "f");
    for (int i = 0; i < 64; i++)
        calls[i] = send_one(client, function, i);
    script_signal(&script);
    for (int i = 0; i < 64; i++) {
        int at = i * 37 % 64;
        CHECK_CALL(client, nearcall_wait(client, calls[at], &reply), NEARCALL_OK);
        CHECK_INT(reply.bytes, at % 3 ? 10 : 200);
        CHECK_INT(reply.data[0], at);
    }
    nearcall_close(client);
    script_end(&script);
}

static void many_in_flight(void)
{
    struct script script;
    nearcall_call_id calls[64];
    nearcall_reply reply;
    script_start(&script, serve, NULL);
    nearcall_client *client = memory_client(&script, 0);
    nearcall_function *function = test_find(client, "f");
    for (int round = 0; round < 200; round++) {
        int count = round % 64 + 1;
        for (int i = 0; i < count; i++)
            calls[i] = send_one(client, function, i);
        for (int i = 0; i < count; i++) {
            int at = round % 2 ? count - 1 - i : i;
            CHECK_INT(calls[at] % NC_CALLS, nc_call_by_id(client, calls[at])->number);
            CHECK_CALL(client, nearcall_wait(client, calls[at], &reply), NEARCALL_OK);
            CHECK_INT(reply.data[0], at);
        }
    }
    nearcall_close(client);
    script_end(&script);
}

/* The reply lies in the slot or the arena, and is given back when the handle is used
 * again, not before. */
static void look_at_what_is_given_back(struct script *script)
{
    struct script_memory memory;
    struct nc_memory_offer offer = SCRIPT_OFFER;
    struct nc_frame frame;
    const nc_word32 *replies_taken;
    memory_begin(script, &memory, offer);
    replies_taken = (nc_word32 *)(void *)(memory.caller + 128);
    memory_expect(&memory, NC_REQUEST, &frame);
    (void)memory_reply(&memory, &frame, "in place", 8);
    script_await(script); /* the test has the reply and looks at it */
    CHECK_INT(atomic_load(replies_taken), 0);
    memcpy(memory_slot(&memory) - NC_MEMORY_SLOT_BYTES + NC_MEMORY_BODY_OFFSET, "IN", 2);
    script_signal((struct script *)script->argument);
    memory_expect(&memory, NC_REQUEST, &frame);
    CHECK_INT(atomic_load(replies_taken), 1);
    (void)memory_reply(&memory, &frame, "next", 4);
    memory_serve(script, &memory);
    memory_end(&memory);
}

static void replies_in_place(void)
{
    struct script script, back;
    nearcall_reply reply;
    CHECK(sem_init(&back.signals, 0, 0) == 0);
    script_start(&script, look_at_what_is_given_back, &back);
    nearcall_client *client = memory_client(&script, NEARCALL_SPIN_DEDICATED);
    CHECK_CALL(client, nearcall_call(client, "f", "x", 1, 5000, &reply), NEARCALL_OK);
    CHECK(reply.bytes == 8 && memcmp(reply.data, "in place", 8) == 0);
    script_signal(&script);
    script_await(&back);
    CHECK(memcmp(reply.data, "IN place", 8) == 0); /* the server's own bytes */
    CHECK_CALL(client, nearcall_call(client, "f", "x", 1, 5000, &reply), NEARCALL_OK);
    CHECK(reply.bytes == 4 && memcmp(reply.data, "next", 4) == 0);
    nearcall_close(client);
    script_end(&script);
    sem_destroy(&back.signals);
}

/* While one request grows, in the arena from a size on, others are put on a second handle, which
 * never connects, and are sent in between. */
static void requests_that_are_exchanged(void)
{
    static uint8_t data[60000];
    struct script script;
    nearcall_reply reply;
    fill(data, sizeof(data), 7);
    script_start(&script, serve, NULL);
    nearcall_client *client = memory_client(&script, 0), *other = test_open(script.address, 0);
    nearcall_function *function = test_find(client, "f");
    CHECK_CALL(client, nearcall_request(client, function, NEARCALL_CODEC_RAW), NEARCALL_OK);
    for (size_t i = 0; i < sizeof(data); i += 3000) {
        nearcall_put_raw(client, data + i, 3000);
        CHECK(i < 6000 || client->request.in_arena);
        CHECK_CALL(other, nearcall_request(other, function, NEARCALL_CODEC_RAW), NEARCALL_OK);
        nearcall_put_raw(other, data, i);
        CHECK_CALL(client, nearcall_request_swap(client, other), NEARCALL_OK);
        CHECK_CALL(client, nearcall_request_call(client, 5000, &reply), NEARCALL_OK);
        CHECK(reply.bytes == i && memcmp(reply.data, data, i) == 0);
        CHECK_CALL(client, nearcall_request_swap(client, other), NEARCALL_OK);
    }
    CHECK_CALL(client, nearcall_request_call(client, 5000, &reply), NEARCALL_OK);
    CHECK(reply.bytes == sizeof(data) && memcmp(reply.data, data, sizeof(data)) == 0);
    CHECK_CALL(client, nearcall_request_swap(client, client), NEARCALL_E_MISUSE);
    CHECK_INT(nearcall_request_swap(client, NULL), NEARCALL_E_MISUSE);
    nearcall_close(other);
    nearcall_close(client);
    script_end(&script);
}

/* Ends while it is awake, and what it has sent before hides that from a single look at its socket. */
static void wakes_and_is_replaced(struct script *script)
{
    struct script_memory memory;
    struct nc_memory_offer offer = SCRIPT_OFFER;
    memory_begin(script, &memory, offer);
    script_await(script);
    memory_wake(script);
    script_hang_up(script);
    memory_end(&memory);
    script_signal((struct script *)script->argument);
    script_greet(script);
    script_serve(script);
}

static void server_replaced_behind_a_wake(uint32_t flags)
{
    struct script script, back;
    nearcall_reply reply;
    nearcall_call_id call;
    CHECK(sem_init(&back.signals, 0, 0) == 0);
    script_start(&script, wakes_and_is_replaced, &back);
    nearcall_client *client = memory_client(&script, flags);
    script_signal(&script);
    script_await(&back);
    for (double began_ms = test_now_ms(); test_now_ms() - began_ms < 2.0 * NC_SOCKET_LOOK_US / 1000;)
        ; /* the socket is looked at so seldom */
    CHECK_CALL(client, nearcall_request(client, test_find(client, "f"), NEARCALL_CODEC_RAW), NEARCALL_OK);
    nearcall_put_raw(client, "x", 1);
    CHECK_CALL(client, nearcall_request_send(client, 5000, &call), NEARCALL_OK);
    CHECK_CALL(client, nearcall_wait(client, call, &reply), NEARCALL_OK);
    CHECK(reply.bytes == 1 && reply.data[0] == 'x');
    nearcall_close(client);
    script_end(&script);
    sem_destroy(&back.signals);
}

int main(void)
{
    test_begin();
    server_replaced_behind_a_wake(0);
    server_replaced_behind_a_wake(NEARCALL_NONBLOCKING);
    bodies_of_all_sizes();
    less_than_was_reserved();
    requests_built_in_place();
    requests_that_are_exchanged();
    too_large_for_the_arena();
    a_full_ring();
    many_in_flight();
    replies_in_place();
    return 0;
}
