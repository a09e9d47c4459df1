/* Replies into Python objects, as a plan says. */
#include "core.h"

#include <string.h>

/* Texts up to this are copied on the stack. */
#define SMALL_TEXT_BYTES 512

/* Values take a byte of a reply each, and some hundred nanoseconds: millions of them last for seconds. */
#define VALUES_BETWEEN_LOOKS 16384

typedef struct decoder {
    core_state *state;
    nearcall_client *handle;   /* whose reply it is; NULL: no files came with it */
    int gives_buffers;
    nearcall_reader reader;
    const core_bounds *bounds; /* NULL: it is small */
    size_t values;             /* since the last look */
    Py_ssize_t made;           /* references that are to be given back if it fails */
    int is_late;
    int handler_raised;
} decoder;

/* Makes the object of a value whose head was read already. */
typedef PyObject *(*decode_function)(decoder *d, const core_node *node,
                                     const nearcall_value *head);

static PyObject *decode_head(decoder *d, const core_node *node, const nearcall_value *head);

/* Whether the call's time is over, or will be once all that was made has been given back. */
static int is_late(const decoder *d)
{
    const core_bounds *bounds = d->bounds;
    int64_t passed_ms = core_monotonic_ms() - bounds->started_ms;

    return bounds->timeout_ms > 0
           && passed_ms + d->made / CORE_REFERENCES_GIVEN_BACK_PER_MS >= bounds->timeout_ms;
}

/* Handlers of signals run here: they find nothing that is not whole, and neither the handle nor the reply goes away. */
static int look(decoder *d)
{
    d->made += (Py_ssize_t)d->values;
    d->values = 0;
    if (d->bounds == NULL)
        return 0;
    if (is_late(d)) {
        d->is_late = 1;
        core_raise_format(d->state, NEARCALL_E_DEADLINE_EXCEEDED, NEARCALL_OUTCOME_EXECUTED_RESULT_LOST,
                          "the deadline passed while the result was decoded; ask for less in one call, or give it a "
                          "longer timeout");
        return -1;
    }
    if (d->bounds->channel == NULL || core_run_handlers(d->bounds->channel) == 0)
        return 0;
    d->handler_raised = 1;
    return -1;
}

static inline int count_value(decoder *d)
{
    return ++d->values < VALUES_BETWEEN_LOOKS ? 0 : look(d);
}

static PyObject *unexpected(const core_node *node, const nearcall_value *head)
{
    static const char *const names[] = {
        [NEARCALL_NIL] = "nil", [NEARCALL_BOOL] = "bool", [NEARCALL_INT] = "int",
        [NEARCALL_UINT] = "int", [NEARCALL_FLOAT] = "float", [NEARCALL_STRING] = "str",
        [NEARCALL_BYTES] = "bin", [NEARCALL_ARRAY] = "array", [NEARCALL_MAP] = "map",
        [NEARCALL_TIME] = "timestamp", [NEARCALL_EXTENSION] = "extension",
        [NEARCALL_FILE] = "file", [NEARCALL_PACKED] = "packed list",
    };

    PyErr_Format(PyExc_ValueError, "%s was announced and %s came", node->name, names[head->type]);
    return NULL;
}

static PyObject *decode_next(decoder *d, const core_node *node)
{
    nearcall_value head;

    if (nearcall_read(&d->reader, &head) < 0) {
        PyErr_SetString(PyExc_ValueError, "it is cut off or no MessagePack");
        return NULL;
    }
    return decode_head(d, node, &head);
}

/* Every element takes a byte at least: what is merely claimed is not allocated. */
static int check_claim(const decoder *d, uint64_t elements)
{
    if (elements <= (uint64_t)(d->reader.end - d->reader.next))
        return 0;
    PyErr_SetString(PyExc_ValueError, "it claims more elements than it has bytes");
    return -1;
}

/* ---- Scalars ---- */

static PyObject *decode_bool(decoder *Py_UNUSED(d), const core_node *node,
                             const nearcall_value *head)
{
    return head->type == NEARCALL_BOOL ? PyBool_FromLong(head->as.boolean)
                                       : unexpected(node, head);
}

static PyObject *decode_integer(decoder *Py_UNUSED(d), const core_node *node,
                                const nearcall_value *head)
{
    if (head->type == NEARCALL_INT)
        return PyLong_FromLongLong(head->as.integer);
    if (head->type == NEARCALL_UINT)
        return PyLong_FromUnsignedLongLong(head->as.unsigned_integer);
    return unexpected(node, head);
}

