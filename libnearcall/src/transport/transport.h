/* How a stream to the server is made; what flows on it is the same for all. And the descriptors
 * that travel with its frames.
 * May include: base, wire, embed. */
#ifndef NC_TRANSPORT_H
#define NC_TRANSPORT_H

#include <stdbool.h>
#include <sys/types.h>

#include "base/address.h"

#define NC_NO_FURTHER_ADDRESS (-1)

/* A name could not be looked up: this and what getaddrinfo(3) returned, which is negative. */
#define NC_LOOKUP_FAILED (-1000)

struct nc_transport {
    /* Makes a non-blocking, close-on-exec socket for the address's candidate
     * number `candidate` and begins to connect it. 0: connected, EINPROGRESS: under
     * way, EAGAIN: the server's queue is full, another errno: failed, or
     * NC_LOOKUP_FAILED and less: the name of its host is not to be had;
     * NC_NO_FURTHER_ADDRESS: there are fewer candidates. *ret_fd has the socket as soon
     * as there is one, because a signal's handler may leave the function, and is -1
     * while there is none. For 0 and EINPROGRESS it is the caller's. */
    int (*connect)(const struct nc_address *address, unsigned candidate, int *ret_fd);

    /* Learns the user the server runs as and the owner of the place where it
     * listens. 0, or an errno. NULL: the transport knows no users. */
    int (*server_user)(const struct nc_address *address, int fd, uid_t *ret_user,
                       bool *ret_has_owner, uid_t *ret_owner);

    /* Whether ECONNRESET proves that the peer left bytes unread. */
    bool reset_shows_unread;

    /* Whether the server is on this machine: it may pass descriptors and memory, and has the same clock. */
    bool is_local;

    /* Whether a connection may have ended without a write noticing that: so one that has rested is looked at
     * before a call is sent there. */
    bool looks_first;

    bool is_secure; /* what is sent is sealed, as tls.h says */

    const char *name; /* as nearcall_transport() says it */
};

/* Of a connection over TCP: how many bytes the other host has acknowledged, and how long ago it has acknowledged any.
 * False: all were, or the kernel does not tell. */
bool nc_tcp_acknowledged(int fd, uint64_t *ret_bytes, int64_t *ret_ago_ns);

extern const struct nc_transport nc_transport_unixsocket;
extern const struct nc_transport nc_transport_tcp;
extern const struct nc_transport nc_transport_tls;
extern const struct nc_transport nc_transport_embed;

#endif
