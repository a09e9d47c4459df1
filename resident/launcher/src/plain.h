/* The program as if there were no launcher. */
#ifndef NC_PLAIN_H
#define NC_PLAIN_H

#include "program.h"
#include "reason.h"

/* Becomes the program. Never returns: what cannot be run is said, with the exit
 * code that env(1) has for it. */
_Noreturn void nc_plain(const struct program *program, const struct reason *reason);

/* Ends for a program that there is none of; `error` says why. */
_Noreturn void nc_plain_missing(const struct program *program, int error);

#endif
