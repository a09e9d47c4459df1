/* Out of memory at the first allocation, the second, and so on until a whole
 * session passes. Every failure is a RESOURCE_EXHAUSTED with its outcome, leaves the
 * handle usable, and loses nothing. Linked with --wrap. */
#include "test.h"

static _Thread_local bool counting; /* of the test's thread, not of the script's */
static long allocations, fail_at;

static bool fails(void)
{
    return counting && ++allocations == fail_at;
}

void *__real_malloc(size_t bytes);
void *__real_calloc(size_t count, size_t bytes);
void *__real_realloc(void *block, size_t bytes);
void *__wrap_malloc(size_t bytes);
void *__wrap_calloc(size_t count, size_t bytes);
void *__wrap_realloc(void *block, size_t bytes);

void *__wrap_malloc(size_t bytes)
{
    return fails() ? NULL : __real_malloc(bytes);
}

void *__wrap_calloc(size_t count, size_t bytes)
{
    return fails() ? NULL : __real_calloc(count, bytes);
}

void *__wrap_realloc(void *block, size_t bytes)
{
    return fails() ? NULL : __real_realloc(block, bytes);
}

static long failures;

/* A result of a step: passed, or failed for want of memory and said so. */
static bool passed(nearcall_client *client, int r)
{
    if (r == NEARCALL_OK)
        return true;
    CHECK_CALL(client, r, NEARCALL_E_RESOURCE_EXHAUSTED);
    int outcome = nearcall_error_outcome(client);
    CHECK(outcome == NEARCALL_OUTCOME_NOT_EXECUTED || outcome == NEARCALL_OUTCOME_UNKNOWN ||
          outcome == NEARCALL_OUTCOME_EXECUTED_RESULT_LOST);
    failures++;
    return false;
}

static void large_reply(nearcall_client *client, const uint8_t *data, size_t bytes)
{
    nearcall_reply reply;
    if (passed(client, nearcall_call(client, "echo", data, bytes, 20000, &reply)))
        CHECK(reply.bytes == bytes && memcmp(reply.data, data, bytes) == 0);
}

static void pipelined(nearcall_client *client, nearcall_function *echo, const uint8_t *data)
{
    nearcall_call_id calls[3];
    nearcall_reply reply;
    bool sent[3] = {false};
    for (int i = 0; i < 3; i++) {
        if (!passed(client, nearcall_request(client, echo, NEARCALL_CODEC_RAW)))
            continue;
        nearcall_put_raw(client, data, 30000);
        sent[i] = passed(client, nearcall_request_send(client, 20000, &calls[i]));
    }
    for (int i = 2; i >= 0; i--) /* the last first: the others must be kept */
        if (sent[i] && passed(client, nearcall_wait(client, calls[i], &reply)))
            CHECK(reply.bytes == 30000 && memcmp(reply.data, data, 30000) == 0);
}

static void session(const char *address, uint32_t flags, const uint8_t *data)
{
    nearcall_options options = NEARCALL_OPTIONS_INIT;
    static const uint32_t user = 0;
    nearcall_client *client;
    nearcall_function *echo;
    nearcall_reply reply;
    options.flags = flags;
    options.server_user_ids = &user;
    options.server_user_ids_count = 1;
    counting = true;
    if (passed(NULL, nearcall_open(&client, address, &options))) {
        if (passed(client, nearcall_find(client, "echo", 4, 20000, &echo)))
            pipelined(client, echo, data);
        large_reply(client, data, 60000);
        counting = false; /* whatever failed before: now it works */
        CHECK_CALL(client, nearcall_call(client, "echo", data, 1000, 20000, &reply), NEARCALL_OK);
        CHECK_INT(reply.bytes, 1000);
    }
    counting = false;
    nearcall_close(client);
}


static void until_it_passes(const char *address, uint32_t flags, const uint8_t *data)
{
    fail_at = 0;
    do {
        fail_at++;
        allocations = 0;
        failures = 0;
        session(address, flags, data);
    } while (allocations >= fail_at);
    printf("%ld allocations in a session\n", allocations);
    CHECK(fail_at > 5);
    CHECK_INT(failures, 0);
}

int main(void)
{
    struct server server;
    uint8_t *data = malloc(60000);
    test_begin();
    CHECK(data != NULL);
    for (int i = 0; i < 60000; i++)
        data[i] = (uint8_t)(i * 7);
    server_start(&server);
    until_it_passes(server.address, 0, data);
    until_it_passes(server.address, NEARCALL_NONBLOCKING, data);
    free(data);
    server_stop(&server);
    return 0;
}
