#include "request/request.h"

#include <string.h>

#include "base/base.h"
#include "functions/functions.h"
#include "handle/handle.h"
#include "memory/shared_copy.h"
#include "transport/files.h"
#include "wire/wire.h"

/* The writer keeps its first failure, so that puts need no checks between them.
 * Each makes the handle busy: a handler of this thread's must not change the buffer that
 * is written, nor a fork in another thread trust one that grows. */

static const char too_deep[] = "an argument nests lists, maps and structs deeper than " NC_TEXT(
    NC_NESTING_DEPTH_MAX) " levels (limit nesting_depth_max, which is fixed)";

void nc_writer_begin(nearcall_client *client, nearcall_function *function, int codec)
{
    struct nc_writer *writer = &client->request;
    nc_request_leave_arena(client);
    nc_files_release(&writer->files);
    writer->buffer.start = writer->buffer.end = 0;
    writer->unchecked = false;
    writer->failure = 0;
    writer->depth = 0;
    writer->reserved_end = 0;
    writer->function = function;
    writer->codec = (uint8_t)codec;
    writer->sendings = 0;
    writer->encoding = nc_encoding_of(function, codec);
    writer->left[0] = 1;
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

/* The level that the next value belongs to. One whose values are all there is left
 * only then, so that the last of them still nests inside it. */
static unsigned next_level(const struct nc_writer *writer)
{
    unsigned depth = writer->depth;
    while (depth > 0 && writer->left[depth] == 0)
        depth--;
    return depth;
}

int nc_writer_check(nearcall_client *client)
{
    const struct nc_writer *writer = &client->request;
    if (!writer->function)
        return complain(client, NEARCALL_E_MISUSE,
                        "no request was begun; nearcall_request() begins one");
    if (writer->failure)
        return complain(client, writer->failure, writer->what);
    if (writer->codec == NEARCALL_CODEC_MSGPACK && !writer->unchecked &&
        writer->left[next_level(writer)] > 0)
        return complain(client, NEARCALL_E_MISUSE,
                        "an array or map of the request has fewer elements than it announced");
    return NEARCALL_OK;
}

static void keep_failure(struct nc_writer *writer, int code, const char *what)
{
    if (writer->failure)
        return;
    writer->failure = code;
    writer->what = what;
}

/* What room() does where the buffer as it is does not do. */
static __attribute__((noinline)) uint8_t *make_room(nearcall_client *client, size_t bytes)
{
    struct nc_writer *writer = &client->request;
    struct nc_buffer *buffer = &writer->buffer;
    if (writer->failure)
        return NULL;
    if (buffer->end > NC_FRAME_BYTES_MAX_CEILING ||
        bytes > NC_FRAME_BYTES_MAX_CEILING - buffer->end) {
        keep_failure(writer, NEARCALL_E_RESOURCE_EXHAUSTED, NC_REQUEST_TOO_LARGE);
        return NULL;
    }
    uint8_t *data = buffer->data;
    if (!data || buffer->capacity - buffer->end < bytes ||
        nc_request_moves(client, buffer->end + bytes)) {
        nc_become_busy(client); /* to other threads as well */
        int r = nc_request_reserve(client, bytes);
        data = buffer->data;
        if (r < 0 || !data) {
            keep_failure(writer, r, "no memory for the request");
            return NULL;
        }
    }
    size_t end = buffer->end;
    buffer->end += bytes;
    return data + end;
}

/* Room for bytes, or NULL with the failure kept. A small request is neither too large nor
 * ever moved, and is all that most have. */
static inline uint8_t *room(nearcall_client *client, size_t bytes)
{
    struct nc_writer *writer = &client->request;
    struct nc_buffer *buffer = &writer->buffer;
    size_t end = buffer->end;
    if (__builtin_expect(writer->failure || !buffer->data || bytes >= NC_IN_ARENA_BYTES_MIN ||
                             end + bytes >= NC_IN_ARENA_BYTES_MIN || end + bytes > buffer->capacity,
                         0))
        return make_room(client, bytes);
    buffer->end = end + bytes;
    return buffer->data + end;
}

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

/* Accounts for one value that is about to be written; false when it must not be. */
static bool count_value(struct nc_writer *writer)
{
    if (writer->codec != NEARCALL_CODEC_MSGPACK) {
        keep_failure(writer, NEARCALL_E_MISUSE,
                     "only nearcall_put_raw() writes requests that are not MessagePack");
        return false;
    }
    if (writer->unchecked)
        return true;
    writer->depth = next_level(writer);
    if (writer->left[writer->depth] == 0) {
        keep_failure(writer, NEARCALL_E_MISUSE,
                     "a request is one array; this value is outside of it");
        return false;
    }
    writer->left[writer->depth]--;
    return true;
}

/* Begins to put one value. False: it must not be put, and there is nothing to end. */
static inline bool begin_value(nearcall_client *client)
{
    struct nc_writer *writer = begin_put(client);
    if (!writer)
        return false;
    if (__builtin_expect(count_value(writer), 1))
        return true;
    end_put(client);
    return false;
}

static void open_container(struct nc_writer *writer, uint64_t values)
{
    if (writer->unchecked)
        return;
    if (writer->depth == NC_WRITER_LEVELS - 1) {
        keep_failure(writer, NEARCALL_E_INVALID_ARGUMENT, too_deep);
        return;
    }
    writer->left[++writer->depth] = values;
}

static void put_big_endian(uint8_t *to, uint64_t value, unsigned bytes)
{
    while (bytes-- > 0) {
        to[bytes] = (uint8_t)value;
        value >>= 8;
    }
}

/* A head byte and a number of 0 to 8 bytes behind it. */
static void put_head(nearcall_client *client, unsigned head, uint64_t value, unsigned bytes)
{
    uint8_t *to = room(client, 1 + (size_t)bytes);
    if (!to)
        return;
    to[0] = (uint8_t)head;
    put_big_endian(to + 1, value, bytes);
}

static void append(nearcall_client *client, const void *data, size_t bytes)
{
    if (__builtin_expect(bytes && !data, 0)) {
        keep_failure(&client->request, NEARCALL_E_MISUSE, "the bytes of a value are at NULL");
        return;
    }
    uint8_t *to = bytes ? room(client, bytes) : NULL;
    if (to)
        (void)nc_shared_copy(&client->connection.memory, &client->guard, to, data,
                             bytes); /* a child begins the request again */
}

NEARCALL_API void nearcall_put_nil(nearcall_client *client)
{
    if (!begin_value(client))
        return;
    put_head(client, 0xC0, 0, 0);
    end_put(client);
}

NEARCALL_API void nearcall_put_bool(nearcall_client *client, int value)
{
    if (!begin_value(client))
        return;
    put_head(client, value ? 0xC3 : 0xC2, 0, 0);
    end_put(client);
}

static void put_unsigned(nearcall_client *client, uint64_t value)
{
    if (value < 0x80)
        put_head(client, (unsigned)value, 0, 0);
    else if (value <= UINT8_MAX)
        put_head(client, 0xCC, value, 1);
    else if (value <= UINT16_MAX)
        put_head(client, 0xCD, value, 2);
    else if (value <= UINT32_MAX)
        put_head(client, 0xCE, value, 4);
    else
        put_head(client, 0xCF, value, 8);
}

static void put_negative(nearcall_client *client, int64_t value)
{
    if (value >= -32)
        put_head(client, (unsigned)(uint8_t)value, 0, 0);
    else if (value >= INT8_MIN)
        put_head(client, 0xD0, (uint64_t)value, 1);
    else if (value >= INT16_MIN)
        put_head(client, 0xD1, (uint64_t)value, 2);
    else if (value >= INT32_MIN)
        put_head(client, 0xD2, (uint64_t)value, 4);
    else
        put_head(client, 0xD3, (uint64_t)value, 8);
}

NEARCALL_API void nearcall_put_int(nearcall_client *client, int64_t value)
{
    if (!begin_value(client))
        return;
    if (value < 0)
        put_negative(client, value);
    else
        put_unsigned(client, (uint64_t)value);
    end_put(client);
}

NEARCALL_API void nearcall_put_uint(nearcall_client *client, uint64_t value)
{
    if (!begin_value(client))
        return;
    put_unsigned(client, value);
    end_put(client);
}

NEARCALL_API void nearcall_put_float(nearcall_client *client, float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof(bits));
    if (!begin_value(client))
        return;
    put_head(client, 0xCA, bits, 4);
    end_put(client);
}

