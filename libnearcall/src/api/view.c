/* Views: options of single calls, checked and encoded once; and the metadata that come with replies. */
#include <stdlib.h>
#include <string.h>

#include "api/api.h"
#include "base/base.h"
#include "base/random.h"
#include "calls/calls.h"
#include "wire/wire.h"

#define TRACE_PARENT_BYTES 55
#define NS_PER_US 1000
/* Pauses are at most one and a half times as long, and are added to times. */
#define BACKOFF_US_MAX (INT64_MAX / NS_PER_US / 8)

/* ---- Checks ---- */

static int refuse(nearcall_client *client, const char *option, const char *text, const char *reason)
{
    return nc_fail(client, NEARCALL_E_INVALID_ARGUMENT, NEARCALL_OUTCOME_NOT_EXECUTED,
                   "option %s is \"%.80s\": %s", option, text, reason);
}

static bool is_key_byte(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '_' || c == '.';
}

/* A key is the same in every protocol that passes it on. */
static int check_pair(nearcall_client *client, const nearcall_metadata *pair)
{
    if (!pair->key || (pair->value_bytes && !pair->value))
        return nc_fail(client, NEARCALL_E_MISUSE, NEARCALL_OUTCOME_NOT_EXECUTED,
                       "the key, or the value, of metadata is NULL");
    if (!*pair->key)
        return refuse(client, "metadata", pair->key, "a key is not empty");
    for (const char *c = pair->key; *c; c++)
        if (!is_key_byte(*c))
            return refuse(client, "metadata", pair->key,
                          "keys are lower-case letters, digits, and any of \"-_.\"");
    if (strlen(pair->key) + 1 > NC_EXTENSION_BYTES_MAX - NC_EXTENSION_HEADER_BYTES ||
        pair->value_bytes > NC_EXTENSION_BYTES_MAX - NC_EXTENSION_HEADER_BYTES - strlen(pair->key) - 1)
        return refuse(client, "metadata", pair->key,
                      "key and value have more than " NC_TEXT(NC_EXTENSION_BYTES_MAX) " bytes "
                      "(limit extension_bytes_max, which is fixed)");
    return NEARCALL_OK;
}

static bool is_hexadecimal(char c)
{
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
}

static int check_trace_parent(nearcall_client *client, const char *text)
{
    size_t bytes = text ? strlen(text) : TRACE_PARENT_BYTES;
    bool fits = bytes == TRACE_PARENT_BYTES;
    for (size_t i = 0; text && fits && i < bytes; i++) {
        bool hyphen = i == 2 || i == 35 || i == 52;
        fits = hyphen ? text[i] == '-' : is_hexadecimal(text[i]);
    }
    return fits ? NEARCALL_OK
                : refuse(client, "trace_parent (in Perl and Python traceparent)", text,
                         "it is written as W3C Trace Context says, as in "
                         "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01");
}

static int check_numbers(nearcall_client *client, const nearcall_call_options *options)
{
    const uint32_t known_flags = NEARCALL_CALL_WAIT_FOR_READY | NEARCALL_CALL_RETRY_UNKNOWN;
    if (options->timeout_ms < NEARCALL_NO_TIMEOUT)
        return nc_invalid_option(client, "timeout_ms", options->timeout_ms, "NEARCALL_NO_TIMEOUT, 0, more");
    if (options->backoff_first_us < 0 || options->backoff_first_us > BACKOFF_US_MAX)
        return nc_invalid_option(client, "backoff_first_us", options->backoff_first_us, "0 and above, up to 2^63 / 8000");
    if (options->backoff_most_us < 0 || options->backoff_most_us > BACKOFF_US_MAX)
        return nc_invalid_option(client, "backoff_most_us", options->backoff_most_us, "0 and above, up to 2^63 / 8000");
    if (options->attempts_max > NC_ATTEMPTS_MAX_CEILING)
        return nc_invalid_option(client, "attempts_max (in Perl and Python attempts)", options->attempts_max,
                                 "0 to " NC_TEXT(NC_ATTEMPTS_MAX_CEILING));
    if (options->flags & ~known_flags)
        return nc_invalid_option(client, "flags", options->flags, "the NEARCALL_CALL_... flags of nearcall_calls.h");
    if (options->metadata_count && !options->metadata)
        return nc_invalid_option(client, "metadata_count", (long long)options->metadata_count,
                                 "0 when metadata is NULL");
    return NEARCALL_OK;
}

static int check(nearcall_client *client, const nearcall_call_options *options)
{
    int r = check_numbers(client, options);
    if (r == NEARCALL_OK)
        r = check_trace_parent(client, options->trace_parent);
    for (size_t i = 0; r == NEARCALL_OK && i < options->metadata_count; i++)
        r = check_pair(client, &options->metadata[i]);
    return r;
}

/* ---- Making one ---- */

static size_t bytes_of(const nearcall_metadata *pair)
{
    return NC_EXTENSION_HEADER_BYTES + strlen(pair->key) + 1 + pair->value_bytes;
}

/* Of all extensions, as they travel; each fits a frame alone. */
static size_t measure(const nearcall_view *former, const nearcall_call_options *options)
{
    size_t bytes = former ? former->extension_bytes : 0;
    bytes += options->trace_parent ? NC_EXTENSION_HEADER_BYTES + TRACE_PARENT_BYTES : 0;
    bytes += options->idempotency_key ? NC_EXTENSION_HEADER_BYTES + NEARCALL_IDEMPOTENCY_KEY_BYTES : 0;
    for (size_t i = 0; i < options->metadata_count; i++)
        bytes += bytes_of(&options->metadata[i]);
    return bytes;
}

