/* Cuts what is read from a channel into frames, and finds their descriptors. */
#include <string.h>
#include <unistd.h>

#include "base/limits_gen.h"
#include "base/rights.h"
#include "handoff/frame.h"

static size_t have(const struct nc_handoff_reader *reader)
{
    return nc_buffer_bytes(&reader->in);
}

/* Within a frame no more is read than it has, so that the descriptor of the one behind
 * it cannot come with it. */
uint8_t *nc_handoff_reader_room(struct nc_handoff_reader *reader, size_t *ret_bytes)
{
    size_t bytes = NC_HANDOFF_READ_BYTES;
    if (reader->has_header)
        bytes = reader->frame.length - have(reader);
    else
        nc_buffer_trim(&reader->in);
    if (nc_buffer_reserve(&reader->in, bytes) < 0)
        return NULL;
    *ret_bytes = bytes;
    return reader->in.data + reader->in.end;
}

/* They belong to no frame that anybody has seen. A child has copies of what came to its parent. */
static void close_all(const struct nc_handoff_reader *reader, const int *fds, unsigned count)
{
    for (unsigned i = 0; i < count; i++)
        if (reader->received_by == getpid())
            nc_rights_close(fds[i]);
        else
            nc_rights_close_received(fds[i], reader->received_by);
}

int nc_handoff_reader_add(struct nc_handoff_reader *reader, size_t bytes, const int *fds,
                          unsigned count, bool lost, struct nc_handoff_fault *fault)
{
    const int lost_fd = NC_HANDOFF_LOST_FD;
    reader->in.end += bytes;
    if (lost) {
        close_all(reader, fds, count);
        fds = &lost_fd;
        count = 1;
    }
    if (count == 0)
        return 0;
    if (count > 1 || reader->has_header || reader->unclaimed == NC_HANDOFF_UNCLAIMED_MAX) {
        close_all(reader, fds, count);
        return nc_handoff_breach(fault, "%u descriptors came where none or one is expected", count);
    }
    reader->fds[reader->unclaimed++] = fds[0];
    return 0;
}

static int claim(struct nc_handoff_reader *reader)
{
    if (reader->unclaimed == 0)
        return NC_HANDOFF_LOST_FD;
    int fd = reader->fds[0];
    reader->unclaimed--;
    memmove(reader->fds, reader->fds + 1, reader->unclaimed * sizeof(reader->fds[0]));
    return fd;
}

static int take_header(struct nc_handoff_reader *reader, struct nc_handoff_fault *fault)
{
    if (have(reader) < NC_HANDOFF_HEADER_BYTES)
        return 0;
    if (nc_handoff_header_decode(&reader->frame, reader->in.data + reader->in.start,
                                 &reader->limits, fault) < 0)
        return -1;
    nc_buffer_consume(&reader->in, NC_HANDOFF_HEADER_BYTES);
    reader->has_header = true;
    reader->fd = reader->frame.type == NC_HANDOFF_GIVE ? claim(reader) : NC_HANDOFF_NO_FD;
    return 1;
}

int nc_handoff_reader_next(struct nc_handoff_reader *reader, struct nc_handoff_frame *ret_frame,
                           int *ret_fd, struct nc_handoff_fault *fault)
{
    if (!reader->has_header) {
        int r = take_header(reader, fault);
        if (r <= 0)
            return r;
    }
    size_t length = reader->frame.length;
    if (have(reader) < length)
        return 0;
    /* What is left belongs to a GIVE that has begun. */
    if (have(reader) == length && reader->unclaimed)
        return nc_handoff_breach(fault, "a descriptor came with a frame that has none");
    *ret_frame = reader->frame;
    *ret_fd = reader->fd;
    nc_handoff_frame_split(ret_frame, reader->in.data + reader->in.start);
    reader->has_header = false;
    reader->fd = NC_HANDOFF_NO_FD;
    nc_buffer_consume(&reader->in, length); /* the bytes stay where they are */
    return 1;
}

int nc_handoff_reader_hello(struct nc_handoff_reader *reader, struct nc_handoff_hello *hello,
                            struct nc_handoff_text *ret_refusal, struct nc_handoff_fault *fault)
{
    const uint8_t *in = reader->in.data + reader->in.start;
    int r = nc_handoff_hello_decode(hello, in, have(reader), fault);
    if (r <= 0)
        return r;
    if (have(reader) < hello->total_bytes)
        return 0;
    if (have(reader) == hello->total_bytes && reader->unclaimed)
        return nc_handoff_breach(fault, "a descriptor came with a hello");
    ret_refusal->data = in + NC_HANDOFF_HELLO_BYTES;
    ret_refusal->bytes = hello->total_bytes - NC_HANDOFF_HELLO_BYTES;
    nc_buffer_consume(&reader->in, hello->total_bytes);
    return 1;
}

bool nc_handoff_reader_is_within(const struct nc_handoff_reader *reader)
{
    return reader->has_header || have(reader) > 0;
}

/* What was given by half is the giver's, which may use it again. */
static void leave_all(const struct nc_handoff_reader *reader, const int *fds, unsigned count)
{
    if (reader->breached)
        close_all(reader, fds, count);
    else
        for (unsigned i = 0; i < count; i++)
            nc_rights_close_received(fds[i], reader->received_by);
}

void nc_handoff_reader_free(struct nc_handoff_reader *reader)
{
    leave_all(reader, reader->fds, reader->unclaimed);
    reader->unclaimed = 0;
    if (reader->has_header)
        leave_all(reader, &reader->fd, 1);
    reader->has_header = false;
    nc_buffer_free(&reader->in);
}
