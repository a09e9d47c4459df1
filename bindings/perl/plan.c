/* Compiles the description of a function (spec/schema.md) into a plan. */
#include "nearcall_perl.h"

#include <string.h>

typedef struct compiler {
    SV *function_name;
    AV *memory;            /* becomes the plan's */
    HV *structures;        /* name => address of an ncp_struct, for recursion */
    nearcall_reader types; /* the member "types" of the description */
    bool has_types;
    int depth;
    bool has_connections;
} compiler;

static const ncp_type *compile_type(pTHX_ compiler *c, nearcall_reader *reader);

static void refuse(pTHX_ const compiler *c, const char *what) __attribute__((noreturn));

static void refuse(pTHX_ const compiler *c, const char *what)
{
    SV *message = newSVpvf("the server's description of the function cannot be read: %s; "
                           "is the server newer than this client?", what);
    ncp_throw(aTHX_ ncp_error_new(aTHX_ -NEARCALL_E_INTERNAL, NEARCALL_OUTCOME_NOT_EXECUTED,
                                  c->function_name, message, NULL));
}

static void *allocate(pTHX_ compiler *c, size_t bytes)
{
    SV *block = newSV(bytes + 1);

    av_push(c->memory, block);
    return memset(SvPVX(block), 0, bytes);
}

static SV *shared_name(pTHX_ compiler *c, const nearcall_value *text)
{
    I32 bytes = (I32)text->count;
    bool wide = !ncp_is_ascii(text->as.data, text->count);
    SV *name;

    if (wide && !ncp_is_unicode(text->as.data, text->count))
        refuse(aTHX_ c, "a name is not UTF-8");
    name = newSVpvn_share((const char *)text->as.data, wide ? -bytes : bytes, 0);
    av_push(c->memory, name);
    return name;
}

static nearcall_value read_value(pTHX_ const compiler *c, nearcall_reader *reader,
                                 int type, const char *what)
{
    nearcall_value value;

    if (nearcall_read(reader, &value) != NEARCALL_OK || value.type != type)
        refuse(aTHX_ c, what);
    return value;
}

/* How many elements there can be at most, so that a lying count allocates nothing. */
static U32 plausible(pTHX_ const compiler *c, const nearcall_reader *reader, U32 count)
{
    if (count > (size_t)(reader->end - reader->next))
        refuse(aTHX_ c, "a count is larger than the description");
    return count;
}

static bool is_text(const nearcall_value *value, const char *text)
{
    return value->type == NEARCALL_STRING && value->count == strlen(text)
        && memcmp(value->as.data, text, value->count) == 0;
}

/* Finds a member of the map at the reader, which stays where it is. */
static bool member(pTHX_ const compiler *c, nearcall_reader reader, const char *name,
                   nearcall_reader *ret_reader)
{
    nearcall_value map = read_value(aTHX_ c, &reader, NEARCALL_MAP, "a map was expected");
    U32 i;

    for (i = 0; i < map.count; i++) {
        nearcall_value key = read_value(aTHX_ c, &reader, NEARCALL_STRING, "a key is no string");
        if (is_text(&key, name)) {
            *ret_reader = reader;
            return true;
        }
        if (nearcall_skip(&reader) != NEARCALL_OK)
            refuse(aTHX_ c, "it is cut off");
    }
    return false;
}

static nearcall_reader required(pTHX_ const compiler *c, nearcall_reader map, const char *name)
{
    nearcall_reader found;

    if (!member(aTHX_ c, map, name, &found))
        refuse(aTHX_ c, name);
    return found;
}

static bool flag(pTHX_ const compiler *c, nearcall_reader map, const char *name)
{
    nearcall_reader found;

    if (!member(aTHX_ c, map, name, &found))
        return false;
    return read_value(aTHX_ c, &found, NEARCALL_BOOL, name).as.boolean != 0;
}

