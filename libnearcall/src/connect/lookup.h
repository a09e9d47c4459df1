/* The names of hosts in an address with several endpoints: each address of a host is an endpoint. */
#ifndef NC_LOOKUP_H
#define NC_LOOKUP_H

#include <stdbool.h>

#include "handle/handle.h"

/* Whether the active endpoint, which is about to be connected to, has a name that has to be looked up first. */
bool nc_lookup_is_due(const nearcall_client *client);

/* Looks it up, which waits for as long as the system does. True: the endpoints are others now, and one is to be chosen
 * anew. False: the active one stays, or the connection was lost for want of any answer. */
bool nc_lookup(nearcall_client *client);

/* Whether a host that is tried now has addresses of the other family too. */
bool nc_lookup_has_other_family(const nearcall_client *client);

#endif
