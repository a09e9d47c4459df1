#include "governor.h"

#include <sched.h>

#include "limits_gen.h"

#define NS_PER_US 1000LL

/* Every so many calls one is measured: reading the clock costs as much as a tenth
 * of a call. */
#define CALLS_BETWEEN_SAMPLES 20u
/* The distance of probes in samples: 64 to 4096 calls. */
#define SAMPLES_BETWEEN_PROBES_MIN 3u
#define SAMPLES_BETWEEN_PROBES_MAX 192u
/* The first call of the other kind says little: the server is used to the former. */
#define CALLS_OF_PROBE 9u
/* Calls this fast cannot be sleeping ones; nothing is to be learned then. */
#define CERTAINLY_FAST_NS (4 * NS_PER_US)
#define MISSES_MAX 3u
/* One that takes turns with its server on one CPU moves to another after so many
 * calls; where that does not help, because all are busy, after ever more. */
#define YIELDS_BEFORE_MOVE_MIN 16u
#define YIELDS_BEFORE_MOVE_MAX 8192u
/* A gap of this size in a spin means that somebody else has the CPU, or that a quota
 * is used up; then spinning rests for many times as long. */
#define DISPLACED_NS (100 * NS_PER_US)
#define REST_FACTOR 10

static bool has_one_cpu(void)
{
    cpu_set_t usable;
    return sched_getaffinity(0, sizeof(usable), &usable) == 0 && CPU_COUNT(&usable) < 2;
}

void nc_governor_start(struct nc_governor *governor, enum nc_spin mode, int64_t limit_us)
{
    if (limit_us > NC_SPIN_US_MAX)
        limit_us = NC_SPIN_US_MAX;
    *governor = (struct nc_governor){
        .spins = !has_one_cpu(),
        .countdown = CALLS_BETWEEN_SAMPLES,
        .samples = SAMPLES_BETWEEN_PROBES_MIN,
        .samples_between_probes = SAMPLES_BETWEEN_PROBES_MIN,
        .yields_before_move = YIELDS_BEFORE_MOVE_MIN,
    };
    if (mode == NC_SPIN_DEDICATED)
        *governor = (struct nc_governor){.limit_ns = INT64_MAX, .spins = true};
    else if (mode == NC_SPIN_AUTO)
        governor->limit_ns = limit_us * NS_PER_US;
}

static void run(struct nc_governor *governor, uint32_t samples_between_probes)
{
    governor->phase = NC_GOVERNOR_RUNS;
    governor->measures = false;
    governor->misses = 0;
    governor->countdown = CALLS_BETWEEN_SAMPLES;
    governor->samples_between_probes = samples_between_probes;
    governor->samples = samples_between_probes;
}

static void run_on(struct nc_governor *governor)
{
    uint32_t further = 2 * governor->samples_between_probes;
    run(governor, further < SAMPLES_BETWEEN_PROBES_MAX ? further : SAMPLES_BETWEEN_PROBES_MAX);
}

static void stop_spinning(struct nc_governor *governor)
{
    if (governor->spins) {
        governor->spins = false;
        run(governor, SAMPLES_BETWEEN_PROBES_MIN);
    } else { /* that was a probe */
        run_on(governor);
    }
}

static void end_probe(struct nc_governor *governor)
{
    /* What was true at the last probe counts for nothing: then somebody else may
     * have wanted the CPU. */
    int64_t *average_ns = governor->spins ? &governor->sleeping_ns : &governor->spinning_ns;
    *average_ns = governor->probed_ns / (CALLS_OF_PROBE - 1);
    bool should_spin = governor->spinning_ns < governor->sleeping_ns / 10 * 9;
    if (should_spin == governor->spins) {
        run_on(governor);
        return;
    }
    governor->spins = should_spin;
    run(governor, SAMPLES_BETWEEN_PROBES_MIN);
}

static bool may_probe(const struct nc_governor *governor, int64_t now_ns)
{
    if (governor->spins)
        return governor->spinning_ns >= CERTAINLY_FAST_NS;
    return now_ns >= governor->rest_until_ns && !has_one_cpu();
}

