/*
 * Many callers: forks processes which connect, wait for each other, and make one
 * call each at the same moment.
 *
 *     many ADDRESS PAYLOAD_BYTES FUNCTION CALLERS
 *
 * Commands and reports are those of caller.c, without rate, begin and windows; PAYLOAD_BYTES counts for nothing. A run
 * forks its callers anew as often as there is time, at least once. A sample is the one
 * call of a process, from just before to just after it; elapsed is from the moment at
 * which all begin to the end of the last call; CPU is that of the calls alone.
 */
#include <linux/futex.h>
#include <nearcall.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "functions.h"
#include "protocol.h"

enum { CHECK_MS = 100 };

struct outcome {
    uint64_t ns;
    uint64_t cpu_ns;
    uint64_t end_ns;
    int transport;
};

/* What parent and children share. */
struct burst {
    _Atomic uint32_t ready; /* children that wait */
    _Atomic uint32_t begun; /* 1: they may call */
    struct outcome outcomes[];
};

struct many {
    const char *address;
    const struct known_function *known;
    size_t callers;
    int wants_memory;
    struct burst *burst;
};

static void futex_wait(_Atomic uint32_t *word, uint32_t while_value)
{
    struct timespec timeout = {.tv_nsec = CHECK_MS * NS_PER_MS};

    syscall(SYS_futex, word, FUTEX_WAIT, while_value, &timeout, NULL, 0);
}

static void futex_wake_all(_Atomic uint32_t *word)
{
    syscall(SYS_futex, word, FUTEX_WAKE, INT32_MAX, NULL, NULL, 0);
}

/* One caller. */
struct caller {
    const struct known_function *known;
    nearcall_client *client;
    nearcall_function *function;
    nearcall_reply reply;
};

static int call(void *state)
{
    struct caller *caller = state;

    return known_function_call(caller->known, caller->client, caller->function, &caller->reply);
}

/* What a child does before all begin. */
static int prepare(const struct many *many, struct caller *caller)
{
    if (nearcall_open(&caller->client, many->address, NULL) == NEARCALL_OK && nearcall_connect(caller->client, 0) == NEARCALL_OK &&
        known_function_find(many->known, caller->client, &caller->function) == 0 &&
        (!many->wants_memory || reach_memory(caller->client, call, caller) == 0))
        return 0;
    fprintf(stderr, "caller: %s: %s\n", many->address, nearcall_error_message(caller->client));
    return -1;
}

/* One caller; returns the child's exit status. */
static int call_once(const struct many *many, struct outcome *outcome)
{
    struct burst *burst = many->burst;
    struct caller caller = {.known = many->known};
    uint64_t begin_ns, begin_cpu_ns;

    if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0 || prepare(many, &caller) != 0)
        return 1;
    if (atomic_fetch_add(&burst->ready, 1) + 1 == many->callers)
        futex_wake_all(&burst->ready);
    while (atomic_load(&burst->begun) == 0)
        futex_wait(&burst->begun, 0);
    begin_cpu_ns = clock_ns(CLOCK_PROCESS_CPUTIME_ID);
    begin_ns = clock_ns(CLOCK_MONOTONIC);
    if (call(&caller) != 0)
        return 1;
    outcome->end_ns = clock_ns(CLOCK_MONOTONIC);
    outcome->cpu_ns = clock_ns(CLOCK_PROCESS_CPUTIME_ID) - begin_cpu_ns;
    outcome->ns = outcome->end_ns - begin_ns;
    outcome->transport = transport_of(caller.client);
    return 0;
}

static int fork_callers(struct many *many)
{
    for (size_t i = 0; i < many->callers; i++) {
        pid_t child = fork();

        if (child < 0) {
            perror("caller: fork");
            return -1;
        }
        if (child == 0)
            _exit(call_once(many, &many->burst->outcomes[i]));
    }
    return 0;
}

