/* What bounds the encoder where values have code of their own, or are large: the
 * call's deadline, what fits a request, and what a container had when it was come to. */
#include "encode.h"

#include "limits_gen.h"

static int is_late(core_encoder *e, int64_t now_ms)
{
    if (e->started_ms == 0)
        e->started_ms = core_monotonic_ms();
    return e->timeout_ms > 0
           && now_ms - e->started_ms + e->copied / CORE_REFERENCES_GIVEN_BACK_PER_MS >= e->timeout_ms;
}

int core_encoder_is_late(core_encoder *e)
{
    return is_late(e, core_coarse_ms());
}

int core_encoder_check(core_encoder *e)
{
    int r;

    e->checked = e->work;
    if (is_late(e, core_monotonic_ms())) {
        e->has_refused = 1;
        core_raise_format(e->state, NEARCALL_E_DEADLINE_EXCEEDED, NEARCALL_OUTCOME_NOT_EXECUTED,
                          "encoding the arguments takes all of the call's time; send less in one call, or give it a "
                          "longer timeout");
        return -1;
    }
    r = nearcall_put_check(e->handle);
    if (r < 0) {
        e->has_refused = 1;
        core_raise(e->state, e->handle, r);
    }
    return r < 0 ? -1 : 0;
}

int core_encoder_look(core_encoder *e)
{
    e->is_plain_type_known = 0;
    e->work = 0;
    if (core_encoder_check(e) < 0)
        return -1;
    if (core_run_handlers(e->channel) == 0)
        return 0;
    e->has_refused = 0;
    return -1;
}

/* ---- What gives values ---- */

/* What is asked of a value: the same has the same answer, by whatever description. */
typedef struct question {
    PyObject *value;
    PyObject *key;      /* by which the answer is kept */
    const char *method; /* by which a mapping gives all values of a key where the type takes a list, or NULL */
} question;

int core_encoder_is_of_python(PyObject *value)
{
    return (PyType_GetFlags(Py_TYPE(value)) & Py_TPFLAGS_HEAPTYPE) != 0;
}

/* What is subscripted and has memory to show, but says nothing of iterating, may be a void of numpy's: that looks as an
 * empty list does. */
static int require_elements(core_encoder *e, PyObject *iterable)
{
    PyObject *done;

    if (!PyObject_CheckBuffer(iterable) || PyType_GetSlot(Py_TYPE(iterable), Py_tp_iter) != NULL)
        return 0;
    done = PyObject_CallFunctionObjArgs(e->state->require_elements, iterable, NULL);
    Py_XDECREF(done);
    return done == NULL ? -1 : 0;
}

/* An array of numpy without a dimension looks iterable, too. */
static PyObject *iterator_of(core_encoder *e, PyObject *iterable)
{
    PyObject *iterator;

    if (require_elements(e, iterable) < 0)
        return NULL;
    iterator = PyObject_GetIter(iterable);
    if (iterator == NULL && !core_encoder_is_of_python(iterable)
        && PyErr_ExceptionMatches(PyExc_TypeError))
        PyErr_SetNone(e->state->refusal);
    return iterator;
}

/* How many it has, where it can say so itself: sets that were larger are walked to the end of their table. */
static Py_ssize_t most_of(PyObject *iterable)
{
    return PyAnySet_CheckExact(iterable) ? PySet_Size(iterable) : PY_SSIZE_T_MAX;
}

/* What an iterable has given, as a tuple of the list of that and its iterator. New reference. */
static PyObject *gathered_nothing(core_encoder *e, PyObject *iterable)
{
    PyObject *list = NULL, *iterator = NULL, *gathered = NULL;

    if (core_encoder_look(e) == 0 && (iterator = iterator_of(e, iterable)) != NULL)
        list = PyList_New(0);
    if (list != NULL)
        gathered = PyTuple_Pack(2, list, iterator);
    Py_XDECREF(list);
    Py_XDECREF(iterator);
    return gathered;
}

/* The element's node is NULL for any; *bytes is what was measured before, and grows. Ends with 1 behind a value that
 * can never fit. */
