/* The end of a connection. */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/rights.h"
#include "calls/calls.h"
#include "connection/connection.h"
#include "connection/endpoint.h"
#include "connection/stores.h"
#include "connection/watch.h"
#include "memory/memory.h"
#include "request/request.h"
#include "transport/files.h"

static void reset(struct nc_connection *connection)
{
    connection->state = NC_CLOSED;
    connection->fd = -1;
    connection->in.start = connection->in.end = 0;
    connection->taken = 0;
    connection->skip_bytes = 0;
    connection->has_files = connection->refused = false;
    connection->out.start = connection->out.end = connection->hole_bytes = 0;
    connection->borrowed = NULL;
    connection->borrowed_bytes = 0;
    connection->written = connection->received = connection->forsaken_end = 0;
    connection->first_id = connection->last_id = 0;
    connection->first_ping_id = connection->last_ping_id = 0;
    connection->unanswered = 0;
    connection->pong_waits = false;
    connection->draining = connection->reading_left = false;
    connection->receive_timeout_ns = 0;
    connection->memory_came = false;
    connection->spins = false;
}

void nc_connection_close_socket(nearcall_client *client)
{
    struct nc_connection *connection = &client->connection;
    nc_watch_forget(client);
    if (nc_connection_has_its_socket(connection)) {
        if (connection->transport->is_local)
            nc_rights_drain(connection->fd);
        close(connection->fd);
    }
    connection->fd = -1;
    if (client->endpoints)
        nc_endpoint_keep_socket(client);
    if (connection->tls)
        nc_tls_stream_free(connection->tls);
    connection->tls = NULL;
}

void nc_connection_close(nearcall_client *client)
{
    struct nc_connection *connection = &client->connection;
    nc_connection_close_socket(client);
    nc_descriptors_close(&connection->descriptors);
    nc_stores_close(&connection->stores);
    if (nc_memory_is_used(&connection->memory)) {
        (void)nc_request_own(client); /* it says itself what it lost */
        nc_memory_close(&connection->memory);
    }
    reset(connection);
    nc_buffer_trim(&connection->out);
}

const char *nc_connection_what_failed(const nearcall_client *client, int error, struct nc_loss *loss)
{
    const struct nc_tls_stream *tls = client->connection.tls;
    return tls && error == EPROTO ? nc_tls_what_failed(tls, &loss->code, &loss->retryable) : strerror(error);
}

void nc_connection_lost(nearcall_client *client, const struct nc_loss *loss, const char *format, ...)
{
    bool before_welcome = client->connection.state != NC_READY;
    va_list arguments;
    nc_calls_keep_what(client);
    va_start(arguments, format);
    vsnprintf(client->lost_text, sizeof(client->lost_text), format, arguments);
    va_end(arguments);
    nc_log(client, NEARCALL_LOG_WARNING, "%s", client->lost_text);
    if (client->endpoints && nc_endpoint_lost(client, loss, before_welcome)) {
        nc_connection_close(client);
        return;
    }
    if (!before_welcome || !nc_only_questions_wait(client)) {
        client->lost_code = loss->code;
        client->lost_outcome = before_welcome ? NEARCALL_OUTCOME_NOT_EXECUTED : NEARCALL_OUTCOME_UNKNOWN;
    }
    client->connect_code = before_welcome ? loss->code : 0;
    nc_calls_lose(client, loss, before_welcome);
    nc_connection_close(client);
}

void nc_connection_drop(nearcall_client *client, const char *how)
{
    struct nc_loss loss = {-NEARCALL_E_UNAVAILABLE, false, NC_ENDED_HERE};
    if (client->connection.state == NC_CLOSED)
        return;
    client->connection.welcome.has_key = false; /* and so nobody asks */
    nc_connection_lost(client, &loss, "the connection to %s was %s", client->address_text, how);
}

void nc_connection_orphan(nearcall_client *client, bool trust_memory)
{
    struct nc_connection *connection = &client->connection;
    if (nc_connection_has_its_socket(connection))
        close(connection->fd);
    if (connection->tls && trust_memory)
        nc_tls_stream_free(connection->tls);
    connection->tls = NULL;
    if (client->tls && !trust_memory)
        nc_tls_distrust(client->tls);
    nc_memory_orphan(&connection->memory, trust_memory);
    nc_stores_orphan(&connection->stores);
    if (trust_memory)
        nc_descriptors_close(&connection->descriptors);
    connection->descriptors.waiting = connection->descriptors.frame.count = 0;
    if (!trust_memory) {
        memset(&connection->in, 0, sizeof(connection->in));
        memset(&connection->out, 0, sizeof(connection->out));
    }
    reset(connection);
}
