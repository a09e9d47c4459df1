/* Structs: a mapping with fields as keys, which may leave some out, or an object whose
 * attributes are the fields, all of them and no others (spec/schema.md). */
#include "encode.h"

const core_field *core_struct_field(core_encoder *e, const core_struct *structure, PyObject *name)
{
    Py_ssize_t i;

    core_encoder_charge(e, structure->field_count);
    /* Most often the very string: names of attributes are interned, as those of fields are. */
    for (i = 0; i < structure->field_count; i++)
        if (structure->fields[i].name == name)
            return &structure->fields[i];
    for (i = 0; i < structure->field_count; i++)
        if (PyUnicode_Check(name) && PyUnicode_Compare(structure->fields[i].name, name) == 0)
            return &structure->fields[i];
    return NULL;
}

static int is_field(core_encoder *e, const core_struct *structure, PyObject *name)
{
    return core_struct_field(e, structure, name) != NULL;
}

static int is_public(PyObject *name)
{
    return PyUnicode_Check(name) && PyUnicode_GetLength(name) > 0
           && PyUnicode_ReadChar(name, 0) != '_';
}

#define NO_FIELD "%U: struct %U has no field %U; it has %U"

static PyObject *names_of(const core_struct *structure)
{
    PyObject *separator = PyUnicode_FromString(", "), *names = PyList_New(0), *text = NULL;
    Py_ssize_t i;
    int r = separator == NULL || names == NULL ? -1 : 0;

    for (i = 0; i < structure->field_count && r == 0; i++)
        r = PyList_Append(names, structure->fields[i].name);
    if (r == 0)
        text = PyUnicode_Join(separator, names);
    Py_XDECREF(separator);
    Py_XDECREF(names);
    return text;
}

/* `format` takes the place, the struct's name, the name of what is wrong, and those of the fields. */
static int refuse_name(core_encoder *e, const core_struct *structure, PyObject *name,
                       const core_place *at, const char *format)
{
    PyObject *where = core_place_describe(e->state, at);
    PyObject *shown = where == NULL ? NULL : core_shown(e->state, name);
    PyObject *names = shown == NULL ? NULL : names_of(structure);

    e->has_refused = 1;
    if (names != NULL)
        core_raise_format(e->state, NEARCALL_E_INVALID_ARGUMENT, NEARCALL_OUTCOME_NOT_EXECUTED,
                          format, where, structure->name, shown, names);
    Py_XDECREF(where);
    Py_XDECREF(shown);
    Py_XDECREF(names);
    return -1;
}

/* ---- Mappings ---- */

static int refuse_key(core_encoder *e, const core_struct *structure, PyObject *dict,
                      const core_place *at)
{
    core_walk walk = core_walk_of(dict);
    PyObject *key = NULL, *value;
    int r;

    while (core_walk_next(e, &walk, &key, &value))
        if (!is_field(e, structure, key))
            break;
    Py_XINCREF(key); /* telling the place runs code of keys around, which may empty the dict */
    r = refuse_name(e, structure, key, at, NO_FIELD);
    Py_XDECREF(key);
    return r;
}

/* Looking such keys up runs no code of theirs, which might change the dict meanwhile. */
static int has_plain_keys(core_encoder *e, PyObject *dict)
{
    core_walk walk = core_walk_of(dict);
    PyObject *key, *value;

    while (core_walk_next(e, &walk, &key, &value))
        if (!PyUnicode_CheckExact(key))
            return 0;
    return 1;
}

static int add_plain(core_encoder *e, const core_struct *structure, PyObject *dict, PyObject *key,
                     PyObject *value, const core_place *at)
{
    PyObject *name = PyUnicode_Check(key) ? PyUnicode_FromObject(key) : NULL;
    int r = -1;

    if (name != NULL && PyDict_Contains(dict, name) == 0)
        r = PyDict_SetItem(dict, name, value);
    else if (!PyErr_Occurred())
        refuse_name(e, structure, key, at, NO_FIELD);
    Py_XDECREF(name);
    return r;
}

