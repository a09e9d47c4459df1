/* Before anything is read, written or waited for: is the descriptor still the connection's? */
#include "connection/connection.h"
#include "receive/receive.h"

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
