/* Making a connection: from an address's candidates to the welcome, and whatever its descriptor tells
 * from then on.
 * May include: base, choice, wire, transport, memory, handle, functions, calls, connection, receive, send. */
#ifndef NC_CONNECT_H
#define NC_CONNECT_H

#include <stdint.h>

#include "handle/handle.h"

/* Begins to make one, for a call of that deadline and for those that wait. It must be closed. */
void nc_connection_start(nearcall_client *client, int64_t deadline_ns);

/* The same for the active endpoint of several. */
void nc_connection_begin(nearcall_client *client, int64_t deadline_ns);

/* Does what poll(2) says is possible now, and what its time has come for. */
void nc_connection_advance(nearcall_client *client, int events);

#endif
