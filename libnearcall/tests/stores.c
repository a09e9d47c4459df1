/* Values above the frame, which travel in stores, against the real server. */
#include <poll.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "handle/handle.h"
#include "test.h"

#define MIB ((size_t)1 << 20)
#define SERVER_VALUE ((size_t)48 << 20)

static struct server server;
static uint8_t *bytes;

static nearcall_client *open_with(size_t value_bytes_max, uint32_t flags)
{
    nearcall_options options = NEARCALL_OPTIONS_INIT;
    options.value_bytes_max = value_bytes_max;
    options.flags = flags;
    options.timeout_ms = (int64_t)(30000 * test_slowness());
    return test_open_with(server.address, &options);
}

static void mark(size_t size, unsigned round)
{
    for (size_t i = 0; i < size; i += 1021)
        bytes[i] = (uint8_t)(i / 1021 * 31 + size + round);
    if (size)
        bytes[size - 1] = (uint8_t)(round + 77);
}

static void echo(nearcall_client *client, size_t size, unsigned round)
{
    nearcall_reply reply;
    mark(size, round);
    CHECK_CALL(client, nearcall_call(client, "echo", bytes, size, 0, &reply), NEARCALL_OK);
    CHECK_INT(reply.bytes, size);
    CHECK(memcmp(reply.data, bytes, size) == 0);
    CHECK_INT(nearcall_error_code(client), 0);
}

/* Around the largest frame, and to the largest value. */
static void sizes(void)
{
    static const size_t each[] = {4 * MIB - 30, 4 * MIB, 4 * MIB + 1, 5 * MIB + 3, 16 * MIB - 1, 16 * MIB, 20 * MIB + 9, SERVER_VALUE, 0, 100, 7 * MIB};
    nearcall_client *client = open_with(SERVER_VALUE, 0);
    for (unsigned round = 0; round < 2; round++)
        for (size_t i = 0; i < sizeof(each) / sizeof(each[0]); i++)
            echo(client, each[i], round);
    nearcall_close(client);
}

/* Beside the ring, which small calls use. */
static void beside_the_ring(void)
{
    nearcall_client *client = open_with(SERVER_VALUE, 0);
    for (int i = 0; i < 10000 && strcmp(nearcall_transport(client), "shared memory") != 0; i++)
        echo(client, 10, 0);
    CHECK(strcmp(nearcall_transport(client), "shared memory") == 0);
    for (unsigned round = 0; round < 5; round++) {
        echo(client, 6 * MIB + round, round);
        echo(client, 100 + round, round);
        echo(client, 100000 + round, round);
    }
    nearcall_close(client);
}

/* Arguments that are put together, and a result that is read by its schema. */
static void values(void)
{
    nearcall_client *client = open_with(SERVER_VALUE, 0);
    nearcall_function *function = test_find(client, "echo");
    for (unsigned round = 0; round < 2; round++) {
        nearcall_reply reply;
        nearcall_value value;
        mark(17 * MIB, round);
        CHECK_CALL(client, nearcall_request(client, function, NEARCALL_CODEC_MSGPACK), NEARCALL_OK);
        nearcall_put_array(client, 1);
        nearcall_put_bytes(client, bytes, 17 * MIB);
        CHECK_CALL(client, nearcall_request_call(client, 0, &reply), NEARCALL_OK);
        nearcall_reader reader = {reply.data, reply.data + reply.bytes};
        CHECK_INT(nearcall_read(&reader, &value), NEARCALL_OK);
        CHECK_INT(value.type, NEARCALL_BYTES);
        CHECK_INT(value.count, 17 * MIB);
        CHECK(memcmp(value.as.data, bytes, value.count) == 0);
    }
    nearcall_close(client);
}

static bool says(nearcall_client *client, const char *text)
{
    if (strstr(nearcall_error_message(client), text))
        return true;
    fprintf(stderr, "the message is %s\n", nearcall_error_message(client));
    return false;
}

