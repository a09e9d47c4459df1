/* The ends of a run. */
#ifndef NC_END_H
#define NC_END_H

#include "run.h"

#include <stdint.h>

/* These end the process, or return -1 when there is no such code or signal. */
int nc_end_exited(uint32_t code);
int nc_end_killed(const struct run *run, uint32_t number);

/* The connection of a run that had begun ended, and nobody said how. */
_Noreturn void nc_end_unknown(const struct run *run);

/* Some time after a signal that was to end the run. Where its process is stopped or
 * has ended, nobody may be there who says so, and the launcher ends as the process
 * has, if that is known, or else by that signal. */
void nc_end_unless_alive(struct run *run);

/* The process of the run ended some time ago, and nobody says how: the process that
 * should say so may be stopped. The launcher ends as the process has, if that is known. */
_Noreturn void nc_end_without_word(const struct run *run);

#endif
