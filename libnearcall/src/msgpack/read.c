#include "msgpack/msgpack.h"

#include <stdbool.h>
#include <string.h>

#include "base/limits_gen.h"
#include "wire/wire.h"

#define TIMESTAMP (-1)
#define NANOSECONDS_MAX 999999999u

/* What follows a head byte of 0xC0 and above: how many bytes of number, and what
 * they mean. */
enum kind { ILLEGAL, NIL, BOOL, BYTES, STRING, FLOAT, UNSIGNED, SIGNED, ARRAY, MAP, EXTENSION, FIXED };

struct head {
    uint8_t kind;
    uint8_t bytes; /* FIXED: the extension's own length */
};

static const struct head heads[0x20] = {
    {NIL, 0},       {ILLEGAL, 0},   {BOOL, 0},      {BOOL, 0},     /* C0 */
    {BYTES, 1},     {BYTES, 2},     {BYTES, 4},                    /* C4 */
    {EXTENSION, 1}, {EXTENSION, 2}, {EXTENSION, 4},                /* C7 */
    {FLOAT, 4},     {FLOAT, 8},                                    /* CA */
    {UNSIGNED, 1},  {UNSIGNED, 2},  {UNSIGNED, 4},  {UNSIGNED, 8}, /* CC */
    {SIGNED, 1},    {SIGNED, 2},    {SIGNED, 4},    {SIGNED, 8},   /* D0 */
    {FIXED, 1},     {FIXED, 2},     {FIXED, 4},     {FIXED, 8},    /* D4 */
    {FIXED, 16},                                                   /* D8 */
    {STRING, 1},    {STRING, 2},    {STRING, 4},                   /* D9 */
    {ARRAY, 2},     {ARRAY, 4},     {MAP, 2},       {MAP, 4},      /* DC */
};

static size_t left(const nearcall_reader *reader)
{
    return (size_t)(reader->end - reader->next);
}

static uint64_t big_endian(const uint8_t *from, unsigned bytes)
{
    uint64_t value = 0;
    for (unsigned i = 0; i < bytes; i++)
        value = value << 8 | from[i];
    return value;
}

static int64_t sign_extend(uint64_t value, unsigned bytes)
{
    switch (bytes) {
    case 1: return (int8_t)value;
    case 2: return (int16_t)value;
    case 4: return (int32_t)value;
    default: return (int64_t)value;
    }
}

static int refuse(void)
{
    return NEARCALL_E_INVALID_ARGUMENT;
}

static void set_integer(nearcall_value *value, int64_t integer)
{
    value->type = NEARCALL_INT;
    value->as.integer = integer;
}

static void set_unsigned(nearcall_value *value, uint64_t number)
{
    if (number <= INT64_MAX) {
        set_integer(value, (int64_t)number);
        return;
    }
    value->type = NEARCALL_UINT;
    value->as.unsigned_integer = number;
}

static void set_real(nearcall_value *value, uint64_t bits, unsigned bytes)
{
    value->type = NEARCALL_FLOAT;
    if (bytes == 4) {
        uint32_t narrow_bits = (uint32_t)bits;
        float narrow;
        memcpy(&narrow, &narrow_bits, sizeof(narrow));
        value->as.real = (double)narrow;
    } else {
        memcpy(&value->as.real, &bits, sizeof(bits));
    }
}

/* Takes the bytes of a string or the like from the reader. */
static int take(nearcall_reader *reader, int type, uint64_t bytes, nearcall_value *value)
{
    if (bytes > left(reader))
        return refuse();
    value->type = type;
    value->count = (uint32_t)bytes;
    value->as.data = reader->next;
    reader->next += bytes;
    return NEARCALL_OK;
}

/* Every element takes a byte at least, so a count beyond what is left is cut off
 * or a lie, and is not handed to anybody who might allocate for it. */
static int set_container(const nearcall_reader *reader, int type, uint64_t count,
                         nearcall_value *value)
{
    uint64_t values = type == NEARCALL_MAP ? 2 * count : count;
    if (values > left(reader))
        return refuse();
    value->type = type;
    value->count = (uint32_t)count;
    return NEARCALL_OK;
}

static int set_time(nearcall_value *value)
{
    const uint8_t *data = value->as.data;
    uint64_t seconds, nanoseconds = 0;
    if (value->count == 4) {
        seconds = big_endian(data, 4);
    } else if (value->count == 8) {
        uint64_t both = big_endian(data, 8);
        seconds = both & 0x3FFFFFFFFu;
        nanoseconds = both >> 34;
    } else if (value->count == 12) {
        nanoseconds = big_endian(data, 4);
        seconds = big_endian(data + 4, 8);
    } else {
        return refuse();
    }
    if (nanoseconds > NANOSECONDS_MAX)
        return refuse();
    value->type = NEARCALL_TIME;
    value->count = (uint32_t)nanoseconds;
    value->as.integer = (int64_t)seconds;
    return NEARCALL_OK;
}

