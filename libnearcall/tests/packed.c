/* Lists of numbers as one block: what is written for whom, what is read in which forms, and servers
 * that do not take blocks. */
#include <float.h>
#include <math.h>

#include "base/limits_gen.h"
#include "script.h"

#define BLOCK_OF_EIGHT "\xc9\0\0\0\x42\2\x0b\0" /* at the beginning of a payload, without its elements */

static const double eight[8] = {0, 1, 2, 3, 4, 5, 6, 7};

static nearcall_writer *new_writer(int codec)
{
    nearcall_writer *writer = NULL;
    CHECK_INT(nearcall_writer_new(&writer), NEARCALL_OK);
    CHECK_INT(nearcall_writer_begin(writer, NULL, codec), NEARCALL_OK);
    return writer;
}

static const uint8_t *data_of(const nearcall_writer *writer, size_t *ret_bytes)
{
    const uint8_t *data = NULL;
    CHECK_INT(nearcall_writer_data(writer, &data, ret_bytes), NEARCALL_OK);
    return data;
}

static void written_as_a_block(void)
{
    size_t bytes;
    nearcall_writer *writer = new_writer(NEARCALL_CODEC_PACKED);
    nearcall_write_packed(writer, NEARCALL_ELEMENT_FLOAT64, eight, 8);
    const uint8_t *data = data_of(writer, &bytes);
    CHECK_INT(bytes, 8 + 64);
    CHECK(memcmp(data, BLOCK_OF_EIGHT, 8) == 0);
    for (unsigned before = 1; before < 10; before++) { /* wherever it stands, its elements are aligned */
        CHECK_INT(nearcall_writer_begin(writer, NULL, NEARCALL_CODEC_PACKED), NEARCALL_OK);
        nearcall_write_array(writer, before + 1);
        for (unsigned i = 0; i < before; i++)
            nearcall_write_nil(writer);
        nearcall_write_packed(writer, NEARCALL_ELEMENT_FLOAT64, eight, 8);
        data = data_of(writer, &bytes);
        CHECK_INT(bytes % 8, 0);
        CHECK(memcmp(data + bytes - sizeof(eight), eight, sizeof(eight)) == 0);
    }
    nearcall_writer_free(writer);
}

/* The same values, written one by one. */
static void expect_as_array(int codec, int element, const void *elements, size_t count,
                            void (*write_one)(nearcall_writer *, const void *, size_t))
{
    size_t bytes, expected_bytes;
    nearcall_writer *writer = new_writer(codec), *expected = new_writer(NEARCALL_CODEC_MSGPACK);
    nearcall_write_packed(writer, element, elements, count);
    nearcall_write_array(expected, (uint32_t)count);
    for (size_t i = 0; i < count; i++)
        write_one(expected, elements, i);
    const uint8_t *data = data_of(writer, &bytes), *expected_data = data_of(expected, &expected_bytes);
    CHECK_INT(bytes, expected_bytes);
    CHECK(memcmp(data, expected_data, bytes) == 0);
    nearcall_writer_free(writer);
    nearcall_writer_free(expected);
}

static void one_double(nearcall_writer *writer, const void *all, size_t i) { nearcall_write_double(writer, ((const double *)all)[i]); }
static void one_float(nearcall_writer *writer, const void *all, size_t i) { nearcall_write_float(writer, ((const float *)all)[i]); }
static void one_bool(nearcall_writer *writer, const void *all, size_t i) { nearcall_write_bool(writer, ((const uint8_t *)all)[i]); }
static void one_int8(nearcall_writer *writer, const void *all, size_t i) { nearcall_write_int(writer, ((const int8_t *)all)[i]); }
static void one_int16(nearcall_writer *writer, const void *all, size_t i) { nearcall_write_int(writer, ((const int16_t *)all)[i]); }
static void one_int32(nearcall_writer *writer, const void *all, size_t i) { nearcall_write_int(writer, ((const int32_t *)all)[i]); }
static void one_int64(nearcall_writer *writer, const void *all, size_t i) { nearcall_write_int(writer, ((const int64_t *)all)[i]); }
static void one_uint8(nearcall_writer *writer, const void *all, size_t i) { nearcall_write_uint(writer, ((const uint8_t *)all)[i]); }
static void one_uint16(nearcall_writer *writer, const void *all, size_t i) { nearcall_write_uint(writer, ((const uint16_t *)all)[i]); }
static void one_uint32(nearcall_writer *writer, const void *all, size_t i) { nearcall_write_uint(writer, ((const uint32_t *)all)[i]); }
static void one_uint64(nearcall_writer *writer, const void *all, size_t i) { nearcall_write_uint(writer, ((const uint64_t *)all)[i]); }