static PyObject *decode_float(decoder *Py_UNUSED(d), const core_node *node,
                              const nearcall_value *head)
{
    if (head->type == NEARCALL_FLOAT)
        return PyFloat_FromDouble(head->as.real);
    if (head->type == NEARCALL_INT)
        return PyFloat_FromDouble((double)head->as.integer);
    if (head->type == NEARCALL_UINT)
        return PyFloat_FromDouble((double)head->as.unsigned_integer);
    return unexpected(node, head);
}

/* A str of a copy: a server can still write to a reply in shared memory, and the
 * interpreter looks at the bytes first and copies what it believes to have seen. */
static PyObject *new_text(const uint8_t *text, size_t bytes)
{
    char small[SMALL_TEXT_BYTES];
    char *copy = bytes <= sizeof(small) ? small : PyMem_Malloc(bytes);
    PyObject *result;

    if (copy == NULL)
        return PyErr_NoMemory();
    memcpy(copy, text, bytes);
    result = PyUnicode_DecodeUTF8(copy, (Py_ssize_t)bytes, NULL);
    if (copy != small)
        PyMem_Free(copy);
    return result;
}

static PyObject *decode_string(decoder *Py_UNUSED(d), const core_node *node,
                               const nearcall_value *head)
{
    if (head->type != NEARCALL_STRING)
        return unexpected(node, head);
    return new_text(head->as.data, head->count);
}

static PyObject *decode_bytes(decoder *Py_UNUSED(d), const core_node *node,
                              const nearcall_value *head)
{
    if (head->type != NEARCALL_BYTES && head->type != NEARCALL_STRING)
        return unexpected(node, head);
    return PyBytes_FromStringAndSize((const char *)head->as.data, (Py_ssize_t)head->count);
}

static PyObject *decode_time(decoder *d, const core_node *node, const nearcall_value *head)
{
    if (head->type != NEARCALL_TIME)
        return unexpected(node, head);
    return core_time_to_python(d->state, head->as.integer, head->count);
}

static PyObject *decode_duration(decoder *d, const core_node *node, const nearcall_value *head)
{
    if (head->type != NEARCALL_INT)
        return unexpected(node, head);
    return core_duration_to_python(d->state, head->as.integer);
}

static PyObject *decode_file(decoder *d, const core_node *node, const nearcall_value *head)
{
    int fd = -1;

    if (head->type != NEARCALL_FILE)
        return unexpected(node, head);
    if (d->handle != NULL)
        fd = nearcall_take_file(d->handle, head->as.integer);
    if (fd < 0) {
        PyErr_Format(PyExc_ValueError, "%s was announced and did not come", node->name);
        return NULL;
    }
    return node->kind == CORE_FILE ? core_file_to_python(d->state, fd) : core_connection_to_python(fd);
}

/* ---- Lists, maps, structs ---- */

/* Files and times are made by code of Python's, a collection may run any, and other threads run
 * then: what is not whole they must not find by gc.get_objects(), for an empty place in a list
 * ends the process. So the collector does not know a container before that, and nothing in
 * it can be garbage meanwhile. Returns whether it did know it; NULL it does not. */
static int hide(PyObject *container)
{
    if (container == NULL || !PyObject_GC_IsTracked(container))
        return 0;
    PyObject_GC_UnTrack(container);
    return 1;
}

/* What was hidden is whole. */
static PyObject *show(PyObject *container, int was_hidden)
{
    if (container != NULL && was_hidden)
        PyObject_GC_Track(container);
    return container;
}

/* The elements as Python names and measures them, by NEARCALL_ELEMENT_... */
static const struct element {
    const char *format;
    Py_ssize_t bytes;
} elements[] = {{"", 0},  {"?", 1}, {"b", 1}, {"h", 2}, {"i", 4}, {"q", 8},
                {"B", 1}, {"H", 2}, {"I", 4}, {"Q", 8}, {"f", 4}, {"d", 8}};

static PyObject *decode_element(decoder *d, const core_node *node, const nearcall_value *block, uint32_t index)
{
    nearcall_value value;

    if (nearcall_packed_at(block, index, &value) == NEARCALL_OK)
        return decode_head(d, node->element, &value);
    PyErr_SetString(PyExc_ValueError, "a bool is neither 0 nor 1");
    return NULL;
}