/* The same with keys that are exactly str. New reference. */
static PyObject *plain_dict(core_encoder *e, const core_struct *structure, PyObject *dict,
                            const core_place *at)
{
    PyObject *plain = PyDict_New();
    core_items pairs;
    Py_ssize_t i;
    int r = plain == NULL ? -1 : core_items_of_dict(e, &pairs, dict);

    if (r == 0) {
        for (i = 0; i < pairs.count && r == 0; i += 2)
            r = add_plain(e, structure, plain, pairs.items[i], pairs.items[i + 1], at);
        core_items_drop(e, &pairs);
    }
    if (r < 0)
        Py_CLEAR(plain);
    return plain;
}

/* By its class, or by what it says that it is, as a proxy does. What is not subscripted is not asked. */
static int is_mapping(core_encoder *e, PyObject *value)
{
    PyObject *type = (PyObject *)Py_TYPE(value);

    if (!core_encoder_has_method(type, "__getitem__"))
        return 0;
    if (core_encoder_has_method(type, "keys"))
        return 1;
    return !PyErr_Occurred() && !PyTuple_Check(value) && PyObject_IsInstance(value, e->state->mapping_type) == 1;
}

/* A dict of what is a mapping. New reference; NULL without an exception: it is none. */
static PyObject *dict_of(core_encoder *e, const core_node *node, PyObject *value,
                         const core_place *at)
{
    PyObject *dict, *plain;

    if (core_encoder_is_dict(e, value))
        dict = Py_NewRef(value);
    else if (PyType_Check(value)) /* its attributes may be defaults, which nobody means to send */
        return core_refuse(e, node, value, at, "it is a class, and an object of it is needed"), NULL;
    else if (PyDict_Check(value) || is_mapping(e, value))
        dict = core_encoder_collect_pairs(e, node, value);
    else
        return NULL;
    if (dict == NULL)
        return NULL;
    if (PyDict_Size(dict) > node->structure->field_count)
        refuse_key(e, node->structure, dict, at); /* whatever all of them are */
    else if (has_plain_keys(e, dict))
        return dict;
    plain = PyErr_Occurred() ? NULL : plain_dict(e, node->structure, dict, at);
    Py_DECREF(dict);
    return plain;
}

static int collect_keys(core_encoder *e, const core_struct *structure, PyObject *dict, PyObject **fields,
                        Py_ssize_t *ret_count)
{
    Py_ssize_t i;

    core_encoder_charge(e, structure->field_count);
    for (i = 0; i < structure->field_count; i++) {
        fields[i] = Py_XNewRef(PyDict_GetItemWithError(dict, structure->fields[i].name));
        if (fields[i] == NULL && PyErr_Occurred())
            return -1;
        *ret_count += fields[i] != NULL;
    }
    return 0;
}

/* ---- Objects ---- */

/* The first public name that is no field; NULL: there is none, or an exception is set. New reference. */
static PyObject *strange_name(core_encoder *e, const core_struct *structure, PyObject *names)
{
    PyObject *iterator = PyObject_GetIter(names), *name = NULL;

    while (iterator != NULL && (name = PyIter_Next(iterator)) != NULL) {
        if (is_public(name) && !is_field(e, structure, name))
            break;
        Py_CLEAR(name);
        if (core_encoder_next(e) < 0)
            break;
    }
    Py_XDECREF(iterator);
    return name;
}

static PyObject *strange_attribute(core_encoder *e, const core_struct *structure, PyObject *value)
{
    PyObject *dict = PyObject_GenericGetDict(value, NULL), *key, *held, *name = NULL;
    core_walk walk;

    if (dict == NULL) {
        PyErr_Clear(); /* one with slots only */
        return NULL;
    }
    walk = core_walk_of(dict);
    while (name == NULL && core_walk_next(e, &walk, &key, &held)) {
        if (is_public(key) && !is_field(e, structure, key))
            name = Py_NewRef(key);
        else if (core_encoder_keep_on(e) < 0)
            break;
    }
    Py_DECREF(dict);
    return name;
}

