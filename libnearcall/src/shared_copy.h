/* Copies where either end may lie in the region that a child does not have. */
#ifndef NC_SHARED_COPY_H
#define NC_SHARED_COPY_H

#include <string.h>

#include "client.h"

/* To block signals costs a third of a microsecond, which a copy of this length does not show.
 * What is shorter is done before a handler can be expected to come; docs/guides/prefork.md says what
 * becomes of a child of one that comes all the same. */
#define NC_SHIELDED_BYTES_MIN 16384
bool nc_shared_copy_shielded(nearcall_client *client, void *to, const void *from, size_t bytes);
/* memmove() where either end may lie in the caller region. False: this process is a child by
 * now, and nothing was copied. */
static inline bool nc_shared_copy(nearcall_client *client, void *to, const void *from, size_t bytes)
{
    if (bytes >= NC_SHIELDED_BYTES_MIN)
        return nc_shared_copy_shielded(client, to, from, bytes);
    memmove(to, from, bytes);
    return true;
}
/* The same to a buffer's end. 0, NEARCALL_E_RESOURCE_EXHAUSTED, or NEARCALL_E_UNAVAILABLE in
 * a child. */
int nc_shared_append(nearcall_client *client, struct nc_buffer *buffer, const void *data, size_t bytes);

#endif
