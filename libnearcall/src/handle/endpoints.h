/* The endpoints of an address that has several. The connection of one of them is the handle's own, and those of
 * the others are parked here. Owned by connection/endpoint.c; which one a call goes to is decided by
 * connect/endpoints.c. */
#ifndef NC_HANDLE_ENDPOINTS_H
#define NC_HANDLE_ENDPOINTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/address.h"
#include "base/buffer.h"
#include "base/limits_gen.h"
#include "choice/choice.h"
#include "handle/connection.h"
#include "transport/tls.h"
#include "transport/transport.h"

#define NC_LOST_TEXT_BYTES 512

/* The name of a host in the address. Each of its answers is an endpoint. Until there are some, one endpoint stands for
 * them. Owned by connect/lookup.c. */
struct nc_host_name {
    struct nc_address address; /* the name's */
    char *parameters; /* with the question mark, or "" */
    struct nc_tls *tls; /* of all answers */
    unsigned group; /* of the answers of the family that the system prefers; those of the other are in the next one */
    unsigned answers;
    int64_t looked_up_ns;
    int64_t not_before_ns; /* a lookup that has failed is not tried again while there are other endpoints */
    int failure; /* what getaddrinfo(3) returned last */
    bool has_failed; /* an answer has, since then */
    bool sets_silence; /* several answers count as a list */
    bool is_told; /* that there are too many answers */
};

struct nc_endpoint {
    struct nc_address address;
    char *text;
    const struct nc_transport *transport;
    struct nc_tls *tls; /* the name's, if there is one */
    struct nc_host_name *name; /* NULL: it is no answer, nor does it stand for some */
    bool stands_in; /* there are no answers yet */
    struct nc_connection connection; /* while it is parked; meaningless while it is the handle's */
    /* The socket, also while a fork by another thread finds the connection half moved; -1: none. */
    int fd;
    dev_t device;
    ino_t inode;
    bool given_up; /* what is being connected was noted as silent already */
    char failure[NC_LOST_TEXT_BYTES]; /* why there was no connection last, or none any more; "": that is over */
    /* Of the present search: */
    int code; /* positive: why the call goes on to another one */
    bool retryable;
    char said[NC_LOST_TEXT_BYTES]; /* the same in words */
    struct nc_buffer answer; /* the error as the server sent it; empty if it did not */
};

/* What one attempt of a call has found so far, going from endpoint to endpoint. Calls that were begun, and
 * wait for the same connection, take part in it. */
struct nc_search {
    nc_endpoint_bits tried; /* have failed */
    nc_endpoint_bits absent; /* are known not to have the function */
    bool asks; /* one that is absent was chosen */
    bool is_later; /* it is not the first attempt */
    bool is_over; /* no endpoint is left, and the calls were told */
    unsigned failures;
    uint8_t failed[NC_ADDRESS_ENDPOINTS_MAX]; /* those that were tried, in order */
};

struct nc_endpoints {
    struct nc_choice choice;
    struct nc_endpoint *at[NC_ADDRESS_ENDPOINTS_MAX]; /* by the index in choice; NULL: none */
    struct nc_host_name *names[NC_ADDRESS_ENDPOINTS_MAX]; /* NULL behind the last */
    unsigned active; /* whose connection is the handle's */
    bool is_direct; /* it is the nearest alone, and works: calls need no choice */
    bool is_pinned; /* nothing else will do: its server is asked about a lost call */
    bool chooses; /* the call that is waited for is to be sent again, and not necessarily to the active one */
    bool stays; /* the next call goes to where the last one went: it depends on what that has found */
    bool is_beside; /* what happens to the connection concerns no call */
    bool is_dropped; /* this program ends the connection */
    bool was_silent; /* what has come to its end is so because nothing came from the server */
    bool is_moving; /* connections are being exchanged */
    nc_endpoint_bits under_way; /* parked, and still being connected */
    int64_t looked_ns; /* when those were looked at last */
    int64_t share_until_ns; /* when calls stop waiting for the connection that is being made, and go elsewhere */
    struct nc_search search;
};

#endif