static int gather(core_encoder *e, const core_node *element, PyObject *iterable, PyObject *gathered, int64_t *bytes)
{
    PyObject *list = PyTuple_GetItem(gathered, 0), *iterator = PyTuple_GetItem(gathered, 1), *item;
    Py_ssize_t left = most_of(iterable) - PyList_Size(list);
    int r = 0;

    while (r == 0 && left-- > 0 && (item = PyIter_Next(iterator)) != NULL) {
        e->copied++;
        r = PyList_Append(list, item) < 0 || core_encoder_look(e) < 0
                ? -1 : core_encoder_measure(e, element, item, bytes);
        Py_DECREF(item);
    }
    return PyErr_Occurred() ? -1 : r;
}

/* What was gathered for another description counts by this one. */
static int measure_gathered(core_encoder *e, const core_node *element, PyObject *list, int64_t *bytes)
{
    Py_ssize_t i;
    int r = 0;

    for (i = 0; r == 0 && i < PyList_Size(list); i++)
        r = core_encoder_measure(e, element, PyList_GetItem(list, i), bytes);
    return r;
}

/* The list, or a tuple of the list and the iterator where that is to be asked for more. */
static PyObject *collect(core_encoder *e, const core_node *node, const question *asked, PyObject *former)
{
    PyObject *gathered = former != NULL ? Py_NewRef(former) : gathered_nothing(e, asked->value), *given = NULL;
    int64_t bytes = 0;
    int r;

    if (gathered == NULL)
        return NULL;
    r = measure_gathered(e, node->element, PyTuple_GetItem(gathered, 0), &bytes);
    if (r == 0)
        r = gather(e, node->element, asked->value, gathered, &bytes);
    if (r == 0)
        given = Py_NewRef(PyTuple_GetItem(gathered, 0));
    else if (r > 0)
        given = Py_NewRef(gathered);
    Py_DECREF(gathered);
    return given;
}

static int is_unfinished(PyObject *given)
{
    return PyTuple_Check(given);
}

/* The type of what a map or struct has under a key; NULL for any. */
static const core_node *type_under(core_encoder *e, const core_node *node, PyObject *key)
{
    const core_field *field;

    if (node->kind == CORE_MAP)
        return node->element;
    field = core_struct_field(e, node->structure, key);
    return field == NULL ? NULL : field->type;
}

static int is_list_type(const core_node *node)
{
    if (node != NULL && node->kind == CORE_OPTIONAL)
        node = node->element;
    return node != NULL && node->kind == CORE_LIST;
}

/* The method by which a mapping gives all values of a key, as forms and headers have several; NULL, also with an
 * exception set: it has none. A proxy says whose methods it has. */
static const char *method_for_all(PyObject *mapping)
{
    PyObject *class = PyObject_GetAttrString(mapping, "__class__");
    const char *method = NULL;

    if (class != NULL && core_encoder_has_method(class, "getlist"))
        method = "getlist";
    else if (class != NULL && !PyErr_Occurred() && core_encoder_has_method(class, "getall"))
        method = "getall";
    Py_XDECREF(class);
    return method;
}

/* New reference. */
static PyObject *value_under(core_encoder *e, const core_node *type, const question *asked, PyObject *key)
{
    if (core_encoder_look(e) < 0)
        return NULL;
    if (asked->method == NULL || !is_list_type(type))
        return PyObject_GetItem(asked->value, key);
    return PyObject_CallMethod(asked->value, asked->method, "(O)", key);
}

static int collect_pair(core_encoder *e, const core_node *node, const question *asked, PyObject *key,
                        PyObject *dict, int64_t *bytes)
{
    const core_node *type = type_under(e, node, key);
    PyObject *value;
    int r;

    /* A key of several values may come with each of them. */
    if (is_list_type(type) && (r = PyDict_Contains(dict, key)) != 0)
        return r < 0 ? -1 : 0;
    value = value_under(e, type, asked, key);
    r = value == NULL ? -1 : PyDict_SetItem(dict, key, value);
    e->copied++;
    if (r == 0)
        r = core_encoder_measure(e, type, value, bytes);
    Py_XDECREF(value);
    return r < 0 ? -1 : 0;
}