static void limits(void)
{
    nearcall_reply reply;
    nearcall_client *without = open_with(0, 0), *less = open_with(5 * MIB, 0);
    nearcall_client *more = open_with(NC_VALUE_BYTES_MAX_CEILING, 0), *by_socket = open_with(SERVER_VALUE, NEARCALL_NO_SHARED_MEMORY);
    CHECK_CALL(without, nearcall_call(without, "echo", bytes, 5 * MIB, 0, &reply), NEARCALL_E_RESOURCE_EXHAUSTED);
    CHECK_OUTCOME(without, NEARCALL_OUTCOME_NOT_EXECUTED);
    CHECK(says(without, "value_bytes_max"));
    CHECK_CALL(without, nearcall_call(without, "echo", bytes, 17 * MIB, 0, &reply), NEARCALL_E_RESOURCE_EXHAUSTED);
    CHECK(says(without, "value_bytes_max"));
    CHECK_CALL(by_socket, nearcall_call(by_socket, "echo", bytes, 5 * MIB, 0, &reply), NEARCALL_E_RESOURCE_EXHAUSTED);
    CHECK_OUTCOME(by_socket, NEARCALL_OUTCOME_NOT_EXECUTED);
    CHECK_CALL(more, nearcall_call(more, "echo", bytes, SERVER_VALUE + 1, 0, &reply), NEARCALL_E_RESOURCE_EXHAUSTED);
    CHECK_OUTCOME(more, NEARCALL_OUTCOME_NOT_EXECUTED);
    CHECK(says(more, "WithValueBytesMax"));
    CHECK_CALL(less, nearcall_call(less, "echo", bytes, 6 * MIB, 0, &reply), NEARCALL_E_RESOURCE_EXHAUSTED);
    CHECK_OUTCOME(less, NEARCALL_OUTCOME_NOT_EXECUTED);
    CHECK(says(less, "value_bytes_max"));
    test_request_int(less, test_find(less, "fill"), 6 * MIB);
    CHECK_CALL(less, nearcall_request_call(less, 0, &reply), NEARCALL_E_RESOURCE_EXHAUSTED);
    CHECK_OUTCOME(less, NEARCALL_OUTCOME_EXECUTED_RESULT_LOST);
    CHECK(says(less, "value_bytes_max"));
    CHECK_CALL(less, nearcall_call(less, "echo", bytes, 17 * MIB, 0, &reply), NEARCALL_E_RESOURCE_EXHAUSTED);
    CHECK(says(less, "value_bytes_max"));
    CHECK_INT(nearcall_request_bytes_max(without), 16 * MIB - 1);
    CHECK_INT(nearcall_request_bytes_max(less), 16 * MIB - 1);
    CHECK_INT(nearcall_request_bytes_max(more), NC_VALUE_BYTES_MAX_CEILING);
    echo(less, 5 * MIB, 1);
    echo(more, SERVER_VALUE, 1);
    echo(without, 10, 1);
    nearcall_close(without);
    nearcall_close(less);
    nearcall_close(more);
    nearcall_close(by_socket);
}

static nearcall_call_id begin(nearcall_client *client, nearcall_function *function, size_t size)
{
    nearcall_call_id call = 0;
    CHECK_CALL(client, nearcall_request(client, function, NEARCALL_CODEC_RAW), NEARCALL_OK);
    nearcall_put_raw(client, bytes, size);
    CHECK_CALL(client, nearcall_request_send(client, 0, &call), NEARCALL_OK);
    return call;
}

static void check_reply(nearcall_client *client, int r, const nearcall_reply *reply, size_t size)
{
    CHECK_CALL(client, r, NEARCALL_OK);
    CHECK_INT(reply->bytes, size);
    CHECK(memcmp(reply->data, bytes, size) == 0);
}

/* More at once than there are stores, and small calls between them, fetched in another order. Ids
 * stay what they were when the calls began. */
