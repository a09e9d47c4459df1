/* A socket's addresses, as texts of spec/handoff.md. */
#include <netdb.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "handoff/handoff.h"

static void unix_text(const struct sockaddr_un *address, socklen_t bytes, char *out, size_t capacity)
{
    size_t offset = offsetof(struct sockaddr_un, sun_path);
    size_t path_bytes = bytes > offset ? bytes - offset : 0;
    if (path_bytes > 0 && address->sun_path[0] == '\0')
        snprintf(out, capacity, "unix:@%.*s", (int)path_bytes - 1, address->sun_path + 1);
    else if (path_bytes > 0)
        snprintf(out, capacity, "unix:%.*s", (int)path_bytes, address->sun_path);
}

static void tcp_text(const struct sockaddr *address, socklen_t bytes, char *out, size_t capacity)
{
    char host[NI_MAXHOST], port[NI_MAXSERV];
    if (getnameinfo(address, bytes, host, sizeof(host), port, sizeof(port),
                    NI_NUMERICHOST | NI_NUMERICSERV) != 0)
        return;
    snprintf(out, capacity, address->sa_family == AF_INET6 ? "tcp:[%.100s]:%.10s" : "tcp:%.100s:%.10s",
             host, port);
}

/* Empty where there is none: a client that has gone, a Unix socket without a name. */
void nc_handoff_socket_address(int fd, bool remote, char *out, size_t capacity)
{
    union {
        struct sockaddr any;
        struct sockaddr_un local;
        struct sockaddr_storage storage;
    } address;
    socklen_t bytes = sizeof(address);
    memset(&address, 0, sizeof(address));
    out[0] = '\0';
    int r = remote ? getpeername(fd, &address.any, &bytes) : getsockname(fd, &address.any, &bytes);
    if (r != 0)
        return;
    if (address.any.sa_family == AF_UNIX)
        unix_text(&address.local, bytes, out, capacity);
    else if (address.any.sa_family == AF_INET || address.any.sa_family == AF_INET6)
        tcp_text(&address.any, bytes, out, capacity);
}
