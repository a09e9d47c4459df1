/* Plans: a function's description compiled once into nodes that the encoder
 * and the decoder follow. What a description says is the library's to read
 * (nearcall_schema.h); a plan has the same with the names as Python keeps them. */
#include "core.h"

#include <string.h>

/* What a compilation works on. */
typedef struct compiler {
    core_state *state;
    core_plan *plan;
} compiler;

static const core_node *node_of(const compiler *c, const nearcall_type *type)
{
    return type == NULL ? NULL : &c->plan->nodes[type->number];
}

static void *allocate(size_t count, size_t bytes)
{
    void *made = PyMem_Calloc(count + 1, bytes);

    if (made == NULL)
        PyErr_NoMemory();
    return made;
}

/* Fields and parameters have the same form. */
static int compile_fields(const compiler *c, const nearcall_field *field, uint32_t count,
                          core_field **ret_fields, Py_ssize_t *ret_count)
{
    core_field *fields = *ret_fields = allocate(count, sizeof(*fields));

    if (fields == NULL)
        return -1;
    for (; field != NULL; field = field->next) {
        core_field *made = &fields[field->number];

        made->name = PyUnicode_DecodeUTF8(field->name, (Py_ssize_t)field->name_bytes, NULL);
        if (made->name == NULL)
            return -1;
        PyUnicode_InternInPlace(&made->name);
        *ret_count = field->number + 1;
        made->text = PyUnicode_AsUTF8AndSize(made->name, &made->text_bytes);
        made->type = node_of(c, field->type);
        if (made->text == NULL)
            return -1;
    }
    return 0;
}

static int compile_struct(const compiler *c, const nearcall_type *type, core_node *node)
{
    core_struct *structure = allocate(0, sizeof(*structure));

    if (structure == NULL)
        return -1;
    structure->next = c->plan->structs;
    c->plan->structs = node->structure = structure;
    structure->name = PyUnicode_DecodeUTF8(type->name, (Py_ssize_t)type->name_bytes, NULL);
    if (structure->name == NULL)
        return -1;
    return compile_fields(c, type->fields, type->fields_count, &structure->fields, &structure->field_count);
}

static core_kind kind_of(const nearcall_type *type)
{
    static const core_kind kinds[] = {
        [NEARCALL_TYPE_BOOL] = CORE_BOOL, [NEARCALL_TYPE_INTEGER] = CORE_UINT,
        [NEARCALL_TYPE_FLOAT32] = CORE_FLOAT32, [NEARCALL_TYPE_FLOAT64] = CORE_FLOAT64,
        [NEARCALL_TYPE_STRING] = CORE_STRING, [NEARCALL_TYPE_BYTES] = CORE_BYTES,
        [NEARCALL_TYPE_TIME] = CORE_TIME, [NEARCALL_TYPE_DURATION] = CORE_DURATION,
        [NEARCALL_TYPE_ANY] = CORE_ANY, [NEARCALL_TYPE_FILE] = CORE_FILE,
        [NEARCALL_TYPE_CONNECTION] = CORE_CONNECTION, [NEARCALL_TYPE_LIST] = CORE_LIST,
        [NEARCALL_TYPE_MAP] = CORE_MAP, [NEARCALL_TYPE_OPTIONAL] = CORE_OPTIONAL,
        [NEARCALL_TYPE_STRUCT] = CORE_STRUCT,
    };

    if (type->kind == NEARCALL_TYPE_INTEGER && type->least < 0)
        return CORE_INT;
    return kinds[type->kind];
}

static int compile_type(const compiler *c, const nearcall_type *type)
{
    core_node *node = &c->plan->nodes[type->number];

    node->kind = kind_of(type);
    node->name = node->kind == CORE_STRUCT ? "struct" : type->name;
    node->least = type->least;
    node->most = type->most;
    node->key = node_of(c, type->key);
    node->element = node_of(c, type->element);
    node->packed = nearcall_packed_element(type);
    c->plan->packs |= node->packed != 0;
    c->plan->nests_freely |= node->kind == CORE_ANY || node->kind == CORE_STRUCT;
    return node->kind == CORE_STRUCT ? compile_struct(c, type, node) : 0;
}

static int compile_types(const compiler *c)
{
    uint32_t count;
    const nearcall_type *type = nearcall_schema_types(c->plan->schema, &count);

    if ((c->plan->nodes = allocate(count, sizeof(*c->plan->nodes))) == NULL)
        return -1;
    for (; type != NULL; type = type->next)
        if (compile_type(c, type) < 0)
            return -1;
    return 0;
}

