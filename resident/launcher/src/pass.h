/* Signals of the launcher are signals of the run. */
#ifndef NC_PASS_H
#define NC_PASS_H

#include "run.h"

/* Passes on one that has come, or keeps it until the run begins. */
void nc_pass(struct run *run, int number);

/* Passes on what was kept: the run has begun. */
void nc_pass_delayed(struct run *run);

/* Leaves what was kept to the program itself: there is no run. */
void nc_pass_back(const struct run *run);

#endif
