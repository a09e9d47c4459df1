/* Decides whether a wait for shared memory spins before it sleeps. Spinning is worth
 * its CPU when it makes calls faster, and only trying both tells. */
#ifndef NC_GOVERNOR_H
#define NC_GOVERNOR_H

#include <stdbool.h>
#include <stdint.h>

#include "address.h"

enum nc_governor_phase { NC_GOVERNOR_RUNS, NC_GOVERNOR_SAMPLES, NC_GOVERNOR_PROBES };

struct nc_governor {
    int64_t started_ns; /* when the present call began */
    int64_t limit_ns; /* how long a spin may last; 0: never spin */
    enum nc_governor_phase phase;
    bool spins; /* what calls do, those of a probe excepted */
    bool measures; /* this call's latency is wanted */
    uint32_t countdown; /* calls until nc_governor_reconsider() */
    uint32_t samples; /* until the next probe, or look at the CPUs */
    uint32_t samples_between_probes;
    uint32_t probes_left;
    int64_t probed_ns; /* all latencies of the probe but the first */
    uint32_t misses; /* spins in a row that ended without a reply */
    uint32_t yields; /* spins in a row that ended with a reply because they yielded */
    uint32_t yields_before_move;
    int64_t spinning_ns; /* moving averages of latencies; 0: not known */
    int64_t sleeping_ns;
    int64_t rest_until_ns; /* since it was put off its CPU */
};

void nc_governor_start(struct nc_governor *governor, enum nc_spin mode, int64_t limit_us);

/* What happens when countdown has come to 0. */
void nc_governor_reconsider(struct nc_governor *governor, int64_t now_ns);

/* Whether the wait that begins now spins. */
static inline bool nc_governor_choose(struct nc_governor *governor, int64_t now_ns)
{
    if (governor->limit_ns == 0)
        return false;
    governor->started_ns = now_ns;
    if (governor->countdown-- == 0)
        nc_governor_reconsider(governor, now_ns);
    return governor->spins != (governor->phase == NC_GOVERNOR_PROBES);
}

/* A call for which measures was set has ended. */
void nc_governor_measured(struct nc_governor *governor, int64_t now_ns);

/* A spin ended without a reply. */
void nc_governor_missed(struct nc_governor *governor);

static inline void nc_governor_hit(struct nc_governor *governor)
{
    governor->misses = 0;
    governor->yields = 0;
}

/* The reply was there when the spinner had given its CPU away: the server runs on it. */
void nc_governor_hit_by_yield(struct nc_governor *governor);

/* A spinner found that much time gone between two looks at the clock. */
void nc_governor_gap(struct nc_governor *governor, int64_t gap_ns, int64_t now_ns);

#endif
