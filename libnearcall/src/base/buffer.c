#include "base/buffer.h"

#include <stdlib.h>
#include <string.h>

#include "nearcall.h"

static void move_to_front(struct nc_buffer *buffer)
{
    memmove(buffer->data, buffer->data + buffer->start, nc_buffer_bytes(buffer));
    buffer->end -= buffer->start;
    buffer->start = 0;
}

int nc_buffer_reserve(struct nc_buffer *buffer, size_t bytes)
{
    if (buffer->capacity - buffer->end >= bytes)
        return NEARCALL_OK;
    if (buffer->start > 0)
        move_to_front(buffer);
    if (buffer->capacity - buffer->end >= bytes)
        return NEARCALL_OK;
    if (bytes > SIZE_MAX / 4 || buffer->end > SIZE_MAX / 4)
        return NEARCALL_E_RESOURCE_EXHAUSTED;
    size_t capacity = buffer->capacity ? 2 * buffer->capacity : NC_BUFFER_SPARE_BYTES;
    if (capacity - buffer->end < bytes)
        capacity = buffer->end + bytes;
    uint8_t *data = realloc(buffer->data, capacity);
    if (!data)
        return NEARCALL_E_RESOURCE_EXHAUSTED;
    buffer->data = data;
    buffer->capacity = capacity;
    return NEARCALL_OK;
}

int nc_buffer_append(struct nc_buffer *buffer, const void *data, size_t bytes)
{
    if (bytes == 0)
        return NEARCALL_OK;
    int r = nc_buffer_reserve(buffer, bytes);
    if (r < 0)
        return r;
    memcpy(buffer->data + buffer->end, data, bytes);
    buffer->end += bytes;
    return NEARCALL_OK;
}

void nc_buffer_consume(struct nc_buffer *buffer, size_t bytes)
{
    buffer->start += bytes;
    if (buffer->start == buffer->end)
        buffer->start = buffer->end = 0;
}

void nc_buffer_trim(struct nc_buffer *buffer)
{
    if (buffer->capacity <= NC_BUFFER_KEEP_BYTES || buffer->end > NC_BUFFER_KEEP_BYTES)
        return;
    uint8_t *data = realloc(buffer->data, NC_BUFFER_KEEP_BYTES);
    if (!data)
        return; /* the larger block is still good */
    buffer->data = data;
    buffer->capacity = NC_BUFFER_KEEP_BYTES;
}

void nc_buffer_free(struct nc_buffer *buffer)
{
    free(buffer->data);
    memset(buffer, 0, sizeof(*buffer));
}
