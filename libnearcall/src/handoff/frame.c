#include "handoff/frame.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/limits_gen.h"
#include "nearcall_handoff.h"
#include "wire/wire.h"

/* It shows a channel that translates text, as the hello of calls does. */
static const uint8_t magic[NC_MAGIC_BYTES] = {0x8A, 'N', 'C', 'P', '\r', '\n', 0x1A, '\n'};

/* Numbers are little-endian. */
static void put(uint8_t *out, uint64_t value, unsigned bytes)
{
    for (unsigned i = 0; i < bytes; i++)
        out[i] = (uint8_t)(value >> 8 * i);
}

static uint64_t get(const uint8_t *in, unsigned bytes)
{
    uint64_t value = 0;
    for (unsigned i = 0; i < bytes; i++)
        value |= (uint64_t)in[i] << 8 * i;
    return value;
}

static uint32_t get_u32(const uint8_t *in)
{
    return (uint32_t)get(in, 4);
}

int nc_handoff_breach(struct nc_handoff_fault *fault, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(fault->text, sizeof(fault->text), format, arguments);
    va_end(arguments);
    return -1;
}

/* ---- Hellos ---- */

void nc_handoff_hello_encode(uint8_t *out, const struct nc_handoff_hello *hello)
{
    memcpy(out, magic, NC_MAGIC_BYTES);
    put(out + 8, hello->total_bytes, 4);
    put(out + 12, hello->lowest, 2);
    put(out + 14, hello->highest, 2);
    put(out + 16, hello->process_id, 4);
    put(out + 20, hello->takes, 4);
    put(out + 24, hello->window, 4);
    put(out + 28, hello->prefix_bytes_max, 4);
    put(out + 32, hello->message_bytes_max, 4);
    put(out + 36, 0, 4);
}

int nc_handoff_hello_decode(struct nc_handoff_hello *hello, const uint8_t *in, size_t bytes,
                            struct nc_handoff_fault *fault)
{
    for (size_t i = 0; i < bytes && i < NC_MAGIC_BYTES; i++)
        if (in[i] != magic[i])
            return nc_handoff_breach(fault, "it does not begin as a handoff does: byte %zu is %02X",
                                     i, in[i]);
    if (bytes < NC_HANDOFF_HELLO_BYTES)
        return 0;
    hello->total_bytes = get_u32(in + 8);
    hello->lowest = (uint16_t)get(in + 12, 2);
    hello->highest = (uint16_t)get(in + 14, 2);
    hello->process_id = get_u32(in + 16);
    hello->takes = get_u32(in + 20);
    hello->window = get_u32(in + 24);
    hello->prefix_bytes_max = get_u32(in + 28);
    hello->message_bytes_max = get_u32(in + 32);
    if (hello->total_bytes < NC_HANDOFF_HELLO_BYTES || hello->total_bytes > NC_HELLO_BYTES_MAX)
        return nc_handoff_breach(fault, "a hello of %u bytes; it has %d to %d",
                                 (unsigned)hello->total_bytes, NC_HANDOFF_HELLO_BYTES,
                                 NC_HELLO_BYTES_MAX);
    return 1;
}

/* ---- Frames ---- */

int nc_handoff_frame_append(struct nc_buffer *out, const struct nc_handoff_frame *frame)
{
    size_t length = 0;
    for (size_t i = 0; i < NC_HANDOFF_PARTS; i++)
        length += frame->parts[i].bytes;
    int r = nc_buffer_reserve(out, NC_HANDOFF_HEADER_BYTES + length);
    if (r < 0)
        return r;
    uint8_t *to = out->data + out->end;
    put(to, length, 4);
    to[4] = (uint8_t)frame->type;
    to[5] = frame->kind;
    to[6] = frame->reason;
    to[7] = 0;
    put(to + 8, frame->id, 8);
    put(to + 16, frame->parts[NC_HANDOFF_PREFIX].bytes, 4);
    put(to + 20, frame->parts[NC_HANDOFF_MESSAGE].bytes, 4);
    for (size_t i = NC_HANDOFF_NAME; i <= NC_HANDOFF_RESOURCE; i++)
        put(to + 24 + 2 * i, frame->parts[i].bytes, 2);
    to += NC_HANDOFF_HEADER_BYTES;
    for (size_t i = 0; i < NC_HANDOFF_PARTS; i++) {
        if (frame->parts[i].bytes)
            memcpy(to, frame->parts[i].data, frame->parts[i].bytes);
        to += frame->parts[i].bytes;
    }
    out->end += NC_HANDOFF_HEADER_BYTES + length;
    return NEARCALL_OK;
}

/* A WSAPROTOCOL_INFOW, the largest that stands for a descriptor anywhere. */
#define RESOURCE_BYTES_MAX 628

int nc_handoff_frame_check(const struct nc_handoff_frame *frame,
                           const struct nc_handoff_limits *limits, struct nc_handoff_fault *fault)
{
    const struct {
        const char *name;
        size_t bytes_max;
    } bounds[NC_HANDOFF_PARTS] = {
        [NC_HANDOFF_NAME] = {"name", NC_HANDOFF_NAME_BYTES_MAX},
        [NC_HANDOFF_LOCAL] = {"local address", NC_HANDOFF_NAME_BYTES_MAX},
        [NC_HANDOFF_REMOTE] = {"remote address", NC_HANDOFF_NAME_BYTES_MAX},
        [NC_HANDOFF_RESOURCE] = {"resource", RESOURCE_BYTES_MAX},
        [NC_HANDOFF_MESSAGE] = {"message", limits->message_bytes_max},
        [NC_HANDOFF_PREFIX] = {"prefix", limits->prefix_bytes_max},
    };
    for (size_t i = 0; i < NC_HANDOFF_PARTS; i++)
        if (frame->parts[i].bytes > bounds[i].bytes_max)
            return nc_handoff_breach(fault, "the %s has %zu bytes, at most %zu were agreed to",
                                     bounds[i].name, frame->parts[i].bytes, bounds[i].bytes_max);
    return 0;
}

