/* Values by their types. Every form that spec/schema.md allows for a value becomes one. */
#include <string.h>

#include "schema/schema.h"

static int refuse(void)
{
    return NEARCALL_E_INVALID_ARGUMENT;
}

static int fit_integer(const nearcall_type *type, const nearcall_value *value)
{
    if (value->type == NEARCALL_UINT)
        return value->as.unsigned_integer <= type->most ? NEARCALL_OK : refuse();
    if (value->type != NEARCALL_INT)
        return refuse();
    int64_t integer = value->as.integer;
    return integer < 0 ? (integer >= type->least ? NEARCALL_OK : refuse())
                       : ((uint64_t)integer <= type->most ? NEARCALL_OK : refuse());
}

static int fit_float(nearcall_value *value)
{
    if (value->type == NEARCALL_FLOAT)
        return NEARCALL_OK;
    if (value->type == NEARCALL_INT)
        value->as.real = (double)value->as.integer;
    else if (value->type == NEARCALL_UINT)
        value->as.real = (double)value->as.unsigned_integer;
    else
        return refuse();
    value->type = NEARCALL_FLOAT;
    return NEARCALL_OK;
}

static int fit_bytes(nearcall_value *value)
{
    if (value->type != NEARCALL_BYTES && value->type != NEARCALL_STRING)
        return refuse();
    value->type = NEARCALL_BYTES;
    return NEARCALL_OK;
}

static int fit_container(int wanted, nearcall_value *value)
{
    if (value->type == NEARCALL_NIL) {
        value->type = wanted;
        value->count = 0;
    }
    return value->type == wanted ? NEARCALL_OK : refuse();
}

static int integer_element(const nearcall_type *type)
{
    switch (type->most) {
    case INT8_MAX: return NEARCALL_ELEMENT_INT8;
    case INT16_MAX: return NEARCALL_ELEMENT_INT16;
    case INT32_MAX: return NEARCALL_ELEMENT_INT32;
    case INT64_MAX: return NEARCALL_ELEMENT_INT64;
    case UINT8_MAX: return NEARCALL_ELEMENT_UINT8;
    case UINT16_MAX: return NEARCALL_ELEMENT_UINT16;
    case UINT32_MAX: return NEARCALL_ELEMENT_UINT32;
    default: return NEARCALL_ELEMENT_UINT64;
    }
}

NEARCALL_API int nearcall_packed_element(const nearcall_type *list)
{
    if (!list || list->kind != NEARCALL_TYPE_LIST)
        return 0;
    switch (list->element->kind) {
    case NEARCALL_TYPE_BOOL: return NEARCALL_ELEMENT_BOOL;
    case NEARCALL_TYPE_INTEGER: return integer_element(list->element);
    case NEARCALL_TYPE_DURATION: return NEARCALL_ELEMENT_INT64;
    case NEARCALL_TYPE_FLOAT32: return NEARCALL_ELEMENT_FLOAT32;
    case NEARCALL_TYPE_FLOAT64: return NEARCALL_ELEMENT_FLOAT64;
    default: return 0;
    }
}

static int fit_list(const nearcall_type *type, nearcall_value *value)
{
    if (value->type == NEARCALL_PACKED)
        return value->extension_type == nearcall_packed_element(type) ? NEARCALL_OK : refuse();
    return fit_container(NEARCALL_ARRAY, value);
}

static int fit_type(int wanted, const nearcall_value *value)
{
    return value->type == wanted ? NEARCALL_OK : refuse();
}

static int fit(const nearcall_type *type, nearcall_value *value)
{
    switch (type->kind) {
    case NEARCALL_TYPE_BOOL: return fit_type(NEARCALL_BOOL, value);
    case NEARCALL_TYPE_INTEGER: return fit_integer(type, value);
    case NEARCALL_TYPE_FLOAT32:
    case NEARCALL_TYPE_FLOAT64: return fit_float(value);
    case NEARCALL_TYPE_STRING: return fit_type(NEARCALL_STRING, value);
    case NEARCALL_TYPE_BYTES: return fit_bytes(value);
    case NEARCALL_TYPE_TIME: return fit_type(NEARCALL_TIME, value);
    case NEARCALL_TYPE_DURATION: return fit_type(NEARCALL_INT, value);
    case NEARCALL_TYPE_FILE:
    case NEARCALL_TYPE_CONNECTION: return fit_type(NEARCALL_FILE, value);
    case NEARCALL_TYPE_LIST: return fit_list(type, value);
    case NEARCALL_TYPE_MAP: return fit_container(NEARCALL_MAP, value);
    case NEARCALL_TYPE_STRUCT: return fit_type(NEARCALL_MAP, value);
    case NEARCALL_TYPE_UNKNOWN: return refuse();
    default: return value->type == NEARCALL_PACKED ? refuse() : NEARCALL_OK; /* any */
    }
}

static const nearcall_type *without_optional(const nearcall_type *type, const nearcall_value *value)
{
    while (type->kind == NEARCALL_TYPE_OPTIONAL && value->type != NEARCALL_NIL)
        type = type->element;
    return type;
}

NEARCALL_API int nearcall_read_as(nearcall_reader *reader, const nearcall_type *type, nearcall_value *ret_value)
{
    if (__builtin_expect(!reader || !type || !ret_value, 0))
        return NEARCALL_E_MISUSE;
    nearcall_reader ahead = *reader;
    nearcall_value value;
    int r = nearcall_read(&ahead, &value);
    if (r < 0)
        return r;
    type = without_optional(type, &value);
    if (type->kind != NEARCALL_TYPE_OPTIONAL) /* else it is nil, which fits */
        r = fit(type, &value);
    if (r < 0)
        return r;
    *reader = ahead;
    *ret_value = value;
    return NEARCALL_OK;
}

/* ---- Fields ---- */

static bool is_called(const nearcall_field *field, const nearcall_value *name)
{
    return field->name_bytes == name->count && memcmp(field->name, name->as.data, name->count) == 0;
}

/* Servers write fields in their order, so the one behind the last comes first. */
static const nearcall_field *find_field(const nearcall_type *type, const nearcall_field *former,
                                        const nearcall_value *name)
{
    const nearcall_field *expected = former ? former->next : type->fields;
    if (expected && is_called(expected, name))
        return expected;
    for (const nearcall_field *field = type->fields; field; field = field->next)
        if (is_called(field, name))
            return field;
    return NULL;
}

NEARCALL_API int nearcall_read_field(nearcall_reader *reader, const nearcall_type *type,
                                     const nearcall_field **field)
{
    if (!reader || !type || !field || type->kind != NEARCALL_TYPE_STRUCT)
        return NEARCALL_E_MISUSE;
    nearcall_reader ahead = *reader;
    nearcall_value name;
    int r = nearcall_read(&ahead, &name);
    if (r < 0)
        return r;
    if (name.type != NEARCALL_STRING)
        return refuse();
    const nearcall_field *found = find_field(type, *field, &name);
    if (!found)
        r = nearcall_skip(&ahead);
    if (r < 0)
        return r == NEARCALL_E_OUT_OF_RANGE ? refuse() : r;
    *reader = ahead;
    *field = found;
    return NEARCALL_OK;
}
