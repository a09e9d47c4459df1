/* A function that a signal's handler has left by longjmp(3): it is never left otherwise, and the handle
 * stays busy. */
#include <string.h>
#include <unistd.h>

#include "api/api.h"
#include "calls/calls.h"
#include "connection/connection.h"
#include "connection/endpoint.h"
#include "connection/stores.h"
#include "memory/memory.h"
#include "request/request.h"
#include "wait/wait.h"

/* What it had borrowed from its caller is gone, so nothing is sent any more, not even a CANCEL. */
static void end_sleeper(nearcall_client *client)
{
    if (client->endpoints)
        client->endpoints->is_dropped = true;
    nc_connection_drop(client, "closed by " NC_ABANDONED);
    if (client->endpoints)
        client->endpoints->is_dropped = client->endpoints->is_pinned = false;
    nc_sync_abandon(client);
    nc_lost_give_up_all(client);
    nc_calls_free_unknown(client);
    nc_writer_drop(client);
}

/* The connection may have it already, which then closes it. */
static void close_half_opened(nearcall_client *client)
{
    int fd = client->opening;
    client->opening = -1;
    if (fd >= 0 && fd != client->connection.fd)
        close(fd);
}

/* Only what the kernel has is given back: descriptors and mappings, whose numbers are stored, and
 * forgotten, at once. What OpenSSL has may be between two of its own steps. */
static void end_half_way(nearcall_client *client)
{
    client->connection.tls = NULL;
    close_half_opened(client);
    nc_connection_close_socket(client);
    nc_memory_abandon(&client->connection.memory);
    nc_stores_close(&client->connection.stores);
    nc_connection_orphan(client, false);
    nc_endpoints_abandon(client);
    memset(&client->embed.reply, 0, sizeof(client->embed.reply));
    nc_calls_after_leaving(client);
    nc_forget_half_changed(client);
}

static void end_left(nearcall_client *client)
{
    if (atomic_load_explicit(&client->asleep, memory_order_relaxed))
        end_sleeper(client);
    else
        end_half_way(client);
    client->waiting = NULL;
    client->connects = false;
    nc_wake_up(client);
}

NEARCALL_API int nearcall_abandon(nearcall_client *client)
{
    if (!client)
        return NEARCALL_E_MISUSE;
    if (!nc_is_busy(client))
        return 0;
    if (nc_forked(&client->guard)) /* what was left is the parent's */
        nc_after_fork(client);
    else
        end_left(client);
    return nc_leave(client, 1);
}
