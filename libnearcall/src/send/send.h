/* What is sent to the server: calls and their ends, over the socket or through shared memory, with their
 * descriptors.
 * May include: base, wire, transport, memory, handle, functions, calls, request, connection, receive. */
#ifndef NC_SEND_H
#define NC_SEND_H

#include <stdbool.h>

#include "calls/calls.h"
#include "connection/connection.h"
#include "handle/handle.h"

/* Whether it is the call's turn. Those that wait in line are sent by nc_send_pending(). */
static inline bool nc_may_send(const nearcall_client *client, const struct nc_call *call)
{
    return nc_connection_usable(client) &&
           (call->type == NC_PING ||
            (!client->calls.pending.first && nc_connection_has_room(client)));
}
static inline bool nc_may_send_pending(const nearcall_client *client)
{
    return client->calls.pending.first && nc_connection_usable(client) &&
           nc_connection_has_room(client);
}

/* The connection is ready and the call pending. Afterwards the call is sent, or
 * finished with its failure, or pending still on a connection that is lost or drains. */
void nc_send_call(nearcall_client *client, struct nc_call *call);

/* Best effort: a call that cannot be cancelled runs on, and its reply is
 * dropped all the same. */
void nc_send_cancel(nearcall_client *client, const struct nc_call *call);

/* Requests that waited for the connection, or for others to be answered, in the order of
 * their ids. */
void nc_send_line(nearcall_client *client);

/* Asks the server for a sign of life for which no call waits. */
void nc_send_ping(nearcall_client *client);

/* Goes on with calls that have got their stores, and gives others back. These draw new ids, which
 * must not overtake those of the calls that wait in line. */
void nc_stores_work(nearcall_client *client);
static inline void nc_send_pending(nearcall_client *client)
{
    if (__builtin_expect(nc_may_send_pending(client), 0))
        nc_send_line(client);
    if (__builtin_expect(client->connection.stores.has_work, 0))
        nc_stores_work(client);
}

/* For a call whose server had no store before. */
void nc_store_ask_again(nearcall_client *client, struct nc_call *call);

/* The request was not sent, or was certainly not executed: whichever store it has is the server's. */
void nc_store_give_back(nearcall_client *client, struct nc_call *call);

/* Gives the kernel what it takes of what was sealed: 0, or an errno. There is TLS. */
int nc_send_sealed(nearcall_client *client);

/* Gives the kernel what it takes of the output. */
void nc_flush(nearcall_client *client);

/* What the kernel refused is to be tried again now. */
bool nc_may_send_again(nearcall_client *client);

#endif
