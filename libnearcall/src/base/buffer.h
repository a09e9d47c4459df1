#ifndef NC_BUFFER_H
#define NC_BUFFER_H

#include <stddef.h>
#include <stdint.h>

/* What an idle handle keeps of a buffer; more is given back. */
#define NC_BUFFER_KEEP_BYTES 65536
/* The capacity that each begins with, and what is kept of one for its next use. */
#define NC_BUFFER_SPARE_BYTES 1024

/* Bytes between start and end; zeroed means empty. data is NULL until the first
 * nc_buffer_reserve(). The holder of the struct owns data. */
struct nc_buffer {
    uint8_t *data;
    size_t start;
    size_t end;
    size_t capacity;
};

static inline size_t nc_buffer_bytes(const struct nc_buffer *buffer)
{
    return buffer->end - buffer->start;
}

/* Makes room for bytes after end, moving the content to the front first.
 * 0, or NEARCALL_E_RESOURCE_EXHAUSTED with the content as it was. */
int nc_buffer_reserve(struct nc_buffer *buffer, size_t bytes);

int nc_buffer_append(struct nc_buffer *buffer, const void *data, size_t bytes);

/* Forgets bytes from the front. */
void nc_buffer_consume(struct nc_buffer *buffer, size_t bytes);

/* Gives memory beyond NC_BUFFER_KEEP_BYTES back when the content allows it.
 * The content keeps its offsets but may move. */
void nc_buffer_trim(struct nc_buffer *buffer);

void nc_buffer_free(struct nc_buffer *buffer);

/* Empties it. The memory of a small one stays with it: to allocate for each reply of calls
 * in flight would cost as much as a fifth of all else that is done for them. */
static inline void nc_buffer_empty(struct nc_buffer *buffer)
{
    buffer->start = buffer->end = 0;
    if (buffer->capacity > NC_BUFFER_SPARE_BYTES)
        nc_buffer_free(buffer);
}

static inline void nc_buffer_swap(struct nc_buffer *one, struct nc_buffer *other)
{
    struct nc_buffer former = *one;
    *one = *other;
    *other = former;
}

#endif
