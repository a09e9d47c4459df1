#include "request/values.h"

#include "base/base.h"
#include "functions/functions.h"
#include "handle/handle.h"
#include "transport/files.h"

/* Each put makes the handle busy: a handler of this thread's must not change the buffer that
 * is written, nor a fork in another thread trust one that grows. */

/* ---- The request of a handle ---- */

void nc_writer_reset(struct nc_writer *writer, nearcall_function *function, int codec)
{
    nc_files_release(&writer->files);
    writer->buffer.start = writer->buffer.end = 0;
    writer->unchecked = false;
    writer->failure = 0;
    writer->depth = 0;
    writer->reserved_end = 0;
    writer->function = function;
    writer->packs = codec == NEARCALL_CODEC_PACKED && (!function || function->takes_blocks);
    writer->codec = (uint8_t)(codec == NEARCALL_CODEC_PACKED ? NEARCALL_CODEC_MSGPACK : codec);
    writer->sendings = 0;
    writer->encoding = function ? nc_encoding_of(function, codec) : (struct nc_encoding){0};
    writer->encoding.has_blocks = writer->packs;
    writer->left[0] = 1;
}

/* A handle that is only written on, for nearcall_request_swap(), knows no server, and its functions are another's. */
static bool knows_server(const nearcall_client *client)
{
    return client->embed.is_direct || client->connection.state == NC_READY;
}

void nc_writer_begin(nearcall_client *client, nearcall_function *function, int codec)
{
    nc_request_leave_arena(client);
    if (codec == NEARCALL_CODEC_PACKED && knows_server(client))
        function->takes_blocks = nc_takes_blocks(client); /* the server may be another since it was found */
    nc_writer_reset(&client->request, function, codec);
    client->request.owner = client;
}

void nc_writer_lend(nearcall_client *client)
{
    client->sync.sends_request = true;
    client->request.function = NULL;
}

void nc_writer_give_back(nearcall_client *client)
{
    client->request.function = client->sync.call->function;
}

void nc_writer_drop(nearcall_client *client)
{
    struct nc_writer *writer = &client->request;
    nc_request_leave_arena(client);
    writer->function = NULL;
    nc_files_release(&writer->files);
    writer->buffer.start = writer->buffer.end = 0;
    if (writer->buffer.capacity > NC_BUFFER_KEEP_BYTES)
        nc_buffer_trim(&writer->buffer);
}

static int complain(nearcall_client *client, int code, const char *what)
{
    return nc_fail(client, code, NEARCALL_OUTCOME_NOT_EXECUTED, "%s", what);
}

int nc_writer_fault(const struct nc_writer *writer, const char **ret_what)
{
    *ret_what = writer->what;
    if (writer->failure)
        return writer->failure;
    if (writer->codec != NEARCALL_CODEC_MSGPACK || writer->unchecked ||
        writer->left[nc_next_level(writer)] == 0)
        return NEARCALL_OK;
    *ret_what = "an array or map of the request has fewer elements than it announced";
    return NEARCALL_E_MISUSE;
}

int nc_writer_check(nearcall_client *client)
{
    const char *what;
    if (!client->request.function)
        return complain(client, NEARCALL_E_MISUSE,
                        "no request was begun; nearcall_request() begins one");
    int r = nc_writer_fault(&client->request, &what);
    return r == NEARCALL_OK ? r : complain(client, r, what);
}

/* ---- What values.h leaves to functions ---- */