static void written_as_arrays(void)
{
    const float floats[] = {1.5f, -2};
    const uint8_t bools[] = {0, 1, 1}, uint8s[] = {0, 255}, not_bools[100] = {7, 1};
    const int8_t int8s[] = {INT8_MIN, -1, INT8_MAX};
    const int16_t int16s[] = {INT16_MIN, INT16_MAX};
    const int32_t int32s[] = {INT32_MIN, INT32_MAX};
    const int64_t int64s[] = {INT64_MIN, -33, -32, 127, 128, INT64_MAX};
    const uint16_t uint16s[] = {UINT16_MAX};
    const uint32_t uint32s[] = {UINT32_MAX};
    const uint64_t uint64s[] = {UINT64_MAX, 1};
    expect_as_array(NEARCALL_CODEC_MSGPACK, NEARCALL_ELEMENT_FLOAT64, eight, 8, one_double);
    expect_as_array(NEARCALL_CODEC_PACKED, NEARCALL_ELEMENT_FLOAT64, eight, 7, one_double);
    expect_as_array(NEARCALL_CODEC_PACKED, NEARCALL_ELEMENT_FLOAT64, eight, 0, one_double);
    expect_as_array(NEARCALL_CODEC_MSGPACK, NEARCALL_ELEMENT_FLOAT32, floats, 2, one_float);
    expect_as_array(NEARCALL_CODEC_MSGPACK, NEARCALL_ELEMENT_BOOL, bools, 3, one_bool);
    expect_as_array(NEARCALL_CODEC_PACKED, NEARCALL_ELEMENT_BOOL, not_bools, 100, one_bool);
    expect_as_array(NEARCALL_CODEC_MSGPACK, NEARCALL_ELEMENT_INT8, int8s, 3, one_int8);
    expect_as_array(NEARCALL_CODEC_MSGPACK, NEARCALL_ELEMENT_INT16, int16s, 2, one_int16);
    expect_as_array(NEARCALL_CODEC_MSGPACK, NEARCALL_ELEMENT_INT32, int32s, 2, one_int32);
    expect_as_array(NEARCALL_CODEC_MSGPACK, NEARCALL_ELEMENT_INT64, int64s, 6, one_int64);
    expect_as_array(NEARCALL_CODEC_MSGPACK, NEARCALL_ELEMENT_UINT8, uint8s, 2, one_uint8);
    expect_as_array(NEARCALL_CODEC_MSGPACK, NEARCALL_ELEMENT_UINT16, uint16s, 1, one_uint16);
    expect_as_array(NEARCALL_CODEC_MSGPACK, NEARCALL_ELEMENT_UINT32, uint32s, 1, one_uint32);
    expect_as_array(NEARCALL_CODEC_MSGPACK, NEARCALL_ELEMENT_UINT64, uint64s, 2, one_uint64);
}

/* Integers that an array makes shorter stay in one as soon as looking at them is worth it. */
static void long_lists_of_integers(void)
{
    enum { COUNT = NC_PACKED_INTEGERS_BYTES / 8 + 1 };
    static int64_t numbers[COUNT];
    size_t bytes;
    nearcall_writer *writer = new_writer(NEARCALL_CODEC_PACKED);
    nearcall_write_packed(writer, NEARCALL_ELEMENT_INT64, numbers, COUNT - 1);
    CHECK_INT(data_of(writer, &bytes)[0], 0xC9);
    expect_as_array(NEARCALL_CODEC_PACKED, NEARCALL_ELEMENT_INT64, numbers, COUNT, one_int64);
    expect_as_array(NEARCALL_CODEC_PACKED, NEARCALL_ELEMENT_UINT64, numbers, COUNT, one_uint64);
    for (int i = 0; i < COUNT; i++)
        numbers[i] = i % 2 ? INT64_MIN + i : INT64_MAX - i;
    CHECK_INT(nearcall_writer_begin(writer, NULL, NEARCALL_CODEC_PACKED), NEARCALL_OK);
    nearcall_write_packed(writer, NEARCALL_ELEMENT_INT64, numbers, COUNT);
    CHECK_INT(data_of(writer, &bytes)[0], 0xC9);
    CHECK_INT(bytes, 8 + sizeof(numbers));
    nearcall_writer_free(writer);
}

