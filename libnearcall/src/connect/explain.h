/* The error of a call that no endpoint of the address has taken. */
#ifndef NC_EXPLAIN_H
#define NC_EXPLAIN_H

#include "handle/handle.h"

/* Remembers of a failed call what it has found at the active endpoint. */
void nc_explain_note(nearcall_client *client, const struct nc_call *call);

/* No endpoint is left: gives the finished call the error of the first one that may take it later. The message has a
 * line for each of the others. */
void nc_explain(nearcall_client *client, struct nc_call *call);

/* The same for all calls that wait for a connection. */
void nc_explain_to_all(nearcall_client *client);

#endif
