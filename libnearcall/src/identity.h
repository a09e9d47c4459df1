/* Whose the connection's descriptor is. The program may close what it does not know, and another
 * socket gets the number then: what is written there goes to a stranger. */
#ifndef NC_IDENTITY_H
#define NC_IDENTITY_H

#include <stdbool.h>
#include <stdint.h>

#include "nearcall.h"

struct nc_connection;

struct nc_identity {
    int64_t seen_ns; /* the handle's clock when the number last meant the connection's socket; 0: look */
    int64_t left_ns; /* when a begun call that was sent there left the library; 0: none has */
    int64_t look_ns; /* what a look takes: no system call that replaces a descriptor takes less */
    unsigned inferred; /* how often in a row it was known without a look */
};

void nc_identity_begin(nearcall_client *client);
void nc_identity_infer(nearcall_client *client);
void nc_identity_leave(nearcall_client *client);
bool nc_connection_identify(nearcall_client *client);
bool nc_connection_has_its_socket(const struct nc_connection *connection);

#endif
