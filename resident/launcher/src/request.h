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
    int directory; /* a descriptor, to be sent; it stays open until the process ends */
};

/* LATER: nothing was sent, for the reason, and may be sent later. ENDED: the
 * connection has. PLAIN: the run has to be plain, for the reason. */
enum nc_sent { NC_SENT, NC_SENT_LATER, NC_SENT_ENDED, NC_SENT_PLAIN };

/* Builds the request of the arguments and this process. 0, or -1 with the reason. */
int nc_request_build(struct request *request, char **arguments, const struct winsize *size, struct reason *reason);

/* Sends as much of it as the socket takes at once, with the descriptors. */
enum nc_sent nc_request_send(struct request *request, int connection, struct reason *reason);

/* Sends more of it. 0, or -1 when the connection has ended. */
int nc_request_continue(struct request *request, int connection);

#endif
