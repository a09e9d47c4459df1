/* What a connection waits for. */
#include <poll.h>

#include "base/clock.h"
#include "calls/calls.h"
#include "connection/connection.h"

bool nc_connection_is_over(const nearcall_client *client)
{
    return client->connection.state == NC_READY && client->connection.draining &&
           nc_calls_on_connection(client) == 0;
}

short nc_connection_events(const nearcall_client *client)
{
    const struct nc_connection *connection = &client->connection;
    switch (connection->state) {
    case NC_CONNECTING:
        return POLLOUT;
    case NC_SECURING:
    case NC_HELLO:
        return (short)(nc_connection_keeps(connection) ? POLLIN | POLLOUT : POLLIN);
    case NC_READY:
        return (short)(nc_output_waits(connection) && !connection->refused ? POLLIN | POLLOUT
                                                                           : POLLIN);
    default:
        return 0;
    }
}

int64_t nc_output_stuck_ns(const struct nc_connection *connection)
{
    return connection->written < connection->forsaken_end
               ? nc_after_ms(connection->moved_ns, NC_FRAME_SILENCE_MS)
               : NC_NEVER;
}

/* Until when a connection that is being made is waited for. */
static int64_t connect_deadline_ns(const nearcall_client *client)
{
    int64_t deadline_ns = client->connection.connect_deadline_ns;
    return client->endpoints ? nc_earlier(deadline_ns, client->endpoints->share_until_ns) : deadline_ns;
}

int64_t nc_connection_timer_ns(const nearcall_client *client)
{
    const struct nc_connection *connection = &client->connection;
    switch (connection->state) {
    case NC_BACKLOG_FULL:
        return nc_earlier(connection->retry_ns, connect_deadline_ns(client));
    case NC_CONNECTING:
        return connect_deadline_ns(client);
    case NC_SECURING:
    case NC_HELLO:
        return nc_earlier(connection->welcome_limit_ns, connect_deadline_ns(client));
    case NC_READY:
        return nc_earlier(nc_earlier(connection->refused ? connection->retry_ns : NC_NEVER,
                                     nc_output_stuck_ns(connection)),
                          nc_silence_timer_ns(client));
    default:
        return NC_NEVER;
    }
}
