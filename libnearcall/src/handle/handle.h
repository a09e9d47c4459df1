/* The handle: what each part of the library keeps in it, in a header for each owner, the error that
 * its user reads, and whether somebody is inside. What is done with the parts is decided above.
 * May include: base, choice, wire, msgpack, embed, transport, memory. */
#ifndef NC_HANDLE_H
#define NC_HANDLE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/address.h"
#include "base/buffer.h"
#include "base/fork.h"
#include "embed/embed.h"
#include "handle/call.h"
#include "handle/connection.h"
#include "handle/endpoints.h"
#include "handle/error.h"
#include "handle/function.h"
#include "handle/hooks.h"
#include "handle/request.h"
#include "handle/view.h"
#include "handle/watch.h"
#include "nearcall.h"

#define NC_SOFTWARE_NAME_BYTES_MAX 255

struct nc_options {
    int64_t timeout_ms;
    int64_t connect_timeout_ms;
    uint32_t flags;
    uint32_t frame_bytes_max;
    size_t value_bytes_max; /* 0: nothing travels in stores */
    uint32_t attempts_max;
    uint32_t calls_in_flight_max;
    uint32_t server_user_ids_count;
    uint32_t *server_user_ids;
    char *name;
};

struct nearcall_client {
    struct nc_fork_guard guard;
    /* 1 while a thread is inside and memory may be half-way; a child that finds
     * it so trusts nothing of what it inherited. */
    atomic_int busy;
    atomic_int asleep; /* 1 while the thread inside is in a system call that waits, and memory is whole */
    bool unusable; /* nearcall_open() failed */
    struct nc_options options;
    /* Of several endpoints: the active one's, as its connection is. */
    struct nc_address address;
    char *address_text;
    struct nc_endpoints *endpoints; /* NULL: there is only one */
    nearcall_view *view; /* that calls begin through; NULL: none */
    int64_t timeout_ms; /* the default: the view's, or that of the options */
    int64_t now_ns; /* the clock as it was read last */
    uint64_t last_id;
    uint64_t random;
    struct nc_tls *tls; /* of a "tls:" address; NULL otherwise */
    bool plain_told; /* that calls leave this machine in plain text */
    struct nc_embed embed;
    /* A socket that is being made and is not the connection's yet, or is so already; -1: none is. It is kept for
     * nearcall_abandon(), for which the number would be lost otherwise. */
    int opening;
    struct nc_connection connection;
    struct nc_calls calls;
    /* Its user was told what to watch, or will be without asking: so that the
     * descriptor wakes it, the handle sleeps while it is outside. */
    bool watched;
    struct nc_watch watch;
    struct nc_call *waiting; /* its reply need not be copied */
    struct nc_sync sync;
    nearcall_call_id half_begun; /* nearcall_request_send() was interrupted when a part of it was sent; 0: none */
    bool half_given_up; /* one that was, and its user was not told yet */
    struct nc_buffer lent; /* a kept reply the user reads now */
    struct nc_buffer spare; /* memory of a large one before, for the next: see connection/stores.c */
    int64_t spare_ns; /* when it was let go */
    bool lends_more; /* one of the next two may not be NULL */
    struct nc_files *lent_files; /* that came with the reply the user reads now */
    struct nc_metadata *lent_metadata;
    struct nc_writer request;
    struct nc_error error;
    int (*interrupt_check)(void *argument); /* NULL: nobody is asked */
    void *interrupt_argument;
    struct nc_hooks hooks;
    bool nobody_listens; /* the last try to connect has found that there is no server at all */
    int lost_code; /* positive: why the last connection ended */
    int lost_outcome; /* of what waited for it: not executed if it never stood */
    char lost_text[NC_LOST_TEXT_BYTES];
    bool connects; /* nearcall_connect() has begun without blocking, and has not told the end */
    int64_t connect_until_ns;
    int connect_code; /* positive: why it failed meanwhile */
    struct nc_functions functions;
    /* What a child makes of a handle that it inherited. Only the top knows all that has to be
     * done, and a fork is noticed at the bottom. */
    void (*after_fork)(nearcall_client *client);
};

static inline bool nc_is_busy(const nearcall_client *client)
{
    return atomic_load_explicit(&client->busy, memory_order_relaxed) != 0;
}
static inline void nc_become_idle(nearcall_client *client)
{
    atomic_store_explicit(&client->busy, 0, memory_order_release);
}
static inline void nc_become_busy(nearcall_client *client)
{
    atomic_store_explicit(&client->busy, 1, memory_order_relaxed);
    atomic_thread_fence(memory_order_release);
}

/* Around a system call that waits, where a signal's handler may leave the function by longjmp(3). The
 * fences keep the compiler from moving what was changed before, or is changed behind, in between. */
static inline void nc_fall_asleep(nearcall_client *client)
{
    atomic_signal_fence(memory_order_seq_cst);
    atomic_store_explicit(&client->asleep, 1, memory_order_relaxed);
    atomic_signal_fence(memory_order_seq_cst);
}
static inline void nc_wake_up(nearcall_client *client)
{
    atomic_signal_fence(memory_order_seq_cst);
    atomic_store_explicit(&client->asleep, 0, memory_order_relaxed);
    atomic_signal_fence(memory_order_seq_cst);
}

/* A signal's handler may fork while this thread is inside, and return in the child:
 * then the thread inside is this one, at a place where memory is whole. True when
 * that has happened; all calls have ended and there is no connection then. */
bool nc_take_over_inside(nearcall_client *client);
static inline bool nc_forked_inside(nearcall_client *client)
{
    return __builtin_expect(nc_forked(&client->guard), 0) && nc_take_over_inside(client);
}

static inline bool nc_connection_usable(const nearcall_client *client)
{
    return client->connection.state == NC_READY && !client->connection.draining;
}

#endif