static PyObject *keys_in(core_encoder *e, PyObject *dict)
{
    core_walk walk = core_walk_of(dict);
    PyObject *keys = PyList_New(0), *key, *value;

    while (keys != NULL && core_walk_next(e, &walk, &key, &value))
        if (PyList_Append(keys, key) < 0 || core_encoder_keep_on(e) < 0)
            Py_CLEAR(keys);
    return keys;
}

/* As dict() asks: by keys(), whatever the mapping gives where it is iterated over. New reference. */
static PyObject *keys_of(core_encoder *e, PyObject *mapping)
{
    if (PyDict_Check(mapping) && !core_encoder_has_own_keys(e, mapping))
        return keys_in(e, mapping);
    return PyObject_CallMethod(mapping, "keys", NULL);
}

/* All of them, whether or not they fit. New reference. */
static PyObject *gather_keys(core_encoder *e, const core_node *node, PyObject *keys, int64_t *bytes)
{
    PyObject *gathered = gathered_nothing(e, keys), *list = NULL;
    int r = 1;

    if (gathered == NULL)
        return NULL;
    while (r > 0)
        r = gather(e, node->key, keys, gathered, bytes);
    if (r == 0)
        list = Py_NewRef(PyTuple_GetItem(gathered, 0));
    Py_DECREF(gathered);
    return list;
}

static PyObject *collect_pairs(core_encoder *e, const core_node *node, const question *asked,
                               PyObject *Py_UNUSED(former))
{
    PyObject *keys = keys_of(e, asked->value), *list = NULL, *dict = NULL;
    int64_t bytes = 0;
    Py_ssize_t i;

    if (keys != NULL)
        list = gather_keys(e, node, keys, &bytes);
    if (list != NULL)
        dict = PyDict_New();
    for (i = 0; dict != NULL && i < PyList_Size(list); i++)
        if (collect_pair(e, node, asked, PyList_GetItem(list, i), dict, &bytes) < 0)
            Py_CLEAR(dict);
    Py_XDECREF(keys);
    Py_XDECREF(list);
    return dict;
}

/* ---- Asking once ---- */

/* `former` is what it gave when it was not asked for all; else NULL. */
typedef PyObject *(*ask_function)(core_encoder *e, const core_node *node, const question *asked, PyObject *former);

/* The names of a struct's fields that are lists, and true for a map whose values are. New reference. */
static PyObject *lists_of(core_encoder *e, const core_node *node)
{
    PyObject *names, *tuple = NULL;
    Py_ssize_t i;
    int r = 0;

    if (node->kind == CORE_MAP)
        return is_list_type(node->element) ? Py_NewRef(Py_True) : PyTuple_New(0);
    names = PyList_New(0);
    core_encoder_charge(e, node->structure->field_count);
    for (i = 0; names != NULL && r == 0 && i < node->structure->field_count; i++)
        if (is_list_type(node->structure->fields[i].type))
            r = PyList_Append(names, node->structure->fields[i].name);
    if (names != NULL && r == 0)
        tuple = PyList_AsTuple(names);
    Py_XDECREF(names);
    return tuple;
}

/* A mapping with several values of a key gives all of them for a list, and otherwise one: then the lists are part of the
 * question. New reference. */
static PyObject *pairs_key(core_encoder *e, const core_node *node, question *asked, PyObject *address)
{
    PyObject *lists = lists_of(e, node), *key = NULL;

    if (lists != NULL && PyObject_IsTrue(lists) == 1)
        asked->method = method_for_all(asked->value);
    if (lists != NULL && !PyErr_Occurred())
        key = PyTuple_Pack(2, address, asked->method == NULL ? Py_None : lists);
    Py_XDECREF(lists);
    return key;
}

/* A mapping may be asked for its keys, as an iterable, as well as for its pairs. */
static int set_question(core_encoder *e, const core_node *node, question *asked, ask_function ask)
{
    PyObject *address = PyLong_FromVoidPtr(asked->value);

    if (address != NULL)
        asked->key = ask == collect ? Py_NewRef(address) : pairs_key(e, node, asked, address);
    Py_XDECREF(address);
    return asked->key == NULL ? -1 : 0;
}

