/* What a server says of its functions: descriptions compiled into types, fields and functions that
 * nearcall_schema.h shows, and values read by those. It knows no handle.
 * May include: base, msgpack. */
#ifndef NC_SCHEMA_H
#define NC_SCHEMA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buffer.h"
#include "msgpack/msgpack.h"
#include "nearcall.h"

/* ---- memory.c: all of a schema lies in few blocks, which go together ---- */

struct nc_schema_block;

struct nearcall_schema {
    struct nc_schema_block *blocks;
    const nearcall_description *functions;
    const nearcall_type *types;
    uint32_t types_count;
};

/* Zeroed; NULL without memory. */
void *nc_schema_allocate(nearcall_schema *schema, size_t bytes);

/* A copy that ends in NUL; NULL without memory. */
const char *nc_schema_text(nearcall_schema *schema, const uint8_t *text, size_t bytes);

/* ---- structs.c: the structs that a document defines, by name ---- */

struct nc_struct {
    const uint8_t *name; /* in the document */
    size_t name_bytes;
    nearcall_reader body;
    nearcall_type *type; /* NULL until something uses it */
    struct nc_struct *next; /* of those whose fields were not compiled yet */
};

struct nc_structs {
    struct nc_struct *all; /* sorted by name */
    size_t count;
};

/* NULL, or why the map cannot be read: "" for no memory. */
const char *nc_structs_read(struct nc_structs *structs, nearcall_reader map);
struct nc_struct *nc_structs_find(const struct nc_structs *structs, const nearcall_value *name);
void nc_structs_free(struct nc_structs *structs);

/* ---- types.c ---- */

#define NC_SCALARS 18

struct nc_compiler {
    nearcall_schema *schema;
    struct nc_structs structs;
    bool takes_unknown; /* types of later versions; else they are refused */
    const nearcall_type *scalars[NC_SCALARS]; /* those that are used; NULL: not yet */
    nearcall_type *last_type;
    struct nc_struct *unfinished;
    const char *problem; /* why it cannot be understood; "": no memory; NULL: nothing yet */
};

/* Keeps the first problem, and returns false. */
bool nc_schema_refuse(struct nc_compiler *c, const char *problem);

/* Reads a value that has to be of that type of MessagePack. */
bool nc_schema_expect(struct nc_compiler *c, nearcall_reader *reader, int type,
                      const char *problem, nearcall_value *ret_value);

/* Parameters or fields, each {"name": ..., "type": ...}. */
bool nc_schema_fields(struct nc_compiler *c, nearcall_reader list, const nearcall_field **ret_first,
                      uint32_t *ret_count);

/* Types alone. */
bool nc_schema_results(struct nc_compiler *c, nearcall_reader list, const nearcall_field **ret_first,
                       uint32_t *ret_count);

/* The fields of all structs that were used, and of those that these use. */
bool nc_schema_finish(struct nc_compiler *c);

static inline bool nc_is_named(const nearcall_value *text, const char *name, size_t bytes)
{
    return text->type == NEARCALL_STRING && text->count == bytes &&
           __builtin_memcmp(text->as.data, name, bytes) == 0;
}
#define NC_IS_NAMED(text, literal) nc_is_named(text, literal, sizeof(literal) - 1)

/* ---- functions.c ---- */

/* Compiles a description, or a schema document, in MessagePack that nobody changes meanwhile.
 * NEARCALL_E_INVALID_ARGUMENT with *ret_problem set, or NEARCALL_E_RESOURCE_EXHAUSTED. */
int nc_schema_compile(const uint8_t *data, size_t bytes, bool is_document,
                      nearcall_schema **ret_schema, const char **ret_problem);

/* ---- json.c ---- */

/* The same document in MessagePack, behind what is in the buffer. NEARCALL_E_INVALID_ARGUMENT, or
 * NEARCALL_E_RESOURCE_EXHAUSTED. Numbers that are not whole become nil: no schema has any. */
int nc_json_to_msgpack(const uint8_t *text, size_t bytes, struct nc_buffer *to);

#endif
