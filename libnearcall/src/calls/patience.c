/* How long the calls that wait for a connection give it. */
#include "calls/calls.h"

#include "base/clock.h"

bool nc_calls_wait_for_connection(const nearcall_client *client)
{
    const struct nc_call *call = client->calls.used;
    while (call && call->state != NC_CALL_PENDING)
        call = call->next;
    return call != NULL;
}

int64_t nc_calls_pending_deadline_ns(const nearcall_client *client)
{
    int64_t latest_ns = 0;
    for (const struct nc_call *call = client->calls.used; call; call = call->next)
        if (call->state == NC_CALL_PENDING && call->deadline_ns > latest_ns)
            latest_ns = call->deadline_ns;
    return latest_ns;
}

static void limit_connecting(nearcall_client *client)
{
    int64_t connect_timeout_ms = client->options.connect_timeout_ms;
    client->connection.connect_limit_ns =
        connect_timeout_ms > 0 ? nc_after_ms(client->now_ns, connect_timeout_ms) : NC_NEVER;
}

static void wait_until(struct nc_connection *connection, int64_t deadline_ns)
{
    connection->connect_deadline_ns = nc_earlier(deadline_ns, connection->connect_limit_ns);
}

void nc_connection_limit(nearcall_client *client, int64_t deadline_ns)
{
    int64_t pending_ns = nc_calls_pending_deadline_ns(client);
    limit_connecting(client);
    wait_until(&client->connection, pending_ns > deadline_ns ? pending_ns : deadline_ns);
}

void nc_connection_expect(nearcall_client *client, int64_t deadline_ns)
{
    struct nc_connection *connection = &client->connection;
    if (connection->state == NC_CLOSED || connection->state == NC_READY)
        return;
    if (!nc_calls_wait_for_connection(client))
        limit_connecting(client);
    if (deadline_ns > connection->connect_deadline_ns)
        wait_until(connection, deadline_ns);
}

void nc_calls_end_waiting(nearcall_client *client, int code, bool retryable, bool synchronous_only)
{
    for (struct nc_call *call = client->calls.used; call; call = call->next) {
        if (call->state != NC_CALL_PENDING || (synchronous_only && !call->synchronous))
            continue;
        nc_call_finish(client, call, code, NEARCALL_OUTCOME_NOT_EXECUTED, client->lost_text);
        call->retryable = retryable;
    }
}
