/* The reader against the public suite of every legal encoding: all encodings of one
 * value read as the same. NEARCALL_MSGPACK_SUITE names its file,
 * msgpack-test-suite.json of kawanet/msgpack-test-suite; `make test` runs this
 * only when it does, and msgpack_read has the project's own table. */
#include "test.h"

static char *contents(const char *path)
{
    FILE *file = fopen(path, "rb");
    CHECK(file != NULL);
    CHECK(fseek(file, 0, SEEK_END) == 0);
    long bytes = ftell(file);
    rewind(file);
    char *text = calloc(1, (size_t)bytes + 1);
    CHECK(text != NULL);
    CHECK_INT(fread(text, 1, (size_t)bytes, file), bytes);
    fclose(file);
    return text;
}

/* Reads "c4-01-ff" up to the closing quote; the bytes. */
static size_t read_hex(const char *text, uint8_t *to)
{
    size_t bytes = 0;
    while (*text && *text != '"') {
        to[bytes++] = (uint8_t)strtoul(text, NULL, 16);
        text += text[2] == '-' ? 3 : 2;
    }
    return bytes;
}

static bool is_number(const nearcall_value *value)
{
    return value->type == NEARCALL_INT || value->type == NEARCALL_UINT ||
           value->type == NEARCALL_FLOAT;
}

static double number(const nearcall_value *value)
{
    if (value->type == NEARCALL_INT)
        return (double)value->as.integer;
    return value->type == NEARCALL_UINT ? (double)value->as.unsigned_integer : value->as.real;
}

static void compare(const nearcall_value *a, const nearcall_value *b)
{
    if (is_number(a) && is_number(b)) {
        CHECK(number(a) == number(b));
        return;
    }
    CHECK_INT(a->type, b->type);
    CHECK_INT(a->count, b->count);
    if (a->type == NEARCALL_STRING || a->type == NEARCALL_BYTES || a->type == NEARCALL_EXTENSION)
        CHECK(memcmp(a->as.data, b->as.data, a->count) == 0);
    if (a->type == NEARCALL_TIME)
        CHECK_INT(a->as.integer, b->as.integer);
}

/* One list of encodings, from its '[' on; how many there were. */
static long check_list(const char *at)
{
    static uint8_t first[4096], other[4096];
    nearcall_value expected, value;
    long count = 0;
    for (const char *end = strchr(at, ']'); (at = strchr(at, '"')) != NULL && at < end; count++) {
        uint8_t *to = count ? other : first;
        size_t bytes = read_hex(at + 1, to);
        nearcall_reader reader = {to, to + bytes};
        CHECK_INT(nearcall_read(&reader, count ? &value : &expected), NEARCALL_OK);
        if (count)
            compare(&expected, &value);
        reader.next = to;
        CHECK_INT(nearcall_skip(&reader), NEARCALL_OK);
        CHECK(reader.next == reader.end);
        at = strchr(at + 1, '"') + 1;
    }
    return count;
}

int main(void)
{
    const char *path = getenv("NEARCALL_MSGPACK_SUITE");
    long count = 0;
    test_begin();
    CHECK(path != NULL);
    char *text = contents(path);
    for (const char *at = text; (at = strstr(at, "\"msgpack\"")) != NULL; at++)
        count += check_list(strchr(at, '['));
    CHECK(count > 200);
    printf("%ld encodings\n", count);
    free(text);
    return 0;
}
