/* Writers apart from any handle. */
#include "request/values.h"

#include <stdlib.h>

#include "transport/files.h"

NEARCALL_API int nearcall_writer_new(nearcall_writer **ret_writer)
{
    if (!ret_writer)
        return NEARCALL_E_MISUSE;
    nearcall_writer *writer = calloc(1, sizeof(*writer));
    if (!writer)
        return NEARCALL_E_RESOURCE_EXHAUSTED;
    nc_writer_reset(&writer->values, NULL, NEARCALL_CODEC_MSGPACK);
    *ret_writer = writer;
    return NEARCALL_OK;
}

NEARCALL_API void nearcall_writer_free(nearcall_writer *writer)
{
    if (!writer)
        return;
    nc_files_release(&writer->values.files);
    nc_buffer_free(&writer->values.buffer);
    free(writer);
}

NEARCALL_API int nearcall_writer_begin(nearcall_writer *writer, nearcall_function *function, int codec)
{
    if (!writer || codec < NEARCALL_CODEC_RAW || (codec > NEARCALL_CODEC_JSON && codec != NEARCALL_CODEC_PACKED))
        return NEARCALL_E_MISUSE;
    nc_writer_reset(&writer->values, function, codec);
    nc_buffer_trim(&writer->values.buffer);
    return NEARCALL_OK;
}

NEARCALL_API int nearcall_writer_check(const nearcall_writer *writer, const char **ret_problem)
{
    const char *what = "the writer is NULL";
    int r = writer ? nc_writer_fault(&writer->values, &what) : NEARCALL_E_MISUSE;
    if (r < 0 && ret_problem)
        *ret_problem = what;
    return r;
}

NEARCALL_API int nearcall_writer_data(const nearcall_writer *writer, const uint8_t **ret_data, size_t *ret_bytes)
{
    static const uint8_t nothing[1];
    if (!writer || !ret_data || !ret_bytes)
        return NEARCALL_E_MISUSE;
    int r = nearcall_writer_check(writer, NULL);
    if (r < 0)
        return r;
    const struct nc_buffer *buffer = &writer->values.buffer;
    *ret_bytes = nc_buffer_bytes(buffer);
    *ret_data = *ret_bytes ? buffer->data + buffer->start : nothing;
    return NEARCALL_OK;
}

/* ---- Values ---- */

static inline bool begins_value(nearcall_writer *writer)
{
    return writer && nc_count_value(&writer->values);
}

NEARCALL_API void nearcall_write_nil(nearcall_writer *writer)
{
    if (begins_value(writer))
        nc_put_head(&writer->values, 0xC0, 0, 0);
}

NEARCALL_API void nearcall_write_bool(nearcall_writer *writer, int value)
{
    if (begins_value(writer))
        nc_put_head(&writer->values, value ? 0xC3 : 0xC2, 0, 0);
}

NEARCALL_API void nearcall_write_int(nearcall_writer *writer, int64_t value)
{
    if (begins_value(writer))
        nc_put_int(&writer->values, value);
}

NEARCALL_API void nearcall_write_uint(nearcall_writer *writer, uint64_t value)
{
    if (begins_value(writer))
        nc_put_unsigned(&writer->values, value);
}

NEARCALL_API void nearcall_write_float(nearcall_writer *writer, float value)
{
    if (begins_value(writer))
        nc_put_float(&writer->values, value);
}

NEARCALL_API void nearcall_write_double(nearcall_writer *writer, double value)
{
    if (begins_value(writer))
        nc_put_double(&writer->values, value);
}

NEARCALL_API void nearcall_write_string(nearcall_writer *writer, const char *text, size_t bytes)
{
    if (begins_value(writer))
        nc_put_string(&writer->values, text, bytes);
}

NEARCALL_API void nearcall_write_bytes(nearcall_writer *writer, const void *data, size_t bytes)
{
    if (begins_value(writer))
        nc_put_bytes(&writer->values, data, bytes);
}

NEARCALL_API void nearcall_write_time(nearcall_writer *writer, int64_t seconds, uint32_t nanoseconds)
{
    if (begins_value(writer))
        nc_put_time(&writer->values, seconds, nanoseconds);
}

NEARCALL_API void nearcall_write_file(nearcall_writer *writer, int fd)
{
    if (begins_value(writer))
        nc_writer_add_file(&writer->values, fd);
}

NEARCALL_API void nearcall_write_array(nearcall_writer *writer, uint32_t elements)
{
    if (begins_value(writer))
        nc_put_array(&writer->values, elements);
}

NEARCALL_API void nearcall_write_map(nearcall_writer *writer, uint32_t pairs)
{
    if (begins_value(writer))
        nc_put_map(&writer->values, pairs);
}

NEARCALL_API void nearcall_write_packed(nearcall_writer *writer, int element, const void *elements, size_t count)
{
    if (begins_value(writer))
        nc_put_packed(&writer->values, element, elements, count);
}

NEARCALL_API void nearcall_write_raw(nearcall_writer *writer, const void *data, size_t bytes)
{
    if (writer)
        nc_put_raw(&writer->values, data, bytes);
}

NEARCALL_API void *nearcall_write_reserve(nearcall_writer *writer, size_t bytes)
{
    return writer ? nc_put_reserve(&writer->values, bytes) : NULL;
}

NEARCALL_API int nearcall_write_commit(nearcall_writer *writer, size_t bytes)
{
    return writer ? nc_put_commit(&writer->values, bytes) : NEARCALL_E_MISUSE;
}
