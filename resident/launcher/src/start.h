/* The start of a resident: at most one, however many launchers want it. */
#ifndef NC_START_H
#define NC_START_H

#include "reach.h"

/* Connects to the resident of a place where nobody listened a moment ago, and
 * starts it if that is still so, unless the last starts_max starts came to nothing. */
enum nc_reached nc_start(const struct place *place, const struct program *program, unsigned starts_max,
                         int *connection, struct reason *reason);

/* For a resident that gave no answer: one that was never ready is given up, so that
 * the next run does not wait for it too. */
void nc_start_give_up(const struct place *place);

#endif
