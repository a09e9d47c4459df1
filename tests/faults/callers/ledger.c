/*
 * Calls ledger(key) with one key after the other and says on standard output
 * what became of each: "b KEY" before the call, "e KEY CODE OUTCOME US" after it.
 * Lines are written whole, so that a reader can trust them when this process
 * is killed.
 *
 *     ledger ADDRESS FIRST_KEY CALLS TIMEOUT_MS
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <nearcall.h>

/* Some calls last, so that faults meet functions that have started. */
enum { SLOW_EVERY = 4, SLOW_MS = 3 };

static int64_t now_us(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

static void say(const char *line, int length)
{
    if (write(STDOUT_FILENO, line, (size_t)length) != length)
        exit(3);
}

static int call_ledger(nearcall_client *client, uint64_t key, int64_t timeout_ms)
{
    nearcall_function *function;
    nearcall_reply reply;
    int slow = key % SLOW_EVERY == 0;
    const char *name = slow ? "ledger_slow" : "ledger";
    int result = nearcall_find(client, name, strlen(name), timeout_ms, &function);
    if (result < 0)
        return result;
    result = nearcall_request(client, function, NEARCALL_CODEC_MSGPACK);
    if (result < 0)
        return result;
    nearcall_put_array(client, slow ? 2 : 1);
    nearcall_put_uint(client, key);
    if (slow)
        nearcall_put_int(client, SLOW_MS);
    return nearcall_request_call(client, timeout_ms, &reply);
}

static void call_and_tell(nearcall_client *client, uint64_t key, int64_t timeout_ms)
{
    char line[96];
    say(line, snprintf(line, sizeof line, "b %" PRIu64 "\n", key));
    int64_t start = now_us();
    int result = call_ledger(client, key, timeout_ms);
    int64_t took = now_us() - start;
    int outcome = result < 0 ? nearcall_error_outcome(client) : NEARCALL_OUTCOME_NONE;
    say(line, snprintf(line, sizeof line, "e %" PRIu64 " %d %d %" PRId64 "\n", key, -result, outcome, took));
}

int main(int argc, char **argv)
{
    if (argc != 5)
        return 2;
    nearcall_client *client;
    if (nearcall_open(&client, argv[1], NULL) < 0)
        return 2;
    uint64_t first = strtoull(argv[2], NULL, 10);
    uint64_t calls = strtoull(argv[3], NULL, 10);
    int64_t timeout_ms = strtoll(argv[4], NULL, 10);
    for (uint64_t i = 0; i < calls; i++)
        call_and_tell(client, first + i, timeout_ms);
    nearcall_close(client);
    return 0;
}