/* What nc_room() does where the buffer as it is does not do. */
uint8_t *nc_writer_make_room(struct nc_writer *writer, size_t bytes)
{
    struct nc_buffer *buffer = &writer->buffer;
    if (writer->failure)
        return NULL;
    size_t most = nc_request_bytes_max(writer->owner);
    if (buffer->end > most || bytes > most - buffer->end) {
        nc_keep_failure(writer, NEARCALL_E_RESOURCE_EXHAUSTED, nc_request_is_too_large(writer->owner));
        return NULL;
    }
    uint8_t *data = buffer->data;
    nearcall_client *owner = writer->owner;
    if (!data || buffer->capacity - buffer->end < bytes ||
        (owner && nc_request_moves(owner, buffer->end + bytes))) {
        if (owner)
            nc_become_busy(owner); /* to other threads as well */
        int r = owner ? nc_request_reserve(owner, bytes) : nc_buffer_reserve(buffer, bytes ? bytes : 1);
        data = buffer->data;
        if (r < 0 || !data) {
            nc_keep_failure(writer, r, "no memory for the request");
            return NULL;
        }
    }
    size_t end = buffer->end;
    buffer->end += bytes;
    return data + end;
}

void nc_writer_copy(struct nc_writer *writer, void *to, const void *data, size_t bytes)
{
    nearcall_client *owner = writer->owner;
    if (owner)
        (void)nc_shared_copy(&owner->connection.memory, &owner->guard, to, data,
                             bytes); /* a child begins the request again */
    else
        memmove(to, data, bytes);
}

void nc_writer_add_file(struct nc_writer *writer, int fd)
{
    const char *what = NULL;
    if (writer->failure)
        return;
    if (writer->owner)
        nc_become_busy(writer->owner); /* to other threads as well */
    int number = nc_files_add(&writer->files, fd, &what);
    if (number < 0)
        nc_keep_failure(writer, number, what);
    else
        nc_put_head(writer, NC_DESCRIPTOR_HEAD, NC_DESCRIPTOR_TYPE << 8 | (unsigned)number, 2);
}

/* ---- Several values ---- */

static void put_value(struct nc_writer *writer, const nearcall_value *value)
{
    switch (value->type) {
    case NEARCALL_NIL: nc_put_head(writer, 0xC0, 0, 0); break;
    case NEARCALL_BOOL: nc_put_head(writer, value->as.boolean ? 0xC3 : 0xC2, 0, 0); break;
    case NEARCALL_INT: nc_put_int(writer, value->as.integer); break;
    case NEARCALL_UINT: nc_put_unsigned(writer, value->as.unsigned_integer); break;
    case NEARCALL_FLOAT: nc_put_double(writer, value->as.real); break;
    case NEARCALL_STRING: nc_put_string(writer, (const char *)value->as.data, value->count); break;
    case NEARCALL_BYTES: nc_put_bytes(writer, value->as.data, value->count); break;
    case NEARCALL_TIME: nc_put_time(writer, value->as.integer, value->count); break;
    case NEARCALL_ARRAY: nc_put_array(writer, value->count); break;
    case NEARCALL_MAP: nc_put_map(writer, value->count); break;
    default:
        nc_keep_failure(writer, NEARCALL_E_MISUSE, "a value is of a type that has a function of its own: "
                                                   "nearcall_put_packed(), nearcall_put_file()");
    }
}

/* What most requests are: some short values in the array of arguments, and nothing inside of them. They
 * are put behind each other into room for all of them. */
#define SHORT_REQUEST_BYTES 512
#define SHORT_VALUES_MAX 16
#define SHORT_NUMBER_BYTES_MAX 9

static bool are_short(const nearcall_value *values, size_t count)
{
    size_t bytes = 1;
    if (count == 0 || count > SHORT_VALUES_MAX || values[0].type != NEARCALL_ARRAY || values[0].count != count - 1)
        return false;
    for (size_t i = 1; i < count; i++) {
        if ((unsigned)values[i].type > NEARCALL_BYTES)
            return false;
        bytes += SHORT_NUMBER_BYTES_MAX;
        if (values[i].type >= NEARCALL_STRING)
            bytes += values[i].count;
    }
    return bytes <= SHORT_REQUEST_BYTES;
}

static uint8_t *put_short(struct nc_writer *writer, uint8_t *to, const nearcall_value *value)
{
    if (value->type == NEARCALL_INT && value->as.integer >= -32 && value->as.integer < 0x80) {
        *to = (uint8_t)value->as.integer;
        return to + 1;
    }
    writer->buffer.end = (size_t)(to - writer->buffer.data);
    put_value(writer, value);
    return writer->buffer.data + writer->buffer.end;
}

