/* Descriptions of functions, alone or in the schema document of a server. */
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/utf8.h"
#include "schema/schema.h"

/* ---- One function ---- */

/* Where its members lie; next is NULL for those that are not there. */
struct members {
    nearcall_reader name, doc, hash, idempotent, raw, variadic, params, results, types;
};

static nearcall_reader *place(struct members *members, const nearcall_value *key)
{
    static const struct {
        const char *name;
        size_t offset;
    } known[] = {
#define M(name) {#name, offsetof(struct members, name)}
        M(name), M(doc), M(hash), M(idempotent), M(raw), M(variadic), M(params), M(results), M(types),
#undef M
    };
    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
        if (nc_is_named(key, known[i].name, strlen(known[i].name)))
            return (nearcall_reader *)((char *)members + known[i].offset);
    return NULL;
}

static bool read_members(struct nc_compiler *c, nearcall_reader *reader, struct members *ret)
{
    nearcall_value map, key;
    memset(ret, 0, sizeof(*ret));
    if (!nc_schema_expect(c, reader, NEARCALL_MAP, "a description is no map", &map))
        return false;
    for (uint32_t i = 0; i < map.count; i++) {
        if (!nc_schema_expect(c, reader, NEARCALL_STRING, "a key is no string", &key))
            return false;
        nearcall_reader *to = place(ret, &key);
        if (to)
            *to = *reader;
        if (nearcall_skip(reader) < 0)
            return nc_schema_refuse(c, "it is cut off");
    }
    return true;
}

static bool read_text(struct nc_compiler *c, nearcall_reader at, const char **ret_text, size_t *ret_bytes)
{
    nearcall_value text;
    *ret_text = "";
    *ret_bytes = 0;
    if (!at.next)
        return true;
    if (!nc_schema_expect(c, &at, NEARCALL_STRING, "a name or a text is no string", &text))
        return false;
    if (!nc_utf8_is_valid(text.as.data, text.count))
        return nc_schema_refuse(c, "a text is not UTF-8");
    *ret_text = nc_schema_text(c->schema, text.as.data, text.count);
    *ret_bytes = text.count;
    return *ret_text || nc_schema_refuse(c, "");
}

/* What is none counts as not said, as it does for calls. */
static bool read_hash(struct nc_compiler *c, nearcall_reader at, const char **ret_hash)
{
    nearcall_value hash;
    *ret_hash = "";
    if (!at.next)
        return true;
    if (nearcall_read(&at, &hash) < 0)
        return nc_schema_refuse(c, "it is cut off");
    if (hash.type != NEARCALL_STRING || !nc_is_hash(hash.as.data, hash.count))
        return true;
    *ret_hash = nc_schema_text(c->schema, hash.as.data, hash.count);
    return *ret_hash || nc_schema_refuse(c, "");
}

static bool read_flag(struct nc_compiler *c, nearcall_reader at, int *ret_flag)
{
    nearcall_value flag;
    if (!at.next)
        return true;
    if (!nc_schema_expect(c, &at, NEARCALL_BOOL, "a flag is neither true nor false", &flag))
        return false;
    *ret_flag = flag.as.boolean;
    return true;
}

/* As many as there must be: those at the end may be left out if they are optional or variadic. */
static uint32_t count_required(const nearcall_description *function)
{
    uint32_t required = 0, count = function->params_count - (function->is_variadic ? 1 : 0);
    const nearcall_field *param = function->params;
    for (uint32_t i = 0; i < count; i++, param = param->next)
        if (param->type->kind != NEARCALL_TYPE_OPTIONAL)
            required = i + 1;
    return required;
}

static bool read_signature(struct nc_compiler *c, const struct members *m, nearcall_description *function)
{
    if (!m->params.next || !m->results.next)
        return nc_schema_refuse(c, "parameters or results are missing");
    if (!nc_schema_fields(c, m->params, &function->params, &function->params_count) ||
        !nc_schema_results(c, m->results, &function->results, &function->results_count))
        return false;
    if (function->is_variadic && function->params_count == 0)
        return nc_schema_refuse(c, "it is variadic and has no parameter");
    if (function->is_raw && (function->params_count != 1 || function->is_variadic))
        return nc_schema_refuse(c, "it is raw and has not one parameter");
    function->params_required = count_required(function);
    return true;
}

