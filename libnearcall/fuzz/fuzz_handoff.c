/* Hellos and frames of handoffs, as a receiver reads them: in pieces, with descriptors that
 * come, are lost, or are too many. The first byte chooses how the rest is cut. What is
 * accepted must lie within the limits, and encoding it must give the same bytes. */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fuzz.h"
#include "handoff/frame.h"

static const struct nc_handoff_limits limits = {4096, 4096};

static void check_frame(const struct nc_handoff_frame *frame, int fd)
{
    struct nc_buffer encoded = {0};
    struct nc_handoff_frame again;
    struct nc_handoff_fault fault;
    size_t sum = 0;
    FUZZ_CHECK((frame->type == NC_HANDOFF_GIVE) == (fd != NC_HANDOFF_NO_FD));
    FUZZ_CHECK(nc_handoff_frame_append(&encoded, frame) == 0);
    FUZZ_CHECK(nc_handoff_header_decode(&again, encoded.data, &limits, &fault) == 0);
    FUZZ_CHECK(again.type == frame->type && again.id == frame->id && again.length == frame->length &&
               again.kind == frame->kind && again.reason == frame->reason);
    for (size_t i = 0; i < NC_HANDOFF_PARTS; i++) {
        const uint8_t *part = encoded.data + NC_HANDOFF_HEADER_BYTES + sum;
        FUZZ_CHECK(memcmp(part, frame->parts[i].data, frame->parts[i].bytes) == 0);
        sum += frame->parts[i].bytes;
    }
    FUZZ_CHECK(sum == frame->length && encoded.end == NC_HANDOFF_HEADER_BYTES + sum);
    nc_buffer_free(&encoded);
    if (fd >= 0)
        close(fd);
}

/* Each piece is as long, and brings as many descriptors, as two bits of its number say. */
static int feed(struct nc_handoff_reader *reader, const uint8_t **data, size_t *bytes, uint8_t mode,
                unsigned piece, struct nc_handoff_fault *fault)
{
    static const size_t lengths[] = {1, 7, 31, 100000};
    int fds[2];
    size_t room, count = lengths[(mode >> piece % 4 * 2) & 3];
    uint8_t *into = nc_handoff_reader_room(reader, &room);
    FUZZ_CHECK(into != NULL && room > 0);
    count = count < room ? count : room;
    count = count < *bytes ? count : *bytes;
    memcpy(into, *data, count);
    unsigned fds_count = (mode >> piece % 8) & 1 ? 1 + (mode == 255) : 0;
    for (unsigned i = 0; i < fds_count; i++)
        FUZZ_CHECK((fds[i] = open("/dev/null", O_RDONLY | O_CLOEXEC)) >= 0);
    *data += count;
    *bytes -= count;
    return nc_handoff_reader_add(reader, count, fds, fds_count, mode % 16 == 15, fault);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    struct nc_handoff_reader reader = {.limits = limits, .fd = NC_HANDOFF_NO_FD};
    struct nc_handoff_fault fault = {""};
    struct nc_handoff_hello hello;
    struct nc_handoff_text refusal;
    struct nc_handoff_frame frame;
    int fd, r = 0, greeted;
    if (bytes < 1)
        return 0;
    uint8_t mode = *data++;
    bytes--;
    greeted = mode % 4 == 1;
    for (unsigned piece = 0; r >= 0 && bytes > 0; piece++) {
        r = feed(&reader, &data, &bytes, mode, piece, &fault);
        if (r == 0 && !greeted)
            greeted = (r = nc_handoff_reader_hello(&reader, &hello, &refusal, &fault)) > 0;
        while (r >= 0 && greeted && (r = nc_handoff_reader_next(&reader, &frame, &fd, &fault)) > 0)
            check_frame(&frame, fd);
    }
    FUZZ_CHECK(r >= 0 || fault.text[0]);
    nc_handoff_reader_free(&reader);
    return 0;
}