static void put_short_values(struct nc_writer *writer, const nearcall_value *values, size_t count)
{
    uint8_t *to = nc_room(writer, SHORT_REQUEST_BYTES);
    if (!to)
        return;
    *to++ = (uint8_t)(0x90 | (count - 1));
    for (size_t i = 1; i < count; i++)
        to = put_short(writer, to, &values[i]);
    writer->buffer.end = (size_t)(to - writer->buffer.data);
    writer->depth = 1;
    writer->left[0] = writer->left[1] = 0;
}

/* A handler may have forked while a long text was copied: a child must not write where its parent does. */
static void put_values(nearcall_client *client, const nearcall_value *values, size_t count)
{
    struct nc_writer *writer = &client->request;
    for (size_t i = 0; i < count && !nc_forked(&client->guard) && nc_count_value(writer); i++)
        put_value(writer, &values[i]);
}

void nc_writer_put_values(nearcall_client *client, const nearcall_value *values, size_t count)
{
    struct nc_writer *writer = &client->request;
    if (count && !values)
        nc_keep_failure(writer, NEARCALL_E_MISUSE, "the values of a request are at NULL");
    else if (are_short(values, count) && writer->codec == NEARCALL_CODEC_MSGPACK)
        put_short_values(writer, values, count);
    else
        put_values(client, values, count);
}

/* ---- Coming in and leaving ---- */

static inline void end_put(nearcall_client *client)
{
    nc_become_idle(client);
}

/* A handler that comes before the mark has left by then; one that comes later is refused.
 * Both are in this thread, so the compiler alone has to keep the order. */
static inline struct nc_writer *writer_of_idle(nearcall_client *client)
{
    if (nc_is_busy(client))
        return NULL; /* the function that is inside may be sending it */
    atomic_store_explicit(&client->busy, 1, memory_order_relaxed);
    atomic_signal_fence(memory_order_seq_cst);
    if (__builtin_expect(client->request.function != NULL, 1))
        return &client->request;
    end_put(client);
    return NULL;
}

/* Apart from begin_put(), which is short without it. */
static __attribute__((noinline)) struct nc_writer *writer_after_fork(nearcall_client *client)
{
    client->after_fork(client);
    return writer_of_idle(client);
}

/* The writer, and the handle is busy until end_put(). NULL: nothing can be written or
 * kept, and there is nothing to end. */
static inline struct nc_writer *begin_put(nearcall_client *client)
{
    if (!client || client->unusable)
        return NULL;
    if (__builtin_expect(nc_forked(&client->guard), 0))
        return writer_after_fork(client);
    return writer_of_idle(client);
}

/* Begins to put one value. NULL: it must not be put, and there is nothing to end. */
static inline struct nc_writer *begin_value(nearcall_client *client)
{
    struct nc_writer *writer = begin_put(client);
    if (!writer || __builtin_expect(nc_count_value(writer), 1))
        return writer;
    end_put(client);
    return NULL;
}

/* ---- What users call ---- */

NEARCALL_API void nearcall_put_nil(nearcall_client *client)
{
    struct nc_writer *writer = begin_value(client);
    if (!writer)
        return;
    nc_put_head(writer, 0xC0, 0, 0);
    end_put(client);
}

NEARCALL_API void nearcall_put_bool(nearcall_client *client, int value)
{
    struct nc_writer *writer = begin_value(client);
    if (!writer)
        return;
    nc_put_head(writer, value ? 0xC3 : 0xC2, 0, 0);
    end_put(client);
}

NEARCALL_API void nearcall_put_int(nearcall_client *client, int64_t value)
{
    struct nc_writer *writer = begin_value(client);
    if (!writer)
        return;
    nc_put_int(writer, value);
    end_put(client);
}

NEARCALL_API void nearcall_put_uint(nearcall_client *client, uint64_t value)
{
    struct nc_writer *writer = begin_value(client);
    if (!writer)
        return;
    nc_put_unsigned(writer, value);
    end_put(client);
}

