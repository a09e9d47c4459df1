#include "connection/endpoint.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/descriptor.h"
#include "calls/calls.h"
#include "choice/choice.h"
#include "connection/connection.h"
#include "connection/stores.h"
#include "connection/watch.h"
#include "memory/memory.h"
#include "request/request.h"

/* ---- One endpoint ---- */

struct nc_endpoint *nc_endpoint_new(const struct nc_address *address, const struct nc_transport *transport)
{
    struct nc_endpoint *endpoint = calloc(1, sizeof(*endpoint));
    if (!endpoint)
        return NULL;
    endpoint->address = *address;
    endpoint->transport = transport;
    endpoint->fd = -1;
    endpoint->connection.fd = -1;
    endpoint->connection.transport = transport;
    nc_stores_init(&endpoint->connection.stores);
    return endpoint;
}

/* ---- Turning to another ---- */

/* A fork by another thread finds either, or is_moving. */
static void mark_moving(struct nc_endpoints *endpoints, bool is_moving)
{
    atomic_thread_fence(memory_order_release);
    endpoints->is_moving = is_moving;
    atomic_thread_fence(memory_order_release);
}

static void take(nearcall_client *client, unsigned index)
{
    const struct nc_endpoint *endpoint = client->endpoints->at[index];
    client->endpoints->active = index;
    client->connection = endpoint->connection;
    client->address = endpoint->address;
    client->address_text = endpoint->text;
    client->tls = endpoint->tls;
}

static void exchange(nearcall_client *client, unsigned index)
{
    struct nc_endpoints *endpoints = client->endpoints;
    if (index == endpoints->active)
        return;
    mark_moving(endpoints, true);
    endpoints->at[endpoints->active]->connection = client->connection;
    take(client, index);
    mark_moving(endpoints, false);
}

void nc_endpoint_turn(nearcall_client *client, unsigned index)
{
    struct nc_endpoints *endpoints = client->endpoints;
    enum nc_connection_state state = client->connection.state;
    if (index == endpoints->active)
        return;
    nc_watch_forget(client);
    (void)nc_request_own(client); /* it says itself what it lost */
    if (state != NC_CLOSED && state != NC_READY)
        endpoints->under_way |= NC_ENDPOINT_BIT(endpoints->active);
    exchange(client, index);
    endpoints->under_way &= ~NC_ENDPOINT_BIT(index);
    endpoints->is_direct = false;
    client->connection.identity.seen_ns = 0; /* the program may have closed it meanwhile */
}

void nc_endpoint_keep_socket(nearcall_client *client)
{
    struct nc_endpoint *endpoint = client->endpoints->at[client->endpoints->active];
    endpoint->fd = client->connection.fd;
    endpoint->device = client->connection.device;
    endpoint->inode = client->connection.inode;
}

/* ---- What became of connections ---- */

void nc_endpoint_welcomed(nearcall_client *client)
{
    struct nc_endpoints *endpoints = client->endpoints;
    struct nc_endpoint *endpoint = endpoints->at[endpoints->active];
    endpoint->failure[0] = '\0';
    nc_choice_succeeded(&endpoints->choice, (int)endpoints->active);
    if (endpoints->is_beside)
        return;
    endpoints->share_until_ns = NC_NEVER;
    if (!client->sync.call)
        memset(&endpoints->search, 0, sizeof(endpoints->search));
}

void nc_endpoint_tried(nearcall_client *client, int code, bool retryable)
{
    struct nc_endpoints *endpoints = client->endpoints;
    struct nc_endpoint *endpoint = endpoints->at[endpoints->active];
    struct nc_search *search = &endpoints->search;
    endpoint->code = code;
    endpoint->retryable = retryable;
    if (search->tried & NC_ENDPOINT_BIT(endpoints->active) || search->failures == NC_ADDRESS_ENDPOINTS_MAX)
        return;
    search->tried |= NC_ENDPOINT_BIT(endpoints->active);
    search->failed[search->failures++] = (uint8_t)endpoints->active;
}