static int read_extension(nearcall_reader *reader, uint64_t bytes, nearcall_value *value)
{
    if (left(reader) < 1)
        return refuse();
    int8_t type = (int8_t)*reader->next++;
    int r = take(reader, NEARCALL_EXTENSION, bytes, value);
    if (r < 0)
        return r;
    value->extension_type = type;
    if (type == NC_DESCRIPTOR_TYPE && bytes == 1) {
        uint8_t number = *(const volatile uint8_t *)value->as.data;
        value->type = NEARCALL_FILE;
        value->count = 0;
        value->as.integer = number;
    }
    if (type == NC_PACKED_TYPE)
        return nc_packed_head(value);
    return type == TIMESTAMP ? set_time(value) : NEARCALL_OK;
}

static int read_long(nearcall_reader *reader, uint8_t byte, nearcall_value *value)
{
    struct head head = heads[byte - 0xC0];
    if (head.kind == FIXED)
        return read_extension(reader, head.bytes, value);
    if (left(reader) < head.bytes)
        return refuse();
    uint64_t number = big_endian(reader->next, head.bytes);
    reader->next += head.bytes;
    switch ((enum kind)head.kind) {
    case NIL: value->type = NEARCALL_NIL; return NEARCALL_OK;
    case BOOL: value->type = NEARCALL_BOOL; value->as.boolean = byte & 1; return NEARCALL_OK;
    case FLOAT: set_real(value, number, head.bytes); return NEARCALL_OK;
    case UNSIGNED: set_unsigned(value, number); return NEARCALL_OK;
    case SIGNED: set_integer(value, sign_extend(number, head.bytes)); return NEARCALL_OK;
    case BYTES: return take(reader, NEARCALL_BYTES, number, value);
    case STRING: return take(reader, NEARCALL_STRING, number, value);
    case ARRAY: return set_container(reader, NEARCALL_ARRAY, number, value);
    case MAP: return set_container(reader, NEARCALL_MAP, number, value);
    case EXTENSION: return read_extension(reader, number, value);
    default: return refuse();
    }
}

static int read_value(nearcall_reader *reader, nearcall_value *value)
{
    /* Once: what is read may be a server's memory, and the compiler must not look again. */
    uint8_t byte = *(const volatile uint8_t *)reader->next++;
    if (byte >= 0xE0 || byte < 0x80) {
        set_integer(value, (int8_t)byte);
        return NEARCALL_OK;
    }
    if (byte < 0x90)
        return set_container(reader, NEARCALL_MAP, byte & 0x0F, value);
    if (byte < 0xA0)
        return set_container(reader, NEARCALL_ARRAY, byte & 0x0F, value);
    if (byte < 0xC0)
        return take(reader, NEARCALL_STRING, byte & 0x1F, value);
    return read_long(reader, byte, value);
}

/* On failure the reader stands where it stood and *ret_value is untouched. */
NEARCALL_API int nearcall_read(nearcall_reader *reader, nearcall_value *ret_value)
{
    if (__builtin_expect(!reader || !ret_value, 0))
        return NEARCALL_E_MISUSE;
    nearcall_reader ahead = *reader;
    nearcall_value value;
    if (reader->next >= reader->end)
        return NEARCALL_E_OUT_OF_RANGE;
    memset(&value, 0, sizeof(value));
    int r = read_value(&ahead, &value);
    if (r < 0)
        return r;
    *reader = ahead;
    *ret_value = value;
    return NEARCALL_OK;
}

static bool is_container(const nearcall_value *value)
{
    return value->type == NEARCALL_ARRAY || value->type == NEARCALL_MAP;
}

static uint64_t values_inside(const nearcall_value *value)
{
    if (value->type == NEARCALL_ARRAY)
        return value->count;
    return value->type == NEARCALL_MAP ? 2 * (uint64_t)value->count : 0;
}

NEARCALL_API int nearcall_skip(nearcall_reader *reader)
{
    /* Written as far as it is used: most results are one value, and every call's is skipped. */
    uint64_t missing[NC_NESTING_DEPTH_MAX + 1];
    if (__builtin_expect(!reader, 0))
        return NEARCALL_E_MISUSE;
    nearcall_reader ahead = *reader;
    unsigned depth = 0;
    missing[0] = 1;
    for (;;) {
        nearcall_value value;
        int r = nearcall_read(&ahead, &value);
        if (r == NEARCALL_E_OUT_OF_RANGE && ahead.next != reader->next)
            r = refuse();
        if (r < 0)
            return r;
        missing[depth]--;
        if (is_container(&value) && depth == NC_NESTING_DEPTH_MAX)
            return refuse();
        uint64_t inside = values_inside(&value);
        if (inside > 0)
            missing[++depth] = inside;
        while (missing[depth] == 0) {
            if (depth-- == 0) {
                *reader = ahead;
                return NEARCALL_OK;
            }
        }
    }
}
