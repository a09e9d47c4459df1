/* Forks while another thread is inside the library with the same handle: the
 * child's copy starts anew, whatever the thread was doing. */
#include <stdatomic.h>
#include <unistd.h>

#include "base/clock.h"
#include "calls/calls.h"
#include "handle/handle.h"
#include "script.h"

static nearcall_client *client;
static nearcall_function *echo;
static atomic_int stop;

static void *keep_calling(void *unused)
{
    nearcall_reply reply;
    uint8_t *data = malloc(100000);
    (void)unused;
    CHECK(data != NULL);
    for (size_t i = 0; i < 100000; i++)
        data[i] = (uint8_t)(i * 31 + i / 251);
    /* Mostly what lies in a slot, and now and then an arena's and the socket's. */
    for (size_t i = 0; !atomic_load(&stop); i++) {
        size_t bytes = i % 16 ? i % 89 : (i * 7919) % 100000;
        data[0] = (uint8_t)i;
        if (bytes % 3) {
            CHECK_CALL(client, nearcall_call(client, "echo", data, bytes, 20000, &reply),
                       NEARCALL_OK);
        } else {
            CHECK_CALL(client, nearcall_request(client, echo, NEARCALL_CODEC_RAW), NEARCALL_OK);
            nearcall_put_raw(client, data, bytes);
            CHECK_CALL(client, nearcall_request_call(client, 20000, &reply), NEARCALL_OK);
        }
        CHECK_INT(reply.bytes, bytes);
        CHECK(memcmp(reply.data, data, bytes) == 0);
    }
    free(data);
    return NULL;
}

static void child(void *unused)
{
    nearcall_reply reply;
    (void)unused;
    CHECK(!test_has_mapping("nearcall-caller")); /* what is not mapped cannot be touched */
    CHECK_CALL(client, nearcall_call(client, "echo", "child", 5, 20000, &reply), NEARCALL_OK);
    CHECK_INT(reply.bytes, 5);
    CHECK_CALL(client, nearcall_request(client, echo, NEARCALL_CODEC_RAW), NEARCALL_OK);
    nearcall_put_raw(client, "anew", 4);
    CHECK_CALL(client, nearcall_request_call(client, 20000, &reply), NEARCALL_OK);
    CHECK_INT(reply.bytes, 4);
    nearcall_close(client);
    _exit(0); /* what the thread held is lost on purpose: no leak check */
}

/* What the thread had begun is not the child's: its place in the table is free. */
static void stay_silent(struct script *script)
{
    script_accept(script);
    script_read_hello(script);
    script_signal(script);
    CHECK(script_read_end(script));
}

static void *begin_connecting(void *unused)
{
    nearcall_call_id call;
    (void)unused;
    CHECK_CALL(client, nearcall_find_begin(client, "f", 1, 2000, &call),
               NEARCALL_E_DEADLINE_EXCEEDED);
    return NULL;
}

static void fill_the_table(void *address)
{
    nearcall_call_id call;
    (void)address;
    CHECK_INT(nearcall_timeout_ms(client), 0);
    CHECK_INT(nearcall_process(client), 0);
    CHECK_INT(nearcall_timeout_ms(client), -1);
    for (int i = 0; i < NC_CLIENT_CALLS_IN_FLIGHT_MAX; i++)
        CHECK(nc_call_new(client, NC_RESOLVE, NULL, NC_NEVER) != NULL);
    CHECK_CALL(client, nearcall_find_begin(client, "f", 1, 100, &call),
               NEARCALL_E_RESOURCE_EXHAUSTED);
    _exit(0);
}

static void calls_of_the_thread_alone(void)
{
    struct script script;
    pthread_t thread;
    script_start(&script, stay_silent, NULL);
    client = test_open(script.address, 0);
    CHECK(pthread_create(&thread, NULL, begin_connecting, NULL) == 0);
    script_await(&script);
    test_join(test_fork(fill_the_table, NULL));
    CHECK(pthread_join(thread, NULL) == 0);
    nearcall_close(client);
    script_end(&script);
}

int main(void)
{
    struct server server;
    pthread_t thread;
    test_begin();
    server_start(&server);
    client = test_open(server.address, 0);
    echo = test_find(client, "echo");
    CHECK(pthread_create(&thread, NULL, keep_calling, NULL) == 0);
    long forks = test_parameter("NEARCALL_TEST_BUSY_FORKS", 500);
    for (long i = 0; i < forks; i++)
        test_join(test_fork(child, NULL));
    atomic_store(&stop, 1);
    CHECK(pthread_join(thread, NULL) == 0);
    CHECK(strcmp(nearcall_transport(client), "shared memory") == 0);
    nearcall_close(client);
    server_stop(&server);
    calls_of_the_thread_alone();
    return 0;
}
