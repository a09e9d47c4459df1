/* Lists of numbers that came as one block, or as an array, into memory of the reader's. */
#include <math.h>
#include <stdint.h>
#include <string.h>

#include "msgpack/msgpack.h"
#include "wire/wire.h"

size_t nc_element_bytes(int element)
{
    static const uint8_t bytes[] = {0, 1, 1, 2, 4, 8, 1, 2, 4, 8, 4, 8};
    if (element < NEARCALL_ELEMENT_BOOL || element > NEARCALL_ELEMENT_FLOAT64)
        return 0;
    return bytes[element];
}

int nc_packed_head(nearcall_value *value)
{
    if (value->count < NC_PACKED_HEAD_BYTES)
        return NEARCALL_E_INVALID_ARGUMENT;
    /* Each once: what is read may be a server's memory. */
    const volatile uint8_t *head = value->as.data;
    unsigned element = head[0], padding = head[1];
    size_t size = nc_element_bytes((int)element), bytes = value->count - NC_PACKED_HEAD_BYTES;
    if (size == 0 || padding > bytes || (bytes - padding) % size != 0)
        return NEARCALL_E_INVALID_ARGUMENT;
    value->type = NEARCALL_PACKED;
    value->extension_type = (int8_t)element;
    value->as.data += NC_PACKED_HEAD_BYTES + padding;
    value->count = (uint32_t)((bytes - padding) / size);
    return NEARCALL_OK;
}

static void swap(uint8_t *elements, size_t count, size_t size)
{
    for (uint8_t *at = elements; count-- > 0; at += size)
        for (size_t i = 0; i < size / 2; i++) {
            uint8_t byte = at[i];
            at[i] = at[size - 1 - i];
            at[size - 1 - i] = byte;
        }
}

static int copy_block(const nearcall_value *block, int element, void *to)
{
    size_t size = nc_element_bytes(element);
    if (block->extension_type != element)
        return NEARCALL_E_INVALID_ARGUMENT;
    if (block->count)
        memcpy(to, block->as.data, block->count * size);
    if (!nc_is_little_endian())
        swap(to, block->count, size);
    if (element == NEARCALL_ELEMENT_BOOL)
        for (uint32_t i = 0; i < block->count; i++)
            if (((const uint8_t *)to)[i] > 1)
                return NEARCALL_E_INVALID_ARGUMENT;
    return NEARCALL_OK;
}

/* Whether a value is an integer of that type. */
static bool integer_fits(int element, const nearcall_value *value)
{
    static const struct range {
        int64_t least;
        uint64_t most;
    } ranges[] = {
        [NEARCALL_ELEMENT_INT8] = {INT8_MIN, INT8_MAX},   [NEARCALL_ELEMENT_INT16] = {INT16_MIN, INT16_MAX},
        [NEARCALL_ELEMENT_INT32] = {INT32_MIN, INT32_MAX}, [NEARCALL_ELEMENT_INT64] = {INT64_MIN, INT64_MAX},
        [NEARCALL_ELEMENT_UINT8] = {0, UINT8_MAX},         [NEARCALL_ELEMENT_UINT16] = {0, UINT16_MAX},
        [NEARCALL_ELEMENT_UINT32] = {0, UINT32_MAX},       [NEARCALL_ELEMENT_UINT64] = {0, UINT64_MAX},
    };
    const struct range *range = &ranges[element];
    if (value->type == NEARCALL_UINT)
        return value->as.unsigned_integer <= range->most;
    if (value->type != NEARCALL_INT)
        return false;
    return value->as.integer < 0 ? value->as.integer >= range->least : (uint64_t)value->as.integer <= range->most;
}

