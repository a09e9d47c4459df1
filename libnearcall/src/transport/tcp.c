#include "transport/transport.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/limits_gen.h"

static int error_of_lookup(int r)
{
    switch (r) {
    case EAI_SYSTEM: return errno;
    case EAI_MEMORY: return ENOMEM;
    default: return NC_LOOKUP_FAILED + r;
    }
}

static void set(int fd, int level, int name, int value)
{
    (void)setsockopt(fd, level, name, &value, sizeof(value));
}

/* Best effort: without these options calls are slower, or wait for their deadlines where a host is gone
 * that cannot say so. Nothing may be lost by them. The kernel asks in whole seconds whether a silent peer is
 * there, and a peer that leaves bytes unanswered is given up after silence_ms. */
static void set_options(int fd, uint32_t silence_ms)
{
    int unanswered_ms = silence_ms ? (int)silence_ms : NC_TCP_UNANSWERED_MS;
    int ask_s = silence_ms ? (int)(silence_ms / 2 / 1000) : NC_TCP_KEEP_ALIVE_MS / 1000;
    ask_s = ask_s < 1 ? 1 : ask_s > NC_TCP_KEEP_ALIVE_MS / 1000 ? NC_TCP_KEEP_ALIVE_MS / 1000 : ask_s;
    set(fd, IPPROTO_TCP, TCP_NODELAY, 1);
    set(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
    set(fd, IPPROTO_TCP, TCP_KEEPIDLE, ask_s);
    set(fd, IPPROTO_TCP, TCP_KEEPINTVL, ask_s);
    set(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, unanswered_ms);
}

static int connect_to(const struct addrinfo *to, uint32_t silence_ms, int *ret_fd)
{
    int fd = *ret_fd = socket(to->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return errno;
    set_options(fd, silence_ms);
    int error = connect(fd, to->ai_addr, to->ai_addrlen) == 0 ? 0 : errno;
    if (error != 0 && error != EINPROGRESS) {
        *ret_fd = -1;
        close(fd);
    }
    return error;
}

static int begin_connect(const struct nc_address *address, unsigned candidate, int *ret_fd)
{
    struct addrinfo hints, *list = NULL;
    memset(&hints, 0, sizeof(hints));
    hints.ai_socktype = SOCK_STREAM;
    hints.ai_flags = AI_NUMERICSERV;
    const char *host = address->answer[0] ? address->answer : address->host;
    int r = getaddrinfo(host, address->port, &hints, &list);
    if (r != 0)
        return candidate ? NC_NO_FURTHER_ADDRESS : error_of_lookup(r);
    const struct addrinfo *to = list;
    while (to && candidate-- > 0)
        to = to->ai_next;
    int error = to ? connect_to(to, address->silence_ms, ret_fd) : NC_NO_FURTHER_ADDRESS;
    freeaddrinfo(list);
    return error;
}

const struct nc_transport nc_transport_tcp = {
    .connect = begin_connect,
    .looks_first = true,
    .name = "tcp",
};

const struct nc_transport nc_transport_tls = {
    .connect = begin_connect,
    .looks_first = true,
    .is_secure = true,
    .name = "tls",
};