/* Names that the class declares: __slots__, and the fields of a named tuple. A pydantic model that
 * allows more has these in a slot. */
static PyObject *strange_declaration(core_encoder *e, const core_struct *structure, PyObject *value)
{
    PyObject *type = (PyObject *)Py_TYPE(value), *names, *name = NULL;
    int has_memory = PyObject_CheckBuffer(value), declares = has_memory; /* structures of ctypes do */

    if (!declares)
        declares = core_encoder_has(type, "__slots__");
    if (!declares && !PyErr_Occurred())
        declares = core_encoder_has(type, "_fields");
    if (!declares)
        return NULL;
    names = PyObject_CallFunctionObjArgs(e->state->declared_names, value, has_memory ? Py_True : Py_False, NULL);
    if (names != NULL)
        name = strange_name(e, structure, names);
    Py_XDECREF(names);
    return name;
}

static int refuse_strange(core_encoder *e, const core_struct *structure, PyObject *value,
                          const core_place *at)
{
    PyObject *name = strange_attribute(e, structure, value);

    if (name == NULL && !PyErr_Occurred())
        name = strange_declaration(e, structure, value);
    if (name == NULL)
        return PyErr_Occurred() ? -1 : 0;
    refuse_name(e, structure, name, at,
                "%U: struct %U has no field %U, which the object has as an attribute; it has %U; "
                "names of the object's own begin with an underscore");
    Py_DECREF(name);
    return -1;
}

static int refuse_missing(core_encoder *e, const core_node *node, PyObject *value,
                          Py_ssize_t missing, Py_ssize_t found, const core_place *at)
{
    if (found == 0)
        return core_refuse(e, node, value, at,
                           "a dict or an object with the fields as attributes is needed");
    return refuse_name(e, node->structure, node->structure->fields[missing].name, at,
                       "%U: struct %U has the field %U, and the object has no such attribute; "
                       "a dict may leave fields out");
}

/* Clears an AttributeError that says no more than that there is no such attribute. One that was
 * raised within code of the value's own stays, and is told. */
static int is_absent(core_encoder *e, PyObject *value, PyObject *name)
{
    PyObject *error, *answer;
    int r;

    if (!PyErr_ExceptionMatches(PyExc_AttributeError))
        return 0;
    error = core_exception_take();
    answer = PyObject_CallFunctionObjArgs(e->state->is_absent, value, name, error, NULL);
    r = answer == Py_True;
    Py_XDECREF(answer);
    if (r || answer == NULL)
        Py_DECREF(error);
    else
        core_exception_set(error);
    return r;
}

static int collect_attributes(core_encoder *e, const core_node *node, PyObject *value,
                              PyObject **fields, Py_ssize_t *ret_count, const core_place *at)
{
    const core_struct *structure = node->structure;
    Py_ssize_t i, missing = -1;

    if (core_encoder_look(e) < 0)
        return -1;
    for (i = 0; i < structure->field_count; i++) {
        if (core_encoder_is_late(e) && core_encoder_check(e) < 0)
            return -1;
        fields[i] = PyObject_GetAttr(value, structure->fields[i].name);
        if (fields[i] == NULL) {
            if (!is_absent(e, value, structure->fields[i].name))
                return -1;
            if (missing < 0 && structure->fields[i].type->kind != CORE_OPTIONAL)
                missing = i;
        }
        *ret_count += fields[i] != NULL;
    }
    if (*ret_count > 0 && refuse_strange(e, structure, value, at) < 0)
        return -1;
    if (missing >= 0 || *ret_count == 0)
        return refuse_missing(e, node, value, missing, *ret_count, at);
    return 0;
}