#define AT_ONCE 7
static void in_flight(uint32_t flags)
{
    nearcall_client *client = open_with(SERVER_VALUE, flags);
    nearcall_reply reply;
    nearcall_call_id calls[2 * AT_ONCE];
    CHECK_CALL(client, nearcall_call(client, "echo", "x", 1, 0, &reply), NEARCALL_OK);
    nearcall_function *function = test_find(client, "echo");
    mark(6 * MIB, 3);
    for (unsigned i = 0; i < AT_ONCE; i++) {
        calls[2 * i] = begin(client, function, 5 * MIB + i);
        calls[2 * i + 1] = begin(client, function, 10 + i);
    }
    nearcall_cancel(client, calls[4]);
    for (unsigned i = 2 * AT_ONCE; i-- > 0;) {
        if (i == 4)
            continue;
        int r = nearcall_wait(client, calls[i], &reply);
        check_reply(client, r, &reply, (i % 2 ? 10 : 5 * MIB) + i / 2);
    }
    CHECK_CALL(client, nearcall_wait(client, calls[4], &reply), NEARCALL_E_MISUSE);
    echo(client, 5 * MIB, 4);
    nearcall_close(client);
}

static void turn(nearcall_client *client)
{
    struct pollfd watched = {nearcall_fd(client), (short)nearcall_events(client), 0};
    int64_t timeout_ms = nearcall_timeout_ms(client);
    CHECK(poll(&watched, 1, timeout_ms < 0 || timeout_ms > 30000 ? 30000 : (int)timeout_ms) >= 0);
    CHECK_CALL(client, nearcall_process(client) < 0 ? -1 : 0, NEARCALL_OK);
}

/* A loop is told of each call by the id that it was given, and of what is to be given back later. */
static void in_a_loop(void)
{
    nearcall_client *client = open_with(SERVER_VALUE, NEARCALL_NONBLOCKING);
    nearcall_reply reply;
    nearcall_call_id calls[AT_ONCE];
    nearcall_function *function = test_find(client, "echo");
    mark(6 * MIB, 5);
    for (unsigned i = 0; i < AT_ONCE; i++)
        calls[i] = begin(client, function, 5 * MIB + i);
    for (unsigned finished = 0; finished < AT_ONCE; turn(client)) {
        nearcall_call_id call;
        for (; (call = nearcall_next_finished(client)) != 0; finished++) {
            unsigned i = 0;
            while (i < AT_ONCE && calls[i] != call)
                i++;
            CHECK(i < AT_ONCE);
            int r = nearcall_poll(client, call, &reply);
            check_reply(client, r, &reply, 5 * MIB + i);
        }
    }
    double until_ms = test_now_ms() + 20000 * test_slowness();
    while (client->connection.stores.idle_ns) {
        CHECK(test_now_ms() < until_ms);
        turn(client);
    }
    for (unsigned i = 0; i < NC_STORES_PER_DIRECTION; i++)
        CHECK_INT(client->connection.stores.held[i].fd, -1);
    CHECK_INT(client->spare.capacity, 0);
    CHECK(nearcall_timeout_ms(client) < 0);
    nearcall_close(client);
}

static void late(void)
{
    nearcall_client *client = open_with(SERVER_VALUE, 0);
    nearcall_reply reply;
    echo(client, 5 * MIB, 0);
    for (int i = 0; i < 5; i++) {
        int r = nearcall_call(client, "echo", bytes, SERVER_VALUE, 1, &reply);
        if (r != NEARCALL_OK)
            CHECK_CALL(client, r, NEARCALL_E_DEADLINE_EXCEEDED);
    }
    echo(client, 5 * MIB, 1); /* on the same connection, whose stores have come back */
    nearcall_close(client);
}

/* As a server of another user's: by mappings whose pages are brought in before, and by system calls. */
static void distrusted(void)
{
    nearcall_client *client = open_with(SERVER_VALUE, 0);
    CHECK_CALL(client, nearcall_connect(client, 0), NEARCALL_OK);
    CHECK(client->connection.stores.trusted);
    client->connection.stores.trusted = false;
    for (unsigned round = 0; round < 3; round++)
        echo(client, 9 * MIB + 5 - round, round);
    nearcall_close(client);
}

/* ---- Forks ---- */

