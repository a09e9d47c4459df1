/* Plans: a function's description compiled once into nodes that the encoder
 * and the decoder follow. The forms of a description are in spec/schema.md. */
#include "core.h"

#include <string.h>

typedef struct core_node_block {
    struct core_node_block *next;
    core_node node;
} core_node_block;

static const core_node scalars[] = {
    {.name = "bool", .kind = CORE_BOOL},
    {.name = "int8", .kind = CORE_INT, .least = INT8_MIN, .most = INT8_MAX},
    {.name = "int16", .kind = CORE_INT, .least = INT16_MIN, .most = INT16_MAX},
    {.name = "int32", .kind = CORE_INT, .least = INT32_MIN, .most = INT32_MAX},
    {.name = "int64", .kind = CORE_INT, .least = INT64_MIN, .most = INT64_MAX},
    {.name = "uint8", .kind = CORE_UINT, .most = UINT8_MAX},
    {.name = "uint16", .kind = CORE_UINT, .most = UINT16_MAX},
    {.name = "uint32", .kind = CORE_UINT, .most = UINT32_MAX},
    {.name = "uint64", .kind = CORE_UINT, .most = UINT64_MAX},
    {.name = "float32", .kind = CORE_FLOAT32},
    {.name = "float64", .kind = CORE_FLOAT64},
    {.name = "string", .kind = CORE_STRING},
    {.name = "bytes", .kind = CORE_BYTES},
    {.name = "time", .kind = CORE_TIME},
    {.name = "duration", .kind = CORE_DURATION},
    {.name = "file", .kind = CORE_FILE},
    {.name = "connection", .kind = CORE_CONNECTION},
    {.name = "any", .kind = CORE_ANY},
};

/* What a compilation works on; types is the description's own, or NULL. */
typedef struct compiler {
    core_state *state;
    core_plan *plan;
    PyObject *types;
} compiler;

static const core_node *compile_type(compiler *c, PyObject *type);

static void *malformed(compiler *c, const char *what)
{
    if (!PyErr_Occurred())
        core_raise_format(c->state, NEARCALL_E_INTERNAL, NEARCALL_OUTCOME_NOT_EXECUTED,
                          "the server's description of a function has %s that this version "
                          "does not understand; install a newer nearcall",
                          what);
    return NULL;
}

/* Borrowed; NULL: there is none, or an exception is set, also from before. A want of memory is no want of a member. */
static PyObject *member(PyObject *dict, const char *name)
{
    PyObject *key, *value;

    if (PyErr_Occurred() || (key = PyUnicode_FromString(name)) == NULL)
        return NULL;
    value = PyDict_GetItemWithError(dict, key);
    Py_DECREF(key);
    return value;
}

static core_node *new_node(compiler *c, core_kind kind, const char *name)
{
    core_node_block *block = PyMem_Calloc(1, sizeof(*block));

    if (block == NULL) {
        PyErr_NoMemory();
        return NULL;
    }
    block->next = c->plan->blocks;
    c->plan->blocks = block;
    block->node.kind = kind;
    block->node.name = name;
    return &block->node;
}

static const core_node *compile_scalar(compiler *c, PyObject *type)
{
    const char *name = PyUnicode_AsUTF8AndSize(type, NULL);
    size_t i;

    if (name == NULL)
        return NULL;
    for (i = 0; i < sizeof(scalars) / sizeof(scalars[0]); i++)
        if (strcmp(scalars[i].name, name) == 0) {
            c->plan->nests_freely |= scalars[i].kind == CORE_ANY;
            return &scalars[i];
        }
    return malformed(c, "a type");
}

static const core_node *compile_wrapper(compiler *c, core_kind kind, const char *name,
                                        PyObject *element)
{
    core_node *node = new_node(c, kind, name);

    if (node == NULL || (node->element = compile_type(c, element)) == NULL)
        return NULL;
    return node;
}

static const core_node *compile_map(compiler *c, PyObject *pair)
{
    core_node *node;

    if (!PyList_Check(pair) || PyList_Size(pair) != 2)
        return malformed(c, "a map type");
    node = new_node(c, CORE_MAP, "map");
    if (node == NULL || (node->key = compile_type(c, PyList_GetItem(pair, 0))) == NULL
        || (node->element = compile_type(c, PyList_GetItem(pair, 1))) == NULL)
        return NULL;
    return node;
}

