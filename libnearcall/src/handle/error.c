#include "handle/error.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/errors_gen.h"
#include "base/utf8.h"
#include "handle/handle.h"
#include "msgpack/msgpack.h"

int nc_fail(nearcall_client *client, int code, int outcome, const char *format, ...)
{
    struct nc_error *error = &client->error;
    va_list arguments;
    error->code = -code;
    error->outcome = outcome;
    error->details = NULL;
    error->details_bytes = 0;
    error->changed = NULL;
    va_start(arguments, format);
    vsnprintf(error->message, sizeof(error->message), format, arguments);
    va_end(arguments);
    nc_utf8_clean(error->message); /* names and paths of others are in it */
    return code;
}

int nc_fail_no_memory(nearcall_client *client, const char *what)
{
    return nc_fail(client, NEARCALL_E_RESOURCE_EXHAUSTED, NEARCALL_OUTCOME_NOT_EXECUTED,
                   "no memory for %s", what);
}

int nc_fail_table_full(nearcall_client *client)
{
    unsigned questions = client->calls.used_max - client->options.calls_in_flight_max;
    return nc_fail(client, NEARCALL_E_RESOURCE_EXHAUSTED, NEARCALL_OUTCOME_NOT_EXECUTED,
                   "%u calls of this handle are unfinished or not fetched (option "
                   "calls_in_flight_max, %d at most), or there is no memory for more; wait for "
                   "some, or open another handle",
                   client->calls.used_count - questions, NC_CLIENT_CALLS_IN_FLIGHT_MAX_CEILING);
}

void nc_error_clear(nearcall_client *client)
{
    client->error.code = 0;
    client->error.outcome = NEARCALL_OUTCOME_NONE;
    client->error.details = NULL;
    client->error.details_bytes = 0;
    client->error.changed = NULL;
    client->error.message[0] = '\0';
}

/* ---- The server's errors: [message, [[type, value], ...]] ---- */

static bool read_head(nearcall_reader *reader, int type, nearcall_value *value)
{
    return nearcall_read(reader, value) == NEARCALL_OK && value->type == type;
}

static bool read_details(nearcall_reader *reader, uint32_t *ret_count)
{
    nearcall_value list, pair, type;
    if (!read_head(reader, NEARCALL_ARRAY, &list))
        return false;
    for (uint32_t i = 0; i < list.count; i++) {
        if (!read_head(reader, NEARCALL_ARRAY, &pair) || pair.count != 2 ||
            !read_head(reader, NEARCALL_STRING, &type) || nearcall_skip(reader) != NEARCALL_OK)
            return false;
    }
    *ret_count = list.count;
    return true;
}

/* Takes an error's payload apart; false when it is not one. *ret_details points
 * at the array of details, and is NULL when that is empty. */
static bool read_error(const uint8_t *data, size_t bytes, nearcall_value *ret_message,
                       const uint8_t **ret_details, size_t *ret_details_bytes)
{
    nearcall_reader reader = {data, data + bytes};
    nearcall_value head;
    uint32_t count;
    if (!read_head(&reader, NEARCALL_ARRAY, &head) || head.count != 2 ||
        !read_head(&reader, NEARCALL_STRING, ret_message) ||
        !nc_utf8_is_valid(ret_message->as.data, ret_message->count))
        return false;
    const uint8_t *details = reader.next;
    if (!read_details(&reader, &count) || reader.next != reader.end)
        return false;
    *ret_details = count ? details : NULL;
    *ret_details_bytes = count ? (size_t)(reader.end - details) : 0;
    return true;
}

bool nc_error_payload_is_valid(const uint8_t *data, size_t bytes)
{
    nearcall_value message;
    const uint8_t *details;
    size_t details_bytes;
    return read_error(data, bytes, &message, &details, &details_bytes);
}

static bool is_text(const nearcall_value *value, const char *text)
{
    size_t bytes = strlen(text);
    return value->type == NEARCALL_STRING && value->count == bytes && memcmp(value->as.data, text, bytes) == 0;
}

bool nc_error_names_limit(const uint8_t *data, size_t bytes, const char *limit)
{
    nearcall_value message, list, pair, type, value;
    const uint8_t *details;
    size_t details_bytes;
    if (!read_error(data, bytes, &message, &details, &details_bytes) || !details)
        return false;
    nearcall_reader reader = {details, details + details_bytes};
    if (!read_head(&reader, NEARCALL_ARRAY, &list))
        return false;
    for (uint32_t i = 0; i < list.count; i++) {
        if (!read_head(&reader, NEARCALL_ARRAY, &pair) || !read_head(&reader, NEARCALL_STRING, &type))
            return false;
        nearcall_reader at = reader;
        if (is_text(&type, "nearcall.limit") && nearcall_read(&at, &value) == NEARCALL_OK && (!limit || is_text(&value, limit)))
            return true;
        if (nearcall_skip(&reader) != NEARCALL_OK)
            return false;
    }
    return false;
}

/* Where to cut text so that no character is cut in two. */
static size_t cut(const uint8_t *text, size_t bytes, size_t bytes_max)
{
    if (bytes <= bytes_max)
        return bytes;
    while (bytes_max > 0 && (text[bytes_max] & 0xC0) == 0x80)
        bytes_max--;
    return bytes_max;
}

/* A C string cannot hold NUL, so that becomes a space. */
static void copy_message(char *to, size_t to_bytes, const nearcall_value *message)
{
    size_t bytes = cut(message->as.data, message->count, to_bytes - 1);
    for (size_t i = 0; i < bytes; i++)
        to[i] = message->as.data[i] ? (char)message->as.data[i] : ' ';
    to[bytes] = '\0';
}

void nc_error_message(const uint8_t *data, size_t bytes, char *message, size_t message_bytes)
{
    nearcall_value text;
    const uint8_t *details;
    size_t details_bytes;
    message[0] = '\0';
    if (read_error(data, bytes, &text, &details, &details_bytes))
        copy_message(message, message_bytes, &text);
}

const uint8_t *nc_error_details(const uint8_t *data, size_t bytes, size_t *ret_bytes)
{
    nearcall_value message;
    const uint8_t *details = NULL;
    return read_error(data, bytes, &message, &details, ret_bytes) ? details : NULL;
}

int nc_fail_as_call(nearcall_client *client, const struct nc_call *call)
{
    struct nc_error *error = &client->error;
    nearcall_value message;
    error->deadline_ns = call->deadline_ns;
    if (call->what) /* may be client->lost_text, never the message itself */
        return nc_fail(client, -call->code, call->outcome, "%s", call->what);
    error->code = call->code;
    error->outcome = call->outcome;
    error->changed = NULL;
    error->message[0] = '\0';
    if (read_error(call->data, call->data_bytes, &message, &error->details,
                   &error->details_bytes))
        copy_message(error->message, sizeof(error->message), &message);
    if (error->message[0] == '\0')
        snprintf(error->message, sizeof(error->message), "%s", nc_code_meaning(call->code));
    return -call->code;
}