static void refused(int element, const void *elements, size_t count, int code, const char *says)
{
    const char *problem = "";
    nearcall_writer *writer = new_writer(NEARCALL_CODEC_PACKED);
    nearcall_write_packed(writer, element, elements, count);
    CHECK_INT(nearcall_writer_check(writer, &problem), code);
    CHECK(strstr(problem, says) != NULL);
    nearcall_writer_free(writer);
}

static void refusals(void)
{
    refused(0, eight, 8, NEARCALL_E_MISUSE, "NEARCALL_ELEMENT_");
    refused(12, eight, 8, NEARCALL_E_MISUSE, "NEARCALL_ELEMENT_");
    refused(NEARCALL_ELEMENT_FLOAT64, NULL, 8, NEARCALL_E_MISUSE, "NULL");
    refused(NEARCALL_ELEMENT_FLOAT64, eight, SIZE_MAX / 4, NEARCALL_E_RESOURCE_EXHAUSTED, "larger");
    const char *problem = "";
    nearcall_writer *writer = new_writer(NEARCALL_CODEC_PACKED);
    for (int i = 0; i < 33; i++) /* that of the arguments, and as many as a value may nest */
        nearcall_write_array(writer, 1);
    nearcall_write_packed(writer, NEARCALL_ELEMENT_FLOAT64, eight, 8);
    CHECK_INT(nearcall_writer_check(writer, &problem), NEARCALL_E_INVALID_ARGUMENT);
    CHECK(strstr(problem, "deeper") != NULL);
    nearcall_writer_free(writer);
}

/* ---- Reading ---- */

static int read_bytes(const char *bytes, size_t count, nearcall_value *ret_value)
{
    nearcall_reader reader = {(const uint8_t *)bytes, (const uint8_t *)bytes + count};
    int r = nearcall_read(&reader, ret_value);
    CHECK((r == NEARCALL_OK) == (reader.next == reader.end));
    return r;
}

static void heads(void)
{
    nearcall_value value;
    CHECK_INT(read_bytes("\xc7\6\2\3\0\1\0\2\0", 9, &value), NEARCALL_OK);
    CHECK_INT(value.type, NEARCALL_PACKED);
    CHECK_INT(value.extension_type, NEARCALL_ELEMENT_INT16);
    CHECK_INT(value.count, 2);
    CHECK(memcmp(value.as.data, "\1\0\2", 4) == 0);
    CHECK_INT(read_bytes("\xc7\5\2\2\2xx\7", 8, &value), NEARCALL_OK);
    CHECK_INT(value.count, 1);
    CHECK_INT(read_bytes("\xd5\2\x0b\0", 4, &value), NEARCALL_OK);
    CHECK_INT(value.count, 0);
    CHECK_INT(read_bytes("\xc7\0\2", 3, &value), NEARCALL_E_INVALID_ARGUMENT); /* no head */
    CHECK_INT(read_bytes("\xd4\2\2", 3, &value), NEARCALL_E_INVALID_ARGUMENT);
    CHECK_INT(read_bytes("\xd5\2\0\0", 4, &value), NEARCALL_E_INVALID_ARGUMENT); /* no such type */
    CHECK_INT(read_bytes("\xd5\2\x0c\0", 4, &value), NEARCALL_E_INVALID_ARGUMENT);
    CHECK_INT(read_bytes("\xd5\2\xff\0", 4, &value), NEARCALL_E_INVALID_ARGUMENT);
    CHECK_INT(read_bytes("\xd5\2\2\1", 4, &value), NEARCALL_E_INVALID_ARGUMENT); /* padding beyond it */
    CHECK_INT(read_bytes("\xc7\5\2\3\0\1\0\2", 8, &value), NEARCALL_E_INVALID_ARGUMENT); /* half an element */
    CHECK_INT(read_bytes("\xc9\xff\xff\xff\xff\2\3\0", 8, &value), NEARCALL_E_INVALID_ARGUMENT);
}