/* A list of {"name": ..., "type": ...}: parameters of a function, fields of a struct. */
static ncp_field *compile_fields(pTHX_ compiler *c, nearcall_reader reader, U32 *ret_count)
{
    nearcall_value list = read_value(aTHX_ c, &reader, NEARCALL_ARRAY, "fields are no list");
    U32 count = plausible(aTHX_ c, &reader, list.count);
    ncp_field *fields = (ncp_field *)allocate(aTHX_ c, count * sizeof *fields);
    U32 i;

    for (i = 0; i < count; i++) {
        nearcall_reader name = required(aTHX_ c, reader, "name");
        nearcall_reader type = required(aTHX_ c, reader, "type");
        nearcall_value text = read_value(aTHX_ c, &name, NEARCALL_STRING, "a name is no string");
        fields[i].name = shared_name(aTHX_ c, &text);
        fields[i].type = compile_type(aTHX_ c, &type);
        if (nearcall_skip(&reader) != NEARCALL_OK)
            refuse(aTHX_ c, "it is cut off");
    }
    *ret_count = count;
    return fields;
}

static const ncp_struct *compile_struct(pTHX_ compiler *c, const nearcall_value *text)
{
    SV *name = shared_name(aTHX_ c, text);
    HE *known = hv_fetch_ent(c->structures, name, 0, 0);
    ncp_struct *structure;
    nearcall_reader body;

    if (known)
        return INT2PTR(ncp_struct *, SvIV(HeVAL(known)));
    structure = (ncp_struct *)allocate(aTHX_ c, sizeof *structure);
    structure->name = name;
    (void)hv_store_ent(c->structures, name, newSViv(PTR2IV(structure)), 0);
    if (!c->has_types)
        refuse(aTHX_ c, "it lacks types");
    body = required(aTHX_ c, c->types, SvPV_nolen(name));
    structure->fields = compile_fields(aTHX_ c, required(aTHX_ c, body, "fields"),
                                       &structure->fields_count);
    return structure;
}

static const ncp_type scalar_types[] = {
    { .kind = NCP_BOOL, .name = "bool" },
    { .kind = NCP_INTEGER, .name = "int8", .min = INT8_MIN, .max = INT8_MAX },
    { .kind = NCP_INTEGER, .name = "int16", .min = INT16_MIN, .max = INT16_MAX },
    { .kind = NCP_INTEGER, .name = "int32", .min = INT32_MIN, .max = INT32_MAX },
    { .kind = NCP_INTEGER, .name = "int64", .min = INT64_MIN, .max = INT64_MAX },
    { .kind = NCP_INTEGER, .name = "uint8", .max = UINT8_MAX },
    { .kind = NCP_INTEGER, .name = "uint16", .max = UINT16_MAX },
    { .kind = NCP_INTEGER, .name = "uint32", .max = UINT32_MAX },
    { .kind = NCP_INTEGER, .name = "uint64", .max = UINT64_MAX },
    { .kind = NCP_FLOAT32, .name = "float32" },
    { .kind = NCP_FLOAT64, .name = "float64" },
    { .kind = NCP_STRING, .name = "string" },
    { .kind = NCP_BYTES, .name = "bytes" },
    { .kind = NCP_TIME, .name = "time" },
    { .kind = NCP_DURATION, .name = "duration" },
    { .kind = NCP_ANY, .name = "any" },
    { .kind = NCP_FILE, .name = "file" },
    { .kind = NCP_CONNECTION, .name = "connection" },
};

static const ncp_type *compile_scalar(pTHX_ compiler *c, const nearcall_value *text)
{
    size_t i;

    for (i = 0; i < sizeof scalar_types / sizeof scalar_types[0]; i++)
        if (is_text(text, scalar_types[i].name)) {
            c->has_connections = c->has_connections || scalar_types[i].kind == NCP_CONNECTION;
            return &scalar_types[i];
        }
    refuse(aTHX_ c, "it uses a type that this client does not know");
}

static void compile_map(pTHX_ compiler *c, ncp_type *type, nearcall_reader *reader)
{
    nearcall_value pair = read_value(aTHX_ c, reader, NEARCALL_ARRAY, "a map's types are no list");

    if (pair.count != 2)
        refuse(aTHX_ c, "a map needs two types");
    type->kind = NCP_MAP;
    type->name = "map";
    type->key = compile_type(aTHX_ c, reader);
    if (type->key->kind != NCP_STRING && type->key->kind != NCP_INTEGER)
        refuse(aTHX_ c, "a map's key is neither a string nor a whole number");
    type->element = compile_type(aTHX_ c, reader);
}

