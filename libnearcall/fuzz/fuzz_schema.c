/* Descriptions and documents of functions, and results that are walked through by them: what is refused
 * leaves nothing behind, and what is accepted can be followed to its ends. */
#include <string.h>

#include "fuzz.h"
#include "nearcall.h"
#include "schema/schema.h"

#define STEPS_MAX 100000

static void follow_fields(const nearcall_field *field, uint32_t count, uint32_t types_count)
{
    uint32_t seen = 0;
    for (; field; field = field->next) {
        FUZZ_CHECK(field->number == seen++ && field->type->number < types_count);
        FUZZ_CHECK(field->name[field->name_bytes] == '\0');
    }
    FUZZ_CHECK(seen == count);
}

static void follow(const nearcall_schema *schema)
{
    uint32_t count, seen = 0;
    for (const nearcall_type *type = nearcall_schema_types(schema, &count); type; type = type->next) {
        FUZZ_CHECK(type->number == seen++ && type->name[type->name_bytes] == '\0');
        FUZZ_CHECK((type->key != NULL) == (type->kind == NEARCALL_TYPE_MAP));
        FUZZ_CHECK((type->element != NULL) ==
                   (type->kind == NEARCALL_TYPE_MAP || type->kind == NEARCALL_TYPE_LIST || type->kind == NEARCALL_TYPE_OPTIONAL));
        follow_fields(type->fields, type->fields_count, count);
    }
    FUZZ_CHECK(seen == count);
    for (const nearcall_description *f = nearcall_schema_functions(schema); f; f = f->next) {
        follow_fields(f->params, f->params_count, count);
        follow_fields(f->results, f->results_count, count);
        FUZZ_CHECK(f->params_required <= f->params_count);
    }
}

static void walk(const nearcall_schema *schema, const uint8_t *data, size_t bytes)
{
    nearcall_walker walker;
    nearcall_step step;
    uint32_t depth = 0;
    if (nearcall_walk_begin(&walker, nearcall_schema_functions(schema), data, bytes) < 0)
        return;
    for (int i = 0; i < STEPS_MAX && nearcall_walk(&walker, &step) > 0; i++) {
        depth -= step.what == NEARCALL_WALK_END;
        FUZZ_CHECK(step.depth == depth && depth < NEARCALL_WALK_LEVELS && step.type->kind != NEARCALL_TYPE_OPTIONAL);
        depth += step.what == NEARCALL_WALK_BEGIN;
    }
}

static void read_document(const uint8_t *data, size_t bytes)
{
    struct nc_buffer document = {0};
    nearcall_schema *schema;
    const char *problem = NULL;
    if (nc_json_to_msgpack(data, bytes, &document) == NEARCALL_OK) {
        nearcall_reader reader = {document.data, document.data + document.end};
        FUZZ_CHECK(nearcall_skip(&reader) < 0 || reader.next == reader.end); /* one value, if it is not too deep */
        if (nc_schema_compile(document.data, document.end, true, &schema, &problem) == NEARCALL_OK) {
            follow(schema);
            nearcall_schema_free(schema);
        } else {
            FUZZ_CHECK(problem != NULL && *problem);
        }
    }
    nc_buffer_free(&document);
}

/* The first two bytes are the length of the description, and the result is behind it; 0: all is a document. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    nearcall_schema *schema;
    const char *problem = NULL;
    if (bytes < 2)
        return 0;
    size_t length = (size_t)data[0] << 8 | data[1];
    data += 2;
    bytes -= 2;
    if (length == 0) {
        read_document(data, bytes);
        return 0;
    }
    if (length > bytes)
        length = bytes;
    if (nearcall_schema_read(data, length, &schema, &problem) < 0) {
        FUZZ_CHECK(problem != NULL && *problem);
        return 0;
    }
    follow(schema);
    walk(schema, data + length, bytes - length);
    nearcall_schema_free(schema);
    return 0;
}
