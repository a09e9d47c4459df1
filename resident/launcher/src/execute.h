/* A program that the run wants on the caller's side: a pager, an editor, sudo. */
#ifndef NC_EXECUTE_H
#define NC_EXECUTE_H

#include "frame.h"
#include "signals.h"

#include <sys/types.h>

struct execution {
    pid_t process;            /* 0: none runs */
    struct sigaction on_child; /* what SIGCHLD did before */
};

/* Starts it as a child of the launcher, in its group, with everything as the
 * launcher was started with. 0; -1 when the frame is none of that kind. What
 * cannot be started is said and ends with 126 or 127. */
int nc_execute(struct execution *execution, const struct frame *frame, const struct signals *signals);

/* After SIGCHLD: 1 and the wait status when it has ended, else 0. */
int nc_execute_ended(struct execution *execution, int *status);

#endif
