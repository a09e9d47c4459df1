/* Decides how a caller waits for frames in shared memory: whether it looks at its ring or
 * sleeps, and for how long it looks. No system calls, no clock: the code that waits tells
 * it what happened and when, and asks. It decides as internal/transport/sharedmemory/governor
 * does, step for step; that package says why, and its testdata/traces.txt holds both
 * to it. Times are nanoseconds of the monotonic clock. */
#ifndef NC_GOVERNOR_H
#define NC_GOVERNOR_H

#include <stdbool.h>
#include <stdint.h>

#define NC_GOVERNOR_NEVER INT64_MAX

enum nc_governor_reason {
    NC_GOVERNOR_HOT, /* it spins */
    NC_GOVERNOR_IN_VAIN, /* spinning did not pay when it was tried last */
    NC_GOVERNOR_CROWDED, /* others want the CPU, and have their turn */
    NC_GOVERNOR_ONE_PROCESSOR, /* the side that is waited for could not run meanwhile */
};

/* What the machine tells a side that asks. Zeros are not known; CPUs are counted from 1. */
struct nc_facts {
    int64_t processors; /* that this side may use */
    int64_t cpu; /* where it runs */
    int64_t peer_cpu; /* where its peer ran last */
    int64_t peer_awake; /* 1 if its peer looks at its ring */
    int64_t machine; /* CPUs of the machine */
    int64_t runnable; /* threads of the machine that run or want to */
    int64_t thread; /* which waited_ns is of */
    int64_t waited_ns; /* for how long it wanted to run and did not, so far */
};

struct nc_governor {
    bool spins; /* a wait that begins now does */
    bool begins; /* a caller: it tries again by itself */
    bool full; /* others alone used all CPUs when it looked last */
    bool wanted; /* others would have lost something */
    bool probing; /* no spin of this probe has ended with a frame yet */
    enum nc_governor_reason reason;
    int64_t due_ns; /* from when on nc_governor_look() is wanted before a wait begins */
    int64_t hits; /* waits that ended at the first glance, since regret_ns was reckoned */

    int64_t sleep_ns; /* moving mean of what sleeping costs */
    int64_t regret_ns; /* what spinning cost more than sleeping would have */
    int64_t distance_ns; /* from the next probe in vain to the one after it */

    int64_t thread;
    int64_t waited_ns;
    int64_t looked_ns;
    int64_t look_ns; /* from the last look to the next */
    int64_t hot_since_ns;
    int64_t unweighed_ns; /* spent hot, and not weighed yet */
    int64_t debt_ns;
    int64_t hot_ns; /* since the debt began */
    int64_t rest_end_ns;
    int64_t absent; /* looks of a rest that found nobody */
    bool waited; /* some of the debt is for what a side waited, of which no look tells the end */

    int64_t move_due_ns;
    int64_t turns; /* in a row */
    int64_t turns_next; /* before the next move */
};

/* begins: a caller, not a server. A sleep costs about so much. */
void nc_governor_start(struct nc_governor *governor, bool begins, int64_t sleep_ns);

/* How long a spin lasts at most. */
int64_t nc_governor_limit_ns(const struct nc_governor *governor);

/* Whether a spinner that looked in vain lets others of its CPU run. */
static inline bool nc_governor_yields(const struct nc_governor *governor)
{
    return !governor->wanted || governor->probing;
}

/* Decides again, knowing the machine. */
void nc_governor_look(struct nc_governor *governor, int64_t now_ns, const struct nc_facts *facts);

/* A spin ended at the first glance. */
static inline void nc_governor_hit(struct nc_governor *governor)
{
    governor->hits++;
}

/* A spin of so long ended with a frame. */
void nc_governor_hit_late(struct nc_governor *governor, int64_t spun_ns, int64_t now_ns);

/* A spin of so long ended in vain. */
void nc_governor_missed(struct nc_governor *governor, int64_t spun_ns, int64_t now_ns);

/* A wait cost so much because this side slept. */
void nc_governor_slept(struct nc_governor *governor, int64_t cost_ns);

/* This side slept while its peer was awake, and a spin of so long would have ended with a
 * frame. */
void nc_governor_paused(struct nc_governor *governor, int64_t pause_ns);

/* Both sides were found on one CPU. True: move to another; false: best sleep at once. */
bool nc_governor_together(struct nc_governor *governor, int64_t now_ns);

/* The frame was there when the spinner had given its CPU away, and its peer runs on that.
 * True: move to another. */
bool nc_governor_took_turn(struct nc_governor *governor, int64_t now_ns);

#endif
