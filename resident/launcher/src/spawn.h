/* The process of a resident. */
#ifndef NC_SPAWN_H
#define NC_SPAWN_H

#include "place.h"
#include "program.h"
#include "reason.h"

/* Starts the program, or what is installed for it (else empty), which is told the
 * program's path, with the listening socket, as no child of this process:
 * the program, when it is run plainly after all, must not find one. 0, or -1
 * with the reason. Whether the program itself could be run is not known here:
 * if not, the socket's end tells. */
int nc_spawn(const struct place *place, const char *path, const char *starter, int listener, struct reason *reason);

#endif
