/* What the kernel has not taken yet: bytes of the connection's own, and behind them what is
 * borrowed from the caller of the last frame. */
#ifndef NC_OUTPUT_H
#define NC_OUTPUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "nearcall.h"

struct nc_call;
struct nc_connection;

bool nc_queue(nearcall_client *client, const void *data, size_t bytes);
void nc_flush(nearcall_client *client);

int nc_output_own(nearcall_client *client);
void nc_output_lost(nearcall_client *client);
void nc_output_remove(nearcall_client *client, struct nc_call *call);

/* Calls that end while their frame is half sent. */
void nc_output_go_on(nearcall_client *client, const struct nc_call *call);
void nc_output_forsake(nearcall_client *client, const struct nc_call *call);
int64_t nc_output_stuck_ns(const struct nc_connection *connection);
void nc_output_lose_stuck(nearcall_client *client);

#endif