static const ncp_type *compile_composite(pTHX_ compiler *c, nearcall_reader *reader)
{
    nearcall_value key = read_value(aTHX_ c, reader, NEARCALL_STRING, "a type has no name");
    ncp_type *type = (ncp_type *)allocate(aTHX_ c, sizeof *type);

    if (is_text(&key, "list")) {
        type->kind = NCP_LIST;
        type->name = "list";
        type->element = compile_type(aTHX_ c, reader);
    } else if (is_text(&key, "map")) {
        compile_map(aTHX_ c, type, reader);
    } else if (is_text(&key, "optional")) {
        type->kind = NCP_OPTIONAL;
        type->name = "optional";
        type->element = compile_type(aTHX_ c, reader);
    } else if (is_text(&key, "struct")) {
        nearcall_value name = read_value(aTHX_ c, reader, NEARCALL_STRING, "a struct has no name");
        type->kind = NCP_STRUCT;
        type->structure = compile_struct(aTHX_ c, &name);
        type->name = SvPV_nolen(type->structure->name);
    } else {
        refuse(aTHX_ c, "it uses a type that this client does not know");
    }
    return type;
}

static const ncp_type *compile_type(pTHX_ compiler *c, nearcall_reader *reader)
{
    const ncp_type *type;
    nearcall_value value;

    if (nearcall_read(reader, &value) != NEARCALL_OK)
        refuse(aTHX_ c, "it is cut off");
    if (value.type == NEARCALL_STRING)
        return compile_scalar(aTHX_ c, &value);
    if (value.type != NEARCALL_MAP || value.count != 1)
        refuse(aTHX_ c, "a type is neither a name nor a map of one");
    if (++c->depth > NCP_RECURSION_MAX)
        refuse(aTHX_ c, "its types are nested too deeply");
    type = compile_composite(aTHX_ c, reader);
    c->depth--;
    return type;
}

static void compile_results(pTHX_ compiler *c, ncp_plan *plan, nearcall_reader reader)
{
    nearcall_value list = read_value(aTHX_ c, &reader, NEARCALL_ARRAY, "results are no list");
    U32 i;

    plan->results_count = plausible(aTHX_ c, &reader, list.count);
    plan->results = (const ncp_type **)allocate(aTHX_ c,
                                                plan->results_count * sizeof *plan->results);
    for (i = 0; i < plan->results_count; i++)
        plan->results[i] = compile_type(aTHX_ c, &reader);
}

/* Arguments at the end may be missing while they are optional or variadic. */
static U32 required_count(const ncp_plan *plan)
{
    U32 count = plan->params_count;

    if (plan->variadic && count > 0)
        count--;
    while (count > 0 && plan->params[count - 1].type->kind == NCP_OPTIONAL)
        count--;
    return count;
}

static bool is_simple(const ncp_plan *plan)
{
    U32 i;

    if (plan->variadic || plan->params_required != plan->params_count)
        return false;
    for (i = 0; i < plan->params_count; i++)
        if (!ncp_is_simple(plan->params[i].type))
            return false;
    return true;
}

ncp_plan *ncp_plan_compile(pTHX_ SV *function_name, const uint8_t *description,
                           size_t bytes, uint32_t revision)
{
    nearcall_reader whole = { description, description + bytes };
    compiler c = { .function_name = function_name };
    ncp_plan *plan;

    c.memory = (AV *)sv_2mortal((SV *)newAV());
    c.structures = (HV *)sv_2mortal((SV *)newHV());
    c.has_types = member(aTHX_ &c, whole, "types", &c.types);
    plan = (ncp_plan *)allocate(aTHX_ &c, sizeof *plan);
    plan->revision = revision;
    plan->raw = flag(aTHX_ &c, whole, "raw");
    plan->variadic = flag(aTHX_ &c, whole, "variadic");
    plan->params = compile_fields(aTHX_ &c, required(aTHX_ &c, whole, "params"),
                                  &plan->params_count);
    plan->params_required = required_count(plan);
    if ((plan->raw && (plan->params_count != 1 || plan->variadic))
        || (plan->variadic && plan->params_count == 0))
        refuse(aTHX_ &c, "it lacks the parameter of its arguments");
    compile_results(aTHX_ &c, plan, required(aTHX_ &c, whole, "results"));
    plan->has_connections = c.has_connections;
    plan->is_simple = is_simple(plan);
    plan->memory = (AV *)SvREFCNT_inc((SV *)c.memory);
    return plan;
}

void ncp_plan_free(pTHX_ ncp_plan *plan)
{
    if (plan)
        SvREFCNT_dec((SV *)plan->memory);
}
