/* Types and fields. What is inside of a type is compiled with it, and was skipped before: so it nests
 * no deeper than any value may. The fields of structs, which may contain themselves, wait in a list. */
#include "base/utf8.h"
#include "schema/schema.h"

bool nc_schema_refuse(struct nc_compiler *c, const char *problem)
{
    if (!c->problem)
        c->problem = problem;
    return false;
}

static void *allocate(struct nc_compiler *c, size_t bytes)
{
    void *at = nc_schema_allocate(c->schema, bytes);
    if (!at)
        nc_schema_refuse(c, "");
    return at;
}

bool nc_schema_expect(struct nc_compiler *c, nearcall_reader *reader, int type, const char *problem,
                      nearcall_value *ret_value)
{
    if (nearcall_read(reader, ret_value) == NEARCALL_OK && ret_value->type == type)
        return true;
    return nc_schema_refuse(c, problem);
}

static const char *copy_name(struct nc_compiler *c, const nearcall_value *text)
{
    if (!nc_utf8_is_valid(text->as.data, text->count)) {
        nc_schema_refuse(c, "a name is not UTF-8");
        return NULL;
    }
    const char *copy = nc_schema_text(c->schema, text->as.data, text->count);
    if (!copy)
        nc_schema_refuse(c, "");
    return copy;
}

/* ---- Types ---- */

static nearcall_type *new_type(struct nc_compiler *c, int kind, const char *name, size_t name_bytes)
{
    nearcall_type *type = allocate(c, sizeof(*type));
    if (!type)
        return NULL;
    type->kind = kind;
    type->name = name;
    type->name_bytes = name_bytes;
    type->number = c->schema->types_count++;
    if (c->last_type)
        c->last_type->next = type;
    else
        c->schema->types = type;
    return c->last_type = type;
}

static const struct scalar {
    int kind;
    const char *name;
    size_t bytes;
    int64_t least;
    uint64_t most;
} scalars[NC_SCALARS] = {
#define S(kind, name, least, most) {NEARCALL_TYPE_##kind, name, sizeof(name) - 1, least, most}
    S(BOOL, "bool", 0, 0),
    S(INTEGER, "int8", INT8_MIN, INT8_MAX),
    S(INTEGER, "int16", INT16_MIN, INT16_MAX),
    S(INTEGER, "int32", INT32_MIN, INT32_MAX),
    S(INTEGER, "int64", INT64_MIN, INT64_MAX),
    S(INTEGER, "uint8", 0, UINT8_MAX),
    S(INTEGER, "uint16", 0, UINT16_MAX),
    S(INTEGER, "uint32", 0, UINT32_MAX),
    S(INTEGER, "uint64", 0, UINT64_MAX),
    S(FLOAT32, "float32", 0, 0),
    S(FLOAT64, "float64", 0, 0),
    S(STRING, "string", 0, 0),
    S(BYTES, "bytes", 0, 0),
    S(TIME, "time", 0, 0),
    S(DURATION, "duration", 0, 0),
    S(ANY, "any", 0, 0),
    S(FILE, "file", 0, 0),
    S(CONNECTION, "connection", 0, 0),
#undef S
};

/* A type of a later version. */
static const nearcall_type *use_unknown(struct nc_compiler *c, const nearcall_value *name)
{
    if (!c->takes_unknown) {
        nc_schema_refuse(c, "it uses a type that this version does not know");
        return NULL;
    }
    const char *copy = copy_name(c, name);
    return copy ? new_type(c, NEARCALL_TYPE_UNKNOWN, copy, name->count) : NULL;
}

static const nearcall_type *use_scalar(struct nc_compiler *c, const nearcall_value *name)
{
    for (size_t i = 0; i < NC_SCALARS; i++) {
        const struct scalar *known = &scalars[i];
        if (!nc_is_named(name, known->name, known->bytes))
            continue;
        if (c->scalars[i])
            return c->scalars[i];
        nearcall_type *type = new_type(c, known->kind, known->name, known->bytes);
        if (type) {
            type->least = known->least;
            type->most = known->most;
        }
        return c->scalars[i] = type;
    }
    return use_unknown(c, name);
}

static const nearcall_type *compile_type(struct nc_compiler *c, nearcall_reader *reader);

static const nearcall_type *use_struct(struct nc_compiler *c, nearcall_reader *reader)
{
    nearcall_value name;
    if (!nc_schema_expect(c, reader, NEARCALL_STRING, "a struct has no name", &name))
        return NULL;
    struct nc_struct *found = nc_structs_find(&c->structs, &name);
    if (!found) {
        nc_schema_refuse(c, "it lacks a struct that it uses");
        return NULL;
    }
    if (found->type)
        return found->type;
    const char *copy = copy_name(c, &name);
    if (!copy || !(found->type = new_type(c, NEARCALL_TYPE_STRUCT, copy, name.count)))
        return NULL;
    found->next = c->unfinished;
    c->unfinished = found;
    return found->type;
}

static const nearcall_type *compile_map(struct nc_compiler *c, nearcall_reader *reader)
{
    nearcall_value pair;
    if (!nc_schema_expect(c, reader, NEARCALL_ARRAY, "a map's types are no list", &pair))
        return NULL;
    if (pair.count != 2) {
        nc_schema_refuse(c, "a map needs two types");
        return NULL;
    }
    nearcall_type *type = new_type(c, NEARCALL_TYPE_MAP, "map", 3);
    if (!type || !(type->key = compile_type(c, reader)) || !(type->element = compile_type(c, reader)))
        return NULL;
    if (type->key->kind != NEARCALL_TYPE_STRING && type->key->kind != NEARCALL_TYPE_INTEGER &&
        type->key->kind != NEARCALL_TYPE_UNKNOWN) {
        nc_schema_refuse(c, "a map's key is neither a string nor a whole number");
        return NULL;
    }
    return type;
}

