/* Frames, hello and welcome as spec/wire-format.md has them: bytes to numbers
 * and back, and what a receiver refuses. No I/O, no memory of its own.
 * May include: base. */
#ifndef NC_WIRE_H
#define NC_WIRE_H

#include <endian.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/limits_gen.h"

#define NC_PROTOCOL_VERSION 1
#define NC_FRAME_HEADER_BYTES 32
#define NC_HELLO_HEADER_BYTES 64
#define NC_MAGIC_BYTES 8
#define NC_PEER_FRAME_BYTES_MIN 65536
#define NC_EXTENSION_HEADER_BYTES 4

enum nc_feature {
    NC_FEATURE_SHARED_CLOCK = 1,
    NC_FEATURE_STREAMS = 2,
    NC_FEATURE_DESCRIPTORS = 4,
    NC_FEATURE_SHARED_MEMORY = 8,
    NC_FEATURE_DESCRIPTIONS = 16,
    NC_FEATURE_PACKED_LISTS = 64,
    NC_FEATURE_STORES = 128,
    NC_FEATURE_ASKS = 256,
    NC_FEATURE_DIRECTIONS = 512
};

enum nc_frame_type {
    NC_REQUEST = 1,
    NC_REPLY = 2,
    NC_ERROR = 3,
    NC_CANCEL = 4,
    NC_STREAM_DATA = 5,
    NC_STREAM_END = 6,
    NC_CREDIT = 7,
    NC_PING = 8,
    NC_PONG = 9,
    NC_RESOLVE = 10,
    NC_DRAIN = 11,
    NC_WAKE = 12,
    NC_MEMORY = 13,
    NC_STORE = 14,
    NC_RELEASE = 15,
    NC_ASK = 16
};

/* A descriptor in a payload: a MessagePack extension of one byte, its number. */
#define NC_DESCRIPTOR_HEAD 0xD4
#define NC_DESCRIPTOR_TYPE 1

/* A packed list in a payload: a MessagePack extension that begins with the type of the elements and
 * the number of bytes before them. */
#define NC_EXTENSION_32 0xC9
#define NC_EXTENSION_32_BYTES 6
#define NC_PACKED_TYPE 2
#define NC_PACKED_HEAD_BYTES 2

#define NC_MEMORY_DESCRIPTORS 2
#define NC_MEMORY_PAYLOAD_BYTES 16

/* Stores: the places of a connection are first those for requests, then as many for replies. */
#define NC_STORE_PLACES (2 * NC_STORES_PER_DIRECTION)
#define NC_STORE_DESCRIPTORS 1
#define NC_STORE_ASK_BYTES 8
#define NC_STORED_BYTES 16
#define NC_RELEASE_BYTES 12
#define NC_VALUE_BYTES_MAX_BYTES 8

/* The payload of an ASK: a connection's key, then the ids of calls. */
#define NC_CONNECTION_KEY_BYTES 16
#define NC_ASKED_CALL_BYTES 8

enum nc_extension_type {
    NC_EXTENSION_SOFTWARE = 1,
    NC_EXTENSION_REFUSAL = 2,
    NC_EXTENSION_VALUE_BYTES_MAX = 3,
    NC_EXTENSION_CONNECTION_KEY = 4,
    NC_EXTENSION_LOAD = 5,
    NC_EXTENSION_TRACE_PARENT = 16,
    NC_EXTENSION_IDEMPOTENCY_KEY = 17,
    NC_EXTENSION_METADATA = 18,
    NC_EXTENSION_DIRECTION = 19,
    NC_EXTENSION_FUNCTION_NAME = 0x8001,
    NC_EXTENSION_STORED = 0x8002
};

#define NC_EXTENSION_REQUIRED 0x8000u

enum nc_sender { NC_FROM_CALLER = 1, NC_FROM_SERVER = 2 };

struct nc_frame {
    uint32_t length; /* extensions and payload */
    uint8_t type;
    uint8_t flags;
    uint8_t codec;
    uint8_t descriptors;
    uint64_t call_id;
    uint32_t function_id;
    uint32_t deadline_ms;
    uint32_t status; /* or credit, or a request's description check */
    uint32_t extension_bytes;
};

/* Why something was refused; text is static. */
struct nc_fault {
    int code; /* positive */
    const char *subject; /* "REPLY", "welcome" */
    const char *field;
    uint64_t value;
    const char *allowed;
};

struct nc_hello {
    uint16_t version_lowest;
    uint16_t version_highest;
    uint64_t features_offered;
    uint64_t features_required;
    uint32_t process_id;
    uint32_t frame_bytes_max;
    uint64_t clock_ns;
    uint32_t stream_credit_bytes;
};

struct nc_welcome {
    uint32_t total_bytes;
    uint16_t version; /* 0: refused */
    uint16_t status;
    uint64_t features;
    uint64_t server_instance;
    uint32_t process_id;
    uint32_t frame_bytes_max;
    uint64_t clock_ns;
    uint32_t stream_credit_bytes;
    uint32_t calls_in_flight_max;
    uint64_t schema_hash;
    uint64_t value_bytes_max; /* of a payload in a store; 0: none is accepted */
    bool has_key; /* that names the connection in an ASK on another one */
    uint8_t key[NC_CONNECTION_KEY_BYTES];
};

