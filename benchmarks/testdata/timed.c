/*
 * A caller whose 50th call takes 30 ms ("call"), or that is woken so late ("wake"), or whose
 * calls move the clock, which nothing else does: by 3 ms, the 5th by 35.5 ms ("clock"):
 *
 *     timed call|wake|clock ADDRESS PAYLOAD_BYTES
 *
 * Linked with --wrap=clock_gettime,--wrap=clock_nanosleep.
 */
#include <string.h>
#include <time.h>

#include "caller.h"

enum { STALLS_AT = 50, LONG_CALL = 5, CALL_NS = 3 * NS_PER_MS, LONG_CALL_NS = 35 * NS_PER_MS + NS_PER_MS / 2 };

static const struct timespec stall = {.tv_nsec = 30 * NS_PER_MS};
static const char *mode;
static uint64_t now_ns = 7 * NS_PER_MS;

int __real_clock_gettime(clockid_t clock, struct timespec *now);
int __wrap_clock_gettime(clockid_t clock, struct timespec *now);
int __real_clock_nanosleep(clockid_t clock, int flags, const struct timespec *due, struct timespec *left);
int __wrap_clock_nanosleep(clockid_t clock, int flags, const struct timespec *due, struct timespec *left);

static int is(const char *wanted)
{
    return mode && strcmp(mode, wanted) == 0;
}

int __wrap_clock_gettime(clockid_t clock, struct timespec *now)
{
    if (!is("clock"))
        return __real_clock_gettime(clock, now);
    *now = (struct timespec){.tv_sec = (time_t)(now_ns / NS_PER_S), .tv_nsec = (long)(now_ns % NS_PER_S)};
    return 0;
}

int __wrap_clock_nanosleep(clockid_t clock, int flags, const struct timespec *due, struct timespec *left)
{
    int r = __real_clock_nanosleep(clock, flags, due, left);

    if (is("wake"))
        nanosleep(&stall, NULL);
    return r;
}

uint64_t allocations_count(void)
{
    return 0;
}

static int open_timed(const struct subject *subject, void *state, const char *address, size_t payload_bytes)
{
    (void)state;
    (void)address;
    (void)payload_bytes;
    mode = subject->name;
    return 0;
}

static int call(void *state)
{
    int so_far = ++*(int *)state;

    now_ns += so_far == LONG_CALL ? LONG_CALL_NS : CALL_NS;
    if (so_far == STALLS_AT && is("call"))
        nanosleep(&stall, NULL);
    return 0;
}

int main(int argc, char **argv)
{
    static const struct subject subjects[] = {{.name = "call", .state_bytes = sizeof(int), .open = open_timed, .call = call},
                                              {.name = "wake", .state_bytes = sizeof(int), .open = open_timed, .call = call},
                                              {.name = "clock", .state_bytes = sizeof(int), .open = open_timed, .call = call},
                                              {0}};
    static const struct subject *const lists[] = {subjects, NULL};

    return caller_main(argc, argv, lists);
}
