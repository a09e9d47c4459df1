/*
 * A caller whose 50th call takes 30 ms, or that is woken so late:
 *
 *     stall call|wake ADDRESS PAYLOAD_BYTES
 *
 * Linked with --wrap=clock_nanosleep.
 */
#include <string.h>
#include <time.h>

#include "caller.h"

enum { STALLS_AT = 50 };

static const struct timespec stall = {.tv_nsec = 30 * NS_PER_MS};
static int late;

int __real_clock_nanosleep(clockid_t clock, int flags, const struct timespec *due, struct timespec *left);
int __wrap_clock_nanosleep(clockid_t clock, int flags, const struct timespec *due, struct timespec *left);

int __wrap_clock_nanosleep(clockid_t clock, int flags, const struct timespec *due, struct timespec *left)
{
    int r = __real_clock_nanosleep(clock, flags, due, left);

    if (late)
        nanosleep(&stall, NULL);
    return r;
}

uint64_t allocations_count(void)
{
    return 0;
}

static int open_stalling(const struct subject *subject, void *state, const char *address, size_t payload_bytes)
{
    (void)state;
    (void)address;
    (void)payload_bytes;
    late = strcmp(subject->name, "wake") == 0;
    return 0;
}

static int call(void *state)
{
    int *so_far = state;

    if (++*so_far == STALLS_AT && !late)
        nanosleep(&stall, NULL);
    return 0;
}

int main(int argc, char **argv)
{
    static const struct subject subjects[] = {
        {.name = "call", .state_bytes = sizeof(int), .open = open_stalling, .call = call},
        {.name = "wake", .state_bytes = sizeof(int), .open = open_stalling, .call = call},
        {0}};
    static const struct subject *const lists[] = {subjects, NULL};

    return caller_main(argc, argv, lists);
}
