/* Numbers that differ between handles and processes; nothing secret depends on them. The state
 * is its owner's, and never 0. */
#ifndef NC_RANDOM_H
#define NC_RANDOM_H

#include <stdint.h>

/* A state for what lies at that address of this process. */
uint64_t nc_random_seed(const void *owner);

uint64_t nc_random(uint64_t *state);

/* What pauses are by default. */
#define NC_PAUSE_FIRST_NS 1000000LL
#define NC_PAUSE_MOST_NS 1000000000LL

/* A pause around first_ns after the first try, doubling with each up to most_ns, so that
 * callers that failed together do not come back together. Both are positive, and less than half of what fits. */
int64_t nc_random_pause_ns(uint64_t *state, unsigned tries, int64_t first_ns, int64_t most_ns);

#endif
