/* Values as MessagePack, behind what a writer has. The first failure is kept, so that nothing has to be
 * checked between values. Included by what puts into the request of a handle (put.c) and by writers
 * apart from one (writer.c), so that neither pays for a call. */
#ifndef NC_REQUEST_VALUES_H
#define NC_REQUEST_VALUES_H

#include <string.h>

#include "handle/request.h"
#include "memory/shared_copy.h"
#include "request/request.h"
#include "wire/wire.h"

static inline void nc_keep_failure(struct nc_writer *writer, int code, const char *what)
{
    if (writer->failure)
        return;
    writer->failure = code;
    writer->what = what;
}

/* The level that the next value belongs to. One whose values are all there is left
 * only then, so that the last of them still nests inside it. */
static inline unsigned nc_next_level(const struct nc_writer *writer)
{
    unsigned depth = writer->depth;
    while (depth > 0 && writer->left[depth] == 0)
        depth--;
    return depth;
}

/* Accounts for one value that is about to be written; false when it must not be. */
static inline bool nc_count_value(struct nc_writer *writer)
{
    if (writer->codec != NEARCALL_CODEC_MSGPACK) {
        nc_keep_failure(writer, NEARCALL_E_MISUSE,
                        "only nearcall_put_raw() and nearcall_write_raw() write what is not MessagePack");
        return false;
    }
    if (writer->unchecked)
        return true;
    writer->depth = nc_next_level(writer);
    if (writer->left[writer->depth] == 0) {
        nc_keep_failure(writer, NEARCALL_E_MISUSE,
                        "a request is one array, and a payload one value; this value is outside of it");
        return false;
    }
    writer->left[writer->depth]--;
    return true;
}

/* Room for bytes, or NULL with the failure kept. A small request is neither too large nor
 * ever moved, and is all that most have. */
static inline uint8_t *nc_room(struct nc_writer *writer, size_t bytes)
{
    struct nc_buffer *buffer = &writer->buffer;
    size_t end = buffer->end;
    if (__builtin_expect(writer->failure || !buffer->data || bytes >= NC_IN_ARENA_BYTES_MIN ||
                             end + bytes >= NC_IN_ARENA_BYTES_MIN || end + bytes > buffer->capacity,
                         0))
        return nc_writer_make_room(writer, bytes);
    buffer->end = end + bytes;
    return buffer->data + end;
}

static inline void nc_open_container(struct nc_writer *writer, uint64_t values)
{
    if (writer->unchecked)
        return;
    if (writer->depth == NC_WRITER_LEVELS - 1) {
        nc_keep_failure(writer, NEARCALL_E_INVALID_ARGUMENT,
                        "an argument nests lists, maps and structs deeper than " NC_TEXT(
                            NC_NESTING_DEPTH_MAX) " levels (limit nesting_depth_max, which is fixed)");
        return;
    }
    writer->left[++writer->depth] = values;
}

static inline void nc_put_big_endian(uint8_t *to, uint64_t value, unsigned bytes)
{
    while (bytes-- > 0) {
        to[bytes] = (uint8_t)value;
        value >>= 8;
    }
}

/* A head byte and a number of 0 to 8 bytes behind it. */
static inline void nc_put_head(struct nc_writer *writer, unsigned head, uint64_t value, unsigned bytes)
{
    uint8_t *to = nc_room(writer, 1 + (size_t)bytes);
    if (!to)
        return;
    to[0] = (uint8_t)head;
    nc_put_big_endian(to + 1, value, bytes);
}

static inline void nc_append(struct nc_writer *writer, const void *data, size_t bytes)
{
    if (__builtin_expect(bytes && !data, 0)) {
        nc_keep_failure(writer, NEARCALL_E_MISUSE, "the bytes of a value are at NULL");
        return;
    }
    uint8_t *to = bytes ? nc_room(writer, bytes) : NULL;
    if (!to)
        return;
    if (bytes < NC_SHIELDED_BYTES_MIN)
        memmove(to, data, bytes);
    else
        nc_writer_copy(writer, to, data, bytes);
}

/* ---- Numbers ---- */

static inline void nc_put_unsigned(struct nc_writer *writer, uint64_t value)
{
    if (value < 0x80)
        nc_put_head(writer, (unsigned)value, 0, 0);
    else if (value <= UINT8_MAX)
        nc_put_head(writer, 0xCC, value, 1);
    else if (value <= UINT16_MAX)
        nc_put_head(writer, 0xCD, value, 2);
    else if (value <= UINT32_MAX)
        nc_put_head(writer, 0xCE, value, 4);
    else
        nc_put_head(writer, 0xCF, value, 8);
}

static inline void nc_put_negative(struct nc_writer *writer, int64_t value)
{
    if (value >= -32)
        nc_put_head(writer, (unsigned)(uint8_t)value, 0, 0);
    else if (value >= INT8_MIN)
        nc_put_head(writer, 0xD0, (uint64_t)value, 1);
    else if (value >= INT16_MIN)
        nc_put_head(writer, 0xD1, (uint64_t)value, 2);
    else if (value >= INT32_MIN)
        nc_put_head(writer, 0xD2, (uint64_t)value, 4);
    else
        nc_put_head(writer, 0xD3, (uint64_t)value, 8);
}

