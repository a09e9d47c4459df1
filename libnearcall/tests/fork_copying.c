/* A signal's handler that forks and returns in both processes while a request is copied
 * into shared memory, which the child does not have: the child goes on all the same. The
 * moment is in the middle of the copy: what is copied lies in memory that is not there at
 * first, and the fault there sends the signal. */
#include <unistd.h>

#include "faulting.h"
#include "handle/handle.h"

static nearcall_client *client;
static nearcall_function *echo, *identity;
static pid_t forked;

static void on_fault(int signal_number)
{
    (void)signal_number;
    begin_fault(); /* a second one is a child's that writes where nothing is */
    show_the_end();
    CHECK(raise(SIGUSR1) == 0);
}

static void on_signal(int signal_number)
{
    (void)signal_number;
    forked = fork();
}

static void use_memory(void)
{
    nearcall_reply reply;
    for (int i = 0; i < 1000 && !nc_memory_is_used(&client->connection.memory); i++)
        CHECK_CALL(client, nearcall_call(client, "echo", "x", 1, 20000, &reply), NEARCALL_OK);
    CHECK(nc_memory_is_used(&client->connection.memory));
}

static void in_the_child(int r, int expected)
{
    nearcall_reply reply;
    CHECK_CALL(client, r, expected);
    CHECK_CALL(client, nearcall_call(client, "echo", "own", 3, 20000, &reply), NEARCALL_OK);
    CHECK(reply.bytes == 3 && memcmp(reply.data, "own", 3) == 0);
    nearcall_close(client);
    _exit(0);
}

static void in_the_parent(int r, const nearcall_reply *reply)
{
    CHECK(forked > 0);
    CHECK_CALL(client, r, NEARCALL_OK);
    CHECK(reply->bytes == BYTES && memcmp(reply->data, source, BYTES) == 0);
    test_join(forked);
}

static void while_putting(void)
{
    nearcall_reply reply;
    CHECK_CALL(client, nearcall_request(client, echo, NEARCALL_CODEC_RAW), NEARCALL_OK);
    forked = -1;
    hide_the_end();
    nearcall_put_raw(client, source, BYTES);
    if (forked != 0)
        CHECK(client->request.in_arena);
    int r = nearcall_request_call(client, 20000, &reply);
    if (forked == 0)
        in_the_child(r, NEARCALL_E_FAILED_PRECONDITION);
    in_the_parent(r, &reply);
}

/* The child goes on with the value behind the long one. */
static void while_putting_values(void)
{
    const nearcall_value values[] = {
        {.type = NEARCALL_ARRAY, .count = 1},
        {.type = NEARCALL_ARRAY, .count = 2},
        {.type = NEARCALL_BYTES, .count = BYTES, .as.data = source},
        {.type = NEARCALL_INT, .as.integer = 7},
    };
    nearcall_reply reply;
    forked = -1;
    hide_the_end();
    int r = nearcall_call_values(client, identity, NEARCALL_CODEC_MSGPACK, values, 4, 20000, &reply);
    if (forked == 0)
        in_the_child(r, NEARCALL_E_FAILED_PRECONDITION);
    CHECK(forked > 0);
    CHECK_CALL(client, r, NEARCALL_OK);
    CHECK(reply.bytes > BYTES && reply.data[reply.bytes - 1] == 7);
    test_join(forked);
}

static void while_sending(void)
{
    nearcall_reply reply;
    forked = -1;
    hide_the_end();
    int r = nearcall_call(client, "echo", source, BYTES, 20000, &reply);
    if (forked == 0)
        in_the_child(r, NEARCALL_E_UNAVAILABLE);
    in_the_parent(r, &reply);
}

int main(void)
{
    struct server server;
    struct sigaction signal = {.sa_handler = on_signal};
    test_begin();
    make_source(on_fault);
    server_start(&server);
    client = test_open(server.address, 0);
    echo = test_find(client, "echo");
    identity = test_find(client, "identity");
    CHECK(sigaction(SIGUSR1, &signal, NULL) == 0);
    for (int i = 0; i < 10; i++) {
        use_memory();
        while_putting();
        use_memory();
        while_putting_values();
        use_memory();
        while_sending();
    }
    nearcall_close(client);
    server_stop(&server);
    return 0;
}
