/* A handle's beginning and its end. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "api/api.h"
#include "api/embed.h"
#include "base/base.h"
#include "base/random.h"
#include "calls/calls.h"
#include "connection/connection.h"
#include "connection/endpoint.h"
#include "connection/stores.h"
#include "connection/watch.h"
#include "functions/functions.h"
#include "memory/memory.h"
#include "request/request.h"
#include "transport/files.h"
#include "transport/tls.h"
#include "wait/wait.h"
#include "wire/wire.h"

#define VERSION_TEXT(major, minor, patch) #major "." #minor "." #patch
#define VERSION(major, minor, patch) VERSION_TEXT(major, minor, patch)
#define THIS_VERSION VERSION(NEARCALL_VERSION_MAJOR, NEARCALL_VERSION_MINOR, NEARCALL_VERSION_PATCH)

NEARCALL_API const char *nearcall_version(void)
{
    return THIS_VERSION;
}

/* ---- Opening ---- */

static int check_options(nearcall_client *client, const nearcall_options *options)
{
    const uint32_t known_flags = NEARCALL_INTERRUPTIBLE | NEARCALL_ALLOW_ABSTRACT |
                                 NEARCALL_NONBLOCKING | NEARCALL_ANY_SERVER_USER |
                                 NEARCALL_NO_SHARED_MEMORY | NEARCALL_SPIN_OFF |
                                 NEARCALL_SPIN_DEDICATED | NEARCALL_BLOCK_SIGNALS |
                                 NEARCALL_WAKEABLE | NEARCALL_NO_PLAIN_TCP;
    if (options->timeout_ms < NEARCALL_NO_TIMEOUT)
        return nc_invalid_option(client, "timeout_ms", options->timeout_ms, "NEARCALL_NO_TIMEOUT, 0, more");
    if (options->connect_timeout_ms < 0)
        return nc_invalid_option(client, "connect_timeout_ms", options->connect_timeout_ms, "0 and above");
    if (options->flags & ~known_flags)
        return nc_invalid_option(client, "flags", options->flags, "the NEARCALL_... flags of nearcall.h");
    if (options->frame_bytes_max && (options->frame_bytes_max < NC_PEER_FRAME_BYTES_MIN ||
                                     options->frame_bytes_max > NC_FRAME_BYTES_MAX_CEILING))
        return nc_invalid_option(client, "frame_bytes_max", options->frame_bytes_max,
                       "0, or " NC_TEXT(NC_PEER_FRAME_BYTES_MIN) " to " NC_TEXT(NC_FRAME_BYTES_MAX_CEILING));
    if (options->value_bytes_max && (options->value_bytes_max < NC_PEER_FRAME_BYTES_MIN ||
                                     options->value_bytes_max > NC_VALUE_BYTES_MAX_CEILING))
        return nc_invalid_option(client, "value_bytes_max", (long long)options->value_bytes_max,
                       "0, or " NC_TEXT(NC_PEER_FRAME_BYTES_MIN) " to " NC_TEXT(NC_VALUE_BYTES_MAX_CEILING));
    if (options->attempts_max > NC_ATTEMPTS_MAX_CEILING)
        return nc_invalid_option(client, "attempts_max (in Perl and Python attempts)", options->attempts_max,
                       "0 to " NC_TEXT(NC_ATTEMPTS_MAX_CEILING));
    if (options->calls_in_flight_max > NC_CLIENT_CALLS_IN_FLIGHT_MAX_CEILING)
        return nc_invalid_option(client, "calls_in_flight_max", (long long)options->calls_in_flight_max,
                       "0 to " NC_TEXT(NC_CLIENT_CALLS_IN_FLIGHT_MAX_CEILING));
    if (options->silence_ms &&
        (options->silence_ms < NC_SILENCE_MS_LEAST || options->silence_ms > NC_TCP_SILENCE_MS_CEILING))
        return nc_invalid_option(client, "silence_ms", options->silence_ms,
                       "0, or " NC_TEXT(NC_SILENCE_MS_LEAST) " to " NC_TEXT(NC_TCP_SILENCE_MS_CEILING));
    if (options->server_user_ids_count && !options->server_user_ids)
        return nc_invalid_option(client, "server_user_ids_count", options->server_user_ids_count,
                       "0 when server_user_ids is NULL");
    if (options->name && strlen(options->name) > NC_SOFTWARE_NAME_BYTES_MAX)
        return nc_invalid_option(client, "name", (long long)strlen(options->name), "at most " NC_TEXT(NC_SOFTWARE_NAME_BYTES_MAX) " bytes");
    return NEARCALL_OK;
}

static char *copy_of(const char *text)
{
    size_t bytes = strlen(text) + 1;
    char *copy = malloc(bytes);
    return copy ? memcpy(copy, text, bytes) : NULL;
}

