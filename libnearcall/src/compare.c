/* Generated code encodes by what it was written for. Whether a function has changed in a
 * way that matters to it is decided by the server, in one place for all languages. */
#include <string.h>

#include "client.h"
#include "nearcall_generated.h"

#define TEXT_BYTES 512

static const char changes_name[] = "nearcall.changes";

static bool was_compared(const nearcall_function *function, const char *hash)
{
    return function->compared_revision == function->revision &&
           strcmp(function->compared_hash, hash) == 0;
}

static bool is_known_to_fit(const nearcall_function *function, const char *hash)
{
    return strcmp(nearcall_function_hash(function), hash) == 0 || was_compared(function, hash);
}

static void remember(nearcall_function *function, const char *hash)
{
    strncpy(function->compared_hash, hash, NC_HASH_DIGITS);
    function->compared_revision = function->revision;
}

/* Of a time limit that both calls of a comparison share; one that has passed ends the
 * second at once. */
static int64_t remaining_ms(int64_t deadline_ns)
{
    if (deadline_ns == NC_NEVER)
        return NEARCALL_NO_TIMEOUT;
    int64_t remaining_ns = deadline_ns - nc_now_ns();
    return remaining_ns > NC_NS_PER_MS ? remaining_ns / NC_NS_PER_MS : 1;
}

static int ask(nearcall_client *client, const nearcall_function *function,
               const char *description, int64_t timeout_ms, nearcall_reply *ret_reply)
{
    nearcall_function *changes;
    int64_t limit_ms = timeout_ms ? timeout_ms : client->options.timeout_ms;
    int64_t deadline_ns = nc_after_ms(nc_now_ns(), limit_ms);
    int r = nearcall_find(client, changes_name, sizeof(changes_name) - 1, timeout_ms, &changes);
    if (r == NEARCALL_OK)
        r = nearcall_request(client, changes, NEARCALL_CODEC_MSGPACK);
    if (r < 0)
        return r;
    nearcall_put_array(client, 2);
    nearcall_put_string(client, function->name, function->name_bytes);
    nearcall_put_string(client, description, strlen(description));
    return nearcall_request_call(client, remaining_ms(deadline_ns), ret_reply);
}

/* Joins the sentences of a reply, as many as there is room for. False: it is none. */
static bool read_changes(const nearcall_reply *reply, uint32_t *ret_count, char text[TEXT_BYTES])
{
    nearcall_reader reader = {reply->data, reply->data + reply->bytes};
    nearcall_value list, change;
    size_t used = 0;
    if (nearcall_read(&reader, &list) < 0 || list.type != NEARCALL_ARRAY)
        return false;
    for (uint32_t i = 0; i < list.count; i++) {
        if (nearcall_read(&reader, &change) < 0 || change.type != NEARCALL_STRING)
            return false;
        if (used + change.count + 3 > TEXT_BYTES)
            continue;
        memcpy(text + used, i ? "; " : "", i ? 2 : 0);
        used += i ? 2 : 0;
        memcpy(text + used, change.as.data, change.count);
        used += change.count;
    }
    text[used] = '\0';
    *ret_count = list.count;
    return true;
}

static int refuse(nearcall_client *client, const nearcall_function *function, const char *text)
{
    int r = nc_enter(client);
    if (r < 0)
        return r;
    r = nc_fail(client, NEARCALL_E_FAILED_PRECONDITION, NEARCALL_OUTCOME_NOT_EXECUTED,
                "%s has changed since this code was generated: %s; generate it again",
                function->name, text);
    return nc_leave(client, r);
}

NEARCALL_API int nearcall_compare(nearcall_client *client, nearcall_function *function,
                                  const char *hash, const char *description, int64_t timeout_ms)
{
    char text[TEXT_BYTES] = "the server does not say how";
    nearcall_reply reply;
    uint32_t count = 0;
    if (!client || !function || !hash || !description)
        return NEARCALL_E_MISUSE;
    if (is_known_to_fit(function, hash))
        return NEARCALL_OK;
    int r = ask(client, function, description, timeout_ms, &reply);
    if (r != NEARCALL_OK && r != NEARCALL_E_UNIMPLEMENTED)
        return r;
    if (r == NEARCALL_OK && (!read_changes(&reply, &count, text) || count > 0))
        return refuse(client, function, text);
    remember(function, hash);
    return NEARCALL_OK;
}

/* ---- Generated functions of C ---- */

/* False: something has to be asked first. */
static bool begin_at_once(nearcall_client *client, const char *name, size_t name_bytes, const char *hash)
{
    nearcall_function *function = nc_function_known(client, name, name_bytes);
    if (!function || (hash && !is_known_to_fit(function, hash)))
        return false;
    nc_sync_abandon(client); /* it may send from the buffer that is used again now */
    nc_writer_begin(client, function, NEARCALL_CODEC_MSGPACK);
    return true;
}

static int ask_and_begin(nearcall_client *client, const char *name, size_t name_bytes, const char *hash,
                         const char *description, int64_t *timeout_ms)
{
    int64_t limit_ms = *timeout_ms ? *timeout_ms : client->options.timeout_ms;
    int64_t deadline_ns = nc_after_ms(nc_now_ns(), limit_ms);
    nearcall_function *function;
    int r = nearcall_find(client, name, name_bytes, *timeout_ms, &function);
    if (r == NEARCALL_OK && hash)
        r = nearcall_compare(client, function, hash, description, remaining_ms(deadline_ns));
    if (r == NEARCALL_OK)
        r = nearcall_request(client, function, NEARCALL_CODEC_MSGPACK);
    *timeout_ms = remaining_ms(deadline_ns);
    return r;
}

NEARCALL_API int nearcall_generated_request(nearcall_client *client, const char *name,
                                            size_t name_bytes, const char *hash,
                                            const char *description, int64_t *timeout_ms)
{
    if (!client || !name || !timeout_ms || (hash && !description))
        return NEARCALL_E_MISUSE;
    int r = nc_enter(client);
    if (r < 0)
        return r;
    bool has_begun = begin_at_once(client, name, name_bytes, hash);
    nc_leave(client, r);
    return has_begun ? NEARCALL_OK
                     : ask_and_begin(client, name, name_bytes, hash, description, timeout_ms);
}

NEARCALL_API int nearcall_generated_is_outdated(const nearcall_client *client, int r,
                                                int64_t *timeout_ms)
{
    if (!client || !timeout_ms)
        return 0;
    if (r != NEARCALL_E_ABORTED || client->error.outcome != NEARCALL_OUTCOME_NOT_EXECUTED)
        return 0;
    *timeout_ms = remaining_ms(client->error.deadline_ns);
    return 1;
}