static int compile_results(const compiler *c, const nearcall_description *function)
{
    core_plan *plan = c->plan;
    const nearcall_field *result;

    if ((plan->results = allocate(function->results_count, sizeof(*plan->results))) == NULL)
        return -1;
    for (result = function->results; result != NULL; result = result->next)
        plan->results[result->number] = node_of(c, result->type);
    plan->result_count = function->results_count;
    return 0;
}

static int compile_keywords(const compiler *c)
{
    core_plan *plan = c->plan;
    PyObject *key = PyUnicode_FromString("params"), *params = NULL;
    Py_ssize_t i;

    if (key != NULL) /* else without memory, which is no want of a member */
        params = PyDict_GetItemWithError(plan->description, key);
    Py_XDECREF(key);
    if (params == NULL)
        return -1;
    plan->keywords = PyObject_CallFunctionObjArgs(c->state->keyword_names, params, NULL);
    if (plan->keywords == NULL)
        return -1;
    for (i = 0; i < plan->param_count; i++)
        plan->has_timeout |= PyUnicode_Compare(plan->params[i].name, c->state->text_timeout) == 0;
    return 0;
}

static int takes_plain_arguments(const core_plan *plan)
{
    Py_ssize_t i;

    if (plan->raw || plan->variadic || plan->required_count != plan->param_count
        || plan->param_count >= CORE_PLAIN_VALUES_MAX)
        return 0;
    for (i = 0; i < plan->param_count; i++)
        if (!core_is_plain_kind(plan->params[i].type->kind))
            return 0;
    return 1;
}

static int compile(const compiler *c)
{
    core_plan *plan = c->plan;
    const nearcall_description *function = nearcall_schema_functions(plan->schema);

    if (compile_types(c) < 0
        || compile_fields(c, function->params, function->params_count, &plan->params, &plan->param_count) < 0
        || compile_keywords(c) < 0 || compile_results(c, function) < 0)
        return -1;
    plan->raw = function->is_raw;
    plan->variadic = function->is_variadic;
    plan->required_count = function->params_required;
    plan->is_plain = takes_plain_arguments(plan);
    return PyErr_Occurred() ? -1 : 0;
}

static int read_schema(const compiler *c, const uint8_t *description, size_t bytes)
{
    const char *problem = "";
    int r = nearcall_schema_read(description, bytes, &c->plan->schema, &problem);

    if (r == NEARCALL_OK)
        return 0;
    if (r == NEARCALL_E_RESOURCE_EXHAUSTED)
        PyErr_NoMemory();
    else
        core_raise_format(c->state, NEARCALL_E_INTERNAL, NEARCALL_OUTCOME_NOT_EXECUTED,
                          "the server's description of the function cannot be read: %s; is the server newer "
                          "than this version of nearcall?", problem);
    return -1;
}

core_plan *core_plan_new(core_state *state, const uint8_t *schema, size_t schema_bytes)
{
    compiler c = {.state = state};

    c.plan = PyMem_Calloc(1, sizeof(*c.plan));
    if (c.plan == NULL) {
        PyErr_NoMemory();
        return NULL;
    }
    c.plan->references = 1;
    if (read_schema(&c, schema, schema_bytes) < 0
        || (c.plan->description = core_decode_any(state, schema, schema_bytes)) == NULL || compile(&c) < 0) {
        core_plan_drop(c.plan);
        return NULL;
    }
    return c.plan;
}

core_plan *core_plan_keep(core_plan *plan)
{
    plan->references++;
    return plan;
}

static void free_fields(core_field *fields, Py_ssize_t count)
{
    Py_ssize_t i;

    for (i = 0; i < count; i++)
        Py_XDECREF(fields[i].name);
    PyMem_Free(fields);
}

void core_plan_drop(core_plan *plan)
{
    core_struct *structure;

    if (plan == NULL || --plan->references > 0)
        return;
    while ((structure = plan->structs) != NULL) {
        plan->structs = structure->next;
        free_fields(structure->fields, structure->field_count);
        Py_XDECREF(structure->name);
        PyMem_Free(structure);
    }
    PyMem_Free(plan->nodes);
    free_fields(plan->params, plan->param_count);
    PyMem_Free(plan->results);
    nearcall_schema_free(plan->schema);
    Py_XDECREF(plan->keywords);
    Py_XDECREF(plan->description);
    PyMem_Free(plan);
}
