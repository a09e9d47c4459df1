#include "memory/governor.h"

#include "base/limits_gen.h"

#define US 1000LL
#define MS (1000 * US)

/* governor.go says what these are for. */
#define LIMIT_MIN_NS (20 * US)
#define LIMIT_MAX_NS (NC_SPIN_US_MAX * US)
#define LOOK_MIN_NS MS
#define LOOK_MAX_NS (5 * MS)
#define DEBT_MAX_NS (25 * MS)
#define PAY_FACTOR 2
#define WAITED_SHARE 3
#define REST_FACTOR 7
#define TURNS_LEAST 2
#define REST_MAX_NS (1024 * MS)
#define REST_LOOK_NS MS
#define ABSENT_MAX 2
#define DISTANCE_FACTOR 10
#define DISTANCE_MIN_NS (MS / 2)
#define DISTANCE_MID_NS (8 * MS)
#define DISTANCE_MAX_NS (128 * MS)
#define OUTLIER 4
#define MEAN_WEIGHT 8
#define REGRET_MAX 3
#define CREDIT_MAX 24
#define PROVEN_AT 4
#define PROBE_LIMIT_NS (100 * US)
#define PROBE_REGRET_NS (300 * US)
#define MOVE_NS MS
#define MOVES_KEPT_NS (4 * MS)
#define TURNS_MIN 16
#define TURNS_MAX 8192
#define APART_HITS 64

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static int64_t most(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static int64_t worst_ns(const struct nc_governor *governor)
{
    return REGRET_MAX * governor->sleep_ns;
}

static int64_t distance_first_ns(const struct nc_governor *governor)
{
    return least(most(DISTANCE_FACTOR * governor->sleep_ns, DISTANCE_MIN_NS), DISTANCE_MID_NS);
}

void nc_governor_start(struct nc_governor *governor, bool begins, int64_t sleep_ns)
{
    *governor = (struct nc_governor){
        .spins = true,
        .begins = begins,
        .turns_next = TURNS_MIN,
        .sleep_ns = least(most(sleep_ns, US), LIMIT_MAX_NS),
    };
    governor->distance_ns = distance_first_ns(governor);
}

int64_t nc_governor_limit_ns(const struct nc_governor *governor)
{
    if (governor->full)
        return LIMIT_MIN_NS;
    int64_t least_ns = governor->probing ? PROBE_LIMIT_NS : LIMIT_MIN_NS;
    return least(most(governor->sleep_ns, least_ns), LIMIT_MAX_NS);
}

static void stop(struct nc_governor *governor, enum nc_governor_reason reason, int64_t due_ns)
{
    governor->spins = false;
    governor->reason = reason;
    governor->due_ns = due_ns;
    governor->regret_ns = worst_ns(governor);
    governor->hits = 0;
}

/* If this side was hot it is to be weighed until now. */
static void rest(struct nc_governor *governor, int64_t now_ns)
{
    if (governor->spins && governor->hot_since_ns != 0)
        governor->unweighed_ns += most(now_ns, governor->hot_since_ns) - governor->hot_since_ns;
    governor->hot_since_ns = now_ns;
}

/* How many threads of others run or want to. */
static int64_t count_others(const struct nc_facts *facts)
{
    return facts->runnable - least(1 + facts->peer_awake, facts->runnable);
}

/* Whether it is known how much wants to run. */
static bool is_counted(const struct nc_facts *facts)
{
    return facts->machine != 0 && facts->runnable != 0;
}

/* Whether others alone use all CPUs. */
static bool is_full(const struct nc_facts *facts)
{
    return is_counted(facts) && count_others(facts) >= facts->machine;
}

/* Whether there would be more to run than CPUs if both sides did. */
static bool is_wanted(const struct nc_facts *facts)
{
    return is_counted(facts) && count_others(facts) + 2 > facts->machine;
}

/* Whether somebody who had a CPU would lose some of it if both sides spun. */
static bool robs(const struct nc_facts *facts)
{
    return is_wanted(facts) && count_others(facts) <= facts->machine;
}

/* How often as long as this side others have their turn. */
static int64_t rest_factor(const struct nc_facts *facts)
{
    return robs(facts) ? REST_FACTOR : most(count_others(facts), TURNS_LEAST);
}

/* Whether others want the few of the machine's CPUs that this side may use. */
static bool has_waited(const struct nc_governor *governor, int64_t now_ns,
                       const struct nc_facts *facts)
{
    return facts->processors < facts->machine && facts->thread == governor->thread &&
           facts->waited_ns - governor->waited_ns > (now_ns - governor->looked_ns) / WAITED_SHARE;
}

/* Reckons the time spent hot since the last look. */
static void weigh(struct nc_governor *governor, int64_t now_ns, const struct nc_facts *facts)
{
    rest(governor, now_ns);
    int64_t hot_ns = least(governor->unweighed_ns, LOOK_MAX_NS);
    governor->unweighed_ns = 0;
    if (is_wanted(facts)) {
        governor->debt_ns += governor->wanted ? hot_ns : 0;
    } else if (has_waited(governor, now_ns, facts)) {
        governor->debt_ns += hot_ns;
        governor->waited = governor->waited || hot_ns > 0;
    } else {
        governor->debt_ns -= least(PAY_FACTOR * hot_ns, governor->debt_ns);
    }
    governor->hot_ns = least(governor->hot_ns + hot_ns, 2 * DEBT_MAX_NS);
    if (governor->debt_ns == 0) {
        governor->hot_ns = 0;
        governor->waited = false;
    }
}

/* Whether a rest goes on. */
static bool rests(struct nc_governor *governor, int64_t now_ns)
{
    if (governor->spins || governor->reason != NC_GOVERNOR_CROWDED ||
        now_ns >= governor->rest_end_ns)
        return false;
    if (!governor->wanted && !governor->waited)
        governor->absent++;
    return governor->absent < ABSENT_MAX;
}

static void stop_for_others(struct nc_governor *governor, int64_t now_ns,
                            const struct nc_facts *facts)
{
    governor->rest_end_ns = now_ns + least(rest_factor(facts) * governor->hot_ns, REST_MAX_NS);
    stop(governor, NC_GOVERNOR_CROWDED, least(now_ns + REST_LOOK_NS, governor->rest_end_ns));
    governor->debt_ns = DEBT_MAX_NS / 2;
    governor->hot_ns = governor->absent = 0;
}

static bool are_apart(const struct nc_facts *facts)
{
    return facts->cpu != 0 && facts->peer_cpu != 0 && facts->cpu != facts->peer_cpu;
}

static void begin(struct nc_governor *governor, int64_t now_ns)
{
    governor->spins = governor->probing = true;
    governor->reason = NC_GOVERNOR_HOT;
    governor->regret_ns = governor->hits = 0;
    governor->look_ns = LOOK_MIN_NS;
    governor->due_ns = now_ns + LOOK_MIN_NS;
}

void nc_governor_look(struct nc_governor *governor, int64_t now_ns, const struct nc_facts *facts)
{
    if (governor->begins)
        weigh(governor, now_ns, facts);
    governor->full = is_full(facts);
    governor->wanted = is_wanted(facts);
    governor->thread = facts->thread;
    governor->waited_ns = facts->waited_ns;
    governor->looked_ns = now_ns;
    if (facts->processors < 2 && !are_apart(facts)) {
        stop(governor, NC_GOVERNOR_ONE_PROCESSOR, now_ns + DISTANCE_MID_NS);
    } else if (rests(governor, now_ns)) {
        governor->due_ns = least(now_ns + REST_LOOK_NS, governor->rest_end_ns);
    } else if (governor->debt_ns > DEBT_MAX_NS) {
        stop_for_others(governor, now_ns, facts);
    } else if (governor->spins) {
        governor->look_ns = most(LOOK_MIN_NS, least(2 * governor->look_ns, LOOK_MAX_NS));
        governor->due_ns = now_ns + governor->look_ns + now_ns % LOOK_MIN_NS;
    } else {
        begin(governor, now_ns);
    }
}

/* What was gained at the first glance counts first. */
static void settle_hits(struct nc_governor *governor)
{
    if (governor->hits > 0)
        governor->probing = false;
    governor->regret_ns -= least(governor->hits, CREDIT_MAX + REGRET_MAX) * governor->sleep_ns;
    governor->hits = 0;
    if (governor->regret_ns <= -PROVEN_AT * governor->sleep_ns)
        governor->distance_ns = distance_first_ns(governor);
}

static void add_regret(struct nc_governor *governor, int64_t cost_ns, int64_t now_ns)
{
    settle_hits(governor);
    governor->regret_ns = most(governor->regret_ns + cost_ns, -CREDIT_MAX * governor->sleep_ns);
    if (governor->regret_ns <= worst_ns(governor) + (governor->probing ? PROBE_REGRET_NS : 0))
        return;
    int64_t due_ns = NC_GOVERNOR_NEVER;
    if (governor->begins) {
        due_ns = now_ns + governor->distance_ns;
        governor->distance_ns = least(2 * governor->distance_ns, DISTANCE_MAX_NS);
    }
    rest(governor, now_ns);
    stop(governor, NC_GOVERNOR_IN_VAIN, due_ns);
}

void nc_governor_hit_late(struct nc_governor *governor, int64_t spun_ns, int64_t now_ns)
{
    add_regret(governor, spun_ns - governor->sleep_ns, now_ns);
    governor->probing = false;
}

void nc_governor_missed(struct nc_governor *governor, int64_t spun_ns, int64_t now_ns)
{
    add_regret(governor, spun_ns, now_ns);
}

void nc_governor_slept(struct nc_governor *governor, int64_t cost_ns)
{
    int64_t mean_ns = governor->sleep_ns;
    cost_ns = least(least(cost_ns, OUTLIER * mean_ns), LIMIT_MAX_NS);
    governor->sleep_ns = most(mean_ns - mean_ns / MEAN_WEIGHT + cost_ns / MEAN_WEIGHT, US);
}

void nc_governor_paused(struct nc_governor *governor, int64_t pause_ns)
{
    if (governor->begins || governor->spins || governor->reason != NC_GOVERNOR_IN_VAIN)
        return;
    if (pause_ns > nc_governor_limit_ns(governor)) {
        governor->regret_ns = worst_ns(governor);
        return;
    }
    governor->regret_ns += pause_ns - governor->sleep_ns;
    if (2 * governor->regret_ns <= (2 * REGRET_MAX - 1) * governor->sleep_ns)
        governor->due_ns = 0;
}

bool nc_governor_together(struct nc_governor *governor, int64_t now_ns)
{
    if (now_ns < governor->move_due_ns)
        return false;
    governor->move_due_ns = most(governor->move_due_ns, now_ns - least(now_ns, MOVES_KEPT_NS)) +
                            MOVE_NS;
    return true;
}

bool nc_governor_took_turn(struct nc_governor *governor, int64_t now_ns)
{
    if (governor->hits >= APART_HITS) {
        governor->turns = 0;
        governor->turns_next = TURNS_MIN;
    }
    nc_governor_hit_late(governor, 0, now_ns);
    governor->turns++;
    if (!governor->begins || governor->turns < governor->turns_next)
        return false;
    governor->turns = 0;
    governor->turns_next = least(2 * governor->turns_next, TURNS_MAX);
    return true;
}
