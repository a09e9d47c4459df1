/* Structs by name. They are sorted, so that a document with very many costs no more than it is long. */
#include <stdlib.h>
#include <string.h>

#include "schema/schema.h"

static int compare_names(const uint8_t *one, size_t one_bytes, const uint8_t *other, size_t other_bytes)
{
    size_t common = one_bytes < other_bytes ? one_bytes : other_bytes;
    int r = common ? memcmp(one, other, common) : 0;
    if (r != 0)
        return r;
    return one_bytes < other_bytes ? -1 : one_bytes > other_bytes;
}

static int compare(const void *one, const void *other)
{
    const struct nc_struct *a = one, *b = other;
    return compare_names(a->name, a->name_bytes, b->name, b->name_bytes);
}

/* Room for one more, however many the map claims to have. */
static struct nc_struct *add(struct nc_structs *structs, size_t *capacity)
{
    if (structs->count == *capacity) {
        size_t larger = *capacity ? 2 * *capacity : 8;
        struct nc_struct *all = realloc(structs->all, larger * sizeof(*all));
        if (!all)
            return NULL;
        structs->all = all;
        *capacity = larger;
    }
    return &structs->all[structs->count++];
}

static const char *read_all(struct nc_structs *structs, nearcall_reader *reader, uint32_t count)
{
    size_t capacity = 0;
    for (uint32_t i = 0; i < count; i++) {
        nearcall_value name;
        if (nearcall_read(reader, &name) < 0 || name.type != NEARCALL_STRING)
            return "a struct has no name";
        struct nc_struct *made = add(structs, &capacity);
        if (!made)
            return "";
        *made = (struct nc_struct){.name = name.as.data, .name_bytes = name.count, .body = *reader};
        if (nearcall_skip(reader) < 0)
            return "it is cut off";
    }
    return NULL;
}

const char *nc_structs_read(struct nc_structs *structs, nearcall_reader map)
{
    nearcall_value head;
    if (nearcall_read(&map, &head) < 0 || head.type != NEARCALL_MAP)
        return "types are no map";
    const char *problem = read_all(structs, &map, head.count);
    if (problem)
        return problem;
    if (structs->count > 1)
        qsort(structs->all, structs->count, sizeof(*structs->all), compare);
    for (size_t i = 1; i < structs->count; i++)
        if (compare(&structs->all[i - 1], &structs->all[i]) == 0)
            return "a struct is there twice";
    return NULL;
}

struct nc_struct *nc_structs_find(const struct nc_structs *structs, const nearcall_value *name)
{
    size_t from = 0, to = structs->count;
    while (from < to) {
        size_t middle = from + (to - from) / 2;
        struct nc_struct *at = &structs->all[middle];
        int r = compare_names(name->as.data, name->count, at->name, at->name_bytes);
        if (r == 0)
            return at;
        if (r < 0)
            to = middle;
        else
            from = middle + 1;
    }
    return NULL;
}

void nc_structs_free(struct nc_structs *structs)
{
    free(structs->all);
    *structs = (struct nc_structs){0};
}
