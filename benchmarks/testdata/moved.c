/*
 * A caller whose calls move the clock, which nothing else does: by 3 ms, the 5th by 35.5 ms.
 *
 *     moved calls ADDRESS PAYLOAD_BYTES
 *
 * Linked with --wrap=clock_gettime.
 */
#include <time.h>

#include "caller.h"

enum { LONG_CALL = 5, CALL_NS = 3 * NS_PER_MS, LONG_CALL_NS = 35 * NS_PER_MS + NS_PER_MS / 2 };

static uint64_t now_ns = 7 * NS_PER_MS;

int __wrap_clock_gettime(clockid_t clock, struct timespec *now);

int __wrap_clock_gettime(clockid_t clock, struct timespec *now)
{
    (void)clock;
    *now = (struct timespec){.tv_sec = (time_t)(now_ns / NS_PER_S), .tv_nsec = (long)(now_ns % NS_PER_S)};
    return 0;
}

uint64_t allocations_count(void)
{
    return 0;
}

static int open_moving(const struct subject *subject, void *state, const char *address, size_t payload_bytes)
{
    (void)subject;
    (void)state;
    (void)address;
    (void)payload_bytes;
    return 0;
}

static int call(void *state)
{
    int *so_far = state;

    now_ns += ++*so_far == LONG_CALL ? LONG_CALL_NS : CALL_NS;
    return 0;
}

int main(int argc, char **argv)
{
    static const struct subject subjects[] = {{.name = "calls", .state_bytes = sizeof(int), .open = open_moving, .call = call}, {0}};
    static const struct subject *const lists[] = {subjects, NULL};

    return caller_main(argc, argv, lists);
}
