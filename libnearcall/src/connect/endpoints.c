#include "connect/endpoints.h"

#include <poll.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "calls/calls.h"
#include "choice/choice.h"
#include "connect/connect.h"
#include "connect/explain.h"
#include "connect/lookup.h"
#include "connection/connection.h"
#include "connection/endpoint.h"
#include "functions/functions.h"
#include "memory/memory.h"
#include "receive/receive.h"
#include "send/send.h"

/* Of one that is being made beside calls. */
#define LOOK_NS NC_NS_PER_MS
#define TRIES_TO_SLEEP 8
/* So long a call waits for a connection if the host's name has addresses of the other family (IPv4, IPv6) too. */
#define OTHER_FAMILY_NS (300 * NC_NS_PER_MS)
/* An attempt that nobody waits for any more ends some time. */
#define LONGEST_ATTEMPT_MS NC_CALL_TIMEOUT_MS

/* ---- Turning to an endpoint ---- */

/* That everything is answered says nothing: a call may wait until it asks for a store again. */
static bool has_call(const nearcall_client *client)
{
    if (client->connection.state != NC_READY)
        return false;
    for (const struct nc_call *call = client->calls.used; call; call = call->next)
        if (nc_call_is_on_connection(call))
            return true;
    return false;
}

static bool may_turn(const nearcall_client *client)
{
    return !client->endpoints->is_pinned && !nc_output_waits(&client->connection) && !has_call(client);
}

/* A server does not look at memory for the sake of a connection that is parked. False: this is a child by now. */
static bool let_rest(nearcall_client *client)
{
    struct nc_memory *memory = &client->connection.memory;
    if (memory->held)
        nc_memory_release(memory);
    for (int i = 0; i < TRIES_TO_SLEEP && nc_memory_is_used(memory) && !nc_forked_inside(client) &&
                    !nc_memory_fall_asleep(memory); i++)
        (void)nc_receive_memory(client);
    return !nc_forked_inside(client);
}

static void turn_to(nearcall_client *client, int index)
{
    struct nc_endpoints *endpoints = client->endpoints;
    if ((unsigned)index == endpoints->active || !endpoints->at[index] || !let_rest(client))
        return; /* a lookup may have removed it */
    nc_endpoint_turn(client, (unsigned)index);
    nc_look_first(client); /* its server may have ended it meanwhile */
}

static bool is_connected(const nearcall_client *client)
{
    return nc_connection_usable(client);
}

/* ---- Connecting beside calls ---- */

static void begin_beside(nearcall_client *client, int index)
{
    struct nc_endpoints *endpoints = client->endpoints;
    unsigned active = endpoints->active;
    turn_to(client, index);
    endpoints->is_beside = true;
    if (client->connection.state == NC_CLOSED && nc_lookup_is_due(client))
        (void)nc_lookup(client); /* what it has found is connected to when its turn comes */
    else if (client->connection.state == NC_CLOSED)
        nc_connection_begin(client, client->now_ns);
    else if (is_connected(client))
        nc_endpoint_welcomed(client);
    endpoints->is_beside = false;
    turn_to(client, (int)active);
}

static bool is_due(const nearcall_client *client, const struct nc_connection *connection, int *ret_events)
{
    struct pollfd watched = {connection->fd, 0, 0};
    watched.events = connection->state == NC_CONNECTING ? POLLOUT : POLLIN;
    *ret_events = connection->fd >= 0 && poll(&watched, 1, 0) > 0 ? watched.revents : 0;
    int64_t timer_ns = connection->connect_deadline_ns;
    if (connection->state == NC_BACKLOG_FULL)
        timer_ns = nc_earlier(timer_ns, connection->retry_ns);
    if (connection->state == NC_SECURING || connection->state == NC_HELLO)
        timer_ns = nc_earlier(timer_ns, connection->welcome_limit_ns);
    return *ret_events || client->now_ns >= timer_ns;
}