static int put_integer(int element, const nearcall_value *value, uint8_t *to)
{
    if (!integer_fits(element, value))
        return NEARCALL_E_INVALID_ARGUMENT;
    uint64_t bits = value->type == NEARCALL_UINT ? value->as.unsigned_integer : (uint64_t)value->as.integer;
    uint8_t narrow = (uint8_t)bits;
    uint16_t half = (uint16_t)bits;
    uint32_t word = (uint32_t)bits;
    switch (nc_element_bytes(element)) {
    case 1: memcpy(to, &narrow, sizeof(narrow)); break;
    case 2: memcpy(to, &half, sizeof(half)); break;
    case 4: memcpy(to, &word, sizeof(word)); break;
    default: memcpy(to, &bits, sizeof(bits));
    }
    return NEARCALL_OK;
}

static int put_float(int element, const nearcall_value *value, uint8_t *to)
{
    double real = value->as.real;
    if (value->type == NEARCALL_INT)
        real = (double)value->as.integer;
    else if (value->type == NEARCALL_UINT)
        real = (double)value->as.unsigned_integer;
    else if (value->type != NEARCALL_FLOAT)
        return NEARCALL_E_INVALID_ARGUMENT;
    float narrow = (float)real;
    if (element == NEARCALL_ELEMENT_FLOAT32 && isinf(narrow) && !isinf(real))
        return NEARCALL_E_INVALID_ARGUMENT;
    if (element == NEARCALL_ELEMENT_FLOAT32)
        memcpy(to, &narrow, sizeof(narrow));
    else
        memcpy(to, &real, sizeof(real));
    return NEARCALL_OK;
}

static int put_element(int element, const nearcall_value *value, uint8_t *to)
{
    if (element == NEARCALL_ELEMENT_BOOL) {
        *to = value->as.boolean != 0;
        return value->type == NEARCALL_BOOL ? NEARCALL_OK : NEARCALL_E_INVALID_ARGUMENT;
    }
    return element < NEARCALL_ELEMENT_FLOAT32 ? put_integer(element, value, to) : put_float(element, value, to);
}

static int copy_array(nearcall_reader *reader, uint32_t count, int element, uint8_t *to)
{
    size_t size = nc_element_bytes(element);
    int r = NEARCALL_OK;
    for (uint32_t i = 0; i < count && r == NEARCALL_OK; i++) {
        nearcall_value value;
        r = nearcall_read(reader, &value);
        if (r == NEARCALL_OK)
            r = put_element(element, &value, to + i * size);
    }
    return r == NEARCALL_E_OUT_OF_RANGE ? NEARCALL_E_INVALID_ARGUMENT : r;
}

static int64_t integer_at(int element, const uint8_t *at)
{
    uint16_t half;
    uint32_t word;
    switch (element) {
    case NEARCALL_ELEMENT_INT8: return (int8_t)at[0];
    case NEARCALL_ELEMENT_UINT8: return at[0];
    case NEARCALL_ELEMENT_INT16:
    case NEARCALL_ELEMENT_UINT16:
        memcpy(&half, at, sizeof(half));
        half = le16toh(half);
        return element == NEARCALL_ELEMENT_INT16 ? (int64_t)(int16_t)half : (int64_t)half;
    case NEARCALL_ELEMENT_INT32:
    case NEARCALL_ELEMENT_UINT32:
        word = nc_get_u32(at);
        return element == NEARCALL_ELEMENT_INT32 ? (int64_t)(int32_t)word : (int64_t)word;
    default: return (int64_t)nc_get_u64(at);
    }
}

static int element_at(int element, const uint8_t *at, nearcall_value *value)
{
    uint32_t word;
    uint64_t bits;
    float narrow;
    value->type = NEARCALL_FLOAT;
    switch (element) {
    case NEARCALL_ELEMENT_BOOL:
        value->type = NEARCALL_BOOL;
        value->as.boolean = *(const volatile uint8_t *)at; /* once: it may be a server's memory */
        return value->as.boolean <= 1 ? NEARCALL_OK : NEARCALL_E_INVALID_ARGUMENT;
    case NEARCALL_ELEMENT_FLOAT32:
        word = nc_get_u32(at);
        memcpy(&narrow, &word, sizeof(narrow));
        value->as.real = (double)narrow;
        return NEARCALL_OK;
    case NEARCALL_ELEMENT_FLOAT64:
        bits = nc_get_u64(at);
        memcpy(&value->as.real, &bits, sizeof(bits));
        return NEARCALL_OK;
    default:
        value->type = NEARCALL_INT;
        value->as.integer = integer_at(element, at);
        if (element == NEARCALL_ELEMENT_UINT64 && value->as.integer < 0)
            value->type = NEARCALL_UINT; /* the same bits */
        return NEARCALL_OK;
    }
}

