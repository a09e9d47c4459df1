/* Replies that name a store: one that a request may be written to, or one in which a result lies. */
#include "base/base.h"
#include "base/clock.h"
#include "calls/calls.h"
#include "connection/stores.h"
#include "receive/frames.h"

#define LOST NEARCALL_OUTCOME_EXECUTED_RESULT_LOST

/* ---- A store for a request ---- */

static const char *judge(const nearcall_client *client, const struct nc_call *call)
{
    const struct nc_stores *stores = &client->connection.stores;
    if (stores->came.what)
        return stores->came.what;
    if (stores->came.stored.place >= NC_STORES_PER_DIRECTION)
        return "the server gave a store for replies to write a request to";
    if (stores->held[stores->came.stored.place].room < call->payload_bytes)
        return "the server gave a store that is too small for the request";
    return NULL;
}

void nc_on_store_given(nearcall_client *client, struct nc_call *call)
{
    struct nc_stores *stores = &client->connection.stores;
    struct nc_storing *storing = call->storing;
    if (!stores->came.named) {
        nc_call_finish(client, call, -NEARCALL_E_INTERNAL, NEARCALL_OUTCOME_NOT_EXECUTED,
                       "the server answered a STORE without one");
        return;
    }
    const char *what = judge(client, call);
    if (stores->came.is_missing && storing->missing < NC_STORES_PER_DIRECTION) {
        /* This side has closed it because it did not use it, and perhaps the others, too. The server is
         * told of this one, and in the end makes another. */
        storing->missing++;
        storing->stage = NC_STORE_CROWDED;
        storing->ask_again_ns = client->now_ns;
        stores->has_work = true;
        return;
    }
    if (what) {
        nc_call_finish(client, call, -NEARCALL_E_RESOURCE_EXHAUSTED, NEARCALL_OUTCOME_NOT_EXECUTED, what);
        return;
    }
    storing->stored = stores->came.stored;
    storing->stored.bytes = call->payload_bytes;
    storing->stage = NC_STORE_GIVEN;
    stores->came.named = false;
    stores->has_work = true;
    nc_stores_used(client, storing->stored.place); /* so that it is not closed before */
}

/* ---- A result ---- */

static bool is_too_late(nearcall_client *client, struct nc_call *call)
{
    client->now_ns = nc_now_ns();
    if (client->now_ns < call->deadline_ns)
        return false;
    nc_call_finish(client, call, -NEARCALL_E_DEADLINE_EXCEEDED, LOST, "the deadline passed before the result was copied");
    return true;
}

static void lose(nearcall_client *client, struct nc_call *call, int code, const char *what)
{
    nc_call_finish(client, call, -code, LOST, what);
    call->retryable = code == NEARCALL_E_UNAVAILABLE && nc_outcome_permits_again(call, LOST);
}

/* False: the call has ended, or this process is a child. */
static bool copy(nearcall_client *client, struct nc_call *call, struct nc_store *store, size_t bytes)
{
    struct nc_buffer *to = &call->store;
    while (to->end < bytes) {
        size_t some = bytes - to->end < NC_STORE_CHUNK_BYTES ? bytes - to->end : NC_STORE_CHUNK_BYTES;
        const char *what;
        int r = nc_store_read(store, &client->guard, to->end, to->data + to->end, some, &what);
        if (nc_forked_inside(client))
            return false;
        if (r < 0) {
            lose(client, call, NEARCALL_E_RESOURCE_EXHAUSTED, what);
            return false;
        }
        to->end += some;
        if (is_too_late(client, call))
            return false;
    }
    return true;
}

void nc_read_stored(nearcall_client *client, struct nc_call *call)
{
    const struct nc_stored *stored = &client->connection.stores.came.stored;
    struct nc_store *store = &client->connection.stores.held[stored->place];
    size_t bytes = (size_t)stored->bytes;
    if (client->connection.stores.came.what) {
        lose(client, call, NEARCALL_E_RESOURCE_EXHAUSTED, client->connection.stores.came.what);
        return;
    }
    if (stored->bytes > client->options.value_bytes_max) {
        lose(client, call, NEARCALL_E_RESOURCE_EXHAUSTED,
             "the reply is larger than this handle accepts in a store; its option value_bytes_max raises that to at "
             "most " NC_TEXT(NC_VALUE_BYTES_MAX_CEILING));
        return;
    }
    if (is_too_late(client, call))
        return;
    if (nc_stores_reserve(client, &call->store, bytes) < 0) {
        lose(client, call, NEARCALL_E_RESOURCE_EXHAUSTED, "no memory to keep the reply");
        return;
    }
    if (!copy(client, call, store, bytes))
        return;
    if (!nc_store_is_valid(store, stored->serial)) {
        lose(client, call, NEARCALL_E_UNAVAILABLE,
             "the function ran, but the server has taken back the store with its result");
        return;
    }
    nc_call_finish(client, call, 0, NEARCALL_OUTCOME_NONE, NULL);
    call->data = call->store.data;
    call->data_bytes = bytes;
}
