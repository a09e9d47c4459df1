/* To the process that loaded the library, from itself and from its children. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <sys/socket.h>

#include "base/descriptor.h"
#include "embed/embed_library.h"
#include "transport/transport.h"

/* Whether the descriptor was inherited and still means the socket. */
static bool descriptor_is_ours(const struct nearcall_embed_place *place)
{
    return nc_descriptor_is(place->descriptor, place->device, place->inode);
}

static int connect_to(const char *path, int *ret_fd)
{
    struct nc_address way = {.kind = NC_ADDRESS_UNIX};
    snprintf(way.path, sizeof(way.path), "%s", path);
    return nc_transport_unixsocket.connect(&way, 0, ret_fd);
}

/* By the descriptor, which a child that has become another user may still use; where
 * that was closed, or there is no /proc, by the path. */
static int connect_to_loader(const struct nearcall_embed_place *place, int *ret_fd)
{
    char inherited[sizeof(place->path)];
    if (!descriptor_is_ours(place))
        return connect_to(place->path, ret_fd);
    snprintf(inherited, sizeof(inherited), "/proc/self/fd/%d", place->descriptor);
    int error = connect_to(inherited, ret_fd);
    return error == ENOENT || error == EACCES ? connect_to(place->path, ret_fd) : error;
}

/* Nobody listens at a socket that refuses. A path may be missing for other reasons, so
 * the loader has ended only if no process has its number. */
static bool loader_has_ended(const struct nearcall_embed_library *library, int error)
{
    if (error == ECONNREFUSED)
        return true;
    return error == ENOENT && kill(library->loader, 0) != 0 && errno == ESRCH;
}

/* To the loader, or, when that has ended, to the process that loaded the same library
 * last: it is a stranger to the loader's children as long as they have a loader. */
static int begin_connect(const struct nc_address *address, unsigned candidate, int *ret_fd)
{
    const struct nearcall_embed_library *library = address->embedded;
    if (!library || candidate > 0)
        return NC_NO_FURTHER_ADDRESS;
    int error = connect_to_loader(library->place, ret_fd);
    if (!loader_has_ended(library, error))
        return error;
    error = connect_to(library->place->latest, ret_fd);
    return error == ENOENT ? ECONNREFUSED : error;
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
    .is_local = true,
    .name = "unix socket",
};
