/* Compiles the description of a function into a plan. What a description says is the library's to
 * read (nearcall_schema.h); a plan has the same with the names as Perl keeps them. */
#include "nearcall_perl.h"

#include <string.h>

typedef struct compiler {
    SV *function_name;
    AV *memory;                /* becomes the plan's */
    nearcall_schema *schema;
    ncp_type *types;           /* by their numbers */
    bool packs;
    bool has_connections;
} compiler;

static void refuse(pTHX_ SV *function_name, int r, const char *what) __attribute__((noreturn));

static void refuse(pTHX_ SV *function_name, int r, const char *what)
{
    bool is_short = r == NEARCALL_E_RESOURCE_EXHAUSTED;
    SV *message = is_short
        ? newSVpvs("no memory for the description of the function")
        : newSVpvf("the server's description of the function cannot be read: %s; "
                   "is the server newer than this client?", what);
    ncp_throw(aTHX_ ncp_error_new(aTHX_ is_short ? -NEARCALL_E_RESOURCE_EXHAUSTED : -NEARCALL_E_INTERNAL,
                                  NEARCALL_OUTCOME_NOT_EXECUTED, function_name, message, NULL));
}

static void *allocate(pTHX_ compiler *c, size_t bytes)
{
    SV *block = newSV(bytes + 1);

    av_push(c->memory, block);
    return memset(SvPVX(block), 0, bytes);
}

static const char *copy(pTHX_ compiler *c, const char *text, size_t bytes)
{
    return (const char *)memcpy(allocate(aTHX_ c, bytes + 1), text, bytes);
}

static SV *shared_name(pTHX_ compiler *c, const char *text, size_t bytes)
{
    bool wide = !ncp_is_ascii((const U8 *)text, bytes);
    SV *name;

    if (wide && !ncp_is_unicode((const U8 *)text, bytes))
        refuse(aTHX_ c->function_name, NEARCALL_E_INVALID_ARGUMENT, "a name is not UTF-8");
    name = newSVpvn_share(text, wide ? -(I32)bytes : (I32)bytes, 0);
    av_push(c->memory, name);
    return name;
}

static const ncp_type *made_of(const compiler *c, const nearcall_type *type)
{
    return type ? &c->types[type->number] : NULL;
}

static ncp_field *compile_fields(pTHX_ compiler *c, const nearcall_field *field, U32 count)
{
    ncp_field *fields = (ncp_field *)allocate(aTHX_ c, count * sizeof *fields);

    for (; field; field = field->next) {
        ncp_field *made = &fields[field->number];

        made->name = shared_name(aTHX_ c, field->name, field->name_bytes);
        made->text = copy(aTHX_ c, field->name, field->name_bytes);
        made->text_bytes = field->name_bytes;
        made->type = made_of(c, field->type);
    }
    return fields;
}

static const ncp_struct *compile_struct(pTHX_ compiler *c, const nearcall_type *type)
{
    ncp_struct *structure = (ncp_struct *)allocate(aTHX_ c, sizeof *structure);

    structure->name = shared_name(aTHX_ c, type->name, type->name_bytes);
    structure->fields_count = type->fields_count;
    structure->fields = compile_fields(aTHX_ c, type->fields, type->fields_count);
    return structure;
}

const STRLEN ncp_element_bytes[] = { 0, 1, 1, 2, 4, 8, 1, 2, 4, 8, 4, 8 };

static const ncp_kind kinds[] = {
    [NEARCALL_TYPE_BOOL] = NCP_BOOL, [NEARCALL_TYPE_INTEGER] = NCP_INTEGER,
    [NEARCALL_TYPE_FLOAT32] = NCP_FLOAT32, [NEARCALL_TYPE_FLOAT64] = NCP_FLOAT64,
    [NEARCALL_TYPE_STRING] = NCP_STRING, [NEARCALL_TYPE_BYTES] = NCP_BYTES,
    [NEARCALL_TYPE_TIME] = NCP_TIME, [NEARCALL_TYPE_DURATION] = NCP_DURATION,
    [NEARCALL_TYPE_ANY] = NCP_ANY, [NEARCALL_TYPE_FILE] = NCP_FILE,
    [NEARCALL_TYPE_CONNECTION] = NCP_CONNECTION, [NEARCALL_TYPE_LIST] = NCP_LIST,
    [NEARCALL_TYPE_MAP] = NCP_MAP, [NEARCALL_TYPE_OPTIONAL] = NCP_OPTIONAL,
    [NEARCALL_TYPE_STRUCT] = NCP_STRUCT,
};

static void compile_type(pTHX_ compiler *c, const nearcall_type *type)
{
    ncp_type *made = &c->types[type->number];

    made->kind = kinds[type->kind];
    made->name = copy(aTHX_ c, type->name, type->name_bytes);
    made->min = type->least;
    made->max = type->most;
    made->key = made_of(c, type->key);
    made->element = made_of(c, type->element);
    if (type->kind == NEARCALL_TYPE_STRUCT)
        made->structure = compile_struct(aTHX_ c, type);
    made->packed = nearcall_packed_element(type);
    c->packs = c->packs || made->packed;
    c->has_connections = c->has_connections || made->kind == NCP_CONNECTION;
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

static ncp_plan *compile(pTHX_ compiler *c)
{
    const nearcall_description *function = nearcall_schema_functions(c->schema);
    const nearcall_field *result;
    const nearcall_type *type;
    uint32_t count;
    ncp_plan *plan;

    type = nearcall_schema_types(c->schema, &count);
    c->types = (ncp_type *)allocate(aTHX_ c, count * sizeof *c->types);
    for (; type; type = type->next)
        compile_type(aTHX_ c, type);
    plan = (ncp_plan *)allocate(aTHX_ c, sizeof *plan);
    plan->raw = function->is_raw != 0;
    plan->variadic = function->is_variadic != 0;
    plan->params_count = function->params_count;
    plan->params_required = function->params_required;
    plan->params = compile_fields(aTHX_ c, function->params, function->params_count);
    plan->results_count = function->results_count;
    plan->results = (const ncp_type **)allocate(aTHX_ c, plan->results_count * sizeof *plan->results);
    for (result = function->results; result; result = result->next)
        plan->results[result->number] = made_of(c, result->type);
    plan->has_connections = c->has_connections;
    plan->packs = c->packs;
    plan->is_simple = is_simple(plan);
    return plan;
}

static void free_schema(pTHX_ void *schema)
{
    PERL_UNUSED_CONTEXT;
    nearcall_schema_free((nearcall_schema *)schema);
}

ncp_plan *ncp_plan_compile(pTHX_ SV *function_name, const uint8_t *description,
                           size_t bytes, uint32_t revision)
{
    compiler c = { .function_name = function_name };
    const char *problem = "";
    ncp_plan *plan;
    int r = nearcall_schema_read(description, bytes, &c.schema, &problem);

    if (r != NEARCALL_OK)
        refuse(aTHX_ function_name, r, problem);
    ENTER;
    SAVEDESTRUCTOR_X(free_schema, c.schema);
    c.memory = (AV *)sv_2mortal((SV *)newAV());
    plan = compile(aTHX_ &c);
    plan->revision = revision;
    plan->memory = (AV *)SvREFCNT_inc((SV *)c.memory);
    LEAVE;
    return plan;
}

void ncp_plan_free(pTHX_ ncp_plan *plan)
{
    if (plan)
        SvREFCNT_dec((SV *)plan->memory);
}