static void leave_alone(nearcall_client *client)
{
    struct nc_endpoints *endpoints = client->endpoints;
    int active = (int)endpoints->active;
    int64_t now_ns = nc_now_ns();
    snprintf(endpoints->at[active]->failure, NC_LOST_TEXT_BYTES, "%s", client->lost_text);
    endpoints->is_direct = false;
    if (endpoints->was_silent)
        nc_choice_silent(&endpoints->choice, active, now_ns, &client->random);
    else
        nc_choice_failed(&endpoints->choice, active, now_ns, &client->random);
}

/* A call is told at once that its caller is not accepted, or that its time is over. */
static bool ends_calls(int code)
{
    switch (-code) {
    case NEARCALL_E_CANCELLED:
    case NEARCALL_E_DEADLINE_EXCEEDED:
    case NEARCALL_E_FAILED_PRECONDITION:
    case NEARCALL_E_PERMISSION_DENIED:
    case NEARCALL_E_UNAUTHENTICATED:
        return true;
    default:
        return false;
    }
}

/* Of a connection that stood: one that nobody used may have ended long ago. */
static bool was_in_use(const nearcall_client *client, const struct nc_loss *loss)
{
    return loss->retryable && !client->connection.draining && nc_calls_are_touched(client, loss);
}

bool nc_endpoint_lost(nearcall_client *client, const struct nc_loss *loss, bool before_welcome)
{
    struct nc_endpoints *endpoints = client->endpoints;
    struct nc_endpoint *endpoint = endpoints->at[endpoints->active];
    endpoints->is_direct = false;
    if (endpoint->name)
        endpoint->name->has_failed = true;
    if (!endpoints->is_dropped && (before_welcome || was_in_use(client, loss)) && !endpoint->given_up)
        leave_alone(client);
    endpoints->was_silent = false;
    if (!before_welcome || endpoints->is_dropped)
        return endpoints->is_beside && nc_calls_on_connection(client) == 0;
    if (endpoints->is_beside)
        return true;
    if (endpoints->is_pinned) {
        nc_calls_end_waiting(client, loss->code, loss->retryable, true);
        return true;
    }
    if (ends_calls(loss->code))
        return false;
    snprintf(endpoint->said, sizeof(endpoint->said), "%s", client->lost_text);
    nc_buffer_empty(&endpoint->answer);
    nc_endpoint_tried(client, loss->code, loss->retryable);
    return true;
}

/* ---- Forks, and functions that were left ---- */

static void close_socket(struct nc_endpoint *endpoint)
{
    if (nc_descriptor_is(endpoint->fd, endpoint->device, endpoint->inode))
        close(endpoint->fd);
    endpoint->fd = -1;
}

/* What was there is left where it is. */
static void forget(struct nc_endpoint *endpoint)
{
    memset(&endpoint->connection, 0, sizeof(endpoint->connection));
    endpoint->connection.fd = -1;
    endpoint->connection.transport = endpoint->transport;
    nc_stores_init(&endpoint->connection.stores);
}

/* The handle has the connection of the active one, or, if both were being exchanged, what may be half of it. */
static void forget_all(nearcall_client *client)
{
    struct nc_endpoints *endpoints = client->endpoints;
    for (unsigned i = 0; i < NC_ADDRESS_ENDPOINTS_MAX; i++) {
        struct nc_endpoint *endpoint = endpoints->at[i];
        endpoints->choice.members[i].present = endpoint != NULL;
        if (!endpoint)
            continue;
        close_socket(endpoint);
        if (endpoint->tls)
            nc_tls_distrust(endpoint->tls);
        memset(&endpoint->answer, 0, sizeof(endpoint->answer));
        forget(endpoint);
    }
    take(client, endpoints->active);
    endpoints->is_moving = false;
}

