/* To the process that loaded the library, from itself and from its children. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "embed_library.h"
#include "transport.h"

/* Whether the descriptor was inherited and still means the socket. */
static bool descriptor_is_ours(const struct nearcall_embed_place *place)
{
    struct stat status;
    return place->descriptor >= 0 && fstat(place->descriptor, &status) == 0 &&
           status.st_dev == place->device && status.st_ino == place->inode;
}

/* The ways to it, from the best: by the descriptor, which a child that has become
 * another user may still use; by its path; and, when that process is gone, to the one
 * that loaded the same library last. */
static bool find_way(const struct nearcall_embed_place *place, unsigned candidate,
                     struct nc_address *ret_way)
{
    memset(ret_way, 0, sizeof(*ret_way));
    ret_way->kind = NC_ADDRESS_UNIX;
    const char *path = candidate <= 1 ? place->path : place->latest;
    if (candidate == 0 && descriptor_is_ours(place))
        snprintf(ret_way->path, sizeof(ret_way->path), "/proc/self/fd/%d", place->descriptor);
    else
        snprintf(ret_way->path, sizeof(ret_way->path), "%s", path);
    return candidate <= 2;
}

static int begin_connect(const struct nc_address *address, unsigned candidate, int *ret_fd)
{
    struct nc_address way;
    if (!address->place || !find_way(address->place, candidate, &way))
        return NC_NO_FURTHER_ADDRESS;
    return nc_transport_unixsocket.connect(&way, 0, ret_fd);
}

/* The directory's owner proves nothing more: it is the user that loaded. */
static int server_user(const struct nc_address *address, int fd, uid_t *ret_user,
                       bool *ret_has_owner, uid_t *ret_owner)
{
    struct ucred credentials;
    socklen_t bytes = sizeof(credentials);
    (void)address, (void)ret_owner;
    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &credentials, &bytes) != 0)
        return errno;
    *ret_user = credentials.uid;
    *ret_has_owner = false;
    return 0;
}

const struct nc_transport nc_transport_embed = {
    .connect = begin_connect,
    .server_user = server_user,
    .reset_shows_unread = true,
};
