#include "identity.h"

#include "client.h"

#define LOOKS_MEASURED 4
/* Another thread may close descriptors meanwhile; so many requests miss that at most. */
#define INFERRED_MAX 15

/* Whether the number still means the socket that it did. */
bool nc_connection_has_its_socket(const struct nc_connection *connection)
{
    return nc_descriptor_is(connection->fd, connection->device, connection->inode);
}

/* The number means the connection's socket, as that was just made. */
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

/* False when the connection was lost by that, or is the parent's. */
bool nc_connection_identify(nearcall_client *client)
{
    struct nc_connection *connection = &client->connection;
    struct nc_loss loss = {-NEARCALL_E_UNAVAILABLE, true, NC_ENDED_HERE};
    connection->identity.seen_ns = client->now_ns;
    connection->identity.inferred = 0;
    bool is_ours = connection->fd < 0 || nc_connection_has_its_socket(connection);
    if (nc_forked_inside(client))
        return false; /* it was the parent's, and is gone here */
    if (is_ours)
        return true;
    nc_drain_memory(client); /* what has come there came from the server all the same */
    if (connection->fd < 0)
        return false;
    nc_connection_lost(client, &loss,
                       "this program has closed the descriptor of the connection to %s, as "
                       "closefrom(3) and daemons do",
                       client->address_text);
    return false;
}

/* A call is begun, and the clock was read. Where the one before it has left the library for less
 * time than a look takes, the program has made no system call since, and so replaced nothing. */
void nc_identity_infer(nearcall_client *client)
{
    struct nc_identity *identity = &client->connection.identity;
    int64_t outside_ns = client->now_ns - identity->left_ns;
    if (outside_ns < 0 || outside_ns >= identity->look_ns || identity->inferred == INFERRED_MAX)
        return;
    identity->inferred++;
    identity->seen_ns = client->now_ns;
}

/* A begun call leaves the library. What was not sent, or by memory, says nothing of the socket. */
void nc_identity_leave(nearcall_client *client)
{
    struct nc_connection *connection = &client->connection;
    if (connection->state == NC_READY && connection->identity.seen_ns == client->now_ns)
        connection->identity.left_ns = nc_now_ns();
}