NEARCALL_API void nearcall_put_double(nearcall_client *client, double value)
{
    uint64_t bits;
    memcpy(&bits, &value, sizeof(bits));
    if (!begin_value(client))
        return;
    put_head(client, 0xCB, bits, 8);
    end_put(client);
}

/* A length of 1, 2 or 4 bytes behind the first head, the next, the one after it. */
static void put_length(nearcall_client *client, unsigned first_head, uint64_t length)
{
    if (length <= UINT8_MAX)
        put_head(client, first_head, length, 1);
    else if (length <= UINT16_MAX)
        put_head(client, first_head + 1, length, 2);
    else
        put_head(client, first_head + 2, length, 4);
}

/* Checked before a length is written in at most 32 bits. */
static bool fits(struct nc_writer *writer, size_t bytes)
{
    if (bytes <= NC_FRAME_BYTES_MAX_CEILING)
        return true;
    keep_failure(writer, NEARCALL_E_RESOURCE_EXHAUSTED, NC_REQUEST_TOO_LARGE);
    return false;
}

static void put_string(nearcall_client *client, const char *text, size_t bytes)
{
    if (!fits(&client->request, bytes))
        return;
    if (bytes < 32)
        put_head(client, 0xA0 | (unsigned)bytes, 0, 0);
    else
        put_length(client, 0xD9, bytes);
    append(client, text, bytes);
}

NEARCALL_API void nearcall_put_string(nearcall_client *client, const char *text, size_t bytes)
{
    if (!begin_value(client))
        return;
    put_string(client, text, bytes);
    end_put(client);
}

