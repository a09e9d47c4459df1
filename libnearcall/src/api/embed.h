/* Calls to a Go library within this process, and whether they are possible here. */
#ifndef NC_API_EMBED_H
#define NC_API_EMBED_H

#include <stddef.h>
#include <stdint.h>

#include "nearcall.h"

struct nc_embed;

/* What a caller gives besides the function; passed as one, because each of these functions has
 * no other use for it than to pass it on. */
struct nc_payload {
    int codec;
    const void *data;
    size_t bytes;
    int64_t timeout_ms;
};

enum { NC_EMBED_ELSEWHERE = 1 };

int nc_embed_open(nearcall_client *client);
int nc_embed_prepare(nearcall_client *client);
void nc_embed_after_fork(nearcall_client *client);
void nc_embed_free(struct nc_embed *embed);
/* NEARCALL_OK, a failure, or NC_EMBED_ELSEWHERE: nothing was done, and the call has
 * to take the connection. */
int nc_embed_call(nearcall_client *client, nearcall_function *function,
                  const struct nc_payload *payload, nearcall_reply *ret_reply);

#endif