/* Fields that a type of frame has besides its type. */
enum {
    USE_KIND = 1,
    USE_REASON = 2,
    USE_ID = 4,
    USE_NAME = 8,
    USE_ADDRESSES = 16, /* and the resource */
    USE_MESSAGE = 32,
    USE_PREFIX = 64
};

static const unsigned uses[NC_HANDOFF_TYPES] = {
    [NC_HANDOFF_GIVE] = USE_KIND | USE_ID | USE_NAME | USE_ADDRESSES | USE_MESSAGE | USE_PREFIX,
    [NC_HANDOFF_TAKEN] = USE_ID,
    [NC_HANDOFF_REFUSED] = USE_ID | USE_REASON | USE_MESSAGE,
    [NC_HANDOFF_RECALL] = USE_ID,
    [NC_HANDOFF_DRAIN] = USE_MESSAGE,
    [NC_HANDOFF_WANT] = USE_ID | USE_NAME,
    [NC_HANDOFF_DONE] = USE_ID | USE_MESSAGE,
    [NC_HANDOFF_PING] = USE_ID,
    [NC_HANDOFF_PONG] = USE_ID,
};

static int check_uses(const struct nc_handoff_frame *frame, struct nc_handoff_fault *fault)
{
    const struct nc_handoff_text *parts = frame->parts;
    const struct {
        const char *name;
        uint64_t value;
        unsigned use;
    } fields[] = {
        {"kind", frame->kind, USE_KIND},
        {"reason", frame->reason, USE_REASON},
        {"id", frame->id, USE_ID},
        {"prefix", parts[NC_HANDOFF_PREFIX].bytes, USE_PREFIX},
        {"message", parts[NC_HANDOFF_MESSAGE].bytes, USE_MESSAGE},
        {"name", parts[NC_HANDOFF_NAME].bytes, USE_NAME},
        {"local address", parts[NC_HANDOFF_LOCAL].bytes, USE_ADDRESSES},
        {"remote address", parts[NC_HANDOFF_REMOTE].bytes, USE_ADDRESSES},
        {"resource", parts[NC_HANDOFF_RESOURCE].bytes, USE_ADDRESSES},
    };
    for (size_t i = 0; i < sizeof(fields) / sizeof(fields[0]); i++)
        if (fields[i].value != 0 && !(uses[frame->type] & fields[i].use))
            return nc_handoff_breach(fault, "a frame of type %d has no %s", frame->type,
                                     fields[i].name);
    if (frame->id == 0 && uses[frame->type] & USE_ID)
        return nc_handoff_breach(fault, "the id of a frame of type %d is 0", frame->type);
    if (frame->reason == 0 && frame->type == NC_HANDOFF_REFUSED)
        return nc_handoff_breach(fault, "a refusal without a reason");
    if (frame->type == NC_HANDOFF_GIVE &&
        (frame->kind < NEARCALL_HANDOFF_CONNECTION || frame->kind > NEARCALL_HANDOFF_FILE))
        return nc_handoff_breach(fault, "there is no kind %d to give", frame->kind);
    return 0;
}

int nc_handoff_header_decode(struct nc_handoff_frame *frame, const uint8_t *in,
                             const struct nc_handoff_limits *limits,
                             struct nc_handoff_fault *fault)
{
    memset(frame, 0, sizeof(*frame));
    frame->length = get_u32(in);
    frame->kind = in[5];
    frame->reason = in[6];
    frame->id = get(in + 8, 8);
    frame->parts[NC_HANDOFF_PREFIX].bytes = get_u32(in + 16);
    frame->parts[NC_HANDOFF_MESSAGE].bytes = get_u32(in + 20);
    for (size_t i = NC_HANDOFF_NAME; i <= NC_HANDOFF_RESOURCE; i++)
        frame->parts[i].bytes = (uint16_t)get(in + 24 + 2 * i, 2);
    if (in[4] < NC_HANDOFF_GIVE || in[4] >= NC_HANDOFF_TYPES)
        return nc_handoff_breach(fault, "there is no frame of type %d", in[4]);
    frame->type = in[4];
    if (in[7] != 0)
        return nc_handoff_breach(fault, "the reserved byte of a frame is %d", in[7]);
    if (check_uses(frame, fault) < 0 || nc_handoff_frame_check(frame, limits, fault) < 0)
        return -1;
    size_t sum = 0;
    for (size_t i = 0; i < NC_HANDOFF_PARTS; i++)
        sum += frame->parts[i].bytes;
    if (sum != frame->length)
        return nc_handoff_breach(fault, "a length of %zu, its parts have %zu bytes", frame->length,
                                 sum);
    return 0;
}

void nc_handoff_frame_split(struct nc_handoff_frame *frame, const uint8_t *body)
{
    for (size_t i = 0; i < NC_HANDOFF_PARTS; i++) {
        frame->parts[i].data = body;
        body += frame->parts[i].bytes;
    }
}