/* Fields and parameters have the same form: {"name": ..., "type": ...}. */
static int compile_fields(compiler *c, PyObject *list, core_field **ret_fields,
                          Py_ssize_t *ret_count)
{
    Py_ssize_t i, count;
    core_field *fields;

    if (list == NULL || !PyList_Check(list)) {
        malformed(c, "a list of parameters or fields");
        return -1;
    }
    count = PyList_Size(list);
    fields = *ret_fields = PyMem_Calloc((size_t)count + 1, sizeof(*fields));
    if (fields == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    for (i = 0; i < count; i++) {
        PyObject *item = PyList_GetItem(list, i);
        PyObject *name = PyDict_Check(item) ? member(item, "name") : NULL;
        PyObject *type = PyDict_Check(item) ? member(item, "type") : NULL;

        if (name == NULL || type == NULL || !PyUnicode_Check(name)) {
            malformed(c, "a parameter or field");
            return -1;
        }
        Py_INCREF(name);
        PyUnicode_InternInPlace(&name);
        fields[i].name = name;
        *ret_count = i + 1;
        fields[i].text = PyUnicode_AsUTF8AndSize(name, &fields[i].text_bytes);
        fields[i].type = compile_type(c, type);
        if (fields[i].text == NULL || fields[i].type == NULL)
            return -1;
    }
    return 0;
}

static core_struct *known_struct(compiler *c, PyObject *name)
{
    core_struct *structure;

    for (structure = c->plan->structs; structure != NULL; structure = structure->next)
        if (PyUnicode_Compare(structure->name, name) == 0)
            return structure;
    return NULL;
}

static core_struct *compile_struct(compiler *c, PyObject *name)
{
    PyObject *definition = NULL;
    core_struct *structure;

    if (PyUnicode_Check(name) && c->types != NULL)
        definition = PyDict_GetItemWithError(c->types, name);
    if (definition == NULL || !PyDict_Check(definition))
        return malformed(c, "a struct without a definition");
    structure = PyMem_Calloc(1, sizeof(*structure));
    if (structure == NULL) {
        PyErr_NoMemory();
        return NULL;
    }
    /* Listed before its fields are compiled: they may lead back to it. */
    structure->next = c->plan->structs;
    c->plan->structs = structure;
    structure->name = Py_NewRef(name);
    if (compile_fields(c, member(definition, "fields"), &structure->fields, &structure->field_count) < 0)
        return NULL;
    return structure;
}

static const core_node *compile_struct_type(compiler *c, PyObject *name)
{
    core_node *node = new_node(c, CORE_STRUCT, "struct");

    if (node == NULL)
        return NULL;
    c->plan->nests_freely = 1;
    node->structure = PyUnicode_Check(name) ? known_struct(c, name) : NULL;
    if (node->structure == NULL)
        node->structure = compile_struct(c, name);
    return node->structure == NULL ? NULL : node;
}

static const core_node *compile_type(compiler *c, PyObject *type)
{
    const core_node *node = NULL;
    PyObject *inner;

    if (PyUnicode_Check(type))
        return compile_scalar(c, type);
    if (!PyDict_Check(type))
        return malformed(c, "a type");
    if (Py_EnterRecursiveCall(" in a function's description"))
        return NULL;
    if ((inner = member(type, "list")) != NULL)
        node = compile_wrapper(c, CORE_LIST, "list", inner);
    else if ((inner = member(type, "optional")) != NULL)
        node = compile_wrapper(c, CORE_OPTIONAL, "optional", inner);
    else if ((inner = member(type, "map")) != NULL)
        node = compile_map(c, inner);
    else if ((inner = member(type, "struct")) != NULL)
        node = compile_struct_type(c, inner);
    else
        malformed(c, "a type");
    Py_LeaveRecursiveCall();
    return node;
}

static int compile_results(compiler *c, PyObject *list)
{
    core_plan *plan = c->plan;
    Py_ssize_t i;

    if (list == NULL || !PyList_Check(list)) {
        malformed(c, "a list of results");
        return -1;
    }
    plan->result_count = PyList_Size(list);
    plan->results = PyMem_Calloc((size_t)plan->result_count + 1, sizeof(*plan->results));
    if (plan->results == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    for (i = 0; i < plan->result_count; i++)
        if ((plan->results[i] = compile_type(c, PyList_GetItem(list, i))) == NULL)
            return -1;
    return 0;
}

static int flag(PyObject *description, const char *name)
{
    PyObject *value = member(description, name);

    return value != NULL && PyObject_IsTrue(value) == 1;
}

static Py_ssize_t count_required(const core_plan *plan)
{
    Py_ssize_t count = plan->param_count;

    if (plan->variadic)
        return count - 1;
    while (count > 0 && plan->params[count - 1].type->kind == CORE_OPTIONAL)
        count--;
    return count;
}

static int compile_keywords(compiler *c, PyObject *params)
{
    core_plan *plan = c->plan;
    Py_ssize_t i;

    plan->keywords = PyObject_CallFunctionObjArgs(c->state->keyword_names, params, NULL);
    if (plan->keywords == NULL)
        return -1;
    for (i = 0; i < plan->param_count; i++)
        plan->has_timeout |= PyUnicode_Compare(plan->params[i].name, c->state->text_timeout) == 0;
    return 0;
}

static int compile(compiler *c)
{
    core_plan *plan = c->plan;
    PyObject *description = plan->description, *params;

    if (!PyDict_Check(description)) {
        malformed(c, "a form");
        return -1;
    }
    c->types = member(description, "types");
    if (c->types != NULL && !PyDict_Check(c->types))
        c->types = NULL;
    params = member(description, "params");
    if (compile_fields(c, params, &plan->params, &plan->param_count) < 0
        || compile_keywords(c, params) < 0
        || compile_results(c, member(description, "results")) < 0)
        return -1;
    plan->raw = flag(description, "raw");
    plan->variadic = flag(description, "variadic") && plan->param_count > 0;
    plan->required_count = count_required(plan);
    return PyErr_Occurred() ? -1 : 0;
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
    c.plan->description = core_decode_any(state, schema, schema_bytes);
    if (c.plan->description == NULL || compile(&c) < 0) {
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
    core_node_block *block;

    if (plan == NULL || --plan->references > 0)
        return;
    while ((structure = plan->structs) != NULL) {
        plan->structs = structure->next;
        free_fields(structure->fields, structure->field_count);
        Py_DECREF(structure->name);
        PyMem_Free(structure);
    }
    while ((block = plan->blocks) != NULL) {
        plan->blocks = block->next;
        PyMem_Free(block);
    }
    free_fields(plan->params, plan->param_count);
    PyMem_Free(plan->results);
    Py_XDECREF(plan->keywords);
    Py_XDECREF(plan->description);
    PyMem_Free(plan);
}
