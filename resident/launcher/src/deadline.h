/* Points in time, in milliseconds of the clock that nobody sets. */
#ifndef NC_DEADLINE_H
#define NC_DEADLINE_H

#include <limits.h>
#include <time.h>

static inline long long nc_now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (long long)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* For poll(2): rounded up, so that it does not return too early again and again. */
static inline int nc_remaining_ms(long long deadline_ms)
{
    long long remaining = deadline_ms - nc_now_ms() + 1;
    return remaining < 0 ? 0 : remaining > INT_MAX ? INT_MAX : (int)remaining;
}

#endif