static PyObject *decode_block(decoder *d, const core_node *node, const nearcall_value *block)
{
    PyObject *list;
    uint32_t i;
    int hidden;

    if (block->extension_type != node->packed)
        return unexpected(node, block);
    list = PyList_New((Py_ssize_t)block->count);
    hidden = hide(list);
    for (i = 0; list != NULL && i < block->count; i++) {
        PyObject *item = decode_element(d, node, block, i);

        if (item == NULL || PyList_SetItem(list, (Py_ssize_t)i, item) < 0)
            Py_CLEAR(list);
    }
    return show(list, hidden);
}

static PyObject *view_of(PyObject *memory, const char *format)
{
    PyObject *plain = memory == NULL ? NULL : PyMemoryView_FromObject(memory), *view = NULL;

    if (plain != NULL)
        view = PyObject_CallMethod(plain, "cast", "s", format);
    Py_XDECREF(plain);
    return view;
}

/* A list of numbers in memory of its own, as it came or out of an array. */
static PyObject *decode_buffer(decoder *d, const core_node *node, const nearcall_value *head)
{
    const struct element *element = &elements[node->packed];
    Py_ssize_t count = head->type == NEARCALL_NIL ? 0 : (Py_ssize_t)head->count;
    PyObject *memory, *view;

    if (head->type != NEARCALL_NIL && head->type != NEARCALL_ARRAY && head->type != NEARCALL_PACKED)
        return unexpected(node, head);
    if (head->type == NEARCALL_ARRAY && check_claim(d, head->count) < 0)
        return NULL;
    memory = PyByteArray_FromStringAndSize(NULL, count * element->bytes);
    if (memory == NULL)
        return NULL;
    /* The head is not read again: the server can still write to a reply in shared memory. */
    if (nearcall_read_elements(&d->reader, head, node->packed, PyByteArray_AsString(memory)) < 0) {
        PyErr_Format(PyExc_ValueError, "%s was announced and has other elements", node->name);
        Py_CLEAR(memory);
    }
    view = view_of(memory, element->format);
    Py_XDECREF(memory);
    return view;
}

static PyObject *decode_list(decoder *d, const core_node *node, const nearcall_value *head)
{
    PyObject *list;
    Py_ssize_t i;
    int hidden;

    if (d->gives_buffers && node->packed && node->element->kind != CORE_DURATION)
        return decode_buffer(d, node, head);
    if (head->type == NEARCALL_PACKED)
        return decode_block(d, node, head);
    if (head->type == NEARCALL_NIL)
        return PyList_New(0);
    if (head->type != NEARCALL_ARRAY)
        return unexpected(node, head);
    if (check_claim(d, head->count) < 0)
        return NULL;
    list = PyList_New((Py_ssize_t)head->count);
    hidden = hide(list);
    for (i = 0; list != NULL && i < (Py_ssize_t)head->count; i++) {
        PyObject *item = decode_next(d, node->element);

        if (item == NULL || PyList_SetItem(list, i, item) < 0)
            Py_CLEAR(list);
    }
    return show(list, hidden);
}

/* A dict becomes known with the first container in it. */
static int put_pair(PyObject *dict, PyObject *key, PyObject *value, int *hidden)
{
    int r = PyDict_SetItem(dict, key, value);

    *hidden |= hide(dict);
    return r;
}

static int decode_pair(decoder *d, const core_node *node, PyObject *dict, int *hidden)
{
    PyObject *key = decode_next(d, node->key);
    PyObject *value = key == NULL ? NULL : decode_next(d, node->element);
    int r = value == NULL ? -1 : put_pair(dict, key, value, hidden);

    Py_XDECREF(key);
    Py_XDECREF(value);
    return r;
}

static PyObject *decode_map(decoder *d, const core_node *node, const nearcall_value *head)
{
    PyObject *dict;
    uint32_t i;
    int hidden;

    if (head->type == NEARCALL_NIL)
        return PyDict_New();
    if (head->type != NEARCALL_MAP)
        return unexpected(node, head);
    if (check_claim(d, 2 * (uint64_t)head->count) < 0)
        return NULL;
    dict = PyDict_New();
    hidden = hide(dict);
    for (i = 0; dict != NULL && i < head->count; i++)
        if (decode_pair(d, node, dict, &hidden) < 0)
            Py_CLEAR(dict);
    return show(dict, hidden);
}

