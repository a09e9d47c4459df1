/* What both sides say before the first call. */
#ifndef NC_GREETING_H
#define NC_GREETING_H

#include "handle/handle.h"

/* 0, or an errno: nothing comes of this connection. */
int nc_hello_send(nearcall_client *client);

/* Reads what there is of the welcome. The connection is ready when it is complete, and lost when it
 * refuses or is none. */
void nc_welcome_receive(nearcall_client *client);

#endif