/* The kernel places whoever is woken through a socket on the waker's CPU, because it
 * expects the waker to sleep soon. One that spins instead keeps the server from
 * running. So after a probe in which no reply came the next one begins on another
 * CPU; once both are apart they stay so while both are busy. */
static void move_away(void)
{
    cpu_set_t allowed, others;
    int cpu = sched_getcpu();
    if (cpu < 0 || sched_getaffinity(0, sizeof(allowed), &allowed) != 0 ||
        CPU_COUNT(&allowed) < 2 || !CPU_ISSET((size_t)cpu, &allowed))
        return;
    others = allowed;
    CPU_CLR((size_t)cpu, &others);
    if (sched_setaffinity(0, sizeof(others), &others) == 0)
        (void)sched_setaffinity(0, sizeof(allowed), &allowed);
}

static void begin_probe(struct nc_governor *governor)
{
    if (!governor->spins && governor->spinning_ns >= governor->limit_ns)
        move_away();
    governor->phase = NC_GOVERNOR_PROBES;
    governor->measures = true;
    governor->countdown = 0;
    governor->probes_left = CALLS_OF_PROBE - 1;
    governor->probed_ns = 0;
}

static void end_sample(struct nc_governor *governor, int64_t now_ns)
{
    if (--governor->samples > 0) {
        governor->phase = NC_GOVERNOR_RUNS;
        governor->measures = false;
        governor->countdown = CALLS_BETWEEN_SAMPLES;
    } else if (governor->spins && has_one_cpu()) {
        stop_spinning(governor);
    } else if (may_probe(governor, now_ns)) {
        begin_probe(governor);
    } else {
        run_on(governor);
    }
}

/* Calls run, then one is a sample, and so on; after some samples come the calls of a
 * probe, which do the other thing and are all measured. */
void nc_governor_reconsider(struct nc_governor *governor, int64_t now_ns)
{
    governor->countdown = 0;
    if (governor->limit_ns == INT64_MAX) {
        governor->countdown = UINT32_MAX;
    } else if (governor->phase == NC_GOVERNOR_RUNS) {
        governor->phase = NC_GOVERNOR_SAMPLES;
        governor->measures = true;
    } else if (governor->phase == NC_GOVERNOR_SAMPLES) {
        end_sample(governor, now_ns);
    } else if (governor->probes_left-- == 0) {
        end_probe(governor);
    }
}

void nc_governor_measured(struct nc_governor *governor, int64_t now_ns)
{
    int64_t latency_ns = now_ns - governor->started_ns;
    int64_t *average_ns = governor->spins ? &governor->spinning_ns : &governor->sleeping_ns;
    if (governor->phase == NC_GOVERNOR_PROBES) {
        if (governor->probes_left < CALLS_OF_PROBE - 1)
            governor->probed_ns += latency_ns;
        return;
    }
    if (*average_ns == 0)
        *average_ns = latency_ns;
    else
        *average_ns += (latency_ns - *average_ns) / 8;
    if (latency_ns < CERTAINLY_FAST_NS)
        governor->yields_before_move = YIELDS_BEFORE_MOVE_MIN;
}

void nc_governor_hit_by_yield(struct nc_governor *governor)
{
    governor->misses = 0;
    if (++governor->yields < governor->yields_before_move || governor->limit_ns == INT64_MAX)
        return;
    governor->yields = 0;
    if (governor->yields_before_move < YIELDS_BEFORE_MOVE_MAX)
        governor->yields_before_move *= 2;
    move_away();
}

void nc_governor_missed(struct nc_governor *governor)
{
    if (governor->phase == NC_GOVERNOR_PROBES)
        return; /* the latencies decide: a server that has to be woken first misses */
    if (++governor->misses >= MISSES_MAX)
        stop_spinning(governor);
}

void nc_governor_gap(struct nc_governor *governor, int64_t gap_ns, int64_t now_ns)
{
    if (gap_ns < DISPLACED_NS || governor->limit_ns == INT64_MAX)
        return;
    governor->rest_until_ns = now_ns + REST_FACTOR * gap_ns;
    stop_spinning(governor);
}
