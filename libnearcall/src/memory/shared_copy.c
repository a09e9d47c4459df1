/* Long copies into and out of the region that this process shares with its server and that a
 * child does not have: handlers of signals wait for their end. One that forked in the middle
 * and returned would let the child go on where nothing is mapped. */
#include "memory/shared_copy.h"

#include "base/signals.h"
#include "nearcall.h"

static bool lies_in(const struct nc_memory *memory, const void *at)
{
    uintptr_t from = (uintptr_t)memory->caller, address = (uintptr_t)at;
    return nc_memory_is_used(memory) && address >= from && address - from < memory->caller_bytes;
}

bool nc_shared_copy_shielded(const struct nc_memory *memory, const struct nc_fork_guard *guard,
                             void *to, const void *from, size_t bytes)
{
    sigset_t former;
    if (!lies_in(memory, to) && !lies_in(memory, from)) {
        memmove(to, from, bytes);
        return true;
    }
    nc_block_signals(&former);
    bool is_there = !nc_forked(guard);
    if (is_there)
        memmove(to, from, bytes);
    pthread_sigmask(SIG_SETMASK, &former, NULL);
    return is_there;
}

int nc_shared_append(const struct nc_memory *memory, const struct nc_fork_guard *guard,
                     struct nc_buffer *buffer, const void *data, size_t bytes)
{
    int r = nc_buffer_reserve(buffer, bytes);
    if (r < 0)
        return r;
    if (bytes && !nc_shared_copy(memory, guard, buffer->data + buffer->end, data, bytes))
        return NEARCALL_E_UNAVAILABLE;
    buffer->end += bytes;
    return NEARCALL_OK;
}
