#include "functions/functions.h"

#include <stdlib.h>
#include <string.h>

#include "handle/handle.h"

static nearcall_function **bucket(nearcall_client *client, const char *name, size_t bytes)
{
    uint32_t hash = 2166136261u;
    for (size_t i = 0; i < bytes; i++)
        hash = (hash ^ (uint8_t)name[i]) * 16777619u;
    return &client->functions.buckets[hash % NC_FUNCTION_BUCKETS];
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

nearcall_function *nc_function_intern(nearcall_client *client, const char *name, size_t bytes)
{
    nearcall_function *last = client->functions.last;
    if (last && last->name_bytes == bytes && memcmp(last->name, name, bytes) == 0)
        return last;
    return client->functions.last = intern(client, name, bytes);
}

bool nc_function_is_of(nearcall_client *client, const nearcall_function *function)
{
    return client->functions.last == function || look_up(client, function->name, function->name_bytes) == function;
}

/* Whether it is known that servers of that schema describe the function so. */
static bool is_of_schema(const nearcall_function *function, uint64_t schema_hash)
{
    if (function->description_hash == schema_hash)
        return true;
    for (unsigned i = 0; i < NC_SAME_SCHEMAS; i++)
        if (function->same_hashes[i] == schema_hash && schema_hash)
            return true;
    return false;
}

bool nc_function_is_described(const nearcall_client *client, const nearcall_function *function)
{
    return function->description && !function->is_refused &&
           (nc_connection_usable(client) || client->embed.is_direct) &&
           is_of_schema(function, client->connection.welcome.schema_hash);
}

/* A handle that goes from one endpoint to the other would have to ask each time. */
static void keep_schema(const nearcall_client *client, nearcall_function *function, bool is_another)
{
    uint64_t former = function->description_hash;
    if (is_another)
        memset(function->same_hashes, 0, sizeof(function->same_hashes));
    if (is_another || !client->endpoints || is_of_schema(function, client->connection.welcome.schema_hash))
        return;
    memmove(function->same_hashes + 1, function->same_hashes, sizeof(function->same_hashes) - sizeof(former));
    function->same_hashes[0] = former;
}

/* ---- Servers that do not have it ---- */

bool nc_function_is_absent(const nearcall_function *function, uint64_t schema_hash, int64_t now_ns)
{
    for (unsigned i = 0; i < NC_ABSENCES; i++)
        if (function->absent[i].schema_hash == schema_hash && now_ns < function->absent[i].until_ns)
            return true;
    return false;
}

void nc_function_note_absent(nearcall_function *function, uint64_t schema_hash, int64_t until_ns)
{
    unsigned at = function->absences % NC_ABSENCES;
    for (unsigned i = 0; i < NC_ABSENCES; i++)
        if (function->absent[i].schema_hash == schema_hash)
            at = i;
    if (function->absent[at].schema_hash != schema_hash || function->absences == 0)
        function->absences = function->absences == UINT8_MAX ? NC_ABSENCES : (uint8_t)(function->absences + 1);
    function->absent[at] = (struct nc_absence){schema_hash, until_ns};
}

/* ---- What they say of it ---- */

nearcall_function *nc_function_known(nearcall_client *client, const char *name, size_t bytes)
{
    nearcall_function *function = client->functions.last;
    if (!function || function->name_bytes != bytes || memcmp(function->name, name, bytes) != 0)
        function = look_up(client, name, bytes);
    if (!function || !nc_function_is_described(client, function))
        return NULL;
    return client->functions.last = function;
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

bool nc_takes_blocks(const nearcall_client *client)
{
    return client->embed.is_direct || client->connection.welcome.features & NC_FEATURE_PACKED_LISTS;
}

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
    keep_schema(client, function, is_another);
    function->is_refused = function->was_unsent = false;
    function->takes_blocks = nc_takes_blocks(client);
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

void nc_function_forget_if_unused(nearcall_client *client, nearcall_function *function)
{
    if (is_in_use(client, function))
        return;
    if (client->functions.last == function)
        client->functions.last = NULL;
    nearcall_function **link = bucket(client, function->name, function->name_bytes);
    while (*link != function)
        link = &(*link)->next;
    *link = function->next;
    free(function);
}

void nc_functions_free(struct nc_functions *functions)
{
    for (size_t i = 0; i < NC_FUNCTION_BUCKETS; i++)
        while (functions->buckets[i]) {
            nearcall_function *function = functions->buckets[i];
            functions->buckets[i] = function->next;
            free(function->description);
            free(function);
        }
}
