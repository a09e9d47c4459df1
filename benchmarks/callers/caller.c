/*
 * The C caller: measures one way to call, when it is told to.
 *
 *     caller MODE ADDRESS PAYLOAD_BYTES
 *
 * Prints "ready", then reads commands, "run MILLISECONDS [CALLS_PER_SECOND
 * [BEGIN_NS]]", and answers each by a report in native byte order: six uint64
 * (calls, elapsed ns, CPU ns of its own and of programs it ran, heap allocations, samples, transport) and one
 * uint64 of ns per sample. Ends with its stdin. With BEGIN_NS, a time of
 * CLOCK_MONOTONIC, it waits until then and counts from then: so callers that are
 * to run at once begin and end together.
 *
 * A call is timed from just before the function that makes it to just after it
 * returned with the answer; keeping the sample is outside. With a rate, calls are
 * due at fixed times; one that the call before it delayed is timed from when it
 * was due, so that a stall counts for every call it held up.
 */
#include "caller.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

enum { NS_PER_US = 1000, NS_PER_MS = 1000 * 1000, SAMPLES_PER_MS_MAX = 15000 };

static const uint64_t ns_per_s = 1000 * 1000 * 1000;

struct command {
    uint64_t run_ms;
    uint64_t per_s;    /* 0: as fast as it can */
    uint64_t begin_ns; /* 0: at once */
};

struct samples {
    uint64_t *ns;
    size_t capacity;
    size_t count;
};

static uint64_t now_ns(clockid_t clock)
{
    struct timespec t;

    clock_gettime(clock, &t);
    return (uint64_t)t.tv_sec * ns_per_s + (uint64_t)t.tv_nsec;
}

const char *subject_path(const char *address)
{
    static const char scheme[] = "unix:";

    if (strncmp(address, scheme, sizeof scheme - 1) != 0) {
        fprintf(stderr, "caller: %s: expected unix:/path\n", address);
        return NULL;
    }
    return address + sizeof scheme - 1;
}

void subject_fill(uint8_t *data, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++)
        data[i] = (uint8_t)(i * 31 + 7);
}

/* Waits until a call is due and returns from when it is to be timed. */
static uint64_t wait_until(uint64_t due_ns)
{
    struct timespec due = {.tv_sec = (time_t)(due_ns / ns_per_s), .tv_nsec = (long)(due_ns % ns_per_s)};

    if (now_ns(CLOCK_MONOTONIC) >= due_ns)
        return due_ns;
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &due, NULL) != 0)
        ;
    return now_ns(CLOCK_MONOTONIC);
}

static int run(const struct subject *subject, void *state, uint64_t until_ns, uint64_t pace_ns,
               struct samples *samples)
{
    uint64_t due_ns = now_ns(CLOCK_MONOTONIC);
    uint64_t end_ns = 0;

    samples->count = 0;
    while (end_ns < until_ns && samples->count < samples->capacity) {
        uint64_t begin_ns;

        if (pace_ns > 0) {
            due_ns += pace_ns;
            begin_ns = wait_until(due_ns);
        } else {
            begin_ns = now_ns(CLOCK_MONOTONIC);
        }
        if (subject->call(state) != 0)
            return -1;
        end_ns = now_ns(CLOCK_MONOTONIC);
        samples->ns[samples->count++] = end_ns - begin_ns;
    }
    return 0;
}

static int reserve(struct samples *samples, size_t capacity)
{
    uint64_t *ns;

    if (capacity <= samples->capacity)
        return 0;
    ns = realloc(samples->ns, capacity * sizeof *ns);
    if (ns == NULL) {
        perror("caller");
        return -1;
    }
    samples->ns = ns;
    samples->capacity = capacity;
    return 0;
}

static int write_report(const uint64_t *head, size_t heads, const struct samples *samples)
{
    if (fwrite(head, sizeof *head, heads, stdout) != heads ||
        fwrite(samples->ns, sizeof *samples->ns, samples->count, stdout) != samples->count ||
        fflush(stdout) != 0) {
        perror("caller");
        return -1;
    }
    return 0;
}