/* Waits until all children wait; one that ends before that has failed. */
static int await_ready(struct many *many)
{
    uint32_t ready;

    while ((ready = atomic_load(&many->burst->ready)) < many->callers) {
        siginfo_t ended = {0};

        if (waitid(P_ALL, 0, &ended, WEXITED | WNOHANG | WNOWAIT) == 0 && ended.si_pid != 0)
            return -1;
        futex_wait(&many->burst->ready, ready);
    }
    return 0;
}

static int reap(struct many *many)
{
    int result = 0;

    for (size_t i = 0; i < many->callers; i++) {
        int status = 0;

        if (wait(&status) < 0 || status != 0)
            result = -1;
    }
    return result;
}

static int add_up(const struct many *many, uint64_t begin_ns, struct report *totals)
{
    struct samples *samples = &totals->samples;
    uint64_t end_ns = begin_ns;

    if (samples_reserve(samples, samples->count + many->callers) != 0)
        return -1;
    for (size_t i = 0; i < many->callers; i++) {
        const struct outcome *outcome = &many->burst->outcomes[i];

        samples->ns[samples->count++] = outcome->ns;
        totals->cpu_ns += outcome->cpu_ns;
        if (outcome->end_ns > end_ns)
            end_ns = outcome->end_ns;
        if (outcome->transport < totals->transport)
            totals->transport = outcome->transport;
    }
    totals->elapsed_ns += end_ns - begin_ns;
    return 0;
}

/* Where it fails this process ends, and with it the children that are left. */
static int run_burst(struct many *many, struct report *totals)
{
    uint64_t begin_ns;

    atomic_store(&many->burst->ready, 0);
    atomic_store(&many->burst->begun, 0);
    if (fork_callers(many) == 0 && await_ready(many) == 0) {
        begin_ns = clock_ns(CLOCK_MONOTONIC);
        atomic_store(&many->burst->begun, 1);
        futex_wake_all(&many->burst->begun);
        if (reap(many) == 0)
            return add_up(many, begin_ns, totals);
    }
    fprintf(stderr, "caller: a process of many failed\n");
    return -1;
}

static int run_and_report(struct many *many, const struct command *command, struct samples *samples)
{
    const uint64_t until_ns = clock_ns(CLOCK_MONOTONIC) + command->run_ms * NS_PER_MS;
    struct report totals = {.allocations = NOT_COUNTED, .transport = TRANSPORT_SAME_PROCESS, .samples = *samples};

    if (command->per_s != 0 || command->begin_ns != 0 || command->window_ms != 0) {
        fprintf(stderr, "caller: many callers have no rate, no time to begin and no windows\n");
        return -1;
    }
    totals.samples.count = 0;
    do {
        if (run_burst(many, &totals) != 0)
            return -1;
    } while (clock_ns(CLOCK_MONOTONIC) < until_ns);
    totals.calls = totals.samples.count;
    *samples = totals.samples;
    return report_write(&totals);
}

static int open_many(struct many *many, char **argv)
{
    many->address = argv[1];
    many->wants_memory = strstr(argv[1], "shm=off") == NULL;
    many->known = known_function(argv[3]);
    many->callers = (size_t)strtoul(argv[4], NULL, 10);
    if (many->known == NULL || many->callers == 0)
        return -1;
    many->burst = mmap(NULL, sizeof *many->burst + many->callers * sizeof many->burst->outcomes[0], PROT_READ | PROT_WRITE,
                       MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (many->burst == MAP_FAILED) {
        perror("caller");
        return -1;
    }
    return 0;
}

int main(int argc, char **argv)
{
    struct many many = {0};
    struct samples samples = {0};
    struct command command;
    int r;

    if (argc != 5) {
        fprintf(stderr, "usage: many ADDRESS PAYLOAD_BYTES one|ack|md5 CALLERS\n");
        return 2;
    }
    if (open_many(&many, argv) != 0)
        return 1;
    puts("ready");
    fflush(stdout);
    while ((r = command_read(&command)) > 0) {
        if (run_and_report(&many, &command, &samples) != 0)
            return 1;
    }
    free(samples.ns);
    return r == 0 ? 0 : 1;
}
