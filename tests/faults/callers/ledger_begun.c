/*
 * Does with an event loop what ledger.c does with one call after the other: begins several calls
 * of ledger(key) at a time and says on standard output what became of each, in the records of
 * ledger.c.
 *
 *     ledger_begun ADDRESS FIRST_KEY CALLS TIMEOUT_MS SLOW_EVERY
 */
#include <poll.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <nearcall.h>

enum { SLOW_MS = 3, BEGUN = 0, ENDED = 1 };

/* As many as the driver takes each caller to have. */
#define CALLS_AT_A_TIME 4

static struct {
    uint64_t next;
    uint64_t end;
    int64_t timeout_ms;
    uint64_t slow_every;
} plan;

struct record {
    uint64_t key;
    uint32_t took_us;
    uint8_t what;
    uint8_t code;
    uint8_t outcome;
    uint8_t memory;
};

_Static_assert(sizeof(struct record) == 16, "the driver reads records of 16 bytes");

static struct place {
    nearcall_call_id call; /* 0: free */
    int64_t began_us;
    struct record record;
} places[CALLS_AT_A_TIME];

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

static int begin(nearcall_client *client, uint64_t key, nearcall_call_id *ret_call)
{
    nearcall_function *function;
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
    return nearcall_request_send(client, plan.timeout_ms, ret_call);
}

static void end_call(nearcall_client *client, struct place *place, int result)
{
    place->call = 0;
    place->record.took_us = (uint32_t)(now_us() - place->began_us);
    place->record.what = ENDED;
    place->record.code = (uint8_t)-result;
    place->record.outcome = (uint8_t)(result < 0 ? nearcall_error_outcome(client) : NEARCALL_OUTCOME_NONE);
    say(&place->record);
}

/* True while there is something to wait for. */
static int fill_places(nearcall_client *client)
{
    int busy = 0;
    for (int i = 0; i < CALLS_AT_A_TIME; i++) {
        struct place *place = &places[i];
        while (place->call == 0 && plan.next < plan.end) {
            place->record = (struct record){.key = plan.next++, .what = BEGUN};
            place->record.memory = strcmp(nearcall_transport(client), "shared memory") == 0;
            say(&place->record);
            place->began_us = now_us();
            int result = begin(client, place->record.key, &place->call);
            if (result < 0)
                end_call(client, place, result);
        }
        busy |= place->call != 0;
    }
    return busy;
}

static void turn(nearcall_client *client)
{
    struct pollfd watched = {nearcall_fd(client), (short)nearcall_events(client), 0};
    nearcall_reply reply;
    poll(&watched, 1, (int)nearcall_timeout_ms(client));
    nearcall_process(client);
    for (nearcall_call_id id; (id = nearcall_next_finished(client)) != 0;) {
        int i = 0;
        while (i < CALLS_AT_A_TIME && places[i].call != id)
            i++;
        if (i == CALLS_AT_A_TIME)
            _exit(4);
        end_call(client, &places[i], nearcall_poll(client, id, &reply));
    }
}

int main(int argc, char **argv)
{
    nearcall_client *client;
    nearcall_options options = NEARCALL_OPTIONS_INIT;
    if (argc != 6)
        return 2;
    plan.next = strtoull(argv[2], NULL, 10);
    plan.end = plan.next + strtoull(argv[3], NULL, 10);
    plan.timeout_ms = strtoll(argv[4], NULL, 10);
    plan.slow_every = strtoull(argv[5], NULL, 10);
    options.flags = NEARCALL_NONBLOCKING;
    if (nearcall_open(&client, argv[1], &options) < 0)
        return 2;
    while (fill_places(client))
        turn(client);
    nearcall_close(client);
    return 0;
}
