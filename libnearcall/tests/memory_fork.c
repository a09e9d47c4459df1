/* A fork with shared memory in use: the child never touches what is its parent's, and
 * the parent does not notice. */
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "handle/handle.h"
#include "script_memory.h"

static nearcall_client *client;
static nearcall_function *echo;

static void use_memory(void)
{
    nearcall_reply reply;
    for (int i = 0; i < 1000 && strcmp(nearcall_transport(client), "shared memory") != 0; i++)
        CHECK_CALL(client, nearcall_call(client, "echo", "x", 1, 5000, &reply), NEARCALL_OK);
    CHECK(strcmp(nearcall_transport(client), "shared memory") == 0);
}

static void call(const char *data)
{
    nearcall_reply reply;
    size_t bytes = strlen(data);
    CHECK_CALL(client, nearcall_call(client, "echo", data, bytes, 5000, &reply), NEARCALL_OK);
    CHECK(reply.bytes == bytes && memcmp(reply.data, data, bytes) == 0);
}

static void child_calls(void *unused)
{
    (void)unused;
    CHECK(strcmp(nearcall_transport(client), "") == 0);
    call("child");
    use_memory();
    call("child's own memory");
    nearcall_close(client);
}

static void child_closes(void *unused)
{
    (void)unused;
    nearcall_close(client);
}

static void child_disconnects(void *unused)
{
    (void)unused;
    nearcall_disconnect(client);
    call("again");
    nearcall_close(client);
}

/* Something of the child's lies where the caller region was. */
static void child_reuses_the_addresses(void *unused)
{
    const struct nc_memory *memory = &client->connection.memory;
    uint8_t *mine = mmap(memory->caller, memory->caller_bytes, PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
    size_t bytes = memory->caller_bytes;
    (void)unused;
    CHECK(mine == memory->caller);
    memset(mine, 0x5A, bytes);
    call("child");
    for (size_t i = 0; i < bytes; i++)
        CHECK_INT(mine[i], 0x5A);
    nearcall_close(client);
    CHECK_INT(mine[bytes - 1], 0x5A);
}

static void begin_large(void)
{
    uint8_t *room;
    CHECK_CALL(client, nearcall_request(client, echo, NEARCALL_CODEC_RAW), NEARCALL_OK);
    CHECK_CALL(client, nearcall_put_raw_reserve(client, 100000, &room), NEARCALL_OK);
    CHECK(client->request.in_arena);
    memset(room, 'p', 100000);
}

static void child_sends_half_a_request(void *unused)
{
    nearcall_reply reply;
    uint8_t *room;
    (void)unused;
    CHECK_INT(nearcall_put_raw_reserve(client, 10, &room), NEARCALL_E_FAILED_PRECONDITION);
    nearcall_put_raw(client, "more", 4);
    CHECK_CALL(client, nearcall_request_call(client, 5000, &reply), NEARCALL_E_FAILED_PRECONDITION);
    CHECK_OUTCOME(client, NEARCALL_OUTCOME_NOT_EXECUTED);
    CHECK(strstr(nearcall_error_message(client), "begin it again") != NULL);
    CHECK_CALL(client, nearcall_request(client, echo, NEARCALL_CODEC_RAW), NEARCALL_OK);
    nearcall_put_raw(client, "anew", 4);
    CHECK_CALL(client, nearcall_request_call(client, 5000, &reply), NEARCALL_OK);
    CHECK(reply.bytes == 4 && memcmp(reply.data, "anew", 4) == 0);
    nearcall_close(client);
}

static void half_a_request(void)
{
    nearcall_reply reply;
    begin_large();
    test_join(test_fork(child_sends_half_a_request, NULL));
    test_join(test_fork(child_closes, NULL));
    nearcall_put_raw(client, "q", 1);
    CHECK_CALL(client, nearcall_request_call(client, 5000, &reply), NEARCALL_OK);
    CHECK_INT(reply.bytes, 100001);
    CHECK(reply.data[99999] == 'p' && reply.data[100000] == 'q');
}

static void child_reads_the_reply(void *argument)
{
    const nearcall_reply *reply = argument;
    CHECK(reply->bytes == 4 && memcmp(reply->data, "held", 4) == 0);
    call("child");
    nearcall_close(client);
}

static void a_reply_held(void)
{
    nearcall_reply reply;
    double end_ms = test_now_ms() + 120000; /* on a busy machine both sides sleep most of the time */
    do {
        CHECK(test_now_ms() < end_ms);
        CHECK_CALL(client, nearcall_call(client, "echo", "held", 4, 5000, &reply), NEARCALL_OK);
    } while (!client->connection.memory.held); /* that came by the socket */
    test_join(test_fork(child_reads_the_reply, &reply));
    CHECK(memcmp(reply.data, "held", 4) == 0);
}

static nearcall_call_id in_flight;

static void child_waits(void *unused)
{
    nearcall_reply reply;
    (void)unused;
    CHECK_CALL(client, nearcall_wait(client, in_flight, &reply), NEARCALL_E_UNAVAILABLE);
    CHECK_OUTCOME(client, NEARCALL_OUTCOME_UNKNOWN);
    call("own");
    nearcall_close(client);
}

static void a_call_in_flight(void)
{
    nearcall_reply reply;
    test_request_int(client, test_find(client, "sleep"), 100);
    CHECK_CALL(client, nearcall_request_send(client, 5000, &in_flight), NEARCALL_OK);
    test_join(test_fork(child_waits, NULL));
    CHECK_CALL(client, nearcall_wait(client, in_flight, &reply), NEARCALL_OK);
    CHECK_INT(test_read_int(&reply), 100);
}

/* A program that takes the child's place inherits neither descriptors nor memory. */
static void child_executes(void *unused)
{
    char command[128];
    (void)unused;
    snprintf(command, sizeof(command), "! grep -q memfd /proc/$$/maps && ! ls -l /proc/$$/fd 2>/dev/null | grep -q memfd");
    execl("/bin/sh", "sh", "-c", command, (char *)NULL);
}

static int mappings(void)
{
    char line[512];
    int count = 0;
    FILE *maps = fopen("/proc/self/maps", "r");
    CHECK(maps != NULL);
    while (fgets(line, sizeof(line), maps))
        count += strstr(line, "memfd") != NULL;
    fclose(maps);
    return count;
}

int main(void)
{
    struct server server;
    void (*const children[])(void *) = {child_calls, child_closes, child_disconnects,
                                        child_reuses_the_addresses, child_executes};
    test_begin();
    server_start(&server);
    client = test_open(server.address, 0);
    echo = test_find(client, "echo");
    use_memory();
    for (int round = 0; round < 20; round++)
        for (size_t i = 0; i < sizeof(children) / sizeof(children[0]); i++) {
            pid_t pid = test_fork(children[i], NULL);
            call("parent");
            test_join(pid);
        }
    half_a_request();
    a_reply_held();
    a_call_in_flight();
    CHECK_INT(mappings(), 2);
    nearcall_disconnect(client);
    CHECK_INT(mappings(), 0);
    nearcall_close(client);
    server_stop(&server);
    return 0;
}