NEARCALL_API int nearcall_packed_at(const nearcall_value *list, uint32_t index, nearcall_value *ret_value)
{
    if (!list || !ret_value)
        return NEARCALL_E_MISUSE;
    size_t size = nc_element_bytes(list->extension_type);
    if (list->type != NEARCALL_PACKED || size == 0)
        return NEARCALL_E_INVALID_ARGUMENT;
    if (index >= list->count)
        return NEARCALL_E_OUT_OF_RANGE;
    nearcall_value value;
    memset(&value, 0, sizeof(value));
    int r = element_at(list->extension_type, list->as.data + index * size, &value);
    if (r == NEARCALL_OK)
        *ret_value = value;
    return r;
}

NEARCALL_API int nearcall_read_elements(nearcall_reader *reader, const nearcall_value *list, int element, void *to)
{
    if (!reader || !list || nc_element_bytes(element) == 0)
        return NEARCALL_E_MISUSE;
    nearcall_reader ahead = *reader;
    int r = NEARCALL_E_INVALID_ARGUMENT;
    if (list->type == NEARCALL_NIL)
        return NEARCALL_OK; /* of no elements */
    if (list->count && !to)
        return NEARCALL_E_MISUSE;
    if (list->type == NEARCALL_PACKED)
        r = copy_block(list, element, to);
    else if (list->type == NEARCALL_ARRAY)
        r = copy_array(&ahead, list->count, element, to);
    if (r == NEARCALL_OK)
        *reader = ahead;
    return r;
}

NEARCALL_API int nearcall_read_numbers(nearcall_reader *reader, int element, void *to, size_t capacity,
                                       size_t *ret_count)
{
    if (!reader || !ret_count || nc_element_bytes(element) == 0 || (capacity && !to))
        return NEARCALL_E_MISUSE;
    nearcall_reader ahead = *reader;
    nearcall_value value;
    int r = nearcall_read(&ahead, &value);
    if (r < 0)
        return r;
    if (value.type != NEARCALL_NIL && value.type != NEARCALL_ARRAY && value.type != NEARCALL_PACKED)
        return NEARCALL_E_INVALID_ARGUMENT;
    *ret_count = value.type == NEARCALL_NIL ? 0 : value.count;
    if (*ret_count > capacity)
        return NEARCALL_E_RESOURCE_EXHAUSTED;
    r = nearcall_read_elements(&ahead, &value, element, to);
    if (r == NEARCALL_OK)
        *reader = ahead;
    return r;
}

NEARCALL_API int nearcall_borrow_numbers(nearcall_reader *reader, int element, const void **ret_elements,
                                         size_t *ret_count)
{
    if (!reader || !ret_elements || !ret_count || nc_element_bytes(element) == 0)
        return NEARCALL_E_MISUSE;
    nearcall_reader ahead = *reader;
    nearcall_value value;
    int r = nearcall_read(&ahead, &value);
    if (r < 0)
        return r;
    if (value.type != NEARCALL_PACKED || value.extension_type != element || !nc_is_little_endian() ||
        (uintptr_t)value.as.data % nc_element_bytes(element) != 0)
        return NEARCALL_E_FAILED_PRECONDITION;
    *ret_elements = value.as.data;
    *ret_count = value.count;
    *reader = ahead;
    return NEARCALL_OK;
}
