#include "base/clock.h"
#include "base/descriptor.h"
#include "connection/connection.h"

#define LOOKS_MEASURED 4
/* Another thread may close descriptors meanwhile; so many requests miss that at most. */
#define INFERRED_MAX 15

bool nc_connection_has_its_socket(const struct nc_connection *connection)
{
    return nc_descriptor_is(connection->fd, connection->device, connection->inode);
}

void nc_identity_begin(nearcall_client *client)
{
    struct nc_connection *connection = &client->connection;
    int64_t look_ns = NC_NEVER;
    for (int i = 0; i < LOOKS_MEASURED; i++) {
        int64_t begun_ns = nc_now_ns();
        (void)nc_connection_has_its_socket(connection);
        look_ns = nc_earlier(look_ns, nc_now_ns() - begun_ns);
    }
    connection->identity = (struct nc_identity){.seen_ns = client->now_ns, .look_ns = look_ns};
}

void nc_identity_infer(nearcall_client *client)
{
    struct nc_identity *identity = &client->connection.identity;
    int64_t outside_ns = client->now_ns - identity->left_ns;
    if (outside_ns < 0 || outside_ns >= identity->look_ns || identity->inferred == INFERRED_MAX)
        return;
    identity->inferred++;
    identity->seen_ns = client->now_ns;
}

void nc_identity_leave(nearcall_client *client)
{
    struct nc_connection *connection = &client->connection;
    if (connection->state == NC_READY && connection->identity.seen_ns == client->now_ns)
        connection->identity.left_ns = nc_now_ns();
}
