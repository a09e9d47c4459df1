#ifndef NC_CLOCK_H
#define NC_CLOCK_H

#include <stdint.h>
#include <time.h>

#define NC_NS_PER_MS 1000000LL
#define NC_NS_PER_S 1000000000LL

/* A time that never comes. */
#define NC_NEVER INT64_MAX

static inline int64_t nc_now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * NC_NS_PER_S + now.tv_nsec;
}

/* In steps of up to 10 ms, for a fifth of the price. */
static inline int64_t nc_coarse_now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
    return (int64_t)now.tv_sec * NC_NS_PER_S + now.tv_nsec;
}

/* now + ms, or NC_NEVER where that would overflow. */
static inline int64_t nc_after_ms(int64_t now_ns, int64_t ms)
{
    if (ms < 0 || ms >= (NC_NEVER - now_ns) / NC_NS_PER_MS)
        return NC_NEVER;
    return now_ns + ms * NC_NS_PER_MS;
}

static inline struct timespec nc_timespec(int64_t ns)
{
    return (struct timespec){.tv_sec = (time_t)(ns / NC_NS_PER_S),
                             .tv_nsec = (long)(ns % NC_NS_PER_S)};
}

static inline int64_t nc_earlier(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

#endif
