/* What travels on a channel of spec/handoff.md: hellos and frames. No input or output. */
#ifndef NC_HANDOFF_FRAME_H
#define NC_HANDOFF_FRAME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/buffer.h"

#define NC_HANDOFF_VERSION 1
#define NC_HANDOFF_HELLO_BYTES 40
#define NC_HANDOFF_HEADER_BYTES 32

enum nc_handoff_type {
    NC_HANDOFF_GIVE = 1,
    NC_HANDOFF_TAKEN,
    NC_HANDOFF_REFUSED,
    NC_HANDOFF_RECALL,
    NC_HANDOFF_DRAIN,
    NC_HANDOFF_WANT,
    NC_HANDOFF_DONE,
    NC_HANDOFF_PING,
    NC_HANDOFF_PONG,
    NC_HANDOFF_TYPES
};

struct nc_handoff_hello {
    uint32_t total_bytes;
    uint16_t lowest; /* versions; an answer has the chosen one twice, 0 refuses */
    uint16_t highest;
    uint32_t process_id;
    uint32_t takes;
    uint32_t window;
    uint32_t prefix_bytes_max;
    uint32_t message_bytes_max;
};

/* In the order in which they follow the header. */
enum nc_handoff_part {
    NC_HANDOFF_NAME,
    NC_HANDOFF_LOCAL,
    NC_HANDOFF_REMOTE,
    NC_HANDOFF_RESOURCE,
    NC_HANDOFF_MESSAGE,
    NC_HANDOFF_PREFIX,
    NC_HANDOFF_PARTS
};

struct nc_handoff_text {
    const uint8_t *data;
    size_t bytes;
};

struct nc_handoff_frame {
    enum nc_handoff_type type;
    uint8_t kind;
    uint8_t reason;
    uint64_t id;
    size_t length;
    struct nc_handoff_text parts[NC_HANDOFF_PARTS];
};

/* What a side announced in its hello. */
struct nc_handoff_limits {
    uint32_t prefix_bytes_max;
    uint32_t message_bytes_max;
};

#define NC_HANDOFF_FAULT_BYTES 160

/* Why bytes are refused, in words. */
struct nc_handoff_fault {
    char text[NC_HANDOFF_FAULT_BYTES];
};

int nc_handoff_breach(struct nc_handoff_fault *fault, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

void nc_handoff_hello_encode(uint8_t *out, const struct nc_handoff_hello *hello);

/* Reads the fixed part. 1, 0 when there are too few bytes for it, or -1. */
int nc_handoff_hello_decode(struct nc_handoff_hello *hello, const uint8_t *in, size_t bytes,
                            struct nc_handoff_fault *fault);

/* Appends the frame: 0, or NEARCALL_E_RESOURCE_EXHAUSTED. Its parts were checked. */
int nc_handoff_frame_append(struct nc_buffer *out, const struct nc_handoff_frame *frame);

/* Decodes a header and checks it; parts get their lengths. 0 or -1. */
int nc_handoff_header_decode(struct nc_handoff_frame *frame, const uint8_t *in,
                             const struct nc_handoff_limits *limits,
                             struct nc_handoff_fault *fault);

/* Points the parts at the bytes that follow the header. */
void nc_handoff_frame_split(struct nc_handoff_frame *frame, const uint8_t *body);

/* 0, or -1 with the part named that is longer than the limits allow. */
int nc_handoff_frame_check(const struct nc_handoff_frame *frame,
                           const struct nc_handoff_limits *limits,
                           struct nc_handoff_fault *fault);

/* ---- From bytes to frames ---- */

#define NC_HANDOFF_NO_FD (-1)
#define NC_HANDOFF_LOST_FD (-2)   /* it was sent and did not arrive */
#define NC_HANDOFF_READ_BYTES 16384
#define NC_HANDOFF_FDS_MAX 253    /* what the kernel lets one message carry */

/* A GIVE whose header was torn, and one behind it. */
#define NC_HANDOFF_UNCLAIMED_MAX 2

/* The kernel ends a read behind the bytes that a descriptor was sent with, and never joins
 * two messages that carry descriptors: so the descriptors of a read belong to the last GIVE
 * that begins in it, and each GIVE takes the oldest one left. */
struct nc_handoff_reader {
    struct nc_handoff_limits limits;
    pid_t received_by; /* the process whose channel it is */
    bool breached; /* the peer broke the rules; otherwise what it gave is its own as it was */
    struct nc_buffer in;
    bool has_header; /* and waits for the rest of the frame */
    struct nc_handoff_frame frame;
    int fd; /* of that frame */
    unsigned unclaimed;
    int fds[NC_HANDOFF_UNCLAIMED_MAX];
};

/* Where to read to, and how much at most; NULL: no memory. */
uint8_t *nc_handoff_reader_room(struct nc_handoff_reader *reader, size_t *ret_bytes);

/* Notes what was read into the room. The descriptors are the reader's then; lost: some
 * did not arrive. 0 or -1. */
int nc_handoff_reader_add(struct nc_handoff_reader *reader, size_t bytes, const int *fds,
                          unsigned count, bool lost, struct nc_handoff_fault *fault);

/* The peer's hello, and why it refuses: 1; 0: it is not complete; or -1. */
int nc_handoff_reader_hello(struct nc_handoff_reader *reader, struct nc_handoff_hello *hello,
                            struct nc_handoff_text *ret_refusal, struct nc_handoff_fault *fault);

/* The next frame, valid until more is read: 1; 0: it is not complete; or -1. *ret_fd is
 * the caller's: of a GIVE its descriptor or NC_HANDOFF_LOST_FD. */
int nc_handoff_reader_next(struct nc_handoff_reader *reader, struct nc_handoff_frame *ret_frame,
                           int *ret_fd, struct nc_handoff_fault *fault);

/* Whether a frame has begun and not ended. */
bool nc_handoff_reader_is_within(const struct nc_handoff_reader *reader);

/* Closes the descriptors that no frame took, and frees what it has. */
void nc_handoff_reader_free(struct nc_handoff_reader *reader);

#endif