/* Calls that wait are sent there, if it is ready: then the handle stays with it. */
static void look_at(nearcall_client *client, int index)
{
    struct nc_endpoints *endpoints = client->endpoints;
    int active = (int)endpoints->active, events;
    if (!is_due(client, &endpoints->at[index]->connection, &events) || nc_forked_inside(client))
        return;
    turn_to(client, index);
    endpoints->is_beside = true;
    nc_connection_advance(client, events);
    endpoints->is_beside = false;
    nc_send_pending(client);
    if (!has_call(client) && !nc_output_waits(&client->connection)) {
        turn_to(client, active);
        return;
    }
    nc_endpoint_welcomed(client);
    client->connects = false;
}

void nc_endpoints_look(nearcall_client *client)
{
    struct nc_endpoints *endpoints = client->endpoints;
    if (!endpoints->under_way || client->now_ns - endpoints->looked_ns < LOOK_NS)
        return;
    endpoints->looked_ns = client->now_ns;
    for (int i = 0; i < NC_ADDRESS_ENDPOINTS_MAX && may_turn(client); i++)
        if (endpoints->under_way & NC_ENDPOINT_BIT(i))
            look_at(client, i);
}

/* ---- Choosing ---- */

static nc_endpoint_bits endpoints_without(const nearcall_client *client, const nearcall_function *function)
{
    const struct nc_endpoints *endpoints = client->endpoints;
    nc_endpoint_bits absent = 0;
    if (!function || !nc_function_is_absent_somewhere(function))
        return 0;
    for (unsigned i = 0; i < NC_ADDRESS_ENDPOINTS_MAX; i++) {
        const struct nc_endpoint *endpoint = endpoints->at[i];
        if (!endpoint)
            continue;
        const struct nc_connection *connection = i == endpoints->active ? &client->connection : &endpoint->connection;
        if (connection->state == NC_READY &&
            nc_function_is_absent(function, connection->welcome.schema_hash, client->now_ns))
            absent |= NC_ENDPOINT_BIT(i);
    }
    return absent;
}

/* In its first attempt a call tries everything. Later ones try one endpoint that rests. If no endpoint is left, one
 * that is known not to have the function is asked: another server may have taken its place. */
static int pick(nearcall_client *client)
{
    struct nc_endpoints *endpoints = client->endpoints;
    struct nc_search *search = &endpoints->search;
    bool rests;
    int index = nc_choice_pick(&endpoints->choice, client->now_ns, &client->random, search->tried | search->absent, &rests);
    if (rests && search->is_later && search->tried)
        index = NC_CHOICE_NONE;
    if (index == NC_CHOICE_NONE && !search->asks) {
        search->asks = true;
        index = nc_choice_nearest(&endpoints->choice, search->absent & ~search->tried);
    }
    return index;
}

/* Whether calls may go there without a choice from now on. */
static bool is_direct(const nearcall_client *client)
{
    const struct nc_endpoints *endpoints = client->endpoints;
    int64_t rests_ns;
    return is_connected(client) && nc_choice_is_alone(&endpoints->choice, (int)endpoints->active) &&
           nc_choice_look(&endpoints->choice, (int)endpoints->active, client->now_ns, &rests_ns) == NC_ENDPOINT_READY &&
           rests_ns == 0;
}

static void go_to(nearcall_client *client, int index)
{
    struct nc_endpoints *endpoints = client->endpoints;
    int due = nc_choice_probe(&endpoints->choice, client->now_ns, endpoints->choice.members[index].group);
    if (due != NC_CHOICE_NONE && due != index)
        begin_beside(client, due);
    if (!endpoints->at[index])
        index = pick(client);
    if (index == NC_CHOICE_NONE)
        return;
    turn_to(client, index);
    if (is_connected(client))
        nc_choice_succeeded(&endpoints->choice, index); /* it was connected to before a failure was noted */
    endpoints->is_direct = is_direct(client);
}