static int keep_options(nearcall_client *client, const nearcall_options *given)
{
    struct nc_options *options = &client->options;
    size_t ids_bytes = (size_t)given->server_user_ids_count * sizeof(uint32_t);
    options->timeout_ms = given->timeout_ms ? given->timeout_ms : NC_CALL_TIMEOUT_MS;
    client->timeout_ms = options->timeout_ms;
    options->connect_timeout_ms = given->connect_timeout_ms;
    options->flags = given->flags;
    options->frame_bytes_max =
        given->frame_bytes_max ? given->frame_bytes_max : NC_FRAME_BYTES_MAX;
    options->value_bytes_max = given->value_bytes_max;
    options->attempts_max = given->attempts_max ? given->attempts_max : NC_ATTEMPTS_MAX;
    options->calls_in_flight_max = given->calls_in_flight_max
                                       ? (uint32_t)given->calls_in_flight_max
                                       : NC_CLIENT_CALLS_IN_FLIGHT_MAX;
    client->calls.used_max = options->calls_in_flight_max;
    options->name = copy_of(given->name ? given->name : "libnearcall/" THIS_VERSION);
    if (!options->name)
        return nc_fail_no_memory(client, "the options");
    if (ids_bytes == 0)
        return NEARCALL_OK;
    options->server_user_ids = malloc(ids_bytes);
    if (!options->server_user_ids)
        return nc_fail_no_memory(client, "the options");
    memcpy(options->server_user_ids, given->server_user_ids, ids_bytes);
    options->server_user_ids_count = given->server_user_ids_count;
    return NEARCALL_OK;
}

static int fill(nearcall_client *client, const char *address, const nearcall_options *given)
{
    nearcall_options options = NEARCALL_OPTIONS_INIT;
    int r = nc_read_options(client, given, &options, sizeof(options));
    if (r == NEARCALL_OK)
        r = check_options(client, &options);
    if (r == NEARCALL_OK)
        r = keep_options(client, &options);
    if (r == NEARCALL_OK)
        r = nc_keep_address(client, address, &options);
    return r;
}

NEARCALL_API int nearcall_open(nearcall_client **ret_client, const char *address,
                               const nearcall_options *options)
{
    if (!ret_client)
        return NEARCALL_E_MISUSE;
    nearcall_client *client = calloc(1, sizeof(*client));
    *ret_client = client;
    if (!client)
        return NEARCALL_E_RESOURCE_EXHAUSTED;
    client->opening = client->connection.fd = -1;
    nc_watch_init(&client->watch);
    nc_calls_init(&client->calls);
    nc_stores_init(&client->connection.stores);
    client->after_fork = nc_after_fork;
    nc_fork_guard_arm(&client->guard);
    client->random = nc_random_seed(client);
    int r = fill(client, address, options);
    client->unusable = r < 0;
    client->watched = client->options.flags & NEARCALL_NONBLOCKING;
    if (r == NEARCALL_OK && client->options.flags & NEARCALL_WAKEABLE && nc_wake_open(client) < 0) {
        r = nc_fail(client, NEARCALL_E_RESOURCE_EXHAUSTED, NEARCALL_OUTCOME_NOT_EXECUTED,
                    "no descriptor to be woken by: %s", strerror(errno));
        client->unusable = true;
    }
    return r;
}

NEARCALL_API int nearcall_interruptible_check(nearcall_client *client, int (*check)(void *argument),
                                              void *argument)
{
    int r = nc_enter_without_library(client);
    if (r < 0)
        return r;
    if (!(client->options.flags & NEARCALL_INTERRUPTIBLE))
        return nc_leave(client, nc_fail(client, NEARCALL_E_MISUSE, NEARCALL_OUTCOME_NOT_EXECUTED,
                                        "signals do not end the waits of this handle: it was opened "
                                        "without NEARCALL_INTERRUPTIBLE"));
    client->interrupt_check = check;
    client->interrupt_argument = argument;
    return nc_leave(client, NEARCALL_OK);
}

/* ---- Closing ---- */

NEARCALL_API void nearcall_close(nearcall_client *client)
{
    if (!client)
        return;
    if (nc_forked(&client->guard))
        nc_after_fork(client);
    if (nc_is_busy(client))
        return; /* who is inside goes on with it */
    if (client->hooks.telling) {
        client->hooks.closed = true;
        return;
    }
    nc_writer_drop(client);
    nc_connection_close(client);
    nc_memory_release(&client->connection.memory);
    nc_endpoints_close(client);
    nc_lost_free_all(client);
    nc_calls_free(&client->calls);
    nc_files_release(&client->lent_files);
    nc_metadata_free(&client->lent_metadata);
    nc_view_release(&client->view);
    nc_buffer_free(&client->connection.in);
    nc_buffer_free(&client->connection.out);
    nc_buffer_free(&client->lent);
    nc_buffer_free(&client->spare);
    nc_buffer_free(&client->request.buffer);
    nc_functions_free(&client->functions);
    nc_embed_free(&client->embed);
    nc_endpoints_free(client);
    nc_tls_free(client->tls);
    nc_watch_free(client);
    nc_fork_guard_free(&client->guard);
    free(client->options.server_user_ids);
    free(client->options.name);
    free(client->address_text);
    free(client);
}

NEARCALL_API void nearcall_disconnect(nearcall_client *client)
{
    if (nc_enter(client) < 0)
        return;
    nc_sync_abandon(client);
    if (client->endpoints)
        client->endpoints->is_dropped = true;
    nc_connection_drop(client, "dropped by this program");
    nc_endpoints_close(client);
    if (client->endpoints)
        client->endpoints->is_dropped = false;
    nc_lost_give_up_all(client);
    client->connects = false;
    nc_buffer_free(&client->connection.in);
    nc_buffer_free(&client->connection.out);
    nc_leave(client, NEARCALL_OK);
}
