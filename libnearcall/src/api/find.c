/* Functions by name, with their descriptions. */
#include "api/api.h"
#include "calls/calls.h"
#include "functions/functions.h"
#include "handle/handle.h"
#include "wait/wait.h"

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
        if (client->view)
            nc_call_use_view(client, call);
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

/* Its reply is the description, as if the server had been asked. */
static int find_known(nearcall_client *client, struct nc_call *call, nearcall_call_id *ret_call)
{
    const struct nc_description *description = call->function->description;
    if (nc_buffer_append(&call->store, description->data, description->bytes) < 0) {
        nc_call_free(client, call);
        return nc_fail_no_memory(client, "a description");
    }
    nc_call_finish(client, call, 0, NEARCALL_OUTCOME_NONE, NULL);
    call->data = call->store.data;
    call->data_bytes = description->bytes;
    call->reply_codec = NEARCALL_CODEC_MSGPACK;
    nc_call_draw_id(client, call);
    call->known = true;
    *ret_call = call->id;
    return NEARCALL_OK;
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
    if (nc_function_is_described(client, function))
        return find_known(client, call, ret_call);
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
