/*
 * Makes calls of one kind when it is told to, so that it or its server can be
 * stopped in the middle of them. For each line on standard input:
 *
 *     check   one call with time enough; answers "ok" or what failed
 *     go      the calls of the phase; answers "ready" when they have begun, a line
 *             "CODE OUTCOME MICROSECONDS" for each that is told, and "."
 *
 *     phases ADDRESS PHASE TIMEOUT_MS
 */
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <nearcall.h>

enum { WARM_CALLS = 64, PIPELINED = 32, SLOW_MS = 40, CHECK_MS = 10000, HOT_US = 150000 };

static nearcall_client *client;
static int64_t timeout_ms;
static uint64_t next_key;

static int64_t now_us(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

static void tell(int result, int64_t start)
{
    int outcome = result < 0 ? nearcall_error_outcome(client) : NEARCALL_OUTCOME_NONE;
    printf("%d %d %" PRId64 "\n", -result, outcome, now_us() - start);
}

static int echo(int64_t within_ms)
{
    static const char text[] = "as it was sent";
    nearcall_reply reply;
    int result = nearcall_call(client, "echo", text, sizeof text, within_ms, &reply);
    if (result == NEARCALL_OK && (reply.bytes != sizeof text || memcmp(reply.data, text, sizeof text) != 0)) {
        printf("wrong answer\n");
        exit(1);
    }
    return result;
}

static int request_slow(void)
{
    nearcall_function *function;
    int result = nearcall_find(client, "ledger_slow", 11, timeout_ms, &function);
    if (result == NEARCALL_OK)
        result = nearcall_request(client, function, NEARCALL_CODEC_MSGPACK);
    nearcall_put_array(client, 2);
    nearcall_put_uint(client, next_key++);
    nearcall_put_int(client, SLOW_MS);
    return result;
}

/* Every call that fails is told, and the last one. */
static void hot(void)
{
    int64_t begin = now_us(), start;
    int result;
    printf("ready\n");
    do {
        start = now_us();
        result = echo(timeout_ms);
    } while (result == NEARCALL_OK && now_us() - begin < HOT_US);
    tell(result, start);
}

/* Nobody has called for long, so both sides sleep. */
static void asleep(void)
{
    printf("ready\n");
    int64_t start = now_us();
    tell(echo(timeout_ms), start);
}

static void middle(void)
{
    nearcall_reply reply;
    int64_t start = now_us();
    int result = request_slow();
    printf("ready\n");
    if (result == NEARCALL_OK)
        result = nearcall_request_call(client, timeout_ms, &reply);
    tell(result, start);
}

static void pipelined(void)
{
    nearcall_call_id calls[PIPELINED];
    nearcall_reply reply;
    int64_t start = now_us();
    int begun = 0, result = NEARCALL_OK;
    while (begun < PIPELINED && result == NEARCALL_OK) {
        result = request_slow();
        if (result == NEARCALL_OK)
            result = nearcall_request_send(client, timeout_ms, &calls[begun]);
        begun += result == NEARCALL_OK;
    }
    printf("ready\n");
    if (result < 0)
        tell(result, start);
    /* A wait that begins after the deadline has the grace that follows a deadline. */
    for (int i = 0; i < begun; i++) {
        int64_t since = now_us() - timeout_ms * 1000;
        tell(nearcall_wait(client, calls[i], &reply), since > start ? since : start);
    }
}

static void (*phase_of(const char *name))(void)
{
    static const struct {
        const char *name;
        void (*run)(void);
    } phases[] = {{"hot", hot}, {"asleep", asleep}, {"middle", middle}, {"pipelined", pipelined}};
    for (size_t i = 0; i < sizeof phases / sizeof phases[0]; i++)
        if (strcmp(phases[i].name, name) == 0)
            return phases[i].run;
    return NULL;
}

/* Calls until shared memory is in use. */
static int check(void)
{
    for (int i = 0; i < WARM_CALLS; i++) {
        int result = echo(CHECK_MS);
        if (result < 0)
            return printf("%d: %s\n", result, nearcall_error_message(client));
    }
    return printf("%s\n", strcmp(nearcall_transport(client), "shared memory") == 0 ? "ok" : "no memory");
}

int main(int argc, char **argv)
{
    char line[16];
    if (argc != 4 || nearcall_open(&client, argv[1], NULL) < 0)
        return 2;
    void (*phase)(void) = phase_of(argv[2]);
    timeout_ms = strtoll(argv[3], NULL, 10);
    setvbuf(stdout, NULL, _IOLBF, 0);
    while (phase != NULL && fgets(line, sizeof line, stdin) != NULL) {
        if (strcmp(line, "check\n") == 0) {
            check();
            continue;
        }
        phase();
        printf(".\n");
    }
    nearcall_close(client);
    return 0;
}
