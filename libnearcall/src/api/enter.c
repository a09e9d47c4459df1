/* Coming into a handle, in this process or a child, and leaving it. */
#include "api/api.h"

#include <string.h>

#include "api/embed.h"
#include "base/clock.h"
#include "base/random.h"
#include "calls/calls.h"
#include "connection/connection.h"
#include "connection/endpoint.h"
#include "connection/stores.h"
#include "connection/watch.h"
#include "memory/memory.h"
#include "receive/receive.h"
#include "request/request.h"
#include "transport/files.h"

/* Many times what a ring holds: a server that sends more does not stop. */
#define TRIES_TO_SLEEP 64

void nc_forget_half_changed(nearcall_client *client)
{
    memset(&client->lent, 0, sizeof(client->lent));
    memset(&client->spare, 0, sizeof(client->spare));
    client->lends_more = false;
    client->lent_files = NULL;
    client->lent_metadata = NULL;
    memset(&client->request, 0, sizeof(client->request));
    nc_error_clear(client);
    client->sync.call = NULL;
}

void nc_after_fork(nearcall_client *client)
{
    bool trust_memory = atomic_load_explicit(&client->busy, memory_order_relaxed) == 0;
    nc_request_after_fork(client);
    nc_embed_after_fork(client);
    client->random = nc_random_seed(client);
    nc_connection_orphan(client, trust_memory); /* first: there is room for what follows then */
    nc_endpoints_orphan(client, trust_memory);
    nc_watch_after_fork(client);
    client->opening = -1; /* the parent's, and whether the number still means it here nobody knows */
    client->waiting = NULL;
    client->connects = false;
    client->sync.asking.is_possible = false; /* the call is the parent's, which may send it again */
    if (trust_memory) {
        nc_calls_after_fork(client);
    } else {
        nc_calls_after_busy_fork(client);
        nc_forget_half_changed(client);
    }
    nc_fork_guard_rearm(&client->guard);
    nc_wake_up(client);
    nc_become_idle(client);
}

static int prepare_library(nearcall_client *client)
{
    int r = nc_embed_prepare(client);
    if (r < 0)
        nc_become_idle(client);
    return r;
}

static void end_lending(nearcall_client *client)
{
    client->lends_more = false;
    nc_files_release(&client->lent_files);
    nc_metadata_free(&client->lent_metadata);
}

/* The first half of entering: what the last function left for its caller stays. */
static inline int come_in(nearcall_client *client)
{
    if (__builtin_expect(client == NULL, 0))
        return NEARCALL_E_MISUSE;
    if (__builtin_expect(nc_forked(&client->guard), 0))
        nc_after_fork(client);
    if (__builtin_expect(client->unusable, 0))
        return -client->error.code;
    if (__builtin_expect(nc_is_busy(client), 0))
        return NEARCALL_E_MISUSE; /* a signal's handler, or another thread; the error is not theirs */
    nc_become_busy(client);
    return NEARCALL_OK;
}

static inline int enter(nearcall_client *client)
{
    int r = come_in(client);
    if (__builtin_expect(r < 0, 0))
        return r;
    if (client->connection.memory.held) /* before any system call, after which this may be a child */
        nc_memory_release(&client->connection.memory);
    if (client->error.code)
        nc_error_clear(client);
    if (__builtin_expect(client->lent.capacity >= NC_LARGE_REPLY_BYTES, 0))
        nc_stores_keep_lent(client);
    nc_buffer_empty(&client->lent);
    if (__builtin_expect(client->lends_more, 0))
        end_lending(client);
    client->connection.identity.seen_ns = 0; /* the program may have closed what it did not know */
    return NEARCALL_OK;
}

int nc_enter_beside(nearcall_client *client)
{
    return come_in(client);
}

int nc_enter_without_library(nearcall_client *client)
{
    return enter(client);
}

int nc_enter(nearcall_client *client)
{
    int r = enter(client);
    if (__builtin_expect(r == NEARCALL_OK && client->embed.file && !client->embed.library, 0))
        return prepare_library(client);
    return r;
}

/* The descriptor wakes a handle only while it sleeps. What came until then has to be
 * taken first: nobody would be told of it. If that does not end, it is left for
 * nearcall_timeout_ms() to tell. */
static void sleep_outside(nearcall_client *client)
{
    struct nc_memory *memory = &client->connection.memory;
    int64_t until_ns = NC_NEVER;
    if (client->calls.used_count == 0)
        return;
    for (int i = 0; i < TRIES_TO_SLEEP && nc_memory_is_used(memory) && !nc_forked_inside(client) &&
                    !nc_memory_fall_asleep(memory) && (i == 0 || nc_now_ns() < until_ns);
         i++) {
        until_ns = i == 0 ? nc_now_ns() + NC_TURN_NS : until_ns;
        (void)nc_receive_memory(client);
    }
}

void nc_go_outside(nearcall_client *client)
{
    sleep_outside(client);
    nc_watch_update(client);
}

int64_t nc_deadline(nearcall_client *client, int64_t timeout_ms)
{
    client->now_ns = nc_now_ns();
    if (__builtin_expect(client->connection.stores.idle_ns && client->now_ns >= client->connection.stores.idle_ns, 0))
        nc_stores_expire(client);
    return nc_after_ms(client->now_ns, timeout_ms ? timeout_ms : client->timeout_ms);
}

int nc_check_timeout(nearcall_client *client, int64_t timeout_ms)
{
    if (timeout_ms >= NEARCALL_NO_TIMEOUT)
        return NEARCALL_OK;
    return nc_fail(client, NEARCALL_E_INVALID_ARGUMENT, NEARCALL_OUTCOME_NOT_EXECUTED,
                   "timeout_ms is %lld; it is a number of milliseconds, 0 for the default, or "
                   "NEARCALL_NO_TIMEOUT",
                   (long long)timeout_ms);
}
