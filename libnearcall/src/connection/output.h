/* What the kernel has not taken yet: bytes of the connection's own, and behind them what is
 * borrowed from the caller of the last frame. send/write.c sends it. */
#ifndef NC_OUTPUT_H
#define NC_OUTPUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "handle/handle.h"

/* Appends to the output what must not be lost when memory is short; false then. */
bool nc_output_append(nearcall_client *client, const void *data, size_t bytes);

/* The answer to a PING. Only queues: it is called while input is being taken apart. */
void nc_output_answer_ping(nearcall_client *client, const uint8_t *payload, size_t bytes);

/* The kernel has taken so much of it. */
void nc_output_consume(nearcall_client *client, size_t sent);

/* Keeps what was borrowed. 0, or NEARCALL_E_RESOURCE_EXHAUSTED: it still is. */
int nc_output_own(nearcall_client *client);

/* Without memory for the rest of a frame that was begun there is no connection any more. */
void nc_output_lost(nearcall_client *client);

/* The output begins with what is to be sent next. What lies before it counts as written, so this is
 * done only to send. */
void nc_output_skip_holes(struct nc_connection *connection);

/* How many bytes of its own the output has before the first hole, or in all. */
static inline size_t nc_output_owned_bytes(const struct nc_connection *connection)
{
    return connection->hole_bytes ? (size_t)(connection->hole_start - connection->written)
                                  : nc_buffer_bytes(&connection->out);
}

/* Takes a frame of which the kernel has nothing yet out of the output. It may stay there as a hole,
 * which is not sent, until frames behind it move forward over many at once. */
void nc_output_remove(nearcall_client *client, struct nc_call *call);

/* A call that has ended while its frame is half sent: the rest goes on, and the caller may
 * forget what it is made of. */
void nc_output_go_on(nearcall_client *client, const struct nc_call *call);

/* The rest of the call's frame goes on without it. */
void nc_output_forsake(nearcall_client *client, const struct nc_call *call);

/* At nc_output_stuck_ns(). */
void nc_output_lose_stuck(nearcall_client *client);

#endif