static void orphan_parked(nearcall_client *client)
{
    struct nc_endpoints *endpoints = client->endpoints;
    unsigned active = endpoints->active;
    for (unsigned i = 0; i < NC_ADDRESS_ENDPOINTS_MAX; i++) {
        if (!endpoints->at[i] || i == active)
            continue;
        exchange(client, i);
        nc_connection_orphan(client, true);
        endpoints->at[i]->fd = -1;
    }
    exchange(client, active);
    endpoints->at[active]->fd = -1;
}

static void begin_anew(struct nc_endpoints *endpoints)
{
    endpoints->is_direct = endpoints->is_pinned = endpoints->is_beside = endpoints->is_dropped = false;
    endpoints->was_silent = endpoints->stays = false;
    endpoints->under_way = 0;
    memset(&endpoints->search, 0, sizeof(endpoints->search));
}

void nc_endpoints_orphan(nearcall_client *client, bool trust_memory)
{
    struct nc_endpoints *endpoints = client->endpoints;
    if (!endpoints)
        return;
    if (trust_memory)
        orphan_parked(client);
    else
        forget_all(client);
    begin_anew(endpoints);
}

void nc_endpoints_abandon(nearcall_client *client)
{
    struct nc_endpoints *endpoints = client->endpoints;
    if (!endpoints)
        return;
    for (unsigned i = 0; i < NC_ADDRESS_ENDPOINTS_MAX && !endpoints->is_moving; i++)
        if (endpoints->at[i] && i != endpoints->active) {
            nc_memory_abandon(&endpoints->at[i]->connection.memory);
            nc_stores_close(&endpoints->at[i]->connection.stores);
        }
    forget_all(client);
    begin_anew(endpoints);
}

/* ---- The end ---- */

static void close_parked(nearcall_client *client, unsigned index)
{
    nc_endpoint_turn(client, index);
    nc_connection_close(client);
    nc_buffer_free(&client->connection.in);
    nc_buffer_free(&client->connection.out);
}

/* A fork finds it in the list, or not at all. */
void nc_endpoint_remove(nearcall_client *client, unsigned index)
{
    struct nc_endpoints *endpoints = client->endpoints;
    struct nc_endpoint *endpoint = endpoints->at[index];
    unsigned active = endpoints->active;
    close_parked(client, index);
    nc_endpoint_turn(client, active);
    endpoints->under_way &= ~NC_ENDPOINT_BIT(index);
    nc_choice_remove(&endpoints->choice, (int)index);
    endpoints->at[index] = NULL;
    atomic_thread_fence(memory_order_release);
    nc_endpoint_free(endpoint);
}

void nc_endpoints_close(nearcall_client *client)
{
    struct nc_endpoints *endpoints = client->endpoints;
    if (!endpoints)
        return;
    unsigned active = endpoints->active;
    for (unsigned i = 0; i < NC_ADDRESS_ENDPOINTS_MAX; i++) {
        if (!endpoints->at[i] || i == active)
            continue;
        close_parked(client, i);
    }
    nc_endpoint_turn(client, active);
    endpoints->under_way = 0;
}

void nc_endpoint_free(struct nc_endpoint *endpoint)
{
    if (!endpoint)
        return;
    nc_buffer_free(&endpoint->answer);
    if (!endpoint->name)
        nc_tls_free(endpoint->tls);
    free(endpoint->text);
    free(endpoint);
}

static void free_name(struct nc_host_name *name)
{
    if (!name)
        return;
    nc_tls_free(name->tls);
    free(name->parameters);
    free(name);
}

void nc_endpoints_free(nearcall_client *client)
{
    struct nc_endpoints *endpoints = client->endpoints;
    if (!endpoints)
        return;
    client->endpoints = NULL;
    client->address_text = NULL; /* those of the active one */
    client->tls = NULL;
    for (unsigned i = 0; i < NC_ADDRESS_ENDPOINTS_MAX; i++)
        nc_endpoint_free(endpoints->at[i]);
    for (unsigned i = 0; i < NC_ADDRESS_ENDPOINTS_MAX; i++)
        free_name(endpoints->names[i]);
    free(endpoints);
}
