/* The reader against a table: every head byte, every length cut short, nesting. */
#include <math.h>

#include "test.h"

struct good {
    const char *bytes;
    size_t count;
    int type;
    int64_t integer; /* or the length, or nanoseconds in the next */
    uint32_t length;
};

#define G(text, type, integer, length) {text, sizeof(text) - 1, type, integer, length}

static const struct good goods[] = {
    G("\xc0", NEARCALL_NIL, 0, 0),
    G("\xc2", NEARCALL_BOOL, 0, 0),
    G("\xc3", NEARCALL_BOOL, 1, 0),
    G("\x00", NEARCALL_INT, 0, 0),
    G("\x7f", NEARCALL_INT, 127, 0),
    G("\xe0", NEARCALL_INT, -32, 0),
    G("\xff", NEARCALL_INT, -1, 0),
    G("\xcc\xff", NEARCALL_INT, 255, 0),
    G("\xcd\xff\xff", NEARCALL_INT, 65535, 0),
    G("\xce\xff\xff\xff\xff", NEARCALL_INT, 4294967295, 0),
    G("\xcf\x7f\xff\xff\xff\xff\xff\xff\xff", NEARCALL_INT, INT64_MAX, 0),
    G("\xcf\x80\0\0\0\0\0\0\0", NEARCALL_UINT, INT64_MIN, 0),
    G("\xd0\x80", NEARCALL_INT, -128, 0),
    G("\xd1\x80\0", NEARCALL_INT, -32768, 0),
    G("\xd2\x80\0\0\0", NEARCALL_INT, INT32_MIN, 0),
    G("\xd3\x80\0\0\0\0\0\0\0", NEARCALL_INT, INT64_MIN, 0),
    G("\xa0", NEARCALL_STRING, 0, 0),
    G("\xa1x", NEARCALL_STRING, 0, 1),
    G("\xd9\1x", NEARCALL_STRING, 0, 1),
    G("\xda\0\1x", NEARCALL_STRING, 0, 1),
    G("\xdb\0\0\0\1x", NEARCALL_STRING, 0, 1),
    G("\xc4\1x", NEARCALL_BYTES, 0, 1),
    G("\xc5\0\1x", NEARCALL_BYTES, 0, 1),
    G("\xc6\0\0\0\1x", NEARCALL_BYTES, 0, 1),
    G("\xd6\xff\0\0\0\5", NEARCALL_TIME, 5, 0),
    G("\xd7\xff\0\0\0\x10\0\0\0\5", NEARCALL_TIME, 5, 4),
    G("\xc7\x0c\xff\0\0\0\7\xff\xff\xff\xff\xff\xff\xff\xff", NEARCALL_TIME, -1, 7),
    G("\xd4\5x", NEARCALL_EXTENSION, 0, 1),
    G("\xd8\5xxxxxxxxxxxxxxxx", NEARCALL_EXTENSION, 0, 16),
    G("\xc7\0\5", NEARCALL_EXTENSION, 0, 0),
    G("\xc8\0\1\5x", NEARCALL_EXTENSION, 0, 1),
    G("\xc9\0\0\0\1\5x", NEARCALL_EXTENSION, 0, 1),
};

#define B(text) {text, sizeof(text) - 1, 0, 0, 0}

/* Each is refused however much of it is there. */
static const struct good bads[] = {
    B("\xc1"),
    B("\xd9\2x"),
    B("\xdb\xff\xff\xff\xffx"),
    B("\xc6\xff\xff\xff\xffx"),
    B("\x91"),
    B("\x81\1"),
    B("\xdc\0\2\1"),
    B("\xdd\xff\xff\xff\xff\1"),
    B("\xdf\xff\xff\xff\xff\1\1"),
    B("\xdf\x80\0\0\0\1\1"),
    B("\xc7\5\xff\0\0\0\0\0"),
    B("\xd7\xff\xee\x6b\x28\0\0\0\0\0"), /* 1,000,000,000 nanoseconds */
    B("\xc9\xff\xff\xff\xff\5"),
};