static void put_bytes(nearcall_client *client, const void *data, size_t bytes)
{
    if (!fits(&client->request, bytes))
        return;
    put_length(client, 0xC4, bytes);
    append(client, data, bytes);
}

NEARCALL_API void nearcall_put_bytes(nearcall_client *client, const void *data, size_t bytes)
{
    if (!begin_value(client))
        return;
    put_bytes(client, data, bytes);
    end_put(client);
}

/* The timestamp extension in the shortest of its three forms. */
static void put_timestamp(nearcall_client *client, uint64_t seconds, uint32_t nanoseconds)
{
    if (seconds >> 34) {
        put_head(client, 0xC7, 12, 1);
        put_head(client, 0xFF, nanoseconds, 4);
        uint8_t *to = room(client, 8);
        if (to)
            put_big_endian(to, seconds, 8);
    } else if (nanoseconds || seconds >> 32) {
        put_head(client, 0xD7, 0xFF, 1);
        uint8_t *to = room(client, 8);
        if (to)
            put_big_endian(to, (uint64_t)nanoseconds << 34 | seconds, 8);
    } else {
        put_head(client, 0xD6, 0xFF, 1);
        uint8_t *to = room(client, 4);
        if (to)
            put_big_endian(to, seconds, 4);
    }
}

NEARCALL_API void nearcall_put_time(nearcall_client *client, int64_t seconds, uint32_t nanoseconds)
{
    if (!begin_value(client))
        return;
    if (nanoseconds <= 999999999)
        put_timestamp(client, (uint64_t)seconds, nanoseconds);
    else
        keep_failure(&client->request, NEARCALL_E_INVALID_ARGUMENT,
                     "a time has 0 to 999,999,999 nanoseconds");
    end_put(client);
}

static void put_file(nearcall_client *client, int fd)
{
    struct nc_writer *writer = &client->request;
    const char *what = NULL;
    if (writer->failure)
        return;
    nc_become_busy(client); /* to other threads as well */
    int number = nc_files_add(&writer->files, fd, &what);
    if (number < 0)
        keep_failure(writer, number, what);
    else
        put_head(client, NC_DESCRIPTOR_HEAD, NC_DESCRIPTOR_TYPE << 8 | (unsigned)number, 2);
}

NEARCALL_API void nearcall_put_file(nearcall_client *client, int fd)
{
    if (!begin_value(client))
        return;
    put_file(client, fd);
    end_put(client);
}

static void put_count(nearcall_client *client, unsigned short_head, unsigned long_head,
                      uint32_t count)
{
    if (count < 16)
        put_head(client, short_head | count, 0, 0);
    else if (count <= UINT16_MAX)
        put_head(client, long_head, count, 2);
    else
        put_head(client, long_head + 1, count, 4);
}

NEARCALL_API void nearcall_put_array(nearcall_client *client, uint32_t elements)
{
    if (!begin_value(client))
        return;
    open_container(&client->request, elements);
    put_count(client, 0x90, 0xDC, elements);
    end_put(client);
}

NEARCALL_API void nearcall_put_map(nearcall_client *client, uint32_t pairs)
{
    if (!begin_value(client))
        return;
    open_container(&client->request, 2 * (uint64_t)pairs);
    put_count(client, 0x80, 0xDE, pairs);
    end_put(client);
}

static void *reserve(nearcall_client *client, size_t bytes)
{
    struct nc_writer *writer = &client->request;
    writer->unchecked = true;
    void *to = room(client, bytes);
    writer->reserved_end = to ? writer->buffer.end : 0;
    writer->reserved_bytes = bytes;
    return to;
}

NEARCALL_API void *nearcall_put_reserve(nearcall_client *client, size_t bytes)
{
    if (!begin_put(client))
        return NULL;
    void *to = reserve(client, bytes);
    end_put(client);
    return to;
}

static int commit(struct nc_writer *writer, size_t bytes)
{
    if (writer->failure)
        return writer->failure;
    if (writer->reserved_end == 0 || writer->reserved_end != writer->buffer.end ||
        bytes > writer->reserved_bytes) {
        keep_failure(writer, NEARCALL_E_MISUSE,
                     "nearcall_put_commit() says how many of the bytes that were reserved just "
                     "before it are used, and not more");
        return writer->failure;
    }
    writer->buffer.end -= writer->reserved_bytes - bytes;
    writer->reserved_end = 0;
    return NEARCALL_OK;
}

NEARCALL_API int nearcall_put_commit(nearcall_client *client, size_t bytes)
{
    struct nc_writer *writer = begin_put(client);
    if (!writer)
        return NEARCALL_E_MISUSE;
    int r = commit(writer, bytes);
    end_put(client);
    return r;
}

NEARCALL_API int nearcall_put_raw_reserve(nearcall_client *client, size_t bytes, uint8_t **ret_data)
{
    struct nc_writer *writer = ret_data ? begin_put(client) : NULL;
    if (!writer)
        return NEARCALL_E_MISUSE;
    uint8_t *to = reserve(client, bytes);
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
    if (bytes > 0) {
        writer->unchecked = true;
        append(client, data, bytes);
    }
    end_put(client);
}
