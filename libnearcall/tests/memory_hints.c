/* The words beside those that say who sleeps: a caller tells when it sent to a server that
 * slept, and where it runs; and whatever a server writes there, calls end as they would, also
 * where a signal's handler forks while the caller moves to another CPU. Linked with --wrap. */
#include <sched.h>
#include <unistd.h>

#include "base/clock.h"
#include "handle/handle.h"
#include "script_memory.h"

#define SENT_OFFSET 8
#define CPU_OFFSET 16
#define CALLS 400

static bool forks; /* while this process moves to another CPU */
static pid_t forked = -1;
static atomic_bool moved;

int __real_sched_setaffinity(pid_t thread, size_t bytes, const cpu_set_t *cpus);
int __wrap_sched_setaffinity(pid_t thread, size_t bytes, const cpu_set_t *cpus);
int __wrap_sched_setaffinity(pid_t thread, size_t bytes, const cpu_set_t *cpus)
{
    int r = __real_sched_setaffinity(thread, bytes, cpus);
    if (forks) {
        forks = false;
        forked = fork();
    }
    return r;
}

static nc_word64 *word(uint8_t *region, size_t offset)
{
    return (nc_word64 *)(void *)(region + offset);
}

/* Sleeps, so that every request tells when it was sent. */
static void sleep_and_listen(struct script *script)
{
    struct script_memory memory;
    struct nc_memory_offer offer = SCRIPT_OFFER;
    struct nc_frame frame;
    memory_begin(script, &memory, offer);
    for (int i = 0; i < CALLS; i++) {
        int64_t before_ns = nc_now_ns();
        (void)memory_fall_asleep(&memory);
        script_signal(script->argument);
        script_expect(script, NC_REQUEST, &frame);
        memory_awake(&memory);
        int64_t sent_ns = (int64_t)atomic_load(word(memory.caller, SENT_OFFSET));
        uint64_t cpu = atomic_load(word(memory.caller, CPU_OFFSET));
        CHECK(sent_ns > before_ns - NC_NS_PER_S && sent_ns <= nc_now_ns());
        CHECK(cpu >= 1 && cpu <= CPU_SETSIZE);
        if (memory_caller_is_asleep(&memory))
            script_reply(script, &frame, "s", 1);
        else if (memory_reply(&memory, &frame, "r", 1))
            memory_wake(script);
    }
    memory_serve(script, &memory);
    memory_end(&memory);
}

static void the_caller_tells(void)
{
    struct script script, asleep;
    nearcall_reply reply;
    CHECK(sem_init(&asleep.signals, 0, 0) == 0);
    script_start(&script, sleep_and_listen, &asleep);
    nearcall_client *client = memory_client(&script, 0);
    for (int i = 0; i < CALLS; i++) {
        script_await(&asleep);
        CHECK_CALL(client, nearcall_call(client, "f", "x", 1, 5000, &reply), NEARCALL_OK);
    }
    nearcall_close(client);
    script_end(&script);
    sem_destroy(&asleep.signals);
}

static uint64_t lie(int i, int64_t truth)
{
    const uint64_t lies[] = {0, 1, UINT64_MAX, INT64_MAX, (uint64_t)truth, (uint64_t)truth - 1000000,
                             (uint64_t)truth + 1000000};
    return lies[i % (int)(sizeof(lies) / sizeof(lies[0]))];
}

/* Says of itself what cannot be, and that it runs wherever the caller does. */
static void lie_and_answer(struct script *script)
{
    struct script_memory memory;
    struct nc_memory_offer offer = SCRIPT_OFFER;
    struct nc_frame frame;
    memory_begin(script, &memory, offer);
    for (int i = 0; i < CALLS; i++) {
        uint64_t cpu = i % 2 ? atomic_load(word(memory.caller, CPU_OFFSET)) : lie(i, 1);
        atomic_store(word(memory.server, SENT_OFFSET), lie(i, nc_now_ns()));
        atomic_store(word(memory.server, CPU_OFFSET), cpu);
        memory_expect(&memory, NC_REQUEST, &frame);
        atomic_store(word(memory.server, SENT_OFFSET), lie(i + 3, nc_now_ns()));
        if (memory_reply(&memory, &frame, "r", 1))
            memory_wake(script);
    }
    memory_serve(script, &memory);
    memory_end(&memory);
}

static void the_server_lies(void)
{
    struct script script;
    nearcall_reply reply;
    script_start(&script, lie_and_answer, NULL);
    nearcall_client *client = memory_client(&script, 0);
    double started_ms = test_now_ms();
    for (int i = 0; i < CALLS; i++) {
        CHECK_CALL(client, nearcall_call(client, "f", "x", 1, 5000, &reply), NEARCALL_OK);
        CHECK(nc_spinning_limit_ns(&client->connection.spinning) <= NC_SPIN_US_MAX * 1000LL);
    }
    CHECK(test_now_ms() - started_ms < 10000 * test_slowness());
    nearcall_close(client);
    script_end(&script);
}

/* Says that it runs wherever the caller does, for as long as that looks at its ring, until
 * the caller has moved. */
static void share_the_cpu(struct script *script)
{
    struct script_memory memory;
    struct nc_memory_offer offer = SCRIPT_OFFER;
    struct nc_frame frame;
    memory_begin(script, &memory, offer);
    while (!atomic_load(&moved)) {
        memory_expect(&memory, NC_REQUEST, &frame);
        do
            atomic_store(word(memory.server, CPU_OFFSET),
                         atomic_load(word(memory.caller, CPU_OFFSET)));
        while (!memory_caller_is_asleep(&memory));
        script_reply(script, &frame, "s", 1);
    }
    memory_serve(script, &memory);
    memory_end(&memory);
}

static void a_fork_while_the_caller_moves(void)
{
    struct script script;
    nearcall_reply reply;
    script_start(&script, share_the_cpu, NULL);
    nearcall_client *client = memory_client(&script, 0);
    double until_ms = test_now_ms() + 20000 * test_slowness();
    forks = true;
    while (!atomic_load(&moved)) {
        CHECK(test_now_ms() < until_ms); /* for the caller to move to another CPU */
        int r = nearcall_call(client, "f", "x", 1, 5000, &reply);
        if (forked == 0) {
            CHECK_CALL(client, r, NEARCALL_E_UNAVAILABLE);
            nearcall_close(client);
            _exit(0);
        }
        CHECK_CALL(client, r, NEARCALL_OK);
        atomic_store(&moved, forked > 0);
    }
    test_join(forked);
    CHECK_CALL(client, nearcall_call(client, "f", "x", 1, 5000, &reply), NEARCALL_OK);
    nearcall_close(client);
    script_end(&script);
}

int main(void)
{
    test_begin();
    the_caller_tells();
    the_server_lies();
    a_fork_while_the_caller_moves();
    return 0;
}
