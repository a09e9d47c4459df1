/*
 * The C caller: measures one way to call, when it is told to.
 *
 *     caller MODE ADDRESS PAYLOAD_BYTES
 *
 * Prints "ready", then obeys commands and reports as ../README.md has it ("Adding a
 * caller"). With BEGIN_NS it waits until then and counts from then: so callers that
 * are to run at once begin and end together.
 *
 * A call is timed from just before the function that makes it to just after it
 * returned with the answer; keeping the sample is outside. With a rate, calls are
 * due at fixed times, and all that are due in a run are made, however long that
 * takes. One that another delayed, or a stall of the machine, is timed from when it
 * was due; so a stall counts for every call it held up.
 *
 * In a run with windows calls follow each other without a pause, and each is timed from
 * the end of the one before: no time is left out, and the mean is the run's length over
 * its calls. Only some of these times are kept, for such a run has a hundred million calls.
 */
#include "caller.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include "protocol.h"

/* A timer wakes a caller a little late, and a call is timed from then; what is later
 * than this, or than the time between two calls, is a stall, and counts. */
enum { TIMER_LATE_NS_MAX = NS_PER_MS, SAMPLES_PER_MS_MAX = 15000 };

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
    uint32_t state = 1;

    for (size_t i = 0; i < bytes; i++) {
        state = state * 1664525 + 1013904223;
        data[i] = (uint8_t)(state >> 24);
    }
}

int subject_failed(const char *what)
{
    fprintf(stderr, "caller: %s: %s\n", what, strerror(errno));
    return -1;
}

int subject_compare(const uint8_t *answer, const uint8_t *sent, size_t bytes)
{
    if (memcmp(answer, sent, bytes) == 0)
        return 0;
    fprintf(stderr, "caller: the echo differs\n");
    return -1;
}

uint8_t *subject_payload(size_t bytes)
{
    uint8_t *payload = malloc(bytes);

    if (payload == NULL)
        subject_failed("payload");
    else
        subject_fill(payload, bytes);
    return payload;
}

static void sleep_until(uint64_t due_ns)
{
    struct timespec due = {.tv_sec = (time_t)(due_ns / NS_PER_S), .tv_nsec = (long)(due_ns % NS_PER_S)};

    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &due, NULL) != 0)
        ;
}

/* Waits until a call is due and returns from when it is to be timed. */
static uint64_t wait_until(uint64_t due_ns, uint64_t pace_ns)
{
    const uint64_t late_ns_max = pace_ns < TIMER_LATE_NS_MAX ? pace_ns : TIMER_LATE_NS_MAX;
    uint64_t woken_ns;

    if (clock_ns(CLOCK_MONOTONIC) >= due_ns)
        return due_ns;
    sleep_until(due_ns);
    woken_ns = clock_ns(CLOCK_MONOTONIC);
    return woken_ns - due_ns > late_ns_max ? due_ns : woken_ns;
}

/* Makes one call and keeps how long it took; returns when it ended, 0 when it failed. */
static uint64_t call_from(const struct subject *subject, void *state, uint64_t begin_ns, struct samples *samples)
{
    uint64_t end_ns;

    if (subject->call(state) != 0)
        return 0;
    end_ns = clock_ns(CLOCK_MONOTONIC);
    samples->ns[samples->count++] = end_ns - begin_ns;
    return end_ns;
}

static int call_until(const struct subject *subject, void *state, uint64_t until_ns, struct samples *samples)
{
    uint64_t end_ns;

    do {
        if (subject->prepare != NULL && subject->prepare(state) != 0)
            return -1;
        end_ns = call_from(subject, state, clock_ns(CLOCK_MONOTONIC), samples);
        if (end_ns == 0)
            return -1;
    } while (end_ns < until_ns && samples->count < samples->capacity);
    return 0;
}

static int call_paced(const struct subject *subject, void *state, uint64_t begin_ns, uint64_t until_ns, uint64_t pace_ns,
                      struct samples *samples)
{
    uint64_t due_ns = begin_ns + pace_ns;

    do {
        if (call_from(subject, state, wait_until(due_ns, pace_ns), samples) == 0)
            return -1;
        due_ns += pace_ns;
    } while (due_ns <= until_ns && samples->count < samples->capacity);
    return 0;
}

/* Calls without a pause and counts by windows. */
static int call_sustained(const struct subject *subject, void *state, uint64_t begin_ns, uint64_t until_ns, struct windows *windows,
                          struct samples *samples, uint64_t *ret_calls)
{
    uint64_t last_ns = begin_ns;
    uint64_t calls = 0;

    windows_begin(windows, begin_ns);
    while (last_ns < until_ns) {
        uint64_t end_ns;

        if (subject->call(state) != 0)
            return -1;
        end_ns = clock_ns(CLOCK_MONOTONIC);
        windows_add(windows, end_ns);
        if (calls++ % CALLS_OF_A_SAMPLE == 0 && samples->count < samples->capacity)
            samples->ns[samples->count++] = end_ns - last_ns;
        last_ns = end_ns;
    }
    *ret_calls = calls;
    return 0;
}

