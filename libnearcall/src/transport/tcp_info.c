/* What the kernel knows of a connection over TCP. The C library's header has an older form of that, and cannot be
 * included beside the kernel's. */
#include <linux/tcp.h>
#include <stddef.h>
#include <string.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "transport/transport.h"

#define LEVEL_TCP 6

bool nc_tcp_acknowledged(int fd, uint64_t *ret_bytes, int64_t *ret_ago_ns)
{
    struct tcp_info info;
    socklen_t bytes = sizeof(info);
    memset(&info, 0, sizeof(info));
    *ret_bytes = 0;
    *ret_ago_ns = 0;
    if (getsockopt(fd, LEVEL_TCP, TCP_INFO, &info, &bytes) != 0 ||
        bytes < offsetof(struct tcp_info, tcpi_bytes_acked) + sizeof(info.tcpi_bytes_acked))
        return false;
    *ret_bytes = info.tcpi_bytes_acked;
    *ret_ago_ns = info.tcpi_last_ack_recv * NC_NS_PER_MS;
    return info.tcpi_unacked > 0 || info.tcpi_notsent_bytes > 0;
}