#define NUMBERS(element, bytes, to, capacity, ret_count) \
    read_numbers(element, bytes, sizeof(bytes) - 1, to, capacity, ret_count)

static int read_numbers(int element, const char *bytes, size_t count, void *to, size_t capacity, size_t *ret_count)
{
    nearcall_reader reader = {(const uint8_t *)bytes, (const uint8_t *)bytes + count};
    int r = nearcall_read_numbers(&reader, element, to, capacity, ret_count);
    CHECK((r == NEARCALL_OK) == (reader.next == reader.end));
    return r;
}

static void numbers(void)
{
    int16_t int16s[2];
    uint8_t bytes[3];
    double doubles[2];
    float floats[2];
    uint64_t wide[2];
    int8_t narrow[1];
    size_t count = 0;
    CHECK_INT(NUMBERS(NEARCALL_ELEMENT_INT16, "\xc7\6\2\3\0\1\0\xff\xff", int16s, 2, &count), NEARCALL_OK);
    CHECK(count == 2 && int16s[0] == 1 && int16s[1] == -1);
    CHECK_INT(NUMBERS(NEARCALL_ELEMENT_INT16, "\x92\1\xff", int16s, 2, &count), NEARCALL_OK);
    CHECK(count == 2 && int16s[0] == 1 && int16s[1] == -1);
    CHECK_INT(NUMBERS(NEARCALL_ELEMENT_INT16, "\xc0", NULL, 0, &count), NEARCALL_OK);
    CHECK_INT(count, 0);
    CHECK_INT(NUMBERS(NEARCALL_ELEMENT_INT16, "\xc7\6\2\3\0\1\0\xff\xff", int16s, 1, &count), NEARCALL_E_RESOURCE_EXHAUSTED);
    CHECK_INT(count, 2);
    CHECK_INT(NUMBERS(NEARCALL_ELEMENT_UINT16, "\xc7\6\2\3\0\1\0\2\0", int16s, 2, &count), NEARCALL_E_INVALID_ARGUMENT);
    CHECK_INT(NUMBERS(NEARCALL_ELEMENT_UINT16, "\x91\xff", int16s, 2, &count), NEARCALL_E_INVALID_ARGUMENT);
    CHECK_INT(NUMBERS(NEARCALL_ELEMENT_INT8, "\x91\xcc\x80", narrow, 1, &count), NEARCALL_E_INVALID_ARGUMENT);
    CHECK_INT(NUMBERS(NEARCALL_ELEMENT_INT8, "\x91\xd0\x80", narrow, 1, &count), NEARCALL_OK);
    CHECK_INT(narrow[0], -128);
    CHECK_INT(NUMBERS(NEARCALL_ELEMENT_BOOL, "\xc7\5\2\1\0\0\1\1", bytes, 3, &count), NEARCALL_OK);
    CHECK(bytes[0] == 0 && bytes[1] == 1 && bytes[2] == 1);
    CHECK_INT(NUMBERS(NEARCALL_ELEMENT_BOOL, "\xc7\3\2\1\0\2", bytes, 3, &count), NEARCALL_E_INVALID_ARGUMENT);
    CHECK_INT(NUMBERS(NEARCALL_ELEMENT_BOOL, "\x92\xc2\xc3", bytes, 3, &count), NEARCALL_OK);
    CHECK(bytes[0] == 0 && bytes[1] == 1);
    CHECK_INT(NUMBERS(NEARCALL_ELEMENT_BOOL, "\x91\1", bytes, 3, &count), NEARCALL_E_INVALID_ARGUMENT);
    CHECK_INT(NUMBERS(NEARCALL_ELEMENT_FLOAT64, "\x92\xca\x3f\xc0\0\0\7", doubles, 2, &count), NEARCALL_OK);
    CHECK(doubles[0] == 1.5 && doubles[1] == 7);
    CHECK_INT(NUMBERS(NEARCALL_ELEMENT_FLOAT32, "\x92\xcb\x3f\xf8\0\0\0\0\0\0\xcf\x80\0\0\0\0\0\0\0", floats, 2, &count), NEARCALL_OK);
    CHECK(floats[0] == 1.5f && floats[1] == 9223372036854775808.0f);
    /* 1e300, and then the largest number that is rounded to a float32, the least that is not, and infinity. */
    CHECK_INT(NUMBERS(NEARCALL_ELEMENT_FLOAT32, "\x92\1\xcb\x7e\x37\xe4\x3c\x88\0\x75\x9c", floats, 2, &count), NEARCALL_E_INVALID_ARGUMENT);
    CHECK_INT(NUMBERS(NEARCALL_ELEMENT_FLOAT32, "\x91\xcb\x47\xef\xff\xff\xef\xff\xff\xff", floats, 2, &count), NEARCALL_OK);
    CHECK(floats[0] == FLT_MAX);
    CHECK_INT(NUMBERS(NEARCALL_ELEMENT_FLOAT32, "\x91\xcb\xc7\xef\xff\xff\xf0\0\0\0", floats, 2, &count), NEARCALL_E_INVALID_ARGUMENT);
    CHECK_INT(NUMBERS(NEARCALL_ELEMENT_FLOAT32, "\x92\xcb\xff\xf0\0\0\0\0\0\0\xca\x7f\xc0\0\0", floats, 2, &count), NEARCALL_OK);
    CHECK(isinf(floats[0]) && isnan(floats[1]));
    CHECK_INT(NUMBERS(NEARCALL_ELEMENT_UINT64, "\x92\xcf\xff\xff\xff\xff\xff\xff\xff\xff\2", wide, 2, &count), NEARCALL_OK);
    CHECK(wide[0] == UINT64_MAX && wide[1] == 2);
    CHECK_INT(NUMBERS(NEARCALL_ELEMENT_FLOAT64, "\x91\xa1x", doubles, 2, &count), NEARCALL_E_INVALID_ARGUMENT);
    CHECK_INT(NUMBERS(NEARCALL_ELEMENT_FLOAT64, "\xc3", doubles, 2, &count), NEARCALL_E_INVALID_ARGUMENT);
    CHECK_INT(NUMBERS(NEARCALL_ELEMENT_FLOAT64, "\x92\1", doubles, 2, &count), NEARCALL_E_INVALID_ARGUMENT);
}

