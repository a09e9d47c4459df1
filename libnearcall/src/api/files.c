/* The files of the reply that the user reads. */
#include "base/rights.h"
#include "handle/handle.h"
#include "transport/files.h"

static int take_file(struct nc_files *files, int64_t number)
{
    if (!files || number < 0 || number >= (int64_t)files->count || files->fds[number] < 0)
        return NEARCALL_E_INVALID_ARGUMENT;
    int fd = files->fds[number];
    files->fds[number] = -1;
    nc_rights_disarm(fd);
    return fd;
}

NEARCALL_API int nearcall_take_file(nearcall_client *client, int64_t number)
{
    if (!client || nc_is_busy(client))
        return NEARCALL_E_MISUSE;
    nc_become_busy(client); /* a handler's call would release the files */
    int fd = take_file(client->lent_files, number);
    nc_become_idle(client);
    return fd;
}
