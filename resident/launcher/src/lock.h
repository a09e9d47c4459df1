/* The lock of a place: one starts a resident at a time. Its file holds how many
 * starts in a row came to nothing. */
#ifndef NC_LOCK_H
#define NC_LOCK_H

#include "place.h"
#include "reason.h"

/* Takes the lock, waiting at most as long as for an answer. A descriptor, or -1
 * with the reason. */
int nc_lock_take(const struct place *place, struct reason *reason);

/* Releases it and closes the descriptor. */
void nc_lock_release(int lock);

/* Whether the last start has come to nothing so far. */
int nc_lock_counts(int lock);

/* Counts one start more of the program with this path, unless starts_max came to
 * nothing lately: then -1 with the reason. */
int nc_lock_count_start(int lock, const struct place *place, const char *path, unsigned starts_max,
                        struct reason *reason);

#endif
