/*
 * Calls ledger(key) with one key after the other and says on standard output
 * what became of each, in records of 16 bytes: one before the call and one after
 * it. A record is written at once, so that a reader can trust it when this
 * process is killed.
 *
 *     ledger ADDRESS FIRST_KEY CALLS TIMEOUT_MS SLOW_EVERY [KILLS SEED]
 *
 * One call of SLOW_EVERY lasts, so that faults meet functions that have started.
 *
 * With KILLS it forks that many children, one after the other, each with as many
 * keys as CALLS, and kills each: at any moment of its life, or while it calls
 * through shared memory without a pause.
 *
 * NEARCALL_PAUSE_US in the environment is how long it rests before each call.
 */
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <nearcall.h>

enum { SLOW_MS = 3, BEGUN = 0, ENDED = 1 };

/* Of the children that are killed one of so many is killed at any moment. */
enum { ANY_MOMENT_EVERY = 4, ANY_MOMENT_US = 1500, HOT_US = 500 };

static struct {
    const char *address;
    uint64_t first;
    uint64_t calls;
    int64_t timeout_ms;
    uint64_t slow_every;
    long pause_us;
} plan;

/* Written to once when shared memory is in use; -1: nobody wants to know. */
static int hot_fd = -1;

struct record {
    uint64_t key;
    uint32_t took_us;
    uint8_t what;
    uint8_t code;
    uint8_t outcome;
    uint8_t memory;
};

_Static_assert(sizeof(struct record) == 16, "the driver reads records of 16 bytes");

static int64_t now_us(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

static void say(const struct record *record)
{
    if (write(STDOUT_FILENO, record, sizeof *record) != sizeof *record)
        _exit(3);
}

static bool is_with_memory(const nearcall_client *client)
{
    return strcmp(nearcall_transport(client), "shared memory") == 0;
}

static void tell_hot(void)
{
    if (hot_fd >= 0 && write(hot_fd, "", 1) != 1)
        _exit(3);
    hot_fd = -1;
}

static int call_ledger(nearcall_client *client, uint64_t key)
{
    nearcall_function *function;
    nearcall_reply reply;
    int slow = key % plan.slow_every == 0;
    const char *name = slow ? "ledger_slow" : "ledger";
    int result = nearcall_find(client, name, strlen(name), plan.timeout_ms, &function);
    if (result < 0)
        return result;
    result = nearcall_request(client, function, NEARCALL_CODEC_MSGPACK);
    if (result < 0)
        return result;
    nearcall_put_array(client, slow ? 2 : 1);
    nearcall_put_uint(client, key);
    if (slow)
        nearcall_put_int(client, SLOW_MS);
    return nearcall_request_call(client, plan.timeout_ms, &reply);
}

static void call_and_tell(nearcall_client *client, uint64_t key)
{
    struct record record = {.key = key, .what = BEGUN, .memory = is_with_memory(client)};
    if (record.memory)
        tell_hot();
    say(&record);
    int64_t start = now_us();
    int result = call_ledger(client, key);
    record.took_us = (uint32_t)(now_us() - start);
    record.what = ENDED;
    record.code = (uint8_t)-result;
    record.outcome = (uint8_t)(result < 0 ? nearcall_error_outcome(client) : NEARCALL_OUTCOME_NONE);
    say(&record);
}

static void wait_us(long us)
{
    struct timespec time = {0, us * 1000};
    nanosleep(&time, NULL);
}

static int call_all(uint64_t first)
{
    nearcall_client *client;
    if (nearcall_open(&client, plan.address, NULL) < 0)
        return 2;
    for (uint64_t i = 0; i < plan.calls; i++) {
        if (plan.pause_us > 0)
            wait_us(plan.pause_us);
        call_and_tell(client, first + i);
    }
    nearcall_close(client);
    return 0;
}

static void live_and_die(uint64_t first, int fd)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    hot_fd = fd;
    if (call_all(first) != 0)
        _exit(2);
    for (;;)
        pause();
}

static int kill_one(uint64_t first)
{
    int hot[2];
    char byte;
    if (pipe(hot) != 0)
        return 3;
    pid_t child = fork();
    if (child == 0) {
        close(hot[0]);
        live_and_die(first, hot[1]);
    }
    close(hot[1]);
    if (random() % ANY_MOMENT_EVERY == 0)
        wait_us(random() % ANY_MOMENT_US);
    else if (read(hot[0], &byte, 1) == 1)
        wait_us(random() % HOT_US);
    close(hot[0]);
    int status;
    if (child < 0 || kill(child, SIGKILL) != 0 || waitpid(child, &status, 0) != child)
        return 3;
    return WIFSIGNALED(status) ? 0 : WEXITSTATUS(status);
}

int main(int argc, char **argv)
{
    if (argc != 6 && argc != 8)
        return 2;
    plan.address = argv[1];
    plan.first = strtoull(argv[2], NULL, 10);
    plan.calls = strtoull(argv[3], NULL, 10);
    plan.timeout_ms = strtoll(argv[4], NULL, 10);
    plan.slow_every = strtoull(argv[5], NULL, 10);
    const char *pause_us = getenv("NEARCALL_PAUSE_US");
    plan.pause_us = pause_us == NULL ? 0 : strtol(pause_us, NULL, 10);
    if (argc == 6)
        return call_all(plan.first);
    long kills = strtol(argv[6], NULL, 10);
    srandom((unsigned)strtoul(argv[7], NULL, 10));
    prctl(PR_SET_TIMERSLACK, 1);
    for (long i = 0; i < kills; i++) {
        int result = kill_one(plan.first + (uint64_t)i * plan.calls);
        if (result != 0)
            return result;
    }
    return 0;
}
