#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client.h"

#define VERSION_TEXT(major, minor, patch) #major "." #minor "." #patch
#define VERSION(major, minor, patch) VERSION_TEXT(major, minor, patch)
/* Many times what a ring holds: a server that sends more does not stop. */
#define TRIES_TO_SLEEP 64
#define THIS_VERSION VERSION(NEARCALL_VERSION_MAJOR, NEARCALL_VERSION_MINOR, NEARCALL_VERSION_PATCH)

NEARCALL_API const char *nearcall_version(void)
{
    return THIS_VERSION;
}

/* ---- Coming in ---- */

static void seed_random(nearcall_client *client)
{
    client->random = (uint64_t)nc_now_ns() * 0x9E3779B97F4A7C15u ^ (uint64_t)getpid() << 32 ^
                     (uint64_t)(uintptr_t)client;
    if (client->random == 0)
        client->random = 1;
}

/* Makes a handle that this process inherited its own. If another thread was inside
 * at the fork, what it may have been changing is left where it is. */
void nc_after_fork(nearcall_client *client)
{
    bool trust_memory = atomic_load_explicit(&client->busy, memory_order_relaxed) == 0;
    nc_request_after_fork(client);
    nc_embed_after_fork(client);
    seed_random(client);
    nc_connection_orphan(client, trust_memory); /* first: there is room for what follows then */
    nc_watch_after_fork(client);
    client->waiting = NULL;
    client->connects = false;
    if (trust_memory) {
        nc_calls_after_fork(client);
    } else {
        nc_calls_after_busy_fork(client);
        memset(&client->lent, 0, sizeof(client->lent));
        client->lent_files = NULL;
        memset(&client->request, 0, sizeof(client->request));
        nc_error_clear(client);
        client->sync.call = NULL;
    }
    nc_fork_guard_rearm(&client->guard);
    nc_become_idle(client);
}

bool nc_take_over_inside(nearcall_client *client)
{
    nc_become_idle(client);
    nc_after_fork(client);
    nc_become_busy(client);
    return true;
}

static int prepare_library(nearcall_client *client)
{
    int r = nc_embed_prepare(client);
    if (r < 0)
        nc_become_idle(client);
    return r;
}

/* All of entering but loading the library of an "embed:" address, which a process that
 * only sets something up may leave to its children. */
static inline int enter(nearcall_client *client)
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
    if (client->connection.memory.held) /* before any system call, after which this may be a child */
        nc_memory_release(&client->connection.memory);
    if (client->error.code)
        nc_error_clear(client);
    nc_buffer_empty(&client->lent);
    if (__builtin_expect(client->lent_files != NULL, 0))
        nc_files_release(&client->lent_files);
    client->connection.identity.seen_ns = 0; /* the program may have closed what it did not know */
    return NEARCALL_OK;
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
    if (client->calls.used_count == 0)
        return;
    for (int i = 0; i < TRIES_TO_SLEEP && nc_memory_is_used(memory) && !nc_forked_inside(client) &&
                    !nc_memory_fall_asleep(memory);
         i++)
        (void)nc_receive_memory(client);
}

/* Leaves a handle whose user waits elsewhere, so that its descriptor tells all. */
void nc_go_outside(nearcall_client *client)
{
    sleep_outside(client);
    nc_watch_update(client);
}

