/* A walk through the values of a result, step by step, without recursion. */
#include <string.h>

#include "base/limits_gen.h"
#include "schema/schema.h"

_Static_assert(NEARCALL_WALK_LEVELS == NC_NESTING_DEPTH_MAX + 2, "the levels of nearcall_schema.h are those that values may have");

/* No result is nil, several are an array, and one is itself. */
static int begin(nearcall_walker *walker, const nearcall_description *function)
{
    nearcall_value value;
    if (function->results_count == 1)
        return NEARCALL_OK;
    int r = nearcall_read(&walker->reader, &value);
    if (r < 0)
        return r == NEARCALL_E_OUT_OF_RANGE && function->results_count == 0 ? NEARCALL_OK : NEARCALL_E_INVALID_ARGUMENT;
    if (function->results_count == 0)
        return value.type == NEARCALL_NIL ? NEARCALL_OK : NEARCALL_E_INVALID_ARGUMENT;
    bool fits = value.type == NEARCALL_ARRAY && value.count == function->results_count;
    return fits ? NEARCALL_OK : NEARCALL_E_INVALID_ARGUMENT;
}

NEARCALL_API int nearcall_walk_begin(nearcall_walker *walker, const nearcall_description *function,
                                     const uint8_t *data, size_t bytes)
{
    if (!walker || !function || (bytes && !data))
        return NEARCALL_E_MISUSE;
    memset(walker, 0, sizeof(*walker));
    walker->reader = (nearcall_reader){data, bytes ? data + bytes : data};
    walker->value = function->results;
    return begin(walker, function);
}

/* ---- One step ---- */

static bool is_container(const nearcall_value *value)
{
    return value->type == NEARCALL_ARRAY || value->type == NEARCALL_MAP;
}

/* What a value behind the reader is to be. */
struct expected {
    const nearcall_type *type;
    const nearcall_field *field;
    bool is_key;
};

static const nearcall_type *innermost(const nearcall_type *type)
{
    while (type->kind == NEARCALL_TYPE_OPTIONAL)
        type = type->element;
    return type;
}

static int take_value(nearcall_walker *walker, const struct expected *expected, nearcall_step *step)
{
    int r = nearcall_read_as(&walker->reader, expected->type, &step->value);
    if (r < 0)
        return NEARCALL_E_INVALID_ARGUMENT;
    step->depth = walker->depth;
    step->type = innermost(expected->type);
    step->field = expected->field;
    step->is_key = expected->is_key;
    step->what = NEARCALL_WALK_VALUE;
    if (!is_container(&step->value))
        return 1;
    if (expected->is_key || walker->depth == NC_NESTING_DEPTH_MAX)
        return NEARCALL_E_INVALID_ARGUMENT;
    step->what = NEARCALL_WALK_BEGIN;
    walker->depth++;
    memset(&walker->levels[walker->depth], 0, sizeof(walker->levels[0]));
    walker->levels[walker->depth].type = step->type;
    walker->levels[walker->depth].left = step->value.count;
    walker->levels[walker->depth].container = step->value.type;
    return 1;
}

static int end_container(nearcall_walker *walker, nearcall_step *step)
{
    memset(step, 0, sizeof(*step));
    step->what = NEARCALL_WALK_END;
    step->type = walker->levels[walker->depth].type;
    step->depth = --walker->depth;
    return 1;
}

/* The next field that the description has. 0: there is none. */
static int next_field(nearcall_walker *walker, struct expected *expected)
{
    while (walker->levels[walker->depth].left > 0) {
        const nearcall_field *field = walker->levels[walker->depth].field;
        walker->levels[walker->depth].left--;
        if (nearcall_read_field(&walker->reader, walker->levels[walker->depth].type, &field) < 0)
            return NEARCALL_E_INVALID_ARGUMENT;
        if (!field)
            continue;
        walker->levels[walker->depth].field = field;
        *expected = (struct expected){field->type, field, false};
        return 1;
    }
    return 0;
}

static int next_inside(nearcall_walker *walker, nearcall_step *step)
{
    const nearcall_type *type = walker->levels[walker->depth].type;
    bool is_any = type->kind == NEARCALL_TYPE_ANY;
    struct expected expected = {is_any ? type : type->element, NULL, false};
    if (type->kind == NEARCALL_TYPE_STRUCT) {
        int r = next_field(walker, &expected);
        if (r < 0)
            return r;
        return r ? take_value(walker, &expected, step) : end_container(walker, step);
    }
    if (walker->levels[walker->depth].is_key_read) {
        walker->levels[walker->depth].is_key_read = 0;
        walker->levels[walker->depth].left--;
        return take_value(walker, &expected, step);
    }
    if (walker->levels[walker->depth].left == 0)
        return end_container(walker, step);
    if (walker->levels[walker->depth].container == NEARCALL_MAP) {
        walker->levels[walker->depth].is_key_read = 1;
        expected.is_key = true;
        expected.type = is_any ? type : type->key;
    } else {
        walker->levels[walker->depth].left--;
    }
    return take_value(walker, &expected, step);
}

NEARCALL_API int nearcall_walk(nearcall_walker *walker, nearcall_step *ret_step)
{
    nearcall_step step;
    if (!walker || !ret_step)
        return NEARCALL_E_MISUSE;
    memset(&step, 0, sizeof(step));
    int r;
    if (walker->depth > 0) {
        r = next_inside(walker, &step);
    } else if (walker->value) {
        struct expected expected = {walker->value->type, walker->value, false};
        walker->value = walker->value->next;
        r = take_value(walker, &expected, &step);
    } else {
        return walker->reader.next == walker->reader.end ? 0 : NEARCALL_E_INVALID_ARGUMENT;
    }
    if (r > 0)
        *ret_step = step;
    return r;
}