/* A server may write to what is read. What was read of a list counts, and its elements are what is there then. */
static void heads_that_change(void)
{
    uint8_t block[] = {0xc7, 6, 2, 3, 0, 1, 0, 2, 0}, array[] = {0x92, 1, 2};
    int16_t to[4] = {9, 9, 9, 9};
    nearcall_value list;
    nearcall_reader reader = {block, block + sizeof(block)};
    CHECK_INT(nearcall_read(&reader, &list), NEARCALL_OK);
    memcpy(block, "\xc7\4\2\4\2", 5); /* less, of another type and elsewhere */
    block[7] = 7;
    CHECK_INT(nearcall_read_elements(&reader, &list, NEARCALL_ELEMENT_INT16, to), NEARCALL_OK);
    CHECK(reader.next == reader.end && to[0] == 1 && to[1] == 7 && to[2] == 9);
    CHECK_INT(nearcall_read_elements(&reader, &list, NEARCALL_ELEMENT_INT32, to), NEARCALL_E_INVALID_ARGUMENT);

    reader = (nearcall_reader){array, array + sizeof(array)};
    CHECK_INT(nearcall_read(&reader, &list), NEARCALL_OK);
    array[0] = 0x91;
    CHECK_INT(nearcall_read_elements(&reader, &list, NEARCALL_ELEMENT_INT16, to), NEARCALL_OK);
    CHECK(reader.next == reader.end && to[0] == 1 && to[1] == 2 && to[2] == 9);
    reader.next = array + 1;
    array[2] = 0xdc; /* the end of it was cut off */
    CHECK_INT(nearcall_read_elements(&reader, &list, NEARCALL_ELEMENT_INT16, to), NEARCALL_E_INVALID_ARGUMENT);
    CHECK(reader.next == array + 1);
}