static bool goes_without_choice(nearcall_client *client, const nearcall_function *function)
{
    struct nc_endpoints *endpoints = client->endpoints;
    bool stays = endpoints->stays;
    endpoints->stays = false;
    return is_connected(client) &&
           (stays || (endpoints->is_direct && !(function && nc_function_is_absent_somewhere(function))));
}

void nc_endpoints_choose(nearcall_client *client, const nearcall_function *function, bool is_later)
{
    struct nc_endpoints *endpoints = client->endpoints;
    if (!client->calls.pending.first && (is_later || !client->sync.call))
        memset(&endpoints->search, 0, sizeof(endpoints->search));
    endpoints->search.is_later = is_later;
    if (goes_without_choice(client, function))
        return;
    nc_endpoints_look(client);
    if (!may_turn(client))
        return;
    endpoints->search.absent = endpoints_without(client, function);
    int index = pick(client);
    if (index != NC_CHOICE_NONE)
        go_to(client, index);
}

bool nc_endpoints_pin(nearcall_client *client, unsigned index)
{
    struct nc_endpoints *endpoints = client->endpoints;
    if (endpoints->active != index && endpoints->at[index] && may_turn(client))
        turn_to(client, (int)index);
    endpoints->is_pinned = endpoints->active == index;
    return endpoints->is_pinned;
}

void nc_endpoints_release(nearcall_client *client)
{
    client->endpoints->is_pinned = false;
}

/* ---- From one to the next ---- */

void nc_endpoints_limit(nearcall_client *client, int64_t deadline_ns)
{
    struct nc_endpoints *endpoints = client->endpoints;
    struct nc_connection *connection = &client->connection;
    int64_t now_ns = client->now_ns, limit_ns = nc_after_ms(now_ns, NC_ENDPOINT_CONNECT_MS);
    nc_connection_limit(client, deadline_ns);
    if (endpoints->is_beside) {
        connection->connect_deadline_ns = nc_earlier(limit_ns, connection->connect_limit_ns);
        return;
    }
    /* it is not so short that nothing would come of it for later calls */
    int64_t waits_ns = connection->connect_deadline_ns;
    connection->connect_deadline_ns = nc_earlier(nc_after_ms(now_ns, LONGEST_ATTEMPT_MS), connection->connect_limit_ns);
    if (waits_ns > limit_ns)
        connection->connect_deadline_ns = nc_earlier(waits_ns, connection->connect_deadline_ns);
    nc_endpoint_bits not_left = endpoints->search.tried | endpoints->search.absent | NC_ENDPOINT_BIT(endpoints->active);
    bool has_others = !endpoints->is_pinned && nc_choice_has_others(&endpoints->choice, not_left);
    if (nc_lookup_has_other_family(client))
        limit_ns = now_ns + OTHER_FAMILY_NS;
    int64_t left_ns = deadline_ns > now_ns ? deadline_ns - now_ns : 0;
    endpoints->share_until_ns = has_others ? nc_earlier(limit_ns, now_ns + left_ns / 2) : NC_NEVER;
}

static bool is_tried(const struct nc_endpoints *endpoints)
{
    return endpoints->search.tried & NC_ENDPOINT_BIT(endpoints->active);
}

/* True: a connection to the endpoint that was turned to has to be made. */
static bool go_on(nearcall_client *client, int64_t deadline_ns)
{
    int index = pick(client);
    if (index == NC_CHOICE_NONE) {
        nc_explain_to_all(client);
        return false;
    }
    go_to(client, index);
    if (client->connection.state == NC_CLOSED)
        return !nc_forked_inside(client);
    if (client->connection.state == NC_READY)
        nc_send_pending(client);
    else
        nc_endpoints_limit(client, deadline_ns);
    return false;
}

