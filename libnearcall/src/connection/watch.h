/* What others wait for, and how they end a wait here. */
#ifndef NC_WATCH_H
#define NC_WATCH_H

#include <stdatomic.h>
#include <stdbool.h>

#include "handle/handle.h"

void nc_watch_init(struct nc_watch *watch);
void nc_watch_open(nearcall_client *client);
void nc_watch_identify(nearcall_client *client);
bool nc_watch_misses(const nearcall_client *client);
void nc_watch_update(nearcall_client *client);
void nc_watch_forget(nearcall_client *client);
void nc_watch_after_fork(nearcall_client *client);
void nc_watch_free(nearcall_client *client);
int nc_wake_open(nearcall_client *client);
bool nc_wake_identify(nearcall_client *client);
bool nc_wake_take(nearcall_client *client);
bool nc_wake_confirm(nearcall_client *client);
static inline bool nc_is_woken(nearcall_client *client)
{
    return atomic_load_explicit(&client->watch.is_woken, memory_order_relaxed) &&
           nc_wake_confirm(client);
}

#endif
