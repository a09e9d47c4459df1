/* Which signals reach this thread. */
#ifndef NC_SIGNALS_H
#define NC_SIGNALS_H

#include <signal.h>

/* Keeps the host's handlers from this thread, and from those that it makes, but for the signals
 * that a Go runtime must have. pthread_sigmask() with *ret_former ends it. */
void nc_block_signals(sigset_t *ret_former);

#endif
