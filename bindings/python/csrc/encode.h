/* What the files of the encoder share. */
#ifndef NEARCALL_ENCODE_H
#define NEARCALL_ENCODE_H

#include "core.h"
#include "limits_gen.h"

/* Where in the arguments the encoder is: a chain on the C stack, from the
 * innermost place outwards. Only an error ever reads it. */
typedef struct core_place {
    const struct core_place *outer;
    enum { ARGUMENT, ELEMENT, KEY, FIELD } kind;
    Py_ssize_t index;
    PyObject *name; /* ARGUMENT, FIELD; KEY: the key itself */
    PyObject *container; /* what the place is in; NULL for an ARGUMENT */
    int depth;           /* how many containers that are */
} core_place;

typedef int (*core_encode_function)(core_encoder *e, const core_node *node, PyObject *value,
                                    const core_place *at);

int core_encode_value(core_encoder *e, const core_node *node, PyObject *value,
                      const core_place *at);
int core_encode_struct(core_encoder *e, const core_node *node, PyObject *value,
                       const core_place *at);

/* Writes a buffer whose elements are those of the list, and of the lists in it: 0, or -1. CORE_NO_BUFFER: the value is none,
 * and nothing has happened. */
#define CORE_NO_BUFFER 1
int core_encode_buffer(core_encoder *e, const core_node *node, PyObject *value, const core_place *at);

/* Text for a person, as "argument 1 (person).age". New reference. */
PyObject *core_place_describe(core_state *state, const core_place *at);

/* Raises InvalidArgument: "argument 1 (m): takes int64, got str; hint". A Refusal that is
 * set now tells its own hint instead, if it has one; its cause becomes the error's. Any other
 * exception that is set was raised by the value's own code, and is left as it is. Returns -1. */
int core_refuse(core_encoder *e, const core_node *node, PyObject *value, const core_place *at,
                const char *hint);

/* The same because of the exception that is set, where it is of this kind: right after a
 * conversion of the interpreter's that raises such, and runs no code of the value's own. */
int core_refuse_because(core_encoder *e, const core_node *node, PyObject *value,
                        const core_place *at, PyObject *kind, const char *hint);
int core_refuse_range(core_encoder *e, const core_node *node, PyObject *value,
                      const core_place *at);
int core_refuse_depth(core_encoder *e, PyObject *value, const core_place *at);

/* Whether a request may hold so many bytes, or values of one byte. */
static inline int core_request_holds(const core_encoder *e, Py_ssize_t bytes)
{
    return bytes <= NC_FRAME_BYTES_MAX_CEILING || (size_t)bytes <= nearcall_request_bytes_max(e->handle);
}

/* By what its size is limited: "frame" or "value". */
static inline const char *core_request_unit(const core_encoder *e)
{
    return nearcall_request_bytes_max(e->handle) > NC_FRAME_BYTES_MAX_CEILING ? "value" : "frame";
}

/* Of what is larger than any request, and so is not even looked at: it has so many of these things. */
int core_refuse_size(core_encoder *e, const core_place *at, Py_ssize_t count, const char *things);

/* Called before code runs that is the value's own, and now and then in what is large: fails when the deadline
 * has passed, or when what was written does not fit a request in any case. Handlers of signals run here, and so
 * any code of the program's: what it may change is held before. */
int core_encoder_look(core_encoder *e);

/* The same where nothing may change: handlers wait for the next look. */
int core_encoder_check(core_encoder *e);

/* Whether the deadline has passed, for a fraction of that price. */
int core_encoder_is_late(core_encoder *e);

/* Values cost time whether or not they take bytes. So all that is done for them is counted, in units of some
 * nanoseconds: a value that is visited, a slot of a dict, a class that is asked, a few bytes of text; and after so
 * much of it comes a look. Every loop over what a program gave counts. */
#define CORE_WORK_BETWEEN_LOOKS 16384
#define CORE_TEXT_BYTES_PER_UNIT 16

static inline void core_encoder_charge(core_encoder *e, Py_ssize_t units)
{
    e->work += (size_t)units;
}

static inline int core_encoder_is_due(const core_encoder *e)
{
    return e->work >= CORE_WORK_BETWEEN_LOOKS;
}

/* Within a walk of what may not change. */
static inline int core_encoder_keep_on(core_encoder *e)
{
    return e->work - e->checked >= CORE_WORK_BETWEEN_LOOKS ? core_encoder_check(e) : 0;
}

/* Before one value of those that are walked; what they are in is held. */
static inline int core_encoder_next(core_encoder *e)
{
    int r = core_encoder_is_due(e) ? core_encoder_look(e) : 0;

    core_encoder_charge(e, 1);
    return r;
}