/* True: the endpoint stays, or is another one to which a connection has to be made. */
static bool look_up(nearcall_client *client, int64_t deadline_ns)
{
    if (client->endpoints->is_pinned || !nc_lookup_is_due(client))
        return true;
    if (nc_lookup(client))
        return go_on(client, deadline_ns);
    return !is_tried(client->endpoints) && !nc_forked_inside(client);
}

/* Whoever waits for a connection begins with the next endpoint when one has failed. */
void nc_endpoints_start(nearcall_client *client, int64_t deadline_ns)
{
    struct nc_endpoints *endpoints = client->endpoints;
    if (!endpoints->is_pinned && is_tried(endpoints) && !go_on(client, deadline_ns))
        return;
    if (look_up(client, deadline_ns))
        nc_connection_begin(client, deadline_ns);
}

static void note_silence(nearcall_client *client)
{
    struct nc_endpoints *endpoints = client->endpoints;
    struct nc_endpoint *endpoint = endpoints->at[endpoints->active];
    snprintf(endpoint->failure, sizeof(endpoint->failure), "%s does not answer in the time that a call has for one of several endpoints",
             endpoint->text);
    endpoint->given_up = true; /* once, for all calls that have waited for it */
    nc_choice_silent(&endpoints->choice, (int)endpoints->active, client->now_ns, &client->random);
    nc_log(client, NEARCALL_LOG_WARNING, "%s", endpoint->failure);
}

void nc_endpoints_give_up(nearcall_client *client)
{
    struct nc_endpoints *endpoints = client->endpoints;
    struct nc_endpoint *endpoint = endpoints->at[endpoints->active];
    int64_t pending_ns = nc_calls_pending_deadline_ns(client);
    endpoints->share_until_ns = NC_NEVER;
    if (!pending_ns && !client->connects)
        return;
    if (!endpoint->given_up)
        note_silence(client);
    memcpy(endpoint->said, endpoint->failure, sizeof(endpoint->said));
    nc_buffer_empty(&endpoint->answer);
    nc_endpoint_tried(client, -NEARCALL_E_UNAVAILABLE, true);
    nc_connection_start(client, pending_ns ? pending_ns : client->connect_until_ns);
}

/* ---- Calls that have failed ---- */

static bool is_for_want_of_room(const struct nc_call *call)
{
    return call->code == -NEARCALL_E_RESOURCE_EXHAUSTED && !call->what &&
           nc_error_names_limit(call->data, call->data_bytes, NULL);
}

/* Whether the reason lies with the endpoint. */
static bool lies_there(const struct nc_call *call)
{
    return call->code == -NEARCALL_E_UNAVAILABLE || (call->code == -NEARCALL_E_UNIMPLEMENTED && !call->what) ||
           is_for_want_of_room(call);
}

static void note(nearcall_client *client, struct nc_call *call)
{
    struct nc_endpoints *endpoints = client->endpoints;
    if (is_for_want_of_room(call)) {
        endpoints->is_direct = false;
        nc_choice_full(&endpoints->choice, (int)endpoints->active, client->now_ns);
    }
    if (call->code == -NEARCALL_E_UNIMPLEMENTED && call->function)
        nc_function_note_absent(call->function, client->connection.welcome.schema_hash,
                                nc_after_ms(client->now_ns, NC_LOOKUP_MS));
    nc_explain_note(client, call);
    nc_endpoint_tried(client, call->code, call->retryable);
}

bool nc_endpoints_move_on(nearcall_client *client, struct nc_call *call)
{
    struct nc_endpoints *endpoints = client->endpoints;
    if (call->outcome != NEARCALL_OUTCOME_NOT_EXECUTED || endpoints->search.is_over || !lies_there(call) || !may_turn(client))
        return false;
    client->now_ns = nc_now_ns();
    note(client, call);
    int index = client->now_ns < call->deadline_ns ? pick(client) : NC_CHOICE_NONE;
    if (index == NC_CHOICE_NONE) {
        nc_explain(client, call);
        return false;
    }
    nc_call_begin_again(call);
    go_to(client, index);
    return true;
}