NEARCALL_API void nearcall_put_float(nearcall_client *client, float value)
{
    struct nc_writer *writer = begin_value(client);
    if (!writer)
        return;
    nc_put_float(writer, value);
    end_put(client);
}

NEARCALL_API void nearcall_put_double(nearcall_client *client, double value)
{
    struct nc_writer *writer = begin_value(client);
    if (!writer)
        return;
    nc_put_double(writer, value);
    end_put(client);
}

NEARCALL_API void nearcall_put_string(nearcall_client *client, const char *text, size_t bytes)
{
    struct nc_writer *writer = begin_value(client);
    if (!writer)
        return;
    nc_put_string(writer, text, bytes);
    end_put(client);
}

NEARCALL_API void nearcall_put_bytes(nearcall_client *client, const void *data, size_t bytes)
{
    struct nc_writer *writer = begin_value(client);
    if (!writer)
        return;
    nc_put_bytes(writer, data, bytes);
    end_put(client);
}

NEARCALL_API void nearcall_put_time(nearcall_client *client, int64_t seconds, uint32_t nanoseconds)
{
    struct nc_writer *writer = begin_value(client);
    if (!writer)
        return;
    nc_put_time(writer, seconds, nanoseconds);
    end_put(client);
}

NEARCALL_API void nearcall_put_file(nearcall_client *client, int fd)
{
    struct nc_writer *writer = begin_value(client);
    if (!writer)
        return;
    nc_writer_add_file(writer, fd);
    end_put(client);
}

NEARCALL_API void nearcall_put_array(nearcall_client *client, uint32_t elements)
{
    struct nc_writer *writer = begin_value(client);
    if (!writer)
        return;
    nc_put_array(writer, elements);
    end_put(client);
}

NEARCALL_API void nearcall_put_map(nearcall_client *client, uint32_t pairs)
{
    struct nc_writer *writer = begin_value(client);
    if (!writer)
        return;
    nc_put_map(writer, pairs);
    end_put(client);
}

NEARCALL_API void nearcall_put_packed(nearcall_client *client, int element, const void *elements, size_t count)
{
    struct nc_writer *writer = begin_value(client);
    if (!writer)
        return;
    nc_put_packed(writer, element, elements, count);
    end_put(client);
}

NEARCALL_API void *nearcall_put_reserve(nearcall_client *client, size_t bytes)
{
    struct nc_writer *writer = begin_put(client);
    if (!writer)
        return NULL;
    void *to = nc_put_reserve(writer, bytes);
    end_put(client);
    return to;
}

NEARCALL_API int nearcall_put_commit(nearcall_client *client, size_t bytes)
{
    struct nc_writer *writer = begin_put(client);
    if (!writer)
        return NEARCALL_E_MISUSE;
    int r = nc_put_commit(writer, bytes);
    end_put(client);
    return r;
}

NEARCALL_API int nearcall_put_raw_reserve(nearcall_client *client, size_t bytes, uint8_t **ret_data)
{
    struct nc_writer *writer = ret_data ? begin_put(client) : NULL;
    if (!writer)
        return NEARCALL_E_MISUSE;
    uint8_t *to = nc_put_reserve(writer, bytes);
    int r = to ? NEARCALL_OK : writer->failure;
    end_put(client);
    if (to)
        *ret_data = to;
    return r;
}

NEARCALL_API int nearcall_put_check(nearcall_client *client)
{
    const struct nc_writer *writer = begin_put(client);
    if (!writer)
        return NEARCALL_E_MISUSE;
    int r = writer->failure ? complain(client, writer->failure, writer->what) : NEARCALL_OK;
    end_put(client);
    return r;
}

NEARCALL_API void nearcall_put_raw(nearcall_client *client, const void *data, size_t bytes)
{
    struct nc_writer *writer = begin_put(client);
    if (!writer)
        return;
    nc_put_raw(writer, data, bytes);
    end_put(client);
}
