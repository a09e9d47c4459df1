/* The stores of a connection: those that this side has, and the memory of large replies. What is
 * written to them is sent by send/stores.c, and what is read comes by receive/stored.c. */
#ifndef NC_STORES_H
#define NC_STORES_H

#include <stdbool.h>

#include "handle/handle.h"

void nc_stores_init(struct nc_stores *stores);

/* The welcome has come: whether there may be stores, and whether its server is trusted. */
void nc_stores_agree(nearcall_client *client);

static inline bool nc_stores_are_agreed(const nearcall_client *client)
{
    return (client->connection.welcome.features & NC_FEATURE_STORES) != 0;
}

/* Whether the request, which no frame holds, may travel in a store. */
bool nc_stores_take(const nearcall_client *client, const struct nc_call *call);

/* What the extensions of a reply say of a store: client->connection.stores.came. Takes the descriptor
 * that has come with it. 0, or -1 with the fault filled. */
int nc_stores_find(nearcall_client *client, const struct nc_frame *frame, const uint8_t *body, struct nc_fault *fault);

/* Tells the server that this side does not use it any more. Only queues: nc_stores_work() sends it. */
void nc_stores_release(nearcall_client *client, const struct nc_stored *stored);

/* Gives back what the reply that is being handled names, if nobody has taken it. A server that goes on naming
 * stores to nobody, and reads no RELEASE, makes nothing grow: -1 with the fault filled. */
int nc_stores_end_reply(nearcall_client *client, bool is_awaited, struct nc_fault *fault);

/* A request is about to be written to a store, or was. */
void nc_stores_used(nearcall_client *client, uint32_t place);

/* Room for a large reply, in memory that was used for one before if there is such. 0, or
 * NEARCALL_E_RESOURCE_EXHAUSTED. */
int nc_stores_reserve(nearcall_client *client, struct nc_buffer *buffer, size_t bytes);

/* The program needs the reply no longer that it was lent. */
void nc_stores_keep_lent(nearcall_client *client);
#define NC_LARGE_REPLY_BYTES ((size_t)1 << 20)

/* At idle_ns. */
void nc_stores_expire(nearcall_client *client);

void nc_stores_close(struct nc_stores *stores);
void nc_stores_orphan(struct nc_stores *stores);

#endif
