/* The request: all that a run needs to know, and its descriptors. */
#ifndef NC_REQUEST_H
#define NC_REQUEST_H

#include "reason.h"

#include <stddef.h>
#include <termios.h>
#include <sys/ioctl.h>

struct request {
    const char *bytes;
    size_t length; /* of what is still to be sent */
};

/* Builds the request of the arguments and this process, and sends as much of it
 * as the socket takes at once, with the descriptors. 0; -1 when the run has to
 * be plain, for the reason; 1 when the connection has ended. */
int nc_request_send(struct request *request, int connection, char **arguments, const struct winsize *size,
                    struct reason *reason);

/* Sends more of it. 0, or -1 when the connection has ended. */
int nc_request_continue(struct request *request, int connection);

#endif