static void append(nearcall_view *view, uint16_t type, const void *data, size_t bytes)
{
    view->extension_bytes += nc_extension_encode(view->extensions + view->extension_bytes, type, data,
                                                 (uint16_t)bytes);
}

static void append_pair(nearcall_view *view, const nearcall_metadata *pair)
{
    uint8_t content[NC_EXTENSION_BYTES_MAX];
    size_t key_bytes = strlen(pair->key) + 1; /* the byte 0 between key and value is that of its end */
    memcpy(content, pair->key, key_bytes);
    if (pair->value_bytes)
        memcpy(content + key_bytes, pair->value, pair->value_bytes);
    append(view, NC_EXTENSION_METADATA, content, key_bytes + pair->value_bytes);
}

/* The former's come first, so that they are those that count. */
static void encode(nearcall_view *view, const nearcall_view *former, const nearcall_call_options *options)
{
    view->extension_bytes = former ? former->extension_bytes : 0;
    if (former)
        memcpy(view->extensions, former->extensions, former->extension_bytes);
    if (options->trace_parent)
        append(view, NC_EXTENSION_TRACE_PARENT, options->trace_parent, TRACE_PARENT_BYTES);
    if (options->idempotency_key)
        append(view, NC_EXTENSION_IDEMPOTENCY_KEY, options->idempotency_key, NEARCALL_IDEMPOTENCY_KEY_BYTES);
    for (size_t i = 0; i < options->metadata_count; i++)
        append_pair(view, &options->metadata[i]);
}

static int64_t former_or(int64_t given, int64_t former)
{
    return given ? given : former;
}

static int make(nearcall_client *client, const nearcall_view *former, const nearcall_call_options *options,
                nearcall_view **ret_view)
{
    static const nearcall_view none = {.backoff_first_ns = NC_PAUSE_FIRST_NS, .backoff_most_ns = NC_PAUSE_MOST_NS};
    const nearcall_view *before = former ? former : &none;
    nearcall_view *view = malloc(sizeof(*view) + measure(former, options));
    if (!view)
        return nc_fail_no_memory(client, "a view");
    atomic_init(&view->holders, 1);
    view->timeout_ms = former_or(options->timeout_ms, before->timeout_ms);
    view->backoff_first_ns = former_or(options->backoff_first_us * NS_PER_US, before->backoff_first_ns);
    view->backoff_most_ns = former_or(options->backoff_most_us * NS_PER_US, before->backoff_most_ns);
    view->attempts_max = options->attempts_max ? options->attempts_max : before->attempts_max;
    view->flags = options->flags | before->flags;
    encode(view, former, options);
    if (view->backoff_first_ns > view->backoff_most_ns) {
        int64_t most_us = view->backoff_most_ns / NS_PER_US;
        free(view);
        return nc_invalid_option(client, "backoff_most_us (in Perl and Python backoff)", most_us, "backoff_first_us and above");
    }
    *ret_view = view;
    return NEARCALL_OK;
}

static int view_new(nearcall_client *client, const nearcall_view *former, const nearcall_call_options *given,
                    nearcall_view **ret_view)
{
    nearcall_call_options options = NEARCALL_CALL_OPTIONS_INIT;
    if (!ret_view)
        return nc_fail(client, NEARCALL_E_MISUSE, NEARCALL_OUTCOME_NOT_EXECUTED, "ret_view is NULL");
    int r = nc_read_options(client, given, &options, sizeof(options));
    if (r == NEARCALL_OK)
        r = check(client, &options);
    return r == NEARCALL_OK ? make(client, former, &options, ret_view) : r;
}

NEARCALL_API int nearcall_view_new(nearcall_client *client, const nearcall_view *former,
                                   const nearcall_call_options *options, nearcall_view **ret_view)
{
    int r = nc_enter_without_library(client);
    if (r < 0)
        return r;
    return nc_leave(client, view_new(client, former, options, ret_view));
}

NEARCALL_API void nearcall_view_free(nearcall_view *view)
{
    nc_view_release(&view);
}

NEARCALL_API int nearcall_use_view(nearcall_client *client, nearcall_view *view)
{
    int r = nc_enter_beside(client);
    if (r < 0)
        return r;
    nearcall_view *former = client->view;
    client->view = nc_view_hold(view); /* before the former goes: a fork finds one of the two */
    client->timeout_ms = view && view->timeout_ms ? view->timeout_ms : client->options.timeout_ms;
    nc_view_release(&former);
    return nc_leave(client, NEARCALL_OK);
}

/* ---- Metadata of replies ---- */

/* False: the extension is none that holds a pair. */
static bool read_pair(const struct nc_extension *extension, nearcall_metadata *ret_pair)
{
    const char *content = (const char *)extension->data;
    const char *end = memchr(content, '\0', extension->bytes);
    if (extension->type != NC_EXTENSION_METADATA || !end)
        return false;
    size_t key_bytes = (size_t)(end - content) + 1;
    *ret_pair = (nearcall_metadata){content, content + key_bytes, extension->bytes - key_bytes};
    return true;
}

NEARCALL_API int nearcall_reply_metadata(const nearcall_client *client, const char *key, size_t *position,
                                         nearcall_metadata *ret_pair)
{
    const struct nc_metadata *metadata = client && !client->unusable ? client->lent_metadata : NULL;
    struct nc_extension extension;
    nearcall_metadata pair;
    if (!metadata || !position || !ret_pair)
        return 0;
    while (nc_extension_next(metadata->extensions, metadata->bytes, position, &extension)) {
        if (!read_pair(&extension, &pair) || (key && strcmp(key, pair.key) != 0))
            continue;
        *ret_pair = pair;
        return 1;
    }
    return 0;
}