static const nearcall_type *compile_around(struct nc_compiler *c, nearcall_reader *reader, int kind,
                                           const char *name, size_t name_bytes)
{
    nearcall_type *type = new_type(c, kind, name, name_bytes);
    if (!type || !(type->element = compile_type(c, reader)))
        return NULL;
    return type;
}

static const nearcall_type *compile_composite(struct nc_compiler *c, nearcall_reader *reader)
{
    nearcall_value key;
    if (!nc_schema_expect(c, reader, NEARCALL_STRING, "a type has no name", &key))
        return NULL;
    if (NC_IS_NAMED(&key, "list"))
        return compile_around(c, reader, NEARCALL_TYPE_LIST, "list", 4);
    if (NC_IS_NAMED(&key, "optional"))
        return compile_around(c, reader, NEARCALL_TYPE_OPTIONAL, "optional", 8);
    if (NC_IS_NAMED(&key, "map"))
        return compile_map(c, reader);
    if (NC_IS_NAMED(&key, "struct"))
        return use_struct(c, reader);
    if (nearcall_skip(reader) < 0) {
        nc_schema_refuse(c, "it is cut off");
        return NULL;
    }
    return use_unknown(c, &key);
}

/* NULL with the problem kept. */
static const nearcall_type *compile_type(struct nc_compiler *c, nearcall_reader *reader)
{
    nearcall_value value;
    if (nearcall_read(reader, &value) < 0)
        nc_schema_refuse(c, "it is cut off");
    else if (value.type == NEARCALL_STRING)
        return use_scalar(c, &value);
    else if (value.type == NEARCALL_MAP && value.count == 1)
        return compile_composite(c, reader);
    else
        nc_schema_refuse(c, "a type is neither a name nor a map of one");
    return NULL;
}

/* ---- Fields ---- */

/* Fields in the order of a list. */
struct row {
    const nearcall_field **end;
    uint32_t count;
};

static bool append(struct nc_compiler *c, struct row *row, const nearcall_value *name, nearcall_reader type)
{
    nearcall_field *field = allocate(c, sizeof(*field));
    if (!field)
        return false;
    field->name = name ? copy_name(c, name) : "";
    field->name_bytes = name ? name->count : 0;
    if (!field->name || !(field->type = compile_type(c, &type)))
        return false;
    field->number = row->count++;
    *row->end = field;
    row->end = &field->next;
    return true;
}

static bool read_field(struct nc_compiler *c, nearcall_reader *reader, struct row *row)
{
    nearcall_value map, key, name = {.type = NEARCALL_NIL};
    nearcall_reader type = {NULL, NULL};
    if (!nc_schema_expect(c, reader, NEARCALL_MAP, "a parameter or field is no map", &map))
        return false;
    for (uint32_t i = 0; i < map.count; i++) {
        if (!nc_schema_expect(c, reader, NEARCALL_STRING, "a key is no string", &key))
            return false;
        nearcall_reader value = *reader;
        if (nearcall_skip(reader) < 0)
            return nc_schema_refuse(c, "it is cut off");
        if (NC_IS_NAMED(&key, "type"))
            type = value;
        else if (NC_IS_NAMED(&key, "name") && nearcall_read(&value, &name) < 0)
            return nc_schema_refuse(c, "it is cut off");
    }
    if (name.type != NEARCALL_STRING)
        return nc_schema_refuse(c, "a parameter or field has no name");
    if (!type.next)
        return nc_schema_refuse(c, "a parameter or field has no type");
    return append(c, row, &name, type);
}

bool nc_schema_fields(struct nc_compiler *c, nearcall_reader list, const nearcall_field **ret_first,
                      uint32_t *ret_count)
{
    struct row row = {ret_first, 0};
    nearcall_value head;
    if (!nc_schema_expect(c, &list, NEARCALL_ARRAY, "parameters or fields are no list", &head))
        return false;
    for (uint32_t i = 0; i < head.count; i++)
        if (!read_field(c, &list, &row))
            return false;
    *ret_count = row.count;
    return true;
}

bool nc_schema_results(struct nc_compiler *c, nearcall_reader list, const nearcall_field **ret_first,
                       uint32_t *ret_count)
{
    struct row row = {ret_first, 0};
    nearcall_value head;
    if (!nc_schema_expect(c, &list, NEARCALL_ARRAY, "results are no list", &head))
        return false;
    for (uint32_t i = 0; i < head.count; i++) {
        nearcall_reader type = list;
        if (nearcall_skip(&list) < 0)
            return nc_schema_refuse(c, "it is cut off");
        if (!append(c, &row, NULL, type))
            return false;
    }
    *ret_count = row.count;
    return true;
}

static bool finish_struct(struct nc_compiler *c, struct nc_struct *structure)
{
    nearcall_reader reader = structure->body;
    nearcall_value map, key;
    if (!nc_schema_expect(c, &reader, NEARCALL_MAP, "a struct is no map", &map))
        return false;
    for (uint32_t i = 0; i < map.count; i++) {
        if (!nc_schema_expect(c, &reader, NEARCALL_STRING, "a key is no string", &key))
            return false;
        if (NC_IS_NAMED(&key, "fields"))
            return nc_schema_fields(c, reader, &structure->type->fields, &structure->type->fields_count);
        if (nearcall_skip(&reader) < 0)
            return nc_schema_refuse(c, "it is cut off");
    }
    return nc_schema_refuse(c, "a struct has no fields");
}

bool nc_schema_finish(struct nc_compiler *c)
{
    while (c->unfinished) {
        struct nc_struct *structure = c->unfinished;
        c->unfinished = structure->next;
        if (!finish_struct(c, structure))
            return false;
    }
    return true;
}
