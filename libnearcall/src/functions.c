#include <stdlib.h>
#include <string.h>

#include "client.h"

static nearcall_function **bucket(nearcall_client *client, const char *name, size_t bytes)
{
    uint32_t hash = 2166136261u;
    for (size_t i = 0; i < bytes; i++)
        hash = (hash ^ (uint8_t)name[i]) * 16777619u;
    return &client->functions[hash % NC_FUNCTION_BUCKETS];
}

static nearcall_function *new_function(const char *name, size_t bytes)
{
    nearcall_function *function = calloc(1, sizeof(*function) + bytes + 1);
    if (!function)
        return NULL;
    function->name_bytes = (uint16_t)bytes;
    memcpy(function->name, name, bytes);
    return function;
}

static nearcall_function *look_up(nearcall_client *client, const char *name, size_t bytes)
{
    nearcall_function *function = *bucket(client, name, bytes);
    while (function && (function->name_bytes != bytes || memcmp(function->name, name, bytes) != 0))
        function = function->next;
    return function;
}

/* A new one is linked by a single store: a fork finds the list whole at any moment. */
static nearcall_function *intern(nearcall_client *client, const char *name, size_t bytes)
{
    nearcall_function *function = look_up(client, name, bytes);
    if (function || !(function = new_function(name, bytes)))
        return function;
    nearcall_function **first = bucket(client, name, bytes);
    function->next = *first;
    atomic_thread_fence(memory_order_release);
    *first = function;
    return function;
}

/* The one entry of a name; NULL without memory. bytes is within the limit. */
nearcall_function *nc_function_intern(nearcall_client *client, const char *name, size_t bytes)
{
    nearcall_function *last = client->last_function;
    if (last && last->name_bytes == bytes && memcmp(last->name, name, bytes) == 0)
        return last;
    return client->last_function = intern(client, name, bytes);
}

/* By the server that is at the other end now: who comes next may have another. */
bool nc_function_is_described(const nearcall_client *client, const nearcall_function *function)
{
    return function->description && !function->is_refused &&
           (nc_connection_usable(client) || client->embed.is_direct) &&
           function->description_hash == client->connection.welcome.schema_hash;
}

/* NULL: the server there is has to be asked. */
nearcall_function *nc_function_known(nearcall_client *client, const char *name, size_t bytes)
{
    nearcall_function *function = client->last_function;
    if (!function || function->name_bytes != bytes || memcmp(function->name, name, bytes) != 0)
        function = look_up(client, name, bytes);
    if (!function || !nc_function_is_described(client, function))
        return NULL;
    return client->last_function = function;
}

/* Documentation is no part of a hash. It alone makes no other description for a request
 * that was refused: that is final. */
static bool is_same(const nearcall_function *function, const struct nc_description *description)
{
    const struct nc_description *former = function->description;
    if (!former)
        return false;
    if (function->is_refused && *former->hash)
        return strcmp(former->hash, description->hash) == 0;
    return former->bytes == description->bytes &&
           memcmp(former->data, description->data, former->bytes) == 0;
}

static void replace_description(nearcall_function *function, struct nc_description *description)
{
    struct nc_description *former = function->description;
    atomic_thread_fence(memory_order_release);
    function->description = description;
    free(former);
}

/* Whether who encodes has to look at a description that came out the same: nobody has
 * refused it, or another server than the one that there is now. */
static bool is_of_interest(const nearcall_client *client, const nearcall_function *function)
{
    return function->was_unsent ||
           (function->is_refused &&
            function->refused_schema_hash != client->connection.welcome.schema_hash);
}

/* Takes a description that has just come. 0 or NEARCALL_E_RESOURCE_EXHAUSTED. */
int nc_function_learn(nearcall_client *client, nearcall_function *function, const uint8_t *data,
                      size_t bytes)
{
    struct nc_description *description = nc_description_new(data, bytes);
    if (!description)
        return NEARCALL_E_RESOURCE_EXHAUSTED;
    bool is_another = !is_same(function, description);
    if (is_another)
        replace_description(function, description);
    else
        free(description);
    if (is_another || is_of_interest(client, function))
        function->revision = function->revision == UINT32_MAX ? 1 : function->revision + 1;
    function->is_refused = function->was_unsent = false;
    function->description_hash = client->connection.welcome.schema_hash;
    return NEARCALL_OK;
}

static bool is_in_use(const nearcall_client *client, const nearcall_function *function)
{
    for (const struct nc_call *call = client->calls.used; call; call = call->next)
        if (call->function == function)
            return true;
    return false;
}

/* Names that the server does not have must not pile up. */
void nc_function_forget_if_unused(nearcall_client *client, nearcall_function *function)
{
    if (is_in_use(client, function))
        return;
    if (client->last_function == function)
        client->last_function = NULL;
    nearcall_function **link = bucket(client, function->name, function->name_bytes);
    while (*link != function)
        link = &(*link)->next;
    *link = function->next;
    free(function);
}