/* Whether the class was made in Python, so that what its methods raise may be code's of the program. */
int core_encoder_is_of_python(PyObject *value);

/* 0 also with an exception set: the value's own code, asked for the attribute, raised another than AttributeError. */
int core_encoder_has(PyObject *value, const char *name);

/* The same for one that can be called: what is no method may have its name. */
int core_encoder_has_method(PyObject *value, const char *name);

/* Whether a dict, list or tuple gives those who ask it what lies in it: a subclass may have code of its own for that,
 * which is another keys() or __getitem__, or another __iter__. */
int core_encoder_lies_in_dict(core_encoder *e, PyObject *dict);
int core_encoder_lies_in_list(PyObject *list);
int core_encoder_has_own_keys(core_encoder *e, PyObject *dict);

/* What lies in a slot or a named tuple by that name; NULL, without an exception: nothing, or it is to be asked for.
 * New reference. */
PyObject *core_encoder_held(core_encoder *e, PyObject *value, PyObject *name);

/* The values of what is a row as SQLAlchemy's are; likewise. */
PyObject *core_encoder_row(core_encoder *e, PyObject *value);

/* What is walked where it lies. */
static inline int core_encoder_is_dict(core_encoder *e, PyObject *value)
{
    return PyDict_CheckExact(value) || (PyDict_Check(value) && core_encoder_lies_in_dict(e, value));
}

static inline int core_encoder_is_list(PyObject *value)
{
    return PyList_CheckExact(value) || PyTuple_CheckExact(value)
           || ((PyList_Check(value) || PyTuple_Check(value)) && core_encoder_lies_in_list(value));
}

/* A walk over a dict, which ends when all was seen that it had: the table of one that was larger keeps its size.
 * Each slot is charged. What is given is borrowed. */
typedef struct core_walk {
    PyObject *dict;
    Py_ssize_t position;
    Py_ssize_t left;
} core_walk;

static inline core_walk core_walk_of(PyObject *dict)
{
    return (core_walk){.dict = dict, .left = PyDict_Size(dict)};
}

static inline int core_walk_next(core_encoder *e, core_walk *walk, PyObject **key, PyObject **value)
{
    Py_ssize_t former = walk->position;

    if (walk->left <= 0 || !PyDict_Next(walk->dict, &walk->position, key, value))
        return 0;
    walk->left--;
    core_encoder_charge(e, walk->position - former);
    return 1;
}

/* What a list or dict has now, taken in one go: code that runs later may change it. Giving much of it back takes
 * time, too, which the encoder keeps of the call's. */
typedef struct core_items {
    PyObject **items; /* references; NULL for those that were given back */
    Py_ssize_t count; /* of a dict two for each pair: the key, and the value behind it */
} core_items;

/* Failing, they have taken nothing. Those of the list from a place on, up to another. */
int core_items_of_list(core_encoder *e, core_items *items, PyObject *list, Py_ssize_t first, Py_ssize_t end);
int core_items_of_dict(core_encoder *e, core_items *items, PyObject *dict);
/* One of them, for the caller to drop. */
PyObject *core_items_pop(core_encoder *e, core_items *items, Py_ssize_t place);
void core_items_drop(core_encoder *e, core_items *items);

/* The list that an iterable gives, and the dict of a mapping that is none, for a parameter of the
 * node's type; bounded by what fits a frame. New references. Each is asked once, however often the
 * call is encoded: it gives then what it gave at first, or raises what it raised. A list that is cut ends with
 * a value that is refused; where it fits another description, the iterable is asked for the rest. */
PyObject *core_encoder_collect(core_encoder *e, const core_node *node, PyObject *iterable, int *ret_is_cut);
PyObject *core_encoder_collect_pairs(core_encoder *e, const core_node *node, PyObject *mapping);

/* What an empty container or object counts: it takes next to nothing of a frame, and memory until that is full. */
#define CORE_EMPTY_BYTES 16

/* Adds what a value takes of a frame at least, as far as that can be told without running code of
 * its own, and fails with an exception when there is no such frame. NULL for the node is any. 1: it can never fit. */
int core_encoder_measure(core_encoder *e, const core_node *node, PyObject *value, int64_t *bytes);

/* Writes a str. */
int core_put_text(core_encoder *e, const core_node *node, PyObject *text, const core_place *at);

/* NULL: the struct has none of that name. */
const core_field *core_struct_field(core_encoder *e, const core_struct *structure, PyObject *name);

#endif