/* Each answer takes memory, also where it is empty. */
static int check_room(core_encoder *e)
{
    if (*e->asked == NULL || PyDict_Size(*e->asked) < NC_FRAME_BYTES_MAX_CEILING / CORE_EMPTY_BYTES)
        return 0;
    e->has_refused = 1;
    core_raise_format(e->state, NEARCALL_E_RESOURCE_EXHAUSTED, NEARCALL_OUTCOME_NOT_EXECUTED,
                      "the arguments have more iterables and mappings than fit the %d bytes that any frame may have, "
                      "each counted as %d (limit frame_bytes_max)", NC_FRAME_BYTES_MAX_CEILING, CORE_EMPTY_BYTES);
    return -1;
}

/* What was collected, or raised, stands with the value, whose address no other can have then. */
static int remember(core_encoder *e, const question *asked, PyObject *given)
{
    PyObject *error = given == NULL ? core_exception_take() : NULL;
    PyObject *pair = PyTuple_Pack(2, asked->value, given == NULL ? error : given);
    int r = -1;

    if (pair != NULL && *e->asked == NULL)
        *e->asked = PyDict_New();
    if (pair != NULL && *e->asked != NULL)
        r = PyDict_SetItem(*e->asked, asked->key, pair);
    Py_XDECREF(pair);
    if (r == 0)
        core_exception_set(error);
    else
        Py_XDECREF(error);
    return r;
}

static PyObject *remembered(PyObject *pair)
{
    PyObject *given = PyTuple_GetItem(pair, 1);

    if (!PyExceptionInstance_Check(given))
        return Py_NewRef(given);
    core_exception_set(Py_NewRef(given));
    return NULL;
}

/* Asks for what is not known yet. */
static PyObject *answer(core_encoder *e, const core_node *node, const question *asked, ask_function ask)
{
    PyObject *former = NULL, *pair = NULL, *given = NULL;

    if (*e->asked != NULL)
        pair = PyDict_GetItemWithError(*e->asked, asked->key);
    if (pair != NULL && is_unfinished(PyTuple_GetItem(pair, 1)))
        former = Py_NewRef(PyTuple_GetItem(pair, 1));
    else if (pair != NULL)
        return remembered(pair);
    else if (PyErr_Occurred() || check_room(e) < 0)
        return NULL;
    given = ask(e, node, asked, former);
    if (remember(e, asked, given) < 0)
        Py_CLEAR(given);
    Py_XDECREF(former);
    return given;
}

static PyObject *ask_once(core_encoder *e, const core_node *node, PyObject *value, ask_function ask)
{
    question asked = {.value = value};
    PyObject *given;

    if (set_question(e, node, &asked, ask) < 0)
        return NULL;
    given = answer(e, node, &asked, ask);
    Py_DECREF(asked.key);
    return given;
}

/* New reference, or NULL, with an exception or without. */
static PyObject *attribute_of(PyObject *value, const char *name)
{
    PyObject *attribute = PyObject_GetAttrString(value, name);

    if (attribute == NULL && PyErr_ExceptionMatches(PyExc_AttributeError))
        PyErr_Clear();
    return attribute;
}

int core_encoder_has(PyObject *value, const char *name)
{
    PyObject *attribute = attribute_of(value, name);

    Py_XDECREF(attribute);
    return attribute != NULL;
}

int core_encoder_has_method(PyObject *value, const char *name)
{
    PyObject *attribute = attribute_of(value, name);
    int r = attribute != NULL && PyCallable_Check(attribute);

    Py_XDECREF(attribute);
    return r;
}

PyObject *core_encoder_collect(core_encoder *e, const core_node *node, PyObject *iterable, int *ret_is_cut)
{
    PyObject *given = ask_once(e, node, iterable, collect), *list;

    *ret_is_cut = given != NULL && is_unfinished(given);
    if (!*ret_is_cut)
        return given;
    list = Py_NewRef(PyTuple_GetItem(given, 0));
    Py_DECREF(given);
    return list;
}

PyObject *core_encoder_collect_pairs(core_encoder *e, const core_node *node, PyObject *mapping)
{
    return ask_once(e, node, mapping, collect_pairs);
}
