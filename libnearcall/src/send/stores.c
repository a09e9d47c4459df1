/* Requests that travel in a store: it is asked for, the request is written there, and the frame of
 * the request says so. Nothing that is done before that frame is sent can start the function. */
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "connection/output.h"
#include "connection/stores.h"
#include "request/request.h"
#include "send/frames.h"
#include "send/send.h"

/* ---- Asking ---- */

static bool begin(nearcall_client *client, struct nc_call *call)
{
    if (!call->has_more || !call->storing) {
        call->storing = calloc(1, sizeof(*call->storing));
        call->has_more = true;
    }
    /* What lies in shared memory would be overwritten by other calls meanwhile. */
    bool is_there = call->storing && (call->payload != client->request.buffer.data || nc_request_own(client) == NEARCALL_OK);
    if (is_there)
        return true;
    if (call->state == NC_CALL_PENDING)
        nc_call_finish(client, call, -NEARCALL_E_RESOURCE_EXHAUSTED, NEARCALL_OUTCOME_NOT_EXECUTED,
                       "no memory to send the request");
    return false;
}

static void send_ask(nearcall_client *client, struct nc_call *call)
{
    struct nc_connection *connection = &client->connection;
    uint8_t bytes[NC_FRAME_HEADER_BYTES + NC_STORE_ASK_BYTES];
    struct nc_frame frame = {.type = NC_STORE, .length = NC_STORE_ASK_BYTES, .call_id = call->id,
                             .deadline_ms = nc_deadline_field(client, call)};
    nc_frame_encode(bytes, &frame);
    nc_put_u64(bytes + NC_FRAME_HEADER_BYTES, call->payload_bytes);
    uint64_t start = connection->written + nc_output_bytes(connection);
    if (!nc_output_append(client, bytes, sizeof(bytes))) {
        nc_call_finish(client, call, -NEARCALL_E_RESOURCE_EXHAUSTED, NEARCALL_OUTCOME_NOT_EXECUTED,
                       "no memory to send the request");
        return;
    }
    call->by_memory = false;
    call->frame_start = start;
    call->frame_end = start + sizeof(bytes);
    call->storing->stage = NC_STORE_ASKED;
    nc_mark_as_sent(client, call);
    nc_flush(client);
}

void nc_store_ask(nearcall_client *client, struct nc_call *call)
{
    if (nc_output_bytes(&client->connection)) {
        nc_flush(client);
        if (!nc_connection_usable(client))
            return; /* the call is still pending */
    }
    if (!begin(client, call))
        return;
    call->storing->known_id = call->synchronous ? 0 : call->id;
    call->storing->missing = 0;
    call->storing->pause_ns = 0;
    send_ask(client, call);
}

/* Whether nobody is before a call that draws its id now. */
static bool is_its_turn(const nearcall_client *client)
{
    return nc_connection_has_room(client) && !client->calls.pending.first;
}

void nc_store_ask_again(nearcall_client *client, struct nc_call *call)
{
    if (!nc_connection_usable(client))
        return; /* the call ends with the connection */
    if (!is_its_turn(client)) {
        call->storing->ask_again_ns = client->now_ns + NC_NS_PER_MS;
        nc_calls_look_by(client, call->storing->ask_again_ns);
        return;
    }
    nc_call_draw_id(client, call);
    send_ask(client, call);
}

/* ---- Writing, and sending what names it ---- */

static void end(nearcall_client *client, struct nc_call *call, int code, const char *what)
{
    nc_store_give_back(client, call);
    nc_call_finish(client, call, -code, NEARCALL_OUTCOME_NOT_EXECUTED, what);
}

/* False: the call has ended, or this process is a child. */
static bool fill(nearcall_client *client, struct nc_call *call)
{
    struct nc_store *store = &client->connection.stores.held[call->storing->stored.place];
    const char *what = "the store for the request was taken back before it was filled";
    if (store->room < call->payload_bytes || !nc_store_is_there(store)) {
        end(client, call, NEARCALL_E_UNAVAILABLE, what);
        return false;
    }
    for (size_t at = 0; at < call->payload_bytes; at += NC_STORE_CHUNK_BYTES) {
        size_t left = call->payload_bytes - at;
        int r = nc_store_write(store, &client->guard, at, call->payload + at,
                               left < NC_STORE_CHUNK_BYTES ? left : NC_STORE_CHUNK_BYTES, &what);
        if (nc_forked_inside(client))
            return false;
        if (r < 0) {
            end(client, call, NEARCALL_E_RESOURCE_EXHAUSTED, what);
            return false;
        }
        client->now_ns = nc_now_ns();
        if (client->now_ns >= call->deadline_ns) {
            end(client, call, NEARCALL_E_DEADLINE_EXCEEDED, "the deadline passed before the request was sent");
            return false;
        }
    }
    return true;
}

/* If the call is sent once more it needs its payload again. One that is not gives it back. */
static void send_named(nearcall_client *client, struct nc_call *call)
{
    const uint8_t *payload = call->payload;
    size_t bytes = call->payload_bytes;
    nc_call_draw_id(client, call);
    call->storing->stage = NC_STORE_NAMING;
    call->payload = NULL;
    call->payload_bytes = 0;
    nc_send_frame(client, call);
    if (nc_forked(&client->guard))
        return;
    call->payload = payload;
    call->payload_bytes = bytes;
    if (!call->synchronous && call->state == NC_CALL_SENT) {
        call->payload = NULL;
        call->payload_bytes = 0;
        nc_buffer_empty(&call->store);
    }
}

static void write_and_send(nearcall_client *client, struct nc_call *call)
{
    if (!fill(client, call))
        return;
    nc_stores_used(client, call->storing->stored.place);
    if (nc_output_bytes(&client->connection))
        nc_flush(client);
    if (nc_store_stage_of(call) == NC_STORE_GIVEN && call->state == NC_CALL_SENT && nc_connection_usable(client))
        send_named(client, call);
}

/* A call that can go on at once. One that the server lets nobody send yet is looked at again. */
static struct nc_call *next_call(nearcall_client *client)
{
    bool may_send = is_its_turn(client);
    for (struct nc_call *call = client->calls.used; call; call = call->next) {
        enum nc_store_stage stage = call->state == NC_CALL_SENT ? nc_store_stage_of(call) : NC_STORE_NONE;
        if (stage == NC_STORE_GIVEN && !may_send)
            client->connection.stores.has_work = true;
        if ((stage == NC_STORE_GIVEN && may_send) ||
            (stage == NC_STORE_CROWDED && call->storing->ask_again_ns <= client->now_ns))
            return call;
    }
    return NULL;
}

void nc_stores_work(nearcall_client *client)
{
    struct nc_stores *stores = &client->connection.stores;
    struct nc_call *call;
    stores->has_work = false;
    while (nc_connection_usable(client) && !nc_forked_inside(client) && (call = next_call(client)) != NULL) {
        if (nc_store_stage_of(call) == NC_STORE_GIVEN)
            write_and_send(client, call);
        else
            nc_store_ask_again(client, call);
    }
    if (nc_connection_usable(client) && nc_output_bytes(&client->connection))
        nc_flush(client);
}

/* ---- Giving back ---- */

void nc_store_give_back(nearcall_client *client, struct nc_call *call)
{
    enum nc_store_stage stage = nc_store_stage_of(call);
    if (stage == NC_STORE_GIVEN || stage == NC_STORE_NAMED)
        nc_stores_release(client, &call->storing->stored);
}
