/* Numbers that differ between handles and processes; nothing secret depends on them. The state
 * is its owner's, and never 0. */
#ifndef NC_RANDOM_H
#define NC_RANDOM_H

#include <stdint.h>

/* A state for what lies at that address of this process. */
uint64_t nc_random_seed(const void *owner);

uint64_t nc_random(uint64_t *state);

/* A pause around 1 ms after the first try, doubling with each, so that callers
 * that failed together do not come back together. */
int64_t nc_random_pause_ns(uint64_t *state, unsigned tries);

#endif
