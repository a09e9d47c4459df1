/* Noticing, inside the library, that this process is a child by now. */
#include "handle/handle.h"

bool nc_take_over_inside(nearcall_client *client)
{
    nc_become_idle(client);
    client->after_fork(client);
    nc_become_busy(client);
    return true;
}
