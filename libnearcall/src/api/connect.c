/* Connecting ahead of a call, asking for a sign of life, and how calls travel. */
#include "api/api.h"
#include "base/clock.h"
#include "calls/calls.h"
#include "connect/connect.h"
#include "connect/endpoints.h"
#include "connect/secure.h"
#include "connection/connection.h"
#include "memory/memory.h"
#include "wait/wait.h"

static int connect_failed(nearcall_client *client)
{
    client->connects = false;
    return nc_fail(client, -client->connect_code, NEARCALL_OUTCOME_NOT_EXECUTED, "%s", client->lost_text);
}

/* What was begun for a call goes on within that call's time. */
static int connect_took_too_long(nearcall_client *client)
{
    client->connects = false;
    return nc_fail(client, NEARCALL_E_DEADLINE_EXCEEDED, NEARCALL_OUTCOME_NOT_EXECUTED,
                   "no connection to %s in time", client->address_text);
}

/* One attempt lasts until its end was told here, whoever else has noticed that meanwhile. */
static int connect_without_blocking(nearcall_client *client, int64_t timeout_ms)
{
    int64_t until_ns = nc_deadline(client, timeout_ms); /* reads the clock */
    if (!client->connects) {
        client->connects = true;
        client->connect_until_ns = until_ns;
        client->connect_code = 0;
        if (client->endpoints)
            nc_endpoints_choose(client, NULL, false);
    }
    if (client->connection.state != NC_CLOSED)
        nc_connection_advance(client, nc_poll_now(client));
    if (nc_connection_is_over(client))
        nc_connection_close(client);
    if (client->connection.state == NC_CLOSED && client->connect_code == 0) /* none, or drained, or to the next endpoint */
        nc_connection_start(client, client->connect_until_ns);
    if (nc_connection_usable(client))
        return NEARCALL_OK;
    if (client->connection.state == NC_CLOSED && client->connect_code)
        return connect_failed(client);
    if (client->now_ns >= client->connect_until_ns)
        return connect_took_too_long(client);
    return nc_fail(client, NEARCALL_E_AGAIN, NEARCALL_OUTCOME_NONE, "connecting to %s",
                   client->address_text);
}

static int connect_blocking(nearcall_client *client, int64_t timeout_ms)
{
    struct nc_call *call = nc_call_new(client, NC_PING, NULL, nc_deadline(client, timeout_ms));
    if (!call)
        return nc_fail_table_full(client);
    call->synchronous = true;
    nc_endpoints_begin(client, call);
    int r = nc_make_ready(client, call);
    if (call->state == NC_CALL_FINISHED)
        return nc_call_deliver(client, call, NULL);
    nc_call_free(client, call);
    if (r < 0)
        return nc_fail(client, r, NEARCALL_OUTCOME_NONE,
                       "a signal arrived while connecting; nearcall_connect() goes on");
    return NEARCALL_OK;
}

NEARCALL_API int nearcall_connect(nearcall_client *client, int64_t timeout_ms)
{
    int r = nc_enter(client);
    if (r < 0)
        return r;
    r = nc_check_timeout(client, timeout_ms);
    if (r == NEARCALL_OK && !nc_connection_usable(client))
        r = client->options.flags & NEARCALL_NONBLOCKING
                ? connect_without_blocking(client, timeout_ms)
                : connect_blocking(client, timeout_ms);
    return nc_leave(client, r);
}

static int ping(nearcall_client *client, int64_t timeout_ms, uint64_t *ret_round_trip_ns)
{
    nc_sync_abandon(client);
    struct nc_call *call = nc_call_new(client, NC_PING, NULL, nc_deadline(client, timeout_ms));
    if (!call)
        return nc_fail_table_full(client);
    int r = nc_sync_call(client, call, 0, NULL);
    if (r == NEARCALL_OK && ret_round_trip_ns) /* a freed slot keeps its numbers */
        *ret_round_trip_ns = (uint64_t)(nc_now_ns() - call->sent_ns);
    return r;
}

NEARCALL_API int nearcall_ping(nearcall_client *client, int64_t timeout_ms,
                               uint64_t *ret_round_trip_ns)
{
    int r = nc_enter(client);
    if (r < 0)
        return r;
    r = nc_check_timeout(client, timeout_ms);
    if (r == NEARCALL_OK)
        r = ping(client, timeout_ms, ret_round_trip_ns);
    return nc_leave(client, r);
}

NEARCALL_API const char *nearcall_transport(const nearcall_client *client)
{
    if (!client || nc_forked(&client->guard))
        return "";
    if (client->embed.is_direct)
        return "same process";
    if (client->connection.state != NC_READY)
        return "";
    if (nc_memory_is_used(&client->connection.memory))
        return "shared memory";
    return client->connection.transport->name;
}

NEARCALL_API const char *nearcall_endpoint(const nearcall_client *client)
{
    if (!client || nc_forked(&client->guard) || (client->connection.state != NC_READY && !client->embed.is_direct))
        return "";
    return client->address_text;
}

NEARCALL_API int nearcall_is_exposed(const nearcall_client *client)
{
    return client && !nc_forked(&client->guard) && nc_secure_is_exposed(client);
}

NEARCALL_API uint32_t nearcall_server_process_id(const nearcall_client *client)
{
    if (!client || client->connection.state != NC_READY || nc_forked(&client->guard))
        return 0;
    return client->connection.welcome.process_id;
}