/* The process's own time, and that of the programs it ran. */
static uint64_t cpu_ns(void)
{
    struct rusage children;

    getrusage(RUSAGE_CHILDREN, &children);
    return now_ns(CLOCK_PROCESS_CPUTIME_ID) +
           ((uint64_t)children.ru_utime.tv_sec + (uint64_t)children.ru_stime.tv_sec) * ns_per_s +
           ((uint64_t)children.ru_utime.tv_usec + (uint64_t)children.ru_stime.tv_usec) * NS_PER_US;
}

static int run_and_report(const struct subject *subject, void *state, const struct command *command,
                          struct samples *samples)
{
    uint64_t head[6] = {0};
    uint64_t begin_ns, begin_cpu_ns, begin_allocations;

    if (reserve(samples, command->run_ms * SAMPLES_PER_MS_MAX) != 0 ||
        (subject->begin != NULL && subject->begin(state) != 0))
        return -1;
    if (command->begin_ns > 0)
        wait_until(command->begin_ns);
    begin_allocations = allocations_count();
    begin_cpu_ns = cpu_ns();
    begin_ns = command->begin_ns > 0 ? command->begin_ns : now_ns(CLOCK_MONOTONIC);
    if (run(subject, state, begin_ns + command->run_ms * NS_PER_MS, command->per_s > 0 ? ns_per_s / command->per_s : 0,
            samples) != 0)
        return -1;
    head[1] = now_ns(CLOCK_MONOTONIC) - begin_ns;
    head[2] = cpu_ns() - begin_cpu_ns;
    head[3] = allocations_count() - begin_allocations;
    head[4] = samples->count;
    head[0] = samples->count * (subject->calls_per_sample > 0 ? subject->calls_per_sample : 1);
    if (subject->transport != NULL)
        head[5] = (uint64_t)subject->transport(state);
    if (subject->end != NULL && subject->end(state) != 0)
        return -1;
    return write_report(head, sizeof head / sizeof head[0], samples);
}

static int obey(const struct subject *subject, void *state)
{
    struct samples samples = {0};
    char line[128];

    while (fgets(line, sizeof line, stdin) != NULL) {
        struct command command = {0};

        if (sscanf(line, "run %" SCNu64 " %" SCNu64 " %" SCNu64, &command.run_ms, &command.per_s, &command.begin_ns) < 1 ||
            command.run_ms == 0) {
            fprintf(stderr, "caller: expected \"run MILLISECONDS [CALLS_PER_SECOND [BEGIN_NS]]\", got %s", line);
            return -1;
        }
        if (run_and_report(subject, state, &command, &samples) != 0)
            return -1;
    }
    free(samples.ns);
    return 0;
}

int caller_main(int argc, char **argv, const struct subject *const *subjects, size_t count)
{
    const struct subject *subject = NULL;
    void *state;

    for (size_t i = 0; argc == 4 && i < count; i++) {
        if (strcmp(argv[1], subjects[i]->name) == 0)
            subject = subjects[i];
    }
    if (subject == NULL) {
        fputs("usage: caller MODE ADDRESS PAYLOAD_BYTES; modes are", stderr);
        for (size_t i = 0; i < count; i++)
            fprintf(stderr, " %s", subjects[i]->name);
        fputc('\n', stderr);
        return 2;
    }
    /* The kernel may delay timers by 50 us to save wake-ups; paced calls need theirs on time. */
    prctl(PR_SET_TIMERSLACK, 1UL, 0UL, 0UL, 0UL);
    state = subject->open(argv[2], (size_t)strtoul(argv[3], NULL, 10));
    if (state == NULL)
        return 1;
    puts("ready");
    fflush(stdout);
    return obey(subject, state) == 0 ? 0 : 1;
}