/* ---- Records ---- */

/* The fields of a record of numpy's, whose attributes may be numpy's own. New reference; NULL without an exception:
 * it is none. What has no memory to show is not asked. */
static PyObject *record_of(core_encoder *e, PyObject *value)
{
    PyObject *record;

    if (!PyObject_CheckBuffer(value) || core_encoder_look(e) < 0)
        return NULL;
    record = PyObject_CallFunctionObjArgs(e->state->record_of, value, NULL);
    if (record == Py_None)
        Py_CLEAR(record);
    return record;
}

/* It is an object: what is not optional is there. */
static int collect_record(core_encoder *e, const core_node *node, PyObject *value, PyObject *record,
                          PyObject **fields, Py_ssize_t *ret_count, const core_place *at)
{
    const core_struct *structure = node->structure;
    Py_ssize_t i;

    if (collect_keys(e, structure, record, fields, ret_count) < 0)
        return -1;
    if (*ret_count != PyDict_Size(record))
        return refuse_key(e, structure, record, at);
    for (i = 0; i < structure->field_count; i++)
        if (fields[i] == NULL && structure->fields[i].type->kind != CORE_OPTIONAL)
            return refuse_missing(e, node, value, i, *ret_count, at);
    return 0;
}

static int collect_object(core_encoder *e, const core_node *node, PyObject *value, PyObject **fields,
                          Py_ssize_t *ret_count, const core_place *at)
{
    PyObject *record = record_of(e, value);
    int r;

    if (record == NULL)
        return PyErr_Occurred() ? core_refuse(e, node, value, at, NULL)
                                : collect_attributes(e, node, value, fields, ret_count, at);
    r = collect_record(e, node, value, record, fields, ret_count, at);
    Py_DECREF(record);
    return r;
}

/* ---- All ---- */

static int collect(core_encoder *e, const core_node *node, PyObject *value, PyObject **fields,
                   Py_ssize_t *ret_count, const core_place *at)
{
    PyObject *dict = dict_of(e, node, value, at);
    int r;

    *ret_count = 0;
    if (dict == NULL && PyErr_Occurred())
        return core_refuse(e, node, value, at, NULL);
    if (dict == NULL)
        return collect_object(e, node, value, fields, ret_count, at);
    r = collect_keys(e, node->structure, dict, fields, ret_count);
    if (r == 0 && *ret_count != PyDict_Size(dict))
        r = refuse_key(e, node->structure, dict, at);
    Py_DECREF(dict);
    return r;
}

static int put_fields(core_encoder *e, const core_struct *structure, PyObject *value,
                      PyObject **fields, Py_ssize_t count, const core_place *at)
{
    core_place here = {.outer = at, .kind = FIELD, .container = value, .depth = at->depth + 1};
    Py_ssize_t i;

    nearcall_put_map(e->handle, (uint32_t)count);
    for (i = 0; i < structure->field_count; i++) {
        const core_field *field = &structure->fields[i];

        if (fields[i] == NULL)
            continue;
        here.name = field->name;
        nearcall_put_string(e->handle, field->text, (size_t)field->text_bytes);
        if (core_encoder_next(e) < 0 || core_encode_value(e, field->type, fields[i], &here) < 0)
            return -1;
    }
    return 0;
}

int core_encode_struct(core_encoder *e, const core_node *node, PyObject *value,
                       const core_place *at)
{
    const core_struct *structure = node->structure;
    PyObject **fields = PyMem_Calloc((size_t)structure->field_count + 1, sizeof(*fields));
    Py_ssize_t count, i;
    int r;

    if (fields == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    r = collect(e, node, value, fields, &count, at);
    if (r == 0)
        r = put_fields(e, structure, value, fields, count, at);
    for (i = 0; i < structure->field_count; i++)
        Py_XDECREF(fields[i]);
    PyMem_Free(fields);
    return r;
}