/* In which use of which store a payload lies. */
struct nc_stored {
    uint32_t place;
    uint32_t serial; /* never 0 */
    uint64_t bytes;
};

struct nc_extension {
    uint16_t type;
    uint16_t bytes;
    const uint8_t *data;
};

/* Judges a header by itself, on a connection with these features. 0, or -1 with *fault filled. */
int nc_frame_check(const struct nc_frame *frame, enum nc_sender sender, uint64_t features,
                   uint32_t frame_bytes_max, struct nc_fault *fault);

/* Whether it is a reply with neither extensions nor descriptors, which nearly all frames are that
 * a caller reads. nc_frame_check() accepts each of these, with any features. */
static inline bool nc_frame_is_plain_reply(const struct nc_frame *frame, uint32_t frame_bytes_max)
{
    return frame->type == NC_REPLY && (frame->flags | frame->descriptors) == 0 &&
           frame->call_id != 0 && frame->function_id != 0 &&
           (frame->deadline_ms | frame->status | frame->extension_bytes) == 0 &&
           frame->length <= frame_bytes_max;
}

/* Judges that extensions fill their bytes exactly and that none must be
 * understood that the caller's side does not know with these features. */
int nc_extensions_check(const uint8_t *data, size_t bytes, uint64_t features, const char *subject,
                        struct nc_fault *fault);

/* Takes the extension at *offset; 1, or 0 at the end. The bytes must have passed
 * nc_extensions_check(). */
int nc_extension_next(const uint8_t *data, size_t bytes, size_t *offset,
                      struct nc_extension *extension);

/* Writes one extension; returns its bytes with the header. */
size_t nc_extension_encode(uint8_t *out, uint16_t type, const void *data, uint16_t bytes);

/* The content of the extension that names a store. Reading it: false if it cannot be right. */
void nc_stored_encode(uint8_t out[NC_STORED_BYTES], const struct nc_stored *stored);
bool nc_stored_decode(struct nc_stored *stored, const struct nc_extension *extension);

/* The payload of a RELEASE. forget: this side does not have the store. */
void nc_release_encode(uint8_t out[NC_RELEASE_BYTES], const struct nc_stored *stored, bool forget);

/* Writes a hello with its extensions, which the caller has encoded. */
void nc_hello_encode(uint8_t out[NC_HELLO_HEADER_BYTES], const struct nc_hello *hello,
                     size_t extension_bytes);

/* Reads a welcome from what has arrived: 1 when it is complete, 0 when more is
 * needed, -1 with *fault filled as soon as it cannot become one. */
int nc_welcome_decode(struct nc_welcome *welcome, const uint8_t *data, size_t bytes,
                      uint64_t features_offered, struct nc_fault *fault);

/* The deadline field. remaining_ms is what is left, rounded up; 0 or less is
 * sent as 1. deadline_ms counts on the monotonic clock. */
uint32_t nc_deadline_encode(int64_t deadline_ms, int64_t remaining_ms, int shared_clock);

/* How far the server's clock, of which there is a sample, is ahead of ours: 0 when the
 * sample may be of the same clock, since it was taken between the hello and the welcome;
 * otherwise the least it can be, so that the server never takes a call for alive that its
 * caller has given up. */
int64_t nc_clock_ahead_ns(uint64_t sample_ns, int64_t hello_ns, int64_t welcome_ns);

/* Single moves, on any alignment and byte order. */
static inline uint32_t nc_get_u32(const uint8_t *in)
{
    uint32_t value;
    memcpy(&value, in, sizeof(value));
    return le32toh(value);
}

static inline uint64_t nc_get_u64(const uint8_t *in)
{
    uint64_t value;
    memcpy(&value, in, sizeof(value));
    return le64toh(value);
}

static inline void nc_put_u32(uint8_t *out, uint32_t value)
{
    value = htole32(value);
    memcpy(out, &value, sizeof(value));
}

static inline void nc_put_u64(uint8_t *out, uint64_t value)
{
    value = htole64(value);
    memcpy(out, &value, sizeof(value));
}

static inline void nc_frame_encode(uint8_t out[NC_FRAME_HEADER_BYTES], const struct nc_frame *frame)
{
    nc_put_u32(out, frame->length);
    nc_put_u32(out + 4, (uint32_t)frame->type | (uint32_t)frame->flags << 8 |
                            (uint32_t)frame->codec << 16 | (uint32_t)frame->descriptors << 24);
    nc_put_u64(out + 8, frame->call_id);
    nc_put_u32(out + 16, frame->function_id);
    nc_put_u32(out + 20, frame->deadline_ms);
    nc_put_u32(out + 24, frame->status);
    nc_put_u32(out + 28, frame->extension_bytes);
}

static inline void nc_frame_decode(struct nc_frame *frame, const uint8_t in[NC_FRAME_HEADER_BYTES])
{
    frame->length = nc_get_u32(in);
    frame->type = in[4];
    frame->flags = in[5];
    frame->codec = in[6];
    frame->descriptors = in[7];
    frame->call_id = nc_get_u64(in + 8);
    frame->function_id = nc_get_u32(in + 16);
    frame->deadline_ms = nc_get_u32(in + 20);
    frame->status = nc_get_u32(in + 24);
    frame->extension_bytes = nc_get_u32(in + 28);
}

#endif