/* One by one, as the elements of an array. */
static void single_elements(void)
{
    nearcall_value list, element;
#define AT(bytes, index) (CHECK_INT(read_bytes(bytes, sizeof(bytes) - 1, &list), NEARCALL_OK), \
                          CHECK_INT(nearcall_packed_at(&list, index, &element), NEARCALL_OK), element)
    CHECK_INT(AT("\xc7\4\2\1\0\0\1", 1).as.boolean, 1);
    CHECK_INT(element.type, NEARCALL_BOOL);
    CHECK_INT(AT("\xc7\4\2\2\0\1\xff", 1).as.integer, -1);
    CHECK_INT(AT("\xc7\4\2\6\0\1\xff", 1).as.integer, 255);
    CHECK_INT(AT("\xc7\6\2\3\0\1\0\xfe\xff", 1).as.integer, -2);
    CHECK_INT(AT("\xc7\6\2\7\0\1\0\xfe\xff", 1).as.integer, 65534);
    CHECK_INT(AT("\xc7\6\2\4\0\xfe\xff\xff\xff", 0).as.integer, -2);
    CHECK_INT(AT("\xc7\6\2\x8\0\xfe\xff\xff\xff", 0).as.integer, 4294967294);
    CHECK_INT(AT("\xc7\x0a\2\5\0\xfe\xff\xff\xff\xff\xff\xff\xff", 0).as.integer, -2);
    CHECK_INT(element.type, NEARCALL_INT);
    CHECK(AT("\xc7\x0a\2\x9\0\xfe\xff\xff\xff\xff\xff\xff\xff", 0).as.unsigned_integer == UINT64_MAX - 1);
    CHECK_INT(element.type, NEARCALL_UINT);
    CHECK_INT(AT("\xc7\x0a\2\x9\0\7\0\0\0\0\0\0\0", 0).as.integer, 7);
    CHECK_INT(element.type, NEARCALL_INT);
    CHECK(AT("\xc7\6\2\x0a\0\0\0\xc0\x3f", 0).as.real == 1.5);
    CHECK(AT("\xc7\x0a\2\x0b\0\0\0\0\0\0\0\xf8\x3f", 0).as.real == 1.5);
    CHECK_INT(element.type, NEARCALL_FLOAT);
    CHECK_INT(nearcall_packed_at(&list, 1, &element), NEARCALL_E_OUT_OF_RANGE);
    CHECK_INT(read_bytes("\xc7\3\2\1\0\2", 6, &list), NEARCALL_OK);
    CHECK_INT(nearcall_packed_at(&list, 0, &element), NEARCALL_E_INVALID_ARGUMENT);
#undef AT
}

static void borrowed(void)
{
    _Alignas(8) static const char block[] = "\xc9\0\0\0\x0a\2\x0b\0\0\0\0\0\0\0\xf8\x3f";
    static char moved[sizeof(block)];
    const void *elements = NULL;
    size_t count = 0;
    nearcall_reader reader = {(const uint8_t *)block, (const uint8_t *)block + sizeof(block) - 1};
    nearcall_reader start = reader;
    CHECK_INT(nearcall_borrow_numbers(&reader, NEARCALL_ELEMENT_INT64, &elements, &count), NEARCALL_E_FAILED_PRECONDITION);
    CHECK(reader.next == start.next);
    CHECK_INT(nearcall_borrow_numbers(&reader, NEARCALL_ELEMENT_FLOAT64, &elements, &count), NEARCALL_OK);
    CHECK(reader.next == reader.end && count == 1 && elements == block + 8 && *(const double *)elements == 1.5);
    memcpy(moved + 1, block, sizeof(block) - 1);
    reader = (nearcall_reader){(const uint8_t *)moved + 1, (const uint8_t *)moved + sizeof(block)};
    CHECK_INT(nearcall_borrow_numbers(&reader, NEARCALL_ELEMENT_FLOAT64, &elements, &count),
              (uintptr_t)(moved + 9) % 8 ? NEARCALL_E_FAILED_PRECONDITION : NEARCALL_OK);
}

