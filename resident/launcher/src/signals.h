/* The signals that the launcher passes on, read from a descriptor. */
#ifndef NC_SIGNALS_H
#define NC_SIGNALS_H

#include "reason.h"

#include <signal.h>

struct signals {
    int fd;          /* readable when one has come; the caller's */
    sigset_t before; /* what was blocked when the launcher started */
};

/* Blocks them. 0, or -1 with the reason. */
int nc_signals_open(struct signals *signals, struct reason *reason);

/* Unblocks them as they were and closes the descriptor: those that have come
 * since are delivered now. */
void nc_signals_close(struct signals *signals);

/* The next signal that has come and that the launcher was not told to ignore
 * (nohup, jobs of a shell without job control), or 0. SIGCHLD is one of them. */
int nc_signals_next(const struct signals *signals);

/* It asks a process to end. */
int nc_signal_interrupts(int number);

/* Without one that it handles, a process ends by this signal. */
int nc_signal_ends(int number);

#endif
