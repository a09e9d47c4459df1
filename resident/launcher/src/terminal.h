/* The caller's terminal: its size, and its modes as they were. */
#ifndef NC_TERMINAL_H
#define NC_TERMINAL_H

#include <sys/ioctl.h>
#include <termios.h>

struct terminal {
    int fd;                 /* the first standard descriptor that is one, or -1 */
    struct winsize size;    /* when the launcher started */
    struct termios modes;   /* the same */
    struct termios stopped; /* what the program had when it was stopped last */
};

/* Looks for it and remembers its modes. */
void nc_terminal_remember(struct terminal *terminal);

/* Standard input is a terminal that another job has: to read from it there is
 * what only a process of this job's own can be kept from. */
int nc_terminal_is_behind(const struct terminal *terminal);

/* Sets the modes back, as far as this job has the terminal. */
void nc_terminal_restore(const struct terminal *terminal);

/* The same when the job is about to stop, and the program's modes when it goes on. */
void nc_terminal_leave(struct terminal *terminal);
void nc_terminal_return(const struct terminal *terminal);

/* Rows * 65536 + columns now; 0 without a terminal. */
unsigned nc_terminal_size(const struct terminal *terminal);

#endif
