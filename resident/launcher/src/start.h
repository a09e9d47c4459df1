/* The start of a resident: at most one, however many launchers want it. */
#ifndef NC_START_H
#define NC_START_H

#include "reach.h"

/* Connects to the resident of a place where nobody listened a moment ago, and
 * starts it if that is still so. */
enum nc_reached nc_start(const struct place *place, const struct program *program, int *connection,
                         struct reason *reason);

#endif