static inline void nc_put_int(struct nc_writer *writer, int64_t value)
{
    if (value < 0)
        nc_put_negative(writer, value);
    else
        nc_put_unsigned(writer, (uint64_t)value);
}

static inline void nc_put_float(struct nc_writer *writer, float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof(bits));
    nc_put_head(writer, 0xCA, bits, 4);
}

static inline void nc_put_double(struct nc_writer *writer, double value)
{
    uint64_t bits;
    memcpy(&bits, &value, sizeof(bits));
    nc_put_head(writer, 0xCB, bits, 8);
}

/* ---- Texts, bytes, times, containers ---- */

/* A length of 1, 2 or 4 bytes behind the first head, the next, the one after it. */
static inline void nc_put_length(struct nc_writer *writer, unsigned first_head, uint64_t length)
{
    if (length <= UINT8_MAX)
        nc_put_head(writer, first_head, length, 1);
    else if (length <= UINT16_MAX)
        nc_put_head(writer, first_head + 1, length, 2);
    else
        nc_put_head(writer, first_head + 2, length, 4);
}

/* Checked before a length is written in at most 32 bits. */
static inline bool nc_value_fits(struct nc_writer *writer, size_t bytes)
{
    if (bytes <= NC_FRAME_BYTES_MAX_CEILING || bytes <= nc_request_bytes_max(writer->owner))
        return true;
    nc_keep_failure(writer, NEARCALL_E_RESOURCE_EXHAUSTED, nc_request_is_too_large(writer->owner));
    return false;
}

static inline void nc_put_string(struct nc_writer *writer, const char *text, size_t bytes)
{
    if (!nc_value_fits(writer, bytes))
        return;
    if (bytes < 32)
        nc_put_head(writer, 0xA0 | (unsigned)bytes, 0, 0);
    else
        nc_put_length(writer, 0xD9, bytes);
    nc_append(writer, text, bytes);
}

static inline void nc_put_bytes(struct nc_writer *writer, const void *data, size_t bytes)
{
    if (!nc_value_fits(writer, bytes))
        return;
    nc_put_length(writer, 0xC4, bytes);
    nc_append(writer, data, bytes);
}

/* The timestamp extension in the shortest of its three forms. */
static inline void nc_put_timestamp(struct nc_writer *writer, uint64_t seconds, uint32_t nanoseconds)
{
    uint8_t *to;
    if (seconds >> 34) {
        nc_put_head(writer, 0xC7, 12, 1);
        nc_put_head(writer, 0xFF, nanoseconds, 4);
        if ((to = nc_room(writer, 8)) != NULL)
            nc_put_big_endian(to, seconds, 8);
    } else if (nanoseconds || seconds >> 32) {
        nc_put_head(writer, 0xD7, 0xFF, 1);
        if ((to = nc_room(writer, 8)) != NULL)
            nc_put_big_endian(to, (uint64_t)nanoseconds << 34 | seconds, 8);
    } else {
        nc_put_head(writer, 0xD6, 0xFF, 1);
        if ((to = nc_room(writer, 4)) != NULL)
            nc_put_big_endian(to, seconds, 4);
    }
}

static inline void nc_put_time(struct nc_writer *writer, int64_t seconds, uint32_t nanoseconds)
{
    if (nanoseconds <= 999999999)
        nc_put_timestamp(writer, (uint64_t)seconds, nanoseconds);
    else
        nc_keep_failure(writer, NEARCALL_E_INVALID_ARGUMENT, "a time has 0 to 999,999,999 nanoseconds");
}

static inline void nc_put_count(struct nc_writer *writer, unsigned short_head, unsigned long_head,
                                uint32_t count)
{
    if (count < 16)
        nc_put_head(writer, short_head | count, 0, 0);
    else if (count <= UINT16_MAX)
        nc_put_head(writer, long_head, count, 2);
    else
        nc_put_head(writer, long_head + 1, count, 4);
}

static inline void nc_put_array(struct nc_writer *writer, uint32_t elements)
{
    nc_open_container(writer, elements);
    nc_put_count(writer, 0x90, 0xDC, elements);
}

static inline void nc_put_map(struct nc_writer *writer, uint32_t pairs)
{
    nc_open_container(writer, 2 * (uint64_t)pairs);
    nc_put_count(writer, 0x80, 0xDE, pairs);
}

/* ---- Bytes as they are ---- */

static inline void nc_put_raw(struct nc_writer *writer, const void *data, size_t bytes)
{
    if (bytes == 0)
        return;
    writer->unchecked = true;
    nc_append(writer, data, bytes);
}

static inline void *nc_put_reserve(struct nc_writer *writer, size_t bytes)
{
    writer->unchecked = true;
    void *to = nc_room(writer, bytes);
    writer->reserved_end = to ? writer->buffer.end : 0;
    writer->reserved_bytes = bytes;
    return to;
}

static inline int nc_put_commit(struct nc_writer *writer, size_t bytes)
{
    if (writer->failure)
        return writer->failure;
    if (writer->reserved_end == 0 || writer->reserved_end != writer->buffer.end ||
        bytes > writer->reserved_bytes) {
        nc_keep_failure(writer, NEARCALL_E_MISUSE,
                        "a commit says how many of the bytes that were reserved just before it are used, "
                        "and not more");
        return writer->failure;
    }
    writer->buffer.end -= writer->reserved_bytes - bytes;
    writer->reserved_end = 0;
    return NEARCALL_OK;
}

#endif