int64_t nc_deadline(nearcall_client *client, int64_t timeout_ms)
{
    client->now_ns = nc_now_ns();
    return nc_after_ms(client->now_ns, timeout_ms ? timeout_ms : client->options.timeout_ms);
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

/* ---- Opening ---- */

static int invalid(nearcall_client *client, const char *option, long long value,
                   const char *allowed)
{
    return nc_fail(client, NEARCALL_E_INVALID_ARGUMENT, NEARCALL_OUTCOME_NOT_EXECUTED,
                   "option %s is %lld; allowed: %s", option, value, allowed);
}

/* Reads options of a caller compiled against another version: what is missing is
 * 0, what is unknown must be. */
static int read_options(nearcall_client *client, const nearcall_options *given,
                        nearcall_options *options)
{
    static const nearcall_options defaults = NEARCALL_OPTIONS_INIT;
    *options = defaults;
    if (!given)
        return NEARCALL_OK;
    if (given->struct_size < sizeof(given->struct_size))
        return invalid(client, "struct_size", (long long)given->struct_size,
                       "sizeof(nearcall_options), as NEARCALL_OPTIONS_INIT sets it");
    for (size_t i = sizeof(*options); i < given->struct_size; i++)
        if (((const uint8_t *)given)[i] != 0)
            return invalid(client, "struct_size", (long long)given->struct_size,
                           "options that this version of the library knows");
    memcpy(options, given,
           given->struct_size < sizeof(*options) ? given->struct_size : sizeof(*options));
    return NEARCALL_OK;
}

static int check_options(nearcall_client *client, const nearcall_options *options)
{
    const uint32_t known_flags = NEARCALL_INTERRUPTIBLE | NEARCALL_ALLOW_ABSTRACT |
                                 NEARCALL_NONBLOCKING | NEARCALL_ANY_SERVER_USER |
                                 NEARCALL_NO_SHARED_MEMORY | NEARCALL_SPIN_OFF |
                                 NEARCALL_SPIN_DEDICATED | NEARCALL_BLOCK_SIGNALS |
                                 NEARCALL_WAKEABLE;
    if (options->timeout_ms < NEARCALL_NO_TIMEOUT)
        return invalid(client, "timeout_ms", options->timeout_ms, "NEARCALL_NO_TIMEOUT, 0, more");
    if (options->connect_timeout_ms < 0)
        return invalid(client, "connect_timeout_ms", options->connect_timeout_ms, "0 and above");
    if (options->flags & ~known_flags)
        return invalid(client, "flags", options->flags, "the NEARCALL_... flags of nearcall.h");
    if (options->frame_bytes_max && (options->frame_bytes_max < NC_PEER_FRAME_BYTES_MIN ||
                                     options->frame_bytes_max > NC_FRAME_BYTES_MAX_CEILING))
        return invalid(client, "frame_bytes_max", options->frame_bytes_max,
                       "0, or " NC_TEXT(NC_PEER_FRAME_BYTES_MIN) " to " NC_TEXT(NC_FRAME_BYTES_MAX_CEILING));
    if (options->attempts_max > NC_ATTEMPTS_MAX_CEILING)
        return invalid(client, "attempts_max (in Perl and Python attempts)", options->attempts_max, "0 to " NC_TEXT(NC_ATTEMPTS_MAX_CEILING));
    if (options->calls_in_flight_max > NC_CLIENT_CALLS_IN_FLIGHT_MAX_CEILING)
        return invalid(client, "calls_in_flight_max", (long long)options->calls_in_flight_max,
                       "0 to " NC_TEXT(NC_CLIENT_CALLS_IN_FLIGHT_MAX_CEILING));
    if (options->server_user_ids_count && !options->server_user_ids)
        return invalid(client, "server_user_ids_count", options->server_user_ids_count,
                       "0 when server_user_ids is NULL");
    if (options->name && strlen(options->name) > NC_SOFTWARE_NAME_BYTES_MAX)
        return invalid(client, "name", (long long)strlen(options->name), "at most " NC_TEXT(NC_SOFTWARE_NAME_BYTES_MAX) " bytes");
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
    options->connect_timeout_ms = given->connect_timeout_ms;
    options->flags = given->flags;
    options->frame_bytes_max =
        given->frame_bytes_max ? given->frame_bytes_max : NC_FRAME_BYTES_MAX;
    options->attempts_max = given->attempts_max ? given->attempts_max : NC_ATTEMPTS_MAX;
    options->calls_in_flight_max = given->calls_in_flight_max
                                       ? (uint32_t)given->calls_in_flight_max
                                       : NC_CLIENT_CALLS_IN_FLIGHT_MAX;
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

static const struct nc_transport *transport_of(enum nc_address_kind kind)
{
    if (kind == NC_ADDRESS_EMBED)
        return &nc_transport_embed;
    return kind == NC_ADDRESS_TCP ? &nc_transport_tcp : &nc_transport_unixsocket;
}

static int keep_address(nearcall_client *client, const char *address)
{
    const char *reason;
    if (!address)
        return nc_fail(client, NEARCALL_E_MISUSE, NEARCALL_OUTCOME_NOT_EXECUTED,
                       "the address is NULL");
    if (nc_address_parse(&client->address, address,
                         client->options.flags & NEARCALL_ALLOW_ABSTRACT, &reason) < 0)
        return nc_fail(client, NEARCALL_E_INVALID_ARGUMENT, NEARCALL_OUTCOME_NOT_EXECUTED,
                       "%.256s is no address: %s", address, reason);
    client->connection.transport = transport_of(client->address.kind);
    client->address_text = copy_of(address);
    if (!client->address_text)
        return nc_fail_no_memory(client, "the address");
    return client->address.kind == NC_ADDRESS_EMBED ? nc_embed_open(client) : NEARCALL_OK;
}

static int fill(nearcall_client *client, const char *address, const nearcall_options *given)
{
    nearcall_options options;
    int r = read_options(client, given, &options);
    if (r == NEARCALL_OK)
        r = check_options(client, &options);
    if (r == NEARCALL_OK)
        r = keep_options(client, &options);
    if (r == NEARCALL_OK)
        r = keep_address(client, address);
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
    client->connection.fd = -1;
    nc_watch_init(&client->watch);
    nc_calls_init(&client->calls);
    nc_fork_guard_arm(&client->guard);
    seed_random(client);
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
    int r = enter(client);
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
    nc_writer_drop(client);
    nc_connection_close(client);
    nc_memory_release(&client->connection.memory);
    nc_calls_free(&client->calls);
    nc_files_release(&client->lent_files);
    nc_buffer_free(&client->connection.in);
    nc_buffer_free(&client->connection.out);
    nc_buffer_free(&client->lent);
    nc_buffer_free(&client->request.buffer);
    nc_functions_free(client);
    nc_embed_free(&client->embed);
    nc_watch_free(client);
    nc_fork_guard_free(&client->guard);
    free(client->options.server_user_ids);
    free(client->options.name);
    free(client->address_text);
    free(client);
}

NEARCALL_API void nearcall_disconnect(nearcall_client *client)
{
    struct nc_loss loss = {-NEARCALL_E_UNAVAILABLE, false, NC_ENDED_HERE};
    if (nc_enter(client) < 0)
        return;
    nc_sync_abandon(client);
    if (client->connection.state != NC_CLOSED)
        nc_connection_lost(client, &loss, "the connection to %s was dropped by this program",
                           client->address_text);
    client->connects = false;
    nc_buffer_free(&client->connection.in);
    nc_buffer_free(&client->connection.out);
    nc_leave(client, NEARCALL_OK);
}

/* ---- Connecting ahead of a call, asking for a sign of life ---- */

static int connect_failed(nearcall_client *client)
{
    client->connects = false;
    return nc_fail(client, -client->connect_code, NEARCALL_OUTCOME_NOT_EXECUTED, "%s", client->lost_text);
}

/* What was begun for a call goes on within that call's time. */
static int connect_took_too_long(nearcall_client *client)
{
    client->connects = false;
    return nc_fail(client, NEARCALL_E_DEADLINE_EXCEEDED, NEARCALL_OUTCOME_NOT_EXECUTED,
                   "no connection to %s in time", client->address_text);
}

/* One attempt lasts until its end was told here, whoever else has noticed that meanwhile. */
static int connect_without_blocking(nearcall_client *client, int64_t timeout_ms)
{
    int64_t until_ns = nc_deadline(client, timeout_ms); /* reads the clock */
    if (!client->connects) {
        client->connects = true;
        client->connect_until_ns = until_ns;
        client->connect_code = 0;
    }
    if (client->connection.state != NC_CLOSED)
        nc_connection_advance(client, nc_poll_now(client));
    if (nc_connection_is_over(client))
        nc_connection_close(client);
    if (client->connection.state == NC_CLOSED && client->connect_code == 0) /* none, or drained */
        nc_connection_start(client, client->connect_until_ns);
    if (nc_connection_usable(client))
        return NEARCALL_OK;
    if (client->connection.state == NC_CLOSED && client->connect_code)
        return connect_failed(client);
    if (client->now_ns >= client->connect_until_ns)
        return connect_took_too_long(client);
    return nc_fail(client, NEARCALL_E_AGAIN, NEARCALL_OUTCOME_NONE, "connecting to %s",
                   client->address_text);
}

static int connect_blocking(nearcall_client *client, int64_t timeout_ms)
{
    struct nc_call *call = nc_call_new(client, NC_PING, NULL, nc_deadline(client, timeout_ms));
    if (!call)
        return nc_fail_table_full(client);
    call->synchronous = true;
    int r = nc_make_ready(client, call);
    if (call->state == NC_CALL_FINISHED)
        return nc_call_deliver(client, call, NULL);
    nc_call_free(client, call);
    if (r < 0)
        return nc_fail(client, r, NEARCALL_OUTCOME_NONE,
                       "a signal arrived while connecting; nearcall_connect() goes on");
    return NEARCALL_OK;
}

NEARCALL_API int nearcall_connect(nearcall_client *client, int64_t timeout_ms)
{
    int r = nc_enter(client);
    if (r < 0)
        return r;
    r = nc_check_timeout(client, timeout_ms);
    if (r == NEARCALL_OK && !nc_connection_usable(client))
        r = client->options.flags & NEARCALL_NONBLOCKING
                ? connect_without_blocking(client, timeout_ms)
                : connect_blocking(client, timeout_ms);
    return nc_leave(client, r);
}

static int ping(nearcall_client *client, int64_t timeout_ms, uint64_t *ret_round_trip_ns)
{
    nc_sync_abandon(client);
    struct nc_call *call = nc_call_new(client, NC_PING, NULL, nc_deadline(client, timeout_ms));
    if (!call)
        return nc_fail_table_full(client);
    int r = nc_sync_call(client, call, 0, NULL);
    if (r == NEARCALL_OK && ret_round_trip_ns) /* a freed slot keeps its numbers */
        *ret_round_trip_ns = (uint64_t)(nc_now_ns() - call->sent_ns);
    return r;
}

NEARCALL_API int nearcall_ping(nearcall_client *client, int64_t timeout_ms,
                               uint64_t *ret_round_trip_ns)
{
    int r = nc_enter(client);
    if (r < 0)
        return r;
    r = nc_check_timeout(client, timeout_ms);
    if (r == NEARCALL_OK)
        r = ping(client, timeout_ms, ret_round_trip_ns);
    return nc_leave(client, r);
}

NEARCALL_API const char *nearcall_transport(const nearcall_client *client)
{
    if (!client || nc_forked(&client->guard))
        return "";
    if (client->embed.is_direct)
        return "same process";
    if (client->connection.state != NC_READY)
        return "";
    if (nc_memory_is_used(&client->connection.memory))
        return "shared memory";
    return client->address.kind == NC_ADDRESS_TCP ? "tcp" : "unix socket";
}

NEARCALL_API uint32_t nearcall_server_process_id(const nearcall_client *client)
{
    if (!client || client->connection.state != NC_READY || nc_forked(&client->guard))
        return 0;
    return client->connection.welcome.process_id;
}
