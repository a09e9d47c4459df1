/* A connection to whoever listens at a place. */
#ifndef NC_REACH_H
#define NC_REACH_H

#include "place.h"
#include "reason.h"

enum nc_reached { NC_REACHED, NC_REACHED_NOBODY, NC_REACHED_PLAIN };

/* Connects without blocking and checks who listens. A backlog that is full is
 * waited for as long as for an answer. NC_REACHED_PLAIN: there is no way, for
 * the reason. The descriptor is the caller's; it does not block. */
enum nc_reached nc_reach(const struct place *place, int *connection, struct reason *reason);

#endif
