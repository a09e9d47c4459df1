/* Of an address that has several endpoints: which of them has the handle's connection, and what a connection that
 * has ended says about its endpoint. Each of these is for handles with endpoints only, except where it says so. */
#ifndef NC_ENDPOINT_H
#define NC_ENDPOINT_H

#include <stdbool.h>

#include "handle/handle.h"

/* Turns the handle to another endpoint, and keeps the connection that it had for later. No call is on that, and it
 * sleeps if it has memory. */
void nc_endpoint_turn(nearcall_client *client, unsigned index);

/* A new endpoint of that address, without a connection; its text and what it has for TLS are set by its maker. NULL: no
 * memory. */
struct nc_endpoint *nc_endpoint_new(const struct nc_address *address, const struct nc_transport *transport);

/* Closes the connection of an endpoint that is not active, and forgets it. */
void nc_endpoint_remove(nearcall_client *client, unsigned index);

/* Forgets one that never was the active one. */
void nc_endpoint_free(struct nc_endpoint *endpoint);

/* The socket of the handle's connection is this one from now on; none if it has none. */
void nc_endpoint_keep_socket(nearcall_client *client);

/* The connection is ready. */
void nc_endpoint_welcomed(nearcall_client *client);

/* Why it has ended is in client->lost_text. True: that ends no call, because calls that wait for it go elsewhere, or
 * because it concerns none. */
bool nc_endpoint_lost(nearcall_client *client, const struct nc_loss *loss, bool before_welcome);

/* The call that looks for an endpoint has tried the active one. The words are in its text said. */
void nc_endpoint_tried(nearcall_client *client, int code, bool retryable);

/* Of any handle, in a child, when its own connection was orphaned. */
void nc_endpoints_orphan(nearcall_client *client, bool trust_memory);

/* Of any handle: when a function was left half-way, and its own connection was closed. */
void nc_endpoints_abandon(nearcall_client *client);

/* Of any handle: closes the connections of all other endpoints. */
void nc_endpoints_close(nearcall_client *client);

/* Of any handle: all of it. The handle's own connection was closed. */
void nc_endpoints_free(nearcall_client *client);

#endif
