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

/* How many starts in a row came to nothing, unless that are starts_max, and lately:
 * then -1 with the reason. */
int nc_lock_starts(int lock, const struct place *place, unsigned starts_max, struct reason *reason);

/* Writes how many there are, with the path of the program. 0, or -1 with the reason. */
int nc_lock_write(int lock, unsigned starts, const char *path, struct reason *reason);

#endif