/* The process's own time, and that of the programs it ran. */
static uint64_t cpu_ns(void)
{
    struct rusage children;

    getrusage(RUSAGE_CHILDREN, &children);
    return clock_ns(CLOCK_PROCESS_CPUTIME_ID) +
           ((uint64_t)children.ru_utime.tv_sec + (uint64_t)children.ru_stime.tv_sec) * NS_PER_S +
           ((uint64_t)children.ru_utime.tv_usec + (uint64_t)children.ru_stime.tv_usec) * NS_PER_US;
}

/* Leaves what was prepared out of what the calls took. */
static void tell_calls_alone(struct report *report)
{
    report->elapsed_ns = 0;
    for (size_t i = 0; i < report->samples.count; i++)
        report->elapsed_ns += report->samples.ns[i];
    report->cpu_ns = NOT_COUNTED;
}

/* Calls as the command has it, and fills in what that took. */
static int run(const struct subject *subject, void *state, const struct command *command, struct report *report)
{
    struct samples *samples = &report->samples;
    uint64_t begin_ns, until_ns, begin_cpu_ns, begin_allocations;
    uint64_t sustained = 0;
    int result;

    if (command->begin_ns > 0)
        sleep_until(command->begin_ns);
    samples->count = 0;
    begin_allocations = allocations_count();
    begin_cpu_ns = cpu_ns();
    begin_ns = command->begin_ns > 0 ? command->begin_ns : clock_ns(CLOCK_MONOTONIC);
    until_ns = begin_ns + command->run_ms * NS_PER_MS;
    if (command->window_ms > 0)
        result = call_sustained(subject, state, begin_ns, until_ns, &report->windows, samples, &sustained);
    else if (command->per_s > 0)
        result = call_paced(subject, state, begin_ns, until_ns, NS_PER_S / command->per_s, samples);
    else
        result = call_until(subject, state, until_ns, samples);
    report->calls = command->window_ms > 0 ? sustained : samples->count;
    report->elapsed_ns = clock_ns(CLOCK_MONOTONIC) - begin_ns;
    report->cpu_ns = cpu_ns() - begin_cpu_ns;
    report->allocations = allocations_count() - begin_allocations;
    if (subject->prepare != NULL)
        tell_calls_alone(report);
    if (subject->calls_per_sample > 1)
        report->calls *= subject->calls_per_sample;
    if (subject->transport != NULL)
        report->transport = subject->transport(state);
    return result;
}

/* Makes room for what a run is to keep. */
static int reserve(const struct subject *subject, const struct command *command, struct report *report)
{
    const uint64_t samples_max = command->run_ms * SAMPLES_PER_MS_MAX;

    if (subject->prepare != NULL && (command->window_ms > 0 || command->per_s > 0)) {
        fprintf(stderr, "caller: %s is neither paced nor counted by windows\n", subject->name);
        return -1;
    }
    if (command->window_ms > 0 && subject->calls_per_sample > 1) {
        fprintf(stderr, "caller: %s times several calls together, and counts none by windows\n", subject->name);
        return -1;
    }
    if (windows_reserve(&report->windows, command) != 0)
        return -1;
    return samples_reserve(&report->samples, command->window_ms > 0 ? samples_max / CALLS_OF_A_SAMPLE + 1 : samples_max);
}

static int obey(const struct subject *subject, void *state)
{
    struct report report = {.transport = TRANSPORT_UNKNOWN};
    struct command command;
    int r;

    while ((r = command_read(&command)) > 0) {
        if (reserve(subject, &command, &report) != 0 || (subject->begin != NULL && subject->begin(state) != 0) ||
            run(subject, state, &command, &report) != 0 || (subject->end != NULL && subject->end(state) != 0) ||
            report_write(&report) != 0)
            return -1;
    }
    return r;
}

/* Returns the mode of that name; NULL when there is none. Without a name it writes those of
 * all modes to stderr. */
static const struct subject *find(const struct subject *const *lists, const char *name)
{
    for (; *lists != NULL; lists++) {
        for (const struct subject *subject = *lists; subject->name != NULL; subject++) {
            if (name == NULL)
                fprintf(stderr, " %s", subject->name);
            else if (strcmp(subject->name, name) == 0)
                return subject;
        }
    }
    return NULL;
}

int caller_main(int argc, char **argv, const struct subject *const *lists)
{
    const struct subject *subject = argc == 4 ? find(lists, argv[1]) : NULL;
    void *state;

    if (subject == NULL) {
        fputs("usage: caller MODE ADDRESS PAYLOAD_BYTES; modes are", stderr);
        find(lists, NULL);
        fputc('\n', stderr);
        return 2;
    }
    /* The kernel may delay timers by 50 us to save wake-ups; paced calls need theirs on time. */
    prctl(PR_SET_TIMERSLACK, 1UL, 0UL, 0UL, 0UL);
    state = calloc(1, subject->state_bytes);
    if (state == NULL || subject->open(subject, state, argv[2], (size_t)strtoul(argv[3], NULL, 10)) != 0)
        return 1;
    puts("ready");
    fflush(stdout);
    return obey(subject, state) == 0 ? 0 : 1;
}
