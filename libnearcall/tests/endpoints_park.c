/* A handle that goes from one endpoint to another keeps the connection of each: nothing is made anew, no function is
 * asked for again, and what the program closes or a server ends meanwhile costs no call. The number of turns is
 * NEARCALL_TEST_TURNS. */
#include <unistd.h>

#include "endpoints_test.h"
#include "handle/handle.h"

#define LARGE_BYTES 100000

static const char *real_servers(const struct server *near, const struct server *far)
{
    static char address[400];
    snprintf(address, sizeof(address), "%s | %s", near->address, far->address);
    return address;
}

static void start_again(struct server *server)
{
    char address[sizeof(server->address)];
    snprintf(address, sizeof(address), "%s", server->address);
    server_start_at(server, address);
}

/* The far server alone has the function. */
static void call_far(nearcall_client *client)
{
    nearcall_reply reply;
    CHECK_CALL(client, nearcall_call_codec(client, "level", NEARCALL_CODEC_MSGPACK, "\x90", 1, 20000, &reply), NEARCALL_OK);
    CHECK_INT(test_read_int(&reply), 7);
}

static void call_near(nearcall_client *client, size_t bytes)
{
    static uint8_t data[LARGE_BYTES];
    nearcall_reply reply;
    for (size_t i = 0; i < bytes; i++)
        data[i] = (uint8_t)(i * 31 + bytes);
    CHECK_CALL(client, nearcall_call(client, "echo", data, bytes, 20000, &reply), NEARCALL_OK);
    CHECK(reply.bytes == bytes && memcmp(reply.data, data, bytes) == 0);
}

static void expect_memory(nearcall_client *client)
{
    CHECK(strcmp(nearcall_transport(client), "shared memory") == 0);
}

/* Built in the memory of the near connection, and sent to the other. */
static void build_here_send_there(nearcall_client *client, nearcall_function *total)
{
    enum { NUMBERS = LARGE_BYTES };
    nearcall_reply reply;
    call_near(client, 10);
    CHECK_CALL(client, nearcall_request(client, total, NEARCALL_CODEC_MSGPACK), NEARCALL_OK);
    nearcall_put_array(client, 1);
    nearcall_put_array(client, NUMBERS);
    for (int i = 0; i < NUMBERS; i++)
        nearcall_put_int(client, 5);
    CHECK(client->request.in_arena);
    CHECK_CALL(client, nearcall_request_call(client, 20000, &reply), NEARCALL_OK);
    CHECK(reply.bytes > 2 * NUMBERS);
    call_near(client, LARGE_BYTES);
}

static void turns_with_memory(void)
{
    long turns = test_parameter("NEARCALL_TEST_TURNS", 3000);
    struct server near, far;
    server_start(&near);
    server_start_generation(&far, "1");
    nearcall_client *client = test_open(real_servers(&near, &far), 0);
    nearcall_function *total = test_find(client, "total");
    for (int i = 0; i < 300; i++) {
        call_near(client, 1);
        call_far(client);
    }
    expect_memory(client);
    call_near(client, 1);
    expect_memory(client);
    int descriptors = test_open_descriptors();
    for (long i = 0; i < turns; i++) {
        call_near(client, (size_t)(i % 97 ? i % 200 : LARGE_BYTES));
        CHECK_INT(nearcall_server_process_id(client), near.pid);
        call_far(client);
        CHECK_INT(nearcall_server_process_id(client), far.pid);
    }
    build_here_send_there(client, total);
    CHECK_INT(test_open_descriptors(), descriptors);
    nearcall_disconnect(client);
    CHECK_INT(test_open_descriptors(), descriptors - 2);
    call_far(client);
    call_near(client, 1);
    server_kill(&far);
    start_again(&far); /* which lacks the function now */
    call_near(client, 1);
    nearcall_close(client);
    server_stop(&near);
    server_stop(&far);
}

/* Both have another schema, and describe the function alike. */
static void functions_are_asked_for_once(void)
{
    struct host one, other;
    nearcall_reply reply;
    nearcall_function *function;
    host_start(&one, "tcp:");
    host_start(&other, "tcp:");
    one.script.schema_hash++;
    nearcall_client *client = test_open(two_hosts(&one, ",", &other), 0);
    for (int i = 0; i < 200; i++) {
        CHECK_CALL(client, nearcall_find(client, "echo", 4, 20000, &function), NEARCALL_OK);
        CHECK_CALL(client, nearcall_request(client, function, NEARCALL_CODEC_RAW), NEARCALL_OK);
        nearcall_put_raw(client, "x", 1);
        CHECK_CALL(client, nearcall_request_call(client, 20000, &reply), NEARCALL_OK);
    }
    CHECK(atomic_load(&one.requests) > 20 && atomic_load(&other.requests) > 20);
    CHECK(atomic_load(&one.resolves) <= 1 && atomic_load(&other.resolves) <= 1);
    CHECK_INT(atomic_load(&one.connections) + atomic_load(&other.connections), 2);
    nearcall_close(client);
    host_end(&one);
    host_end(&other);
}

/* Each time the nearer connection is parked while its server is replaced. */
static void parked_one_ends(void)
{
    struct server near, far;
    server_start(&near);
    server_start_generation(&far, "1");
    nearcall_client *client = test_open(real_servers(&near, &far), 0);
    for (int i = 0; i < 3; i++) {
        call_near(client, 1);
        call_far(client);
        if (i)
            server_kill(&near);
        else
            server_stop(&near); /* says that it is stopping */
        start_again(&near);
        call_near(client, 1);
        CHECK_INT(nearcall_server_process_id(client), near.pid);
    }
    nearcall_close(client);
    server_stop(&near);
    server_stop(&far);
}

static void program_closes_descriptors(void)
{
    struct server near, far;
    server_start(&near);
    server_start_generation(&far, "1");
    nearcall_client *client = test_open(real_servers(&near, &far), 0);
    for (int i = 0; i < 3; i++) {
        call_near(client, 1);
        call_far(client);
        for (int fd = 3; fd < 64; fd++)
            close(fd);
        call_near(client, 1);
        call_far(client);
    }
    nearcall_close(client);
    server_stop(&near);
    server_stop(&far);
}

int main(void)
{
    test_begin();
    turns_with_memory();
    functions_are_asked_for_once();
    parked_one_ends();
    program_closes_descriptors();
    return 0;
}
