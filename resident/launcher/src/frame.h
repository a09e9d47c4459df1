/* Frames: what both sides send after the request. */
#ifndef NC_FRAME_H
#define NC_FRAME_H

#include "limits_gen.h"

#include <stddef.h>
#include <stdint.h>

/* spec/resident.md, Frames. */
enum nc_frame_type {
    NC_FRAME_RUNNING = 1,
    NC_FRAME_EXITED = 2,
    NC_FRAME_KILLED = 3,
    NC_FRAME_PLAINLY = 4,
    NC_FRAME_ENDING = 5,
    NC_FRAME_EXECUTE = 6,
    NC_FRAME_SIGNAL = 16,
    NC_FRAME_EXECUTED = 17,
};

enum { NC_FRAME_HEADER_BYTES = 16 };

struct frame {
    uint32_t type;
    uint32_t value;
    uint32_t second;
    uint32_t length;
    const char *text; /* ends with a NUL that is not counted; of the inbox */
};

struct inbox {
    size_t length;
    char bytes[NC_FRAME_HEADER_BYTES + NC_RESIDENT_TEXT_BYTES_MAX + 1];
    char kept; /* what stood where the NUL of the last text is */
    size_t taken;
};

enum nc_inbox_state { NC_INBOX_FRAME, NC_INBOX_EMPTY, NC_INBOX_ENDED, NC_INBOX_BROKEN };

/* The next frame that is there, without waiting. It stays until the next call.
 * EMPTY: there is no whole one, as far as was read; ask again when the connection
 * is readable. BROKEN: a text is longer than its limit. */
enum nc_inbox_state nc_inbox_next(struct inbox *inbox, int connection, struct frame *frame);

/* Sends a frame without text. What the other side does not take at once is lost,
 * unless `certain`: then it is waited for. */
void nc_frame_send(int connection, enum nc_frame_type type, uint32_t value, uint32_t second, int certain);

#endif
