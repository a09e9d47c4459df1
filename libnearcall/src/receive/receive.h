/* What the server sends: read from the socket or found in shared memory, taken apart into frames, and
 * done what each says.
 * May include: base, wire, msgpack, transport, memory, handle, functions, calls, connection. */
#ifndef NC_RECEIVE_H
#define NC_RECEIVE_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "base/clock.h"
#include "handle/handle.h"

enum { NC_RECEIVED = 1, NC_NOTHING = 0 };

/* For so long a function that must not wait reads what is there. */
#define NC_TURN_NS (10 * NC_NS_PER_MS)

/* Reads once and handles what is complete. NC_RECEIVED, NC_NOTHING when nothing
 * came or the connection is gone, NEARCALL_E_INTERRUPTED. */
int nc_receive(nearcall_client *client, int flags);

/* The same for the socket alone: a ring that is never empty must not hide it. */
int nc_receive_socket(nearcall_client *client, int flags);

/* A call is about to go over a connection whose end no write would notice. If it has rested, what came
 * meanwhile is read: a server that has stopped is found out before the call is sent. */
void nc_look_first(nearcall_client *client);

/* Handles the frames that are there, up to the one that is waited for, and only as many as
 * may follow each other without a look at the clock: NC_RECEIVED or NC_NOTHING. */
int nc_receive_memory(nearcall_client *client);

/* The connection has ended: what the server put there before decides outcomes. More
 * than there are slots came later, and would go on without end. What a server cannot have
 * put there by the rules, or is read after the deadline of the call that is waited for, ends
 * its call by its head alone, unless it is that call's. */
void nc_drain_memory(nearcall_client *client);

/* Gives a large buffer back once frames are small again. */
void nc_input_trim(struct nc_connection *connection);

/* Opens what has arrived, and receives more for that. Bytes, 0 at the end, -1 with errno. There is TLS. */
ssize_t nc_receive_sealed(nearcall_client *client, void *to, size_t bytes, int flags);

/* Handles all frames that are complete in the input. */
void nc_dispatch(nearcall_client *client);

/* Keeps the kernel from taking any descriptors where none may come. */
void nc_agree_on_descriptors(nearcall_client *client);

/* False when the connection was lost by that, or is the parent's. */
bool nc_connection_identify(nearcall_client *client);

/* Whether the descriptor is still the connection's, as the program may close what it does not
 * know. Asked before each read, write or wait; true as long as the clock was not read again. */
static inline bool nc_connection_is_ours(nearcall_client *client)
{
    return client->connection.identity.seen_ns == client->now_ns || nc_connection_identify(client);
}

#endif