void nc_functions_free(nearcall_client *client)
{
    for (size_t i = 0; i < NC_FUNCTION_BUCKETS; i++)
        while (client->functions[i]) {
            nearcall_function *function = client->functions[i];
            client->functions[i] = function->next;
            free(function->description);
            free(function);
        }
}

/* ---- Public ---- */

static int check_name(nearcall_client *client, const char *name, size_t bytes)
{
    if (!name || bytes == 0 || bytes > NC_FUNCTION_NAME_BYTES_MAX)
        return nc_fail(client, NEARCALL_E_INVALID_ARGUMENT, NEARCALL_OUTCOME_NOT_EXECUTED,
                       "a function's name has 1 to %d bytes (limit function_name_bytes_max, "
                       "which is fixed), this one has %zu",
                       NC_FUNCTION_NAME_BYTES_MAX, name ? bytes : 0);
    return NEARCALL_OK;
}

/* Makes the call that asks for a description; NULL with *ret_error set. */
static struct nc_call *new_find(nearcall_client *client, nearcall_function *function,
                                int64_t timeout_ms, int *ret_error)
{
    struct nc_call *call =
        nc_call_new(client, NC_RESOLVE, function, nc_deadline(client, timeout_ms));
    if (!call) {
        *ret_error = nc_fail_table_full(client);
        if (function->revision == 0 && function->id == 0)
            nc_function_forget_if_unused(client, function);
        return NULL;
    }
    call->payload = (const uint8_t *)function->name;
    call->payload_bytes = function->name_bytes;
    return call;
}

static int find(nearcall_client *client, const char *name, size_t name_bytes, int64_t timeout_ms,
                nearcall_function **ret_function)
{
    int r = check_name(client, name, name_bytes);
    if (r == NEARCALL_OK)
        r = nc_check_timeout(client, timeout_ms);
    if (r < 0)
        return r;
    nc_sync_abandon(client);
    nearcall_function *function = nc_function_intern(client, name, name_bytes);
    if (!function)
        return nc_fail_no_memory(client, "a function's name");
    if (!nc_function_is_described(client, function)) {
        struct nc_call *call = new_find(client, function, timeout_ms, &r);
        if (!call)
            return r;
        r = nc_sync_call(client, call, 0, NULL);
    }
    if (r == NEARCALL_OK)
        *ret_function = function;
    return r;
}

static int check_found(nearcall_client *client, const char *name, const void *result)
{
    if (name && result)
        return NEARCALL_OK;
    return nc_fail(client, NEARCALL_E_MISUSE, NEARCALL_OUTCOME_NOT_EXECUTED,
                   "the function's name, or where to put what is found, is NULL");
}

NEARCALL_API int nearcall_find(nearcall_client *client, const char *name, size_t name_bytes,
                               int64_t timeout_ms, nearcall_function **ret_function)
{
    int r = nc_enter(client);
    if (r < 0)
        return r;
    r = check_found(client, name, ret_function);
    if (r == NEARCALL_OK)
        r = find(client, name, name_bytes, timeout_ms, ret_function);
    return nc_leave(client, r);
}

static int find_begin(nearcall_client *client, const char *name, size_t name_bytes,
                      int64_t timeout_ms, nearcall_call_id *ret_call)
{
    int r = check_name(client, name, name_bytes);
    if (r == NEARCALL_OK)
        r = nc_check_timeout(client, timeout_ms);
    if (r < 0)
        return r;
    nearcall_function *function = nc_function_intern(client, name, name_bytes);
    if (!function)
        return nc_fail_no_memory(client, "a function's name");
    struct nc_call *call = new_find(client, function, timeout_ms, &r);
    if (!call)
        return r;
    if (nc_function_is_described(client, function)) {
        nc_call_finish(client, call, 0, NEARCALL_OUTCOME_NONE, NULL);
        nc_call_draw_id(client, call);
        call->known = true;
        *ret_call = call->id;
        return NEARCALL_OK;
    }
    return nc_begin(client, call, ret_call);
}

NEARCALL_API int nearcall_find_begin(nearcall_client *client, const char *name, size_t name_bytes,
                                     int64_t timeout_ms, nearcall_call_id *ret_call)
{
    int r = nc_enter(client);
    if (r < 0)
        return r;
    r = check_found(client, name, ret_call);
    if (r == NEARCALL_OK)
        r = find_begin(client, name, name_bytes, timeout_ms, ret_call);
    return nc_leave(client, r);
}

NEARCALL_API const uint8_t *nearcall_function_schema(const nearcall_function *function,
                                                     size_t *ret_bytes)
{
    const struct nc_description *description = function ? function->description : NULL;
    if (ret_bytes)
        *ret_bytes = description ? description->bytes : 0;
    return description ? description->data : NULL;
}

NEARCALL_API const char *nearcall_function_hash(const nearcall_function *function)
{
    return function && function->description ? function->description->hash : "";
}

NEARCALL_API uint32_t nearcall_function_revision(const nearcall_function *function)
{
    return function && !function->is_refused ? function->revision : 0;
}