/* Fields come in the order of the description, so the search begins at the
 * one that is expected. NULL for a field this description does not have. */
static const core_field *find_field(const core_struct *structure, Py_ssize_t expected,
                                    const nearcall_value *key)
{
    Py_ssize_t i;

    for (i = 0; i < structure->field_count; i++) {
        const core_field *field = &structure->fields[(expected + i) % structure->field_count];

        if ((uint32_t)field->text_bytes == key->count
            && memcmp(field->text, key->as.data, key->count) == 0)
            return field;
    }
    return NULL;
}

static int decode_field(decoder *d, const core_struct *structure, Py_ssize_t expected,
                        PyObject *dict, int *hidden)
{
    const core_field *field;
    nearcall_value key;
    PyObject *value;
    int r;

    if (nearcall_read(&d->reader, &key) < 0 || key.type != NEARCALL_STRING) {
        PyErr_SetString(PyExc_ValueError, "a struct has a field without a name");
        return -1;
    }
    field = find_field(structure, expected, &key);
    if (field == NULL) {
        if (nearcall_skip(&d->reader) == NEARCALL_OK)
            return count_value(d);
        PyErr_SetString(PyExc_ValueError, "an unknown field is cut off or nested too deeply");
        return -1;
    }
    value = decode_next(d, field->type);
    r = value == NULL ? -1 : put_pair(dict, field->name, value, hidden);
    Py_XDECREF(value);
    return r;
}

static PyObject *decode_struct(decoder *d, const core_node *node, const nearcall_value *head)
{
    PyObject *dict;
    uint32_t i;
    int hidden;

    if (head->type != NEARCALL_MAP)
        return unexpected(node, head);
    if (check_claim(d, 2 * (uint64_t)head->count) < 0)
        return NULL;
    dict = PyDict_New();
    hidden = hide(dict);
    for (i = 0; dict != NULL && i < head->count; i++)
        if (decode_field(d, node->structure, (Py_ssize_t)i, dict, &hidden) < 0)
            Py_CLEAR(dict);
    return show(dict, hidden);
}

static PyObject *decode_optional(decoder *d, const core_node *node, const nearcall_value *head)
{
    if (head->type == NEARCALL_NIL)
        return Py_NewRef(Py_None);
    return decode_head(d, node->element, head);
}

/* ---- Values without a type of their own ---- */

static const core_node any_node = {.kind = CORE_ANY, .name = "any"};
static const core_node any_list = {.kind = CORE_LIST, .name = "list", .element = &any_node};
static const core_node any_map = {.kind = CORE_MAP, .name = "map", .key = &any_node,
                                  .element = &any_node};

static PyObject *decode_any(decoder *d, const core_node *node, const nearcall_value *head)
{
    switch (head->type) {
    case NEARCALL_NIL: return Py_NewRef(Py_None);
    case NEARCALL_BOOL: return decode_bool(d, node, head);
    case NEARCALL_INT:
    case NEARCALL_UINT: return decode_integer(d, node, head);
    case NEARCALL_FLOAT: return decode_float(d, node, head);
    case NEARCALL_STRING: return decode_string(d, node, head);
    case NEARCALL_BYTES: return decode_bytes(d, node, head);
    case NEARCALL_ARRAY: return decode_list(d, &any_list, head);
    case NEARCALL_MAP: return decode_map(d, &any_map, head);
    case NEARCALL_TIME: return decode_time(d, node, head);
    default: return unexpected(node, head);
    }
}

static PyObject *decode_head(decoder *d, const core_node *node, const nearcall_value *head)
{
    static const decode_function functions[CORE_KINDS] = {
        [CORE_BOOL] = decode_bool, [CORE_INT] = decode_integer, [CORE_UINT] = decode_integer,
        [CORE_FLOAT32] = decode_float, [CORE_FLOAT64] = decode_float,
        [CORE_STRING] = decode_string, [CORE_BYTES] = decode_bytes, [CORE_TIME] = decode_time,
        [CORE_DURATION] = decode_duration, [CORE_FILE] = decode_file,
        [CORE_CONNECTION] = decode_file, [CORE_ANY] = decode_any, [CORE_LIST] = decode_list,
        [CORE_MAP] = decode_map, [CORE_OPTIONAL] = decode_optional,
        [CORE_STRUCT] = decode_struct,
    };
    PyObject *value;

    if (count_value(d) < 0)
        return NULL;
    if (node->kind < CORE_ANY)
        return functions[node->kind](d, node, head);
    if (Py_EnterRecursiveCall(" in a reply"))
        return NULL;
    value = functions[node->kind](d, node, head);
    Py_LeaveRecursiveCall();
    return value;
}