static nearcall_description *compile(struct nc_compiler *c, const struct members *m)
{
    nearcall_description *function = nc_schema_allocate(c->schema, sizeof(*function));
    if (!function) {
        nc_schema_refuse(c, "");
        return NULL;
    }
    if (!read_text(c, m->name, &function->name, &function->name_bytes) ||
        !read_text(c, m->doc, &function->doc, &function->doc_bytes) ||
        !read_hash(c, m->hash, &function->hash) ||
        !read_flag(c, m->idempotent, &function->is_idempotent) ||
        !read_flag(c, m->raw, &function->is_raw) || !read_flag(c, m->variadic, &function->is_variadic) ||
        !read_signature(c, m, function))
        return NULL;
    return function;
}

static bool read_structs(struct nc_compiler *c, nearcall_reader types)
{
    const char *problem = types.next ? nc_structs_read(&c->structs, types) : NULL;
    return !problem || nc_schema_refuse(c, problem);
}

static void compile_one(struct nc_compiler *c, nearcall_reader *reader)
{
    struct members members;
    if (read_members(c, reader, &members) && read_structs(c, members.types) &&
        (c->schema->functions = compile(c, &members)))
        (void)nc_schema_finish(c);
}

/* ---- All of a server ---- */

static void compile_functions(struct nc_compiler *c, nearcall_reader list)
{
    const nearcall_description **end = &c->schema->functions;
    struct members members;
    nearcall_value head;
    if (!nc_schema_expect(c, &list, NEARCALL_ARRAY, "functions are no list", &head))
        return;
    for (uint32_t i = 0; i < head.count; i++) {
        if (!read_members(c, &list, &members))
            return;
        nearcall_description *function = compile(c, &members);
        if (!function)
            return;
        *end = function;
        end = &function->next;
    }
    (void)nc_schema_finish(c);
}

static void compile_document(struct nc_compiler *c, nearcall_reader *reader)
{
    nearcall_reader functions = {NULL, NULL}, types = functions;
    nearcall_value map, key;
    if (!nc_schema_expect(c, reader, NEARCALL_MAP, "a schema is no map", &map))
        return;
    for (uint32_t i = 0; i < map.count; i++) {
        if (!nc_schema_expect(c, reader, NEARCALL_STRING, "a key is no string", &key))
            return;
        if (NC_IS_NAMED(&key, "functions"))
            functions = *reader;
        else if (NC_IS_NAMED(&key, "types"))
            types = *reader;
        if (nearcall_skip(reader) < 0) {
            nc_schema_refuse(c, "it is cut off");
            return;
        }
    }
    if (!functions.next)
        nc_schema_refuse(c, "a schema has no functions");
    else if (read_structs(c, types))
        compile_functions(c, functions);
}

int nc_schema_compile(const uint8_t *data, size_t bytes, bool is_document, nearcall_schema **ret_schema,
                      const char **ret_problem)
{
    struct nc_compiler c = {.schema = calloc(1, sizeof(*c.schema)), .takes_unknown = is_document};
    nearcall_reader reader = {data, data + bytes};
    if (!c.schema)
        return NEARCALL_E_RESOURCE_EXHAUSTED;
    if (is_document)
        compile_document(&c, &reader);
    else
        compile_one(&c, &reader);
    if (!c.problem && reader.next != reader.end)
        nc_schema_refuse(&c, "something follows it");
    nc_structs_free(&c.structs);
    if (!c.problem) {
        *ret_schema = c.schema;
        return NEARCALL_OK;
    }
    nearcall_schema_free(c.schema);
    if (!*c.problem)
        return NEARCALL_E_RESOURCE_EXHAUSTED;
    *ret_problem = c.problem;
    return NEARCALL_E_INVALID_ARGUMENT;
}

/* ---- What users call ---- */

NEARCALL_API int nearcall_schema_read(const uint8_t *description, size_t bytes,
                                      nearcall_schema **ret_schema, const char **ret_problem)
{
    const char *problem;
    if (!ret_schema || (bytes && !description))
        return NEARCALL_E_MISUSE;
    uint8_t *copy = malloc(bytes ? bytes : 1); /* it may lie in memory that the server still writes to */
    if (!copy)
        return NEARCALL_E_RESOURCE_EXHAUSTED;
    if (bytes)
        memcpy(copy, description, bytes);
    int r = nc_schema_compile(copy, bytes, false, ret_schema, ret_problem ? ret_problem : &problem);
    free(copy);
    return r;
}

NEARCALL_API const nearcall_description *nearcall_schema_functions(const nearcall_schema *schema)
{
    return schema ? schema->functions : NULL;
}

NEARCALL_API const nearcall_type *nearcall_schema_types(const nearcall_schema *schema, uint32_t *ret_count)
{
    if (ret_count)
        *ret_count = schema ? schema->types_count : 0;
    return schema ? schema->types : NULL;
}
