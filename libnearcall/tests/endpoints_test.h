/* Servers for tests of addresses with several endpoints: each serves one caller after the other, counts what comes, and
 * answers as it is told. */
#ifndef ENDPOINTS_TEST_H
#define ENDPOINTS_TEST_H

#include <stdatomic.h>

#include "script.h"

enum host_way {
    HOST_SERVES,
    HOST_LACKS, /* the function */
    HOST_FULL, /* refuses calls for want of room */
    HOST_REFUSES_ARGUMENTS,
    HOST_REFUSES_CALLER, /* in the welcome */
    HOST_REFUSES, /* in the welcome, because it is not available */
    HOST_DRAINS, /* does not take the call, and is stopping */
    HOST_RESETS, /* before it has read the call */
    HOST_ENDS, /* when it has read the call: nobody knows whether it has run */
    HOST_SAYS_NOTHING, /* to a caller that has connected */
    HOST_IS_SLOW, /* answers calls when it is told otherwise, and pings at once */
    HOST_IS_GONE, /* reads, and answers nothing */
    HOST_READS_SLOWLY
};

struct host {
    struct script script;
    _Atomic enum host_way way;
    atomic_int connections;
    atomic_int requests;
    atomic_int resolves;
    atomic_int pings;
    struct nc_frame late; /* what HOST_IS_SLOW has got */
    atomic_bool stops;
    bool is_up;
};

void host_start(struct host *host, const char *address); /* "unix:" or "tcp:", without the rest */
void host_start_beside(struct host *host, const struct host *other, const char *number); /* at the same port of another host */
void host_stop(struct host *host); /* nobody listens there any more */
void host_start_again(struct host *host); /* at the same address */
void host_end(struct host *host);

/* Of HOST_IS_SLOW, to the call that has come. */
void host_answer_late(struct host *host);

/* What a server has got since this was asked last. */
int host_requests(struct host *host);

/* An address of two endpoints, with a separator between them. */
const char *two_hosts(const struct host *first, const char *between, const struct host *second);

/* Calls with a payload that comes back. */
void call_it(nearcall_client *client);

#endif