/* ---- Replies ---- */

/* Too deep nesting is found by the library's reader, which does not recurse
 * and knows the limit. Types of a fixed depth need no such look. */
static PyObject *decode_result(decoder *d, const core_plan *plan, Py_ssize_t index)
{
    nearcall_reader checked = d->reader;

    if (plan->nests_freely && nearcall_skip(&checked) < 0) {
        PyErr_SetString(PyExc_ValueError, "it is cut off, nested too deeply or no MessagePack");
        return NULL;
    }
    return decode_next(d, plan->results[index]);
}

static PyObject *decode_results(decoder *d, const core_plan *plan)
{
    nearcall_value head;
    PyObject *results;
    Py_ssize_t i;
    int hidden;

    if (plan->result_count == 0) {
        d->reader.next = d->reader.end; /* whatever stands for nothing */
        return Py_NewRef(Py_None);
    }
    if (plan->result_count == 1)
        return decode_result(d, plan, 0);
    if (nearcall_read(&d->reader, &head) < 0 || head.type != NEARCALL_ARRAY
        || (Py_ssize_t)head.count != plan->result_count) {
        PyErr_SetString(PyExc_ValueError, "several results were announced and others came");
        return NULL;
    }
    results = PyTuple_New(plan->result_count);
    hidden = hide(results);
    for (i = 0; results != NULL && i < plan->result_count; i++) {
        PyObject *item = decode_result(d, plan, i);

        if (item == NULL || PyTuple_SetItem(results, i, item) < 0)
            Py_CLEAR(results);
    }
    return show(results, hidden);
}

/* Puts what making objects has raised into the words of a call's end. What ends the program is no fault of the
 * reply's, as KeyboardInterrupt from a signal's handler, nor is anything else that a handler has raised. */
static void tell_failure(const decoder *d)
{
    if (d->is_late || d->handler_raised || !PyErr_ExceptionMatches(PyExc_Exception))
        return;
    core_raise_from_current(d->state,
                            PyErr_ExceptionMatches(PyExc_MemoryError)
                                ? NEARCALL_E_RESOURCE_EXHAUSTED : NEARCALL_E_INTERNAL,
                            NEARCALL_OUTCOME_EXECUTED_RESULT_LOST, "the reply cannot be taken over into Python");
}

PyObject *core_decode_reply(core_state *state, nearcall_client *handle, const core_view *view,
                            const core_plan *plan, const nearcall_reply *reply,
                            const core_bounds *bounds)
{
    decoder d = {.state = state, .handle = handle, .bounds = bounds,
                 .gives_buffers = view != NULL && view->gives_buffers,
                 .reader = {.next = reply->data, .end = reply->data + reply->bytes}};
    uint64_t generation = state->fork_generation;
    PyObject *result;

    if (plan == NULL || reply->codec == NEARCALL_CODEC_RAW)
        return PyBytes_FromStringAndSize((const char *)reply->data, (Py_ssize_t)reply->bytes);
    result = decode_results(&d, plan);
    if (result != NULL && d.reader.next != d.reader.end) {
        Py_CLEAR(result);
        PyErr_SetString(PyExc_ValueError, "bytes follow the result");
    }
    /* A finalizer or a handler has forked, and this is the child. */
    if ((result != NULL || (!d.handler_raised && PyErr_ExceptionMatches(PyExc_Exception)))
        && state->fork_generation != generation) {
        Py_CLEAR(result);
        PyErr_Clear();
        (void)core_is_child(state, generation);
        return NULL;
    }
    if (result == NULL)
        tell_failure(&d);
    return result;
}

PyObject *core_decode_any(core_state *state, const uint8_t *data, size_t bytes)
{
    decoder d = {.state = state, .reader = {.next = data, .end = data + bytes}};
    nearcall_reader checked = d.reader;

    /* What nests too deeply is found here, by a reader that does not recurse. */
    if (nearcall_skip(&checked) < 0) {
        PyErr_SetString(PyExc_ValueError, "it is cut off, nested too deeply or no MessagePack");
        return NULL;
    }
    return decode_next(&d, &any_node);
}