/* ---- Calls ---- */

static nearcall_client *client;

static void begin(const char *name, int codec, uint32_t arguments)
{
    CHECK_CALL(client, nearcall_request(client, test_find(client, name), codec), NEARCALL_OK);
    nearcall_put_array(client, arguments);
}

static void scaled_by_two(int codec, size_t count)
{
    enum { MOST = 300000 };
    static double values[MOST], results[MOST];
    nearcall_reply reply;
    size_t results_count = 0;
    for (size_t i = 0; i < count; i++)
        values[i] = (double)i;
    begin("scale", codec, 2);
    nearcall_put_packed(client, NEARCALL_ELEMENT_FLOAT64, values, count);
    nearcall_put_double(client, 2);
    CHECK_CALL(client, nearcall_request_call(client, 0, &reply), NEARCALL_OK);
    CHECK_INT(reply.codec, codec);
    nearcall_reader reader = {reply.data, reply.data + reply.bytes};
    CHECK_INT(reply.data[0] == 0xC9, codec == NEARCALL_CODEC_PACKED && count >= 8);
    CHECK_INT(nearcall_read_numbers(&reader, NEARCALL_ELEMENT_FLOAT64, results, MOST, &results_count), NEARCALL_OK);
    CHECK_INT(results_count, count);
    for (size_t i = 0; i < count; i++)
        CHECK(results[i] == 2 * values[i]);
}

static void by_description(void)
{
    const uint8_t flags[100] = {1};
    nearcall_schema *schema = NULL;
    nearcall_reply reply;
    nearcall_walker walker;
    nearcall_step step;
    size_t bytes;
    const uint8_t *description = nearcall_function_schema(test_find(client, "flip"), &bytes);
    CHECK_INT(nearcall_schema_read(description, bytes, &schema, NULL), NEARCALL_OK);
    begin("flip", NEARCALL_CODEC_PACKED, 1);
    nearcall_put_packed(client, NEARCALL_ELEMENT_BOOL, flags, 100);
    CHECK_CALL(client, nearcall_request_call(client, 0, &reply), NEARCALL_OK);
    CHECK_INT(nearcall_walk_begin(&walker, nearcall_schema_functions(schema), reply.data, reply.bytes), NEARCALL_OK);
    CHECK_INT(nearcall_walk(&walker, &step), 1);
    CHECK_INT(step.what, NEARCALL_WALK_VALUE);
    CHECK_INT(step.value.type, NEARCALL_PACKED);
    CHECK_INT(step.value.count, 100);
    CHECK(step.value.as.data[0] == 0 && step.value.as.data[99] == 1);
    CHECK_INT(nearcall_walk(&walker, &step), 0);
    nearcall_schema_free(schema);
}

static void wrong_type(void)
{
    const float floats[100] = {0};
    begin("scale", NEARCALL_CODEC_PACKED, 2);
    nearcall_put_packed(client, NEARCALL_ELEMENT_FLOAT32, floats, 100);
    nearcall_put_double(client, 2);
    CHECK_CALL(client, nearcall_request_call(client, 0, NULL), NEARCALL_E_INVALID_ARGUMENT);
    CHECK_OUTCOME(client, NEARCALL_OUTCOME_NOT_EXECUTED);
    CHECK(strstr(nearcall_error_message(client), "float32") != NULL);
}

static void written_ahead(void)
{
    nearcall_reply reply;
    nearcall_writer *writer = NULL;
    CHECK_INT(nearcall_writer_new(&writer), NEARCALL_OK);
    CHECK_INT(nearcall_writer_begin(writer, test_find(client, "echo_numbers"), NEARCALL_CODEC_PACKED), NEARCALL_OK);
    nearcall_write_array(writer, 1);
    nearcall_write_packed(writer, NEARCALL_ELEMENT_FLOAT64, eight, 8);
    CHECK_CALL(client, nearcall_request_written(client, writer), NEARCALL_OK);
    CHECK_CALL(client, nearcall_request_call(client, 0, &reply), NEARCALL_OK);
    CHECK_INT(reply.codec, NEARCALL_CODEC_PACKED);
    CHECK_INT(reply.bytes, 8 + sizeof(eight));
    CHECK(memcmp(reply.data + 8, eight, sizeof(eight)) == 0);
    nearcall_writer_free(writer);
}

