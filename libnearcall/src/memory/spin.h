/* What the governor is told of the machine, and does there. */
#ifndef NC_SPIN_H
#define NC_SPIN_H

#include <stdbool.h>
#include <stdint.h>

#include "base/address.h"
#include "base/fork.h"
#include "memory/governor.h"
#include "memory/memory.h"

struct nc_spinning {
    struct nc_governor governor;
    enum nc_spin mode;
    int64_t machine_cpus;
};

/* limit_us: what a sleep costs, as the server has measured it. */
void nc_spinning_start(struct nc_spinning *spinning, enum nc_spin mode, int64_t limit_us);

/* Tells the governor of the machine. */
void nc_spinning_look(struct nc_spinning *spinning, const struct nc_memory *memory, int64_t now_ns);

/* Whether the wait that begins now spins. */
static inline bool nc_spinning_choose(struct nc_spinning *spinning, const struct nc_memory *memory,
                                      int64_t now_ns)
{
    if (spinning->mode != NC_SPIN_AUTO)
        return spinning->mode == NC_SPIN_DEDICATED;
    if (now_ns >= spinning->governor.due_ns)
        nc_spinning_look(spinning, memory, now_ns);
    return spinning->governor.spins;
}

/* How long a spin may last. */
int64_t nc_spinning_limit_ns(const struct nc_spinning *spinning);

/* The server looks at its ring, or would, on this very CPU. True: sleep at once. False: it
 * runs elsewhere, or this thread does from now on. Preconditions: this process is no child. */
bool nc_spinning_shares_cpu(struct nc_spinning *spinning, const struct nc_memory *memory,
                            const struct nc_fork_guard *guard, int64_t now_ns);

/* The frame was there when this thread had given its CPU away. Preconditions: this process is
 * no child. */
void nc_spinning_took_turn(struct nc_spinning *spinning, const struct nc_memory *memory,
                           const struct nc_fork_guard *guard, int64_t now_ns);

/* The wait that slept from then on is over, perhaps by what the server sent. */
void nc_spinning_slept(struct nc_spinning *spinning, const struct nc_memory *memory,
                       int64_t since_ns, int64_t now_ns);

/* Says where this side runs. Preconditions: this process is no child. */
void nc_spinning_publish_cpu(const struct nc_memory *memory);

#endif
