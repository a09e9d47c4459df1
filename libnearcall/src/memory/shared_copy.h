/* Copies where either end may lie in the region that a child does not have. guard is that of the
 * handle whose memory it is. */
#ifndef NC_SHARED_COPY_H
#define NC_SHARED_COPY_H

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#include "base/buffer.h"
#include "base/fork.h"
#include "memory/memory.h"

/* To block signals costs a third of a microsecond, which a copy of this length does not show.
 * What is shorter is done before a handler can be expected to come; docs/guides/prefork.md says what
 * becomes of a child of one that comes all the same. */
#define NC_SHIELDED_BYTES_MIN 16384
bool nc_shared_copy_shielded(const struct nc_memory *memory, const struct nc_fork_guard *guard,
                             void *to, const void *from, size_t bytes);
/* memmove() where either end may lie in the caller region. False: this process is a child by
 * now, and nothing was copied. */
static inline bool nc_shared_copy(const struct nc_memory *memory, const struct nc_fork_guard *guard,
                                  void *to, const void *from, size_t bytes)
{
    if (bytes >= NC_SHIELDED_BYTES_MIN)
        return nc_shared_copy_shielded(memory, guard, to, from, bytes);
    memmove(to, from, bytes);
    return true;
}
/* The same to a buffer's end. 0, NEARCALL_E_RESOURCE_EXHAUSTED, or NEARCALL_E_UNAVAILABLE in
 * a child. */
int nc_shared_append(const struct nc_memory *memory, const struct nc_fork_guard *guard,
                     struct nc_buffer *buffer, const void *data, size_t bytes);

#endif