static void with_a_server(const char *address)
{
    client = test_open(address, 0);
    for (size_t count = 1; count <= 300000; count = 7 * count + 1) { /* in a slot, in the arena, by the socket */
        scaled_by_two(NEARCALL_CODEC_PACKED, count);
        scaled_by_two(NEARCALL_CODEC_MSGPACK, count);
    }
    by_description();
    wrong_type();
    written_ahead();
    CHECK_CALL(client, nearcall_call_codec(client, "scale", NEARCALL_CODEC_PACKED, "\x90", 1, 0, NULL), NEARCALL_E_MISUSE);
    nearcall_close(client);
}

/* ---- Servers that do not take blocks ---- */

static void describe(struct script *script)
{
    struct nc_frame frame;
    script_expect(script, NC_RESOLVE, &frame);
    script_reply(script, &frame, "\x81\xa4name\xa1" "f", 8);
}

static void expect_list(struct script *script, int codec)
{
    struct nc_frame frame;
    uint8_t payload[SCRIPT_PAYLOAD_MAX];
    script_read(script, &frame, payload);
    CHECK_INT(frame.type, NC_REQUEST);
    CHECK_INT(frame.codec, codec);
    const uint8_t *list = payload + frame.extension_bytes;
    CHECK_INT(list[0], 0x91);
    CHECK_INT(list[1], codec == NEARCALL_CODEC_PACKED ? 0xC9 : 0x98);
    script_reply(script, &frame, "\x05", 1);
}

static void play_replaced(struct script *script)
{
    script_greet(script);
    describe(script);
    expect_list(script, NEARCALL_CODEC_MSGPACK);
    script->features |= NC_FEATURE_PACKED_LISTS;
    script_hang_up(script);
    script_greet(script); /* the same functions, so nothing is asked */
    expect_list(script, NEARCALL_CODEC_MSGPACK);
    expect_list(script, NEARCALL_CODEC_PACKED);
    script->features &= ~(uint64_t)NC_FEATURE_PACKED_LISTS;
    script_hang_up(script);
    script_greet(script); /* what has blocks is not sent */
    describe(script);
    expect_list(script, NEARCALL_CODEC_MSGPACK);
    CHECK(script_read_end(script));
}

static void call(nearcall_function *function, int expected)
{
    nearcall_reply reply;
    CHECK_CALL(client, nearcall_request(client, function, NEARCALL_CODEC_PACKED), NEARCALL_OK);
    nearcall_put_array(client, 1);
    nearcall_put_packed(client, NEARCALL_ELEMENT_FLOAT64, eight, 8);
    CHECK_CALL(client, nearcall_request_call(client, 0, &reply), expected);
    if (expected == NEARCALL_OK)
        CHECK_INT(test_read_int(&reply), 5);
    else
        CHECK_OUTCOME(client, NEARCALL_OUTCOME_NOT_EXECUTED);
}

static void with_older_servers(void)
{
    struct script script;
    script_start(&script, play_replaced, NULL);
    client = test_open(script.address, 0);
    nearcall_function *function = test_find(client, "f");
    uint32_t revision = nearcall_function_revision(function);
    call(function, NEARCALL_OK);
    call(function, NEARCALL_OK); /* was written for the server before */
    call(function, NEARCALL_OK);
    call(function, NEARCALL_E_ABORTED);
    CHECK(test_find(client, "f") == function);
    CHECK(nearcall_function_revision(function) > revision); /* so whoever encodes does it again */
    call(function, NEARCALL_OK);
    nearcall_close(client);
    script_end(&script);
}

int main(void)
{
    struct server server;
    test_begin();
    written_as_a_block();
    written_as_arrays();
    long_lists_of_integers();
    refusals();
    heads();
    numbers();
    heads_that_change();
    single_elements();
    borrowed();
    server_start(&server);
    with_a_server(server.address);
    server_stop(&server);
    with_older_servers();
    return 0;
}
