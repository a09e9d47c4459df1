#include "protocol.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

uint64_t clock_ns(clockid_t clock)
{
    struct timespec t;

    clock_gettime(clock, &t);
    return (uint64_t)t.tv_sec * NS_PER_S + (uint64_t)t.tv_nsec;
}

int command_read(struct command *ret_command)
{
    struct command command = {0};
    char line[128];

    if (fgets(line, sizeof line, stdin) == NULL)
        return 0;
    if (sscanf(line, "run %" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64, &command.run_ms, &command.per_s, &command.begin_ns,
               &command.window_ms) < 1 ||
        command.run_ms == 0 || command.per_s > NS_PER_S || (command.window_ms > 0 && command.per_s > 0)) {
        fprintf(stderr, "caller: expected \"run MILLISECONDS [CALLS_PER_SECOND [BEGIN_NS [WINDOW_MS]]]\", windows only without a rate, got %s",
                line);
        return -1;
    }
    *ret_command = command;
    return 1;
}

int samples_reserve(struct samples *samples, size_t capacity)
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

int windows_reserve(struct windows *windows, const struct command *command)
{
    free(windows->calls);
    windows->window_ns = command->window_ms * NS_PER_MS;
    windows->count = command->window_ms > 0 ? command->run_ms / command->window_ms : 0;
    windows->calls = calloc(windows->count > 0 ? windows->count : 1, sizeof *windows->calls);
    if (windows->calls == NULL) {
        perror("caller");
        return -1;
    }
    return 0;
}

void windows_begin(struct windows *windows, uint64_t begin_ns)
{
    windows->at = 0;
    windows->edge_ns = begin_ns + windows->window_ns;
}

int report_write(const struct report *report)
{
    const struct samples *samples = &report->samples;
    const struct windows *windows = &report->windows;
    const uint64_t head[] = {report->calls,       report->elapsed_ns, report->cpu_ns,
                             report->allocations, samples->count,     (uint64_t)report->transport};

    /* Who measures what the calls cost the machine stops at the head. */
    if (fwrite(head, sizeof head, 1, stdout) != 1 || fflush(stdout) != 0 ||
        fwrite(windows->calls, sizeof *windows->calls, windows->count, stdout) != windows->count ||
        fwrite(samples->ns, sizeof *samples->ns, samples->count, stdout) != samples->count || fflush(stdout) != 0) {
        perror("caller");
        return -1;
    }
    return 0;
}
