/* The process that runs the program: a launcher that waits for a word of it has to know that it is there. */
#ifndef NC_PROCESS_H
#define NC_PROCESS_H

#include <sys/types.h>

struct process {
    pid_t id;          /* 0: not known */
    int fd;            /* readable when it has ended; -1: nobody asks */
    int gone;          /* it has ended */
    long long look_ms; /* when to look again; 0: not by time */
};

/* Begins to watch it, after a while: most runs are over by then. */
void nc_process_watch(struct process *process, pid_t id);

/* At look_ms, or when fd is readable: whether it has been gone for long. */
int nc_process_is_long_gone(struct process *process);

/* 'T' for one that is stopped, 'Z' for one that has ended or that there is not.
 * The wait status of one that has ended, still is there and lets us look, otherwise -1. */
char nc_process_state(pid_t id, int *ret_status);

#endif
