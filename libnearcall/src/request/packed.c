/* Lists of numbers, written as one block where the server takes blocks, and as arrays elsewhere. */
#include "request/values.h"

#include "msgpack/msgpack.h"

/* Where the first element of a block lies is divisible by this, counted from the beginning of the payload. */
#define ALIGNMENT 8

/* A list of integers, of which each is read as it lies in memory. */
static int64_t integer_at(int element, const uint8_t *at)
{
    switch (element) {
    case NEARCALL_ELEMENT_INT8: return *(const int8_t *)at;
    case NEARCALL_ELEMENT_UINT8: return *at;
    case NEARCALL_ELEMENT_INT16: {
        int16_t value;
        memcpy(&value, at, sizeof(value));
        return value;
    }
    case NEARCALL_ELEMENT_UINT16: {
        uint16_t value;
        memcpy(&value, at, sizeof(value));
        return value;
    }
    case NEARCALL_ELEMENT_INT32: {
        int32_t value;
        memcpy(&value, at, sizeof(value));
        return value;
    }
    case NEARCALL_ELEMENT_UINT32: {
        uint32_t value;
        memcpy(&value, at, sizeof(value));
        return value;
    }
    default: {
        int64_t value;
        memcpy(&value, at, sizeof(value));
        return value;
    }
    }
}

static void put_element(struct nc_writer *writer, int element, const uint8_t *at)
{
    float narrow;
    double wide;
    switch (element) {
    case NEARCALL_ELEMENT_BOOL: nc_put_head(writer, *at ? 0xC3 : 0xC2, 0, 0); break;
    case NEARCALL_ELEMENT_FLOAT32:
        memcpy(&narrow, at, sizeof(narrow));
        nc_put_float(writer, narrow);
        break;
    case NEARCALL_ELEMENT_FLOAT64:
        memcpy(&wide, at, sizeof(wide));
        nc_put_double(writer, wide);
        break;
    case NEARCALL_ELEMENT_UINT64: nc_put_unsigned(writer, (uint64_t)integer_at(element, at)); break;
    default: nc_put_int(writer, integer_at(element, at));
    }
}

/* Bytes of the shortest form of an integer. */
static unsigned integer_bytes(int64_t value)
{
    if (value >= -32 && value < 128)
        return 1;
    uint64_t magnitude = value < 0 ? ~(uint64_t)value << 1 : (uint64_t)value; /* a sign takes a bit */
    if (magnitude <= UINT8_MAX)
        return 2;
    if (magnitude <= UINT16_MAX)
        return 3;
    return magnitude <= UINT32_MAX ? 5 : 9;
}

static size_t array_bytes(int element, const uint8_t *elements, size_t count)
{
    size_t size = nc_element_bytes(element), bytes = 0;
    for (size_t i = 0; i < count; i++) {
        int64_t value = integer_at(element, elements + i * size);
        bytes += value < 0 && element == NEARCALL_ELEMENT_UINT64 ? 9 : integer_bytes(value);
    }
    return bytes;
}

static bool are_bools(const uint8_t *elements, size_t count)
{
    uint8_t all = 0;
    for (size_t i = 0; i < count; i++)
        all |= elements[i];
    return all <= 1;
}

/* Short lists gain nothing by it, and small integers take less room in an array: a list of them that
 * fits a frame must not become too large for it (spec/schema.md, "Packed lists"). */
static bool is_worth_packing(int element, const uint8_t *elements, size_t count)
{
    size_t bytes = count * nc_element_bytes(element);
    if (bytes < NC_PACKED_LIST_BYTES_MIN)
        return false;
    if (element == NEARCALL_ELEMENT_BOOL)
        return are_bools(elements, count);
    bool is_integer = element >= NEARCALL_ELEMENT_INT8 && element <= NEARCALL_ELEMENT_UINT64;
    if (!is_integer || nc_element_bytes(element) == 1 || bytes <= NC_PACKED_INTEGERS_BYTES)
        return true;
    return bytes <= array_bytes(element, elements, count);
}

static void put_array(struct nc_writer *writer, int element, const uint8_t *elements, size_t count)
{
    size_t size = nc_element_bytes(element);
    nc_put_count(writer, 0x90, 0xDC, (uint32_t)count);
    for (size_t i = 0; i < count && !writer->failure; i++)
        put_element(writer, element, elements + i * size);
}

static void put_block(struct nc_writer *writer, int element, const uint8_t *elements, size_t bytes)
{
    static const uint8_t padding[ALIGNMENT];
    size_t start = writer->buffer.end - writer->buffer.start + NC_PACKED_HEAD_BYTES + NC_EXTENSION_32_BYTES;
    size_t padding_bytes = -start & (ALIGNMENT - 1);
    nc_put_head(writer, NC_EXTENSION_32, NC_PACKED_HEAD_BYTES + padding_bytes + bytes, 4);
    nc_put_head(writer, NC_PACKED_TYPE, (uint64_t)element << 8 | padding_bytes, NC_PACKED_HEAD_BYTES);
    nc_append(writer, padding, padding_bytes);
    nc_append(writer, elements, bytes);
}

void nc_put_packed(struct nc_writer *writer, int element, const void *elements, size_t count)
{
    size_t size = nc_element_bytes(element);
    if (size == 0) {
        nc_keep_failure(writer, NEARCALL_E_MISUSE, "the elements of a packed list are of a type NEARCALL_ELEMENT_...");
        return;
    }
    if (count > nc_request_bytes_max(writer->owner)) {
        nc_keep_failure(writer, NEARCALL_E_RESOURCE_EXHAUSTED, nc_request_is_too_large(writer->owner));
        return;
    }
    if (count && !elements) {
        nc_keep_failure(writer, NEARCALL_E_MISUSE, "the elements of a packed list are at NULL");
        return;
    }
    nc_open_container(writer, 0); /* nests as the list that it is, and nothing that is counted is in it */
    if (writer->packs && nc_is_little_endian() && is_worth_packing(element, elements, count))
        put_block(writer, element, elements, count * size);
    else
        put_array(writer, element, elements, count);
}
