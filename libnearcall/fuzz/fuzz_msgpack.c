/* The reader: it never leaves its bytes, always moves on, and agrees with
 * nearcall_skip() about where each value ends. */
#include <stdlib.h>

#include "fuzz.h"
#include "nearcall.h"

#define DEPTH_MAX 64

static uint64_t inside(const nearcall_value *value)
{
    if (value->type == NEARCALL_ARRAY)
        return value->count;
    return value->type == NEARCALL_MAP ? 2 * (uint64_t)value->count : 0;
}

static void touch(const nearcall_reader *all, const nearcall_value *value)
{
    static volatile uint8_t sink;
    if (value->type != NEARCALL_STRING && value->type != NEARCALL_BYTES &&
        value->type != NEARCALL_EXTENSION)
        return;
    FUZZ_CHECK(value->as.data <= all->end && value->count <= (size_t)(all->end - value->as.data));
    for (uint32_t i = 0; i < value->count; i++)
        sink = (uint8_t)(sink + value->as.data[i]);
}

static int is_container(const nearcall_value *value)
{
    return value->type == NEARCALL_ARRAY || value->type == NEARCALL_MAP;
}

/* Reads one value with what is inside; the levels it had, an empty container being
 * one as well, or -1. */
static int read_whole(const nearcall_reader *all, nearcall_reader *reader, int depth)
{
    nearcall_value value;
    int deepest = depth;
    const uint8_t *before = reader->next;
    if (nearcall_read(reader, &value) != NEARCALL_OK)
        return -1;
    FUZZ_CHECK(reader->next > before && reader->next <= reader->end);
    touch(all, &value);
    if (is_container(&value))
        deepest = depth + 1;
    uint64_t count = inside(&value);
    if (count > 0 && depth == DEPTH_MAX)
        return -1;
    for (uint64_t i = 0; i < count; i++) {
        int r = read_whole(all, reader, depth + 1);
        if (r < 0)
            return -1;
        if (r > deepest)
            deepest = r;
    }
    return deepest;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    const nearcall_reader all = {data, data + bytes};
    nearcall_reader skipper = all;
    for (;;) {
        nearcall_reader reader = skipper;
        int depth = read_whole(&all, &reader, 0);
        const uint8_t *before = skipper.next;
        int r = nearcall_skip(&skipper);
        FUZZ_CHECK((r == NEARCALL_OK) == (depth >= 0 && depth <= 32));
        if (r != NEARCALL_OK) {
            FUZZ_CHECK(skipper.next == before);
            return 0;
        }
        FUZZ_CHECK(skipper.next == reader.next);
    }
}
