/* Options of calls that were checked and encoded once: what a handle, and each call that began meanwhile,
 * calls through. */
#ifndef NC_HANDLE_VIEW_H
#define NC_HANDLE_VIEW_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "nearcall.h"

/* Nothing but the count of holders ever changes: handles of several threads may share it. */
struct nearcall_view {
    atomic_uint holders;
    int64_t timeout_ms; /* 0: the handle's */
    int64_t backoff_first_ns;
    int64_t backoff_most_ns;
    uint32_t attempts_max; /* 0: the handle's */
    uint32_t flags;
    size_t extension_bytes;
    uint8_t extensions[]; /* as they travel */
};

static inline nearcall_view *nc_view_hold(nearcall_view *view)
{
    if (view)
        atomic_fetch_add_explicit(&view->holders, 1, memory_order_relaxed);
    return view;
}

/* Forgets it, and frees it if nobody else holds it. */
void nc_view_release(nearcall_view **view);

#endif