static void check_good(const struct good *good)
{
    nearcall_reader reader;
    nearcall_value value;
    const uint8_t *bytes = (const uint8_t *)good->bytes;
    for (size_t cut = 0; cut < good->count; cut++) {
        reader = (nearcall_reader){bytes, bytes + cut};
        CHECK_INT(nearcall_read(&reader, &value),
                  cut ? NEARCALL_E_INVALID_ARGUMENT : NEARCALL_E_OUT_OF_RANGE);
        CHECK(reader.next == bytes);
        CHECK(nearcall_skip(&reader) < 0);
        CHECK(reader.next == bytes);
    }
    reader = (nearcall_reader){bytes, bytes + good->count};
    CHECK_INT(nearcall_skip(&reader), NEARCALL_OK);
    CHECK(reader.next == reader.end);
    reader.next = bytes;
    CHECK_INT(nearcall_read(&reader, &value), NEARCALL_OK);
    CHECK(reader.next == reader.end);
    CHECK_INT(value.type, good->type);
    CHECK_INT(value.count, good->length);
    if (good->type == NEARCALL_BOOL)
        CHECK_INT(value.as.boolean, good->integer);
    if (good->type == NEARCALL_INT || good->type == NEARCALL_TIME)
        CHECK_INT(value.as.integer, good->integer);
    if (good->type == NEARCALL_UINT)
        CHECK_INT((int64_t)value.as.unsigned_integer, good->integer);
    if (good->type == NEARCALL_EXTENSION)
        CHECK_INT(value.extension_type, 5);
}

static void check_bad(const struct good *bad)
{
    nearcall_value value;
    const uint8_t *bytes = (const uint8_t *)bad->bytes;
    nearcall_reader reader = {bytes, bytes + bad->count};
    CHECK_INT(nearcall_read(&reader, &value), NEARCALL_E_INVALID_ARGUMENT);
    CHECK_INT(nearcall_skip(&reader), NEARCALL_E_INVALID_ARGUMENT);
    CHECK(reader.next == bytes);
}

static void check_real(const char *bytes, size_t count, double expected)
{
    nearcall_value value;
    nearcall_reader reader = {(const uint8_t *)bytes, (const uint8_t *)bytes + count};
    CHECK_INT(nearcall_read(&reader, &value), NEARCALL_OK);
    CHECK_INT(value.type, NEARCALL_FLOAT);
    CHECK(value.as.real == expected || (isnan(expected) && isnan(value.as.real)));
}

static int skip_nested_around(size_t depth, uint8_t innermost)
{
    uint8_t *bytes = malloc(depth + 1);
    CHECK(bytes != NULL);
    memset(bytes, 0x91, depth);
    bytes[depth] = innermost;
    nearcall_reader reader = {bytes, bytes + depth + 1};
    int r = nearcall_skip(&reader);
    CHECK(r < 0 || reader.next == reader.end);
    free(bytes);
    return r;
}

static int skip_nested(size_t depth)
{
    return skip_nested_around(depth, 0xc0);
}

int main(void)
{
    test_begin();
    for (size_t i = 0; i < sizeof(goods) / sizeof(goods[0]); i++)
        check_good(&goods[i]);
    for (size_t i = 0; i < sizeof(bads) / sizeof(bads[0]); i++)
        check_bad(&bads[i]);
    check_real("\xca\x3f\0\0\0", 5, 0.5);
    check_real("\xca\x7f\x80\0\0", 5, INFINITY);
    check_real("\xcb\x3f\xe0\0\0\0\0\0\0", 9, 0.5);
    check_real("\xcb\x7f\xf8\0\0\0\0\0\0", 9, NAN);
    CHECK_INT(skip_nested(32), NEARCALL_OK);
    CHECK_INT(skip_nested(33), NEARCALL_E_INVALID_ARGUMENT);
    CHECK_INT(skip_nested(1000000), NEARCALL_E_INVALID_ARGUMENT);
    CHECK_INT(skip_nested_around(31, 0x90), NEARCALL_OK); /* an empty one is a level too */
    CHECK_INT(skip_nested_around(32, 0x90), NEARCALL_E_INVALID_ARGUMENT);
    CHECK_INT(skip_nested_around(32, 0x80), NEARCALL_E_INVALID_ARGUMENT);
    return 0;
}
