#include "base/random.h"

#include <unistd.h>

#include "base/clock.h"

uint64_t nc_random_seed(const void *owner)
{
    uint64_t state = (uint64_t)nc_now_ns() * 0x9E3779B97F4A7C15u ^ (uint64_t)getpid() << 32 ^
                     (uint64_t)(uintptr_t)owner;
    return state ? state : 1;
}

uint64_t nc_random(uint64_t *state)
{
    uint64_t x = *state;
    x ^= x << 13;
    x ^= x >> 7;
    x ^= x << 17;
    *state = x;
    return x;
}

int64_t nc_random_pause_ns(uint64_t *state, unsigned tries, int64_t first_ns, int64_t most_ns)
{
    int64_t middle_ns = first_ns;
    for (; tries > 1 && middle_ns < most_ns; tries--)
        middle_ns *= 2;
    if (middle_ns > most_ns)
        middle_ns = most_ns;
    return middle_ns / 2 + (int64_t)(nc_random(state) % (uint64_t)middle_ns);
}
