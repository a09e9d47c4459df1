/* The way to the server: what may be read on it, and TLS, where nothing may. */
#ifndef NC_SECURE_H
#define NC_SECURE_H

#include <stdbool.h>

#include "handle/handle.h"

/* Before the first byte is sent. False: calls may not leave this machine in plain text, and the connection
 * was dropped. */
bool nc_secure_check_plain(nearcall_client *client);

/* Whether calls leave this machine in plain text, and the address does not say that this is meant. */
bool nc_secure_is_exposed(const nearcall_client *client);

/* Begins the handshake on a connection that was just made: the next steps are those of
 * nc_secure_advance(). 0, or an errno: nothing comes of it. */
int nc_secure_begin(nearcall_client *client);

/* 0: done. EINPROGRESS: the server's answer is awaited, or there is no such connection any more. Another
 * errno: nothing comes of it. */
int nc_secure_advance(nearcall_client *client);

#endif