static void in_the_child(nearcall_client *client, int before, const nearcall_reply *lent)
{
    CHECK(memcmp(lent->data, bytes, lent->bytes) == 0);
    CHECK(!test_has_mapping("nearcall-store"));
    echo(client, 10, 7);
    CHECK(!test_has_mapping("nearcall-store"));
    CHECK(test_open_descriptors() <= before); /* what was the parent's is closed */
    echo(client, 6 * MIB, 8);
    nearcall_close(client);
    _exit(0);
}

static void forks(void)
{
    nearcall_client *client = open_with(SERVER_VALUE, 0);
    nearcall_reply reply;
    echo(client, 10, 0);
    int before = test_open_descriptors();
    echo(client, 5 * MIB, 1);
    echo(client, 5 * MIB, 2);
    CHECK(test_has_mapping("nearcall-store"));
    mark(5 * MIB, 3);
    CHECK_CALL(client, nearcall_call(client, "echo", bytes, 5 * MIB, 0, &reply), NEARCALL_OK);
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0)
        in_the_child(client, before, &reply);
    echo(client, 5 * MIB, 4);
    test_join(pid);
    echo(client, 5 * MIB, 5);
    nearcall_close(client);
}

/* A call that is on its way is its parent's. */
static void forks_on_the_way(void)
{
    nearcall_client *client = open_with(SERVER_VALUE, 0);
    nearcall_reply reply;
    nearcall_function *function = test_find(client, "echo");
    mark(5 * MIB, 6);
    nearcall_call_id call = begin(client, function, 5 * MIB);
    pid_t pid = fork();
    CHECK(pid >= 0);
    int r = nearcall_wait(client, call, &reply);
    if (pid == 0) {
        CHECK_CALL(client, r, NEARCALL_E_UNAVAILABLE);
        CHECK_OUTCOME(client, NEARCALL_OUTCOME_UNKNOWN);
        echo(client, 5 * MIB, 7);
        nearcall_close(client);
        _exit(0);
    }
    check_reply(client, r, &reply, 5 * MIB);
    test_join(pid);
    nearcall_close(client);
}

/* A server that goes away takes its stores along, and the next one gives others. */
static void servers_end(void)
{
    nearcall_client *client = open_with(SERVER_VALUE, 0);
    int before = test_open_descriptors();
    echo(client, 5 * MIB, 0);
    nearcall_disconnect(client);
    CHECK(test_open_descriptors() <= before + 1);
    CHECK(!test_has_mapping("nearcall-store"));
    echo(client, 5 * MIB, 1);
    nearcall_close(client);
}

/* As a signal's handler leaves a function that may have been changing anything. */
static void leave_half_way(void)
{
    nearcall_client *client = open_with(SERVER_VALUE, 0);
    echo(client, 5 * MIB, 0);
    echo(client, 5 * MIB, 1);
    CHECK(test_has_mapping("nearcall-store"));
    nc_become_busy(client);
    CHECK_INT(nearcall_abandon(client), 1);
    CHECK(!test_has_mapping("nearcall-store"));
    echo(client, 5 * MIB, 2);
    nearcall_close(client);
}

/* Memory is lost on purpose there, so it ends where nobody looks for leaks. */
static void left_half_way(void)
{
    int status;
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) {
        leave_half_way();
        raise(SIGKILL);
    }
    CHECK_INT(waitpid(pid, &status, 0), pid);
    CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
}

int main(void)
{
    test_begin();
    bytes = calloc(1, SERVER_VALUE + 1);
    CHECK(bytes != NULL);
    server_start_with_stores(&server, SERVER_VALUE);
    int before = test_open_descriptors();
    sizes();
    beside_the_ring();
    values();
    limits();
    in_flight(0);
    in_flight(NEARCALL_NONBLOCKING);
    in_a_loop();
    late();
    distrusted();
    forks();
    forks_on_the_way();
    servers_end();
    left_half_way();
    CHECK_INT(test_open_descriptors(), before);
    CHECK(!test_has_mapping("nearcall-store"));
    server_stop(&server);
    free(bytes);
    return 0;
}
