/* Why a program is run plainly, for NEARCALL_RUN_DEBUG. */
#ifndef NC_REASON_H
#define NC_REASON_H

enum { NC_REASON_BYTES = 512 };

struct reason {
    char text[NC_REASON_BYTES];
};

/* Keeps `what` and, unless 0, what the error number means. Returns -1, so that
 * a function can end with it. */
int nc_because(struct reason *reason, const char *what, int error);

#endif
