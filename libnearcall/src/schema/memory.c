/* The memory of a schema. */
#include <stdlib.h>
#include <string.h>

#include "schema/schema.h"

#define BLOCK_BYTES 4000
#define ALIGNMENT 16

struct nc_schema_block {
    struct nc_schema_block *next;
    size_t used;
    size_t capacity;
    _Alignas(ALIGNMENT) uint8_t data[];
};

static struct nc_schema_block *add_block(nearcall_schema *schema, size_t bytes)
{
    size_t capacity = bytes > BLOCK_BYTES ? bytes : BLOCK_BYTES;
    struct nc_schema_block *block = calloc(1, sizeof(*block) + capacity);
    if (!block)
        return NULL;
    block->capacity = capacity;
    block->next = schema->blocks;
    schema->blocks = block;
    return block;
}

void *nc_schema_allocate(nearcall_schema *schema, size_t bytes)
{
    size_t rounded = (bytes + ALIGNMENT - 1) & ~(size_t)(ALIGNMENT - 1);
    struct nc_schema_block *block = schema->blocks;
    if (!block || block->capacity - block->used < rounded)
        block = add_block(schema, rounded);
    if (!block)
        return NULL;
    void *at = block->data + block->used;
    block->used += rounded;
    return at;
}

const char *nc_schema_text(nearcall_schema *schema, const uint8_t *text, size_t bytes)
{
    char *copy = nc_schema_allocate(schema, bytes + 1);
    if (copy && bytes)
        memcpy(copy, text, bytes);
    return copy;
}

NEARCALL_API void nearcall_schema_free(nearcall_schema *schema)
{
    if (!schema)
        return;
    while (schema->blocks) {
        struct nc_schema_block *block = schema->blocks;
        schema->blocks = block->next;
        free(block);
    }
    free(schema);
}
