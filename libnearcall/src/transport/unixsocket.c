#include "base/rights.h"
#include "transport/transport.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

static socklen_t fill(struct sockaddr_un *to, const struct nc_address *address)
{
    size_t bytes = strlen(address->path);
    memset(to, 0, sizeof(*to));
    to->sun_family = AF_UNIX;
    if (address->kind == NC_ADDRESS_ABSTRACT) {
        memcpy(to->sun_path + 1, address->path, bytes);
        return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + bytes);
    }
    memcpy(to->sun_path, address->path, bytes + 1);
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + bytes + 1);
}

static int begin_connect(const struct nc_address *address, unsigned candidate, int *ret_fd)
{
    struct sockaddr_un to;
    socklen_t to_bytes = fill(&to, address);
    if (candidate > 0)
        return NC_NO_FURTHER_ADDRESS;
    int fd = *ret_fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return errno;
    nc_rights_refuse(fd); /* before anybody can send any */
    if (connect(fd, (struct sockaddr *)&to, to_bytes) == 0)
        return 0;
    int error = errno;
    *ret_fd = -1;
    close(fd);
    return error;
}

static int owner_of_directory(const char *path, uid_t *ret_owner)
{
    char directory[sizeof(((struct nc_address *)0)->path)];
    struct stat status;
    strcpy(directory, path);
    char *slash = strrchr(directory, '/');
    slash[slash == directory ? 1 : 0] = '\0';
    if (stat(directory, &status) != 0)
        return errno;
    *ret_owner = status.st_uid;
    return 0;
}

static int server_user(const struct nc_address *address, int fd, uid_t *ret_user,
                       bool *ret_has_owner, uid_t *ret_owner)
{
    struct ucred credentials;
    socklen_t bytes = sizeof(credentials);
    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &credentials, &bytes) != 0)
        return errno;
    *ret_user = credentials.uid;
    *ret_has_owner = address->kind == NC_ADDRESS_UNIX;
    return *ret_has_owner ? owner_of_directory(address->path, ret_owner) : 0;
}

const struct nc_transport nc_transport_unixsocket = {
    .connect = begin_connect,
    .server_user = server_user,
    .reset_shows_unread = true,
    .is_local = true,
    .name = "unix socket",
};
