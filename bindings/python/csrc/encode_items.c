/* What a list or dict has, taken before code may run that changes it. The interpreter's own ways of copying are not
 * bounded by the deadline, and a collection that begins within them may change what they copy. */
#include "encode.h"

/* Fails also if giving so much back takes more time than the call has. */
static int make_room(core_encoder *e, core_items *items, Py_ssize_t count)
{
    *items = (core_items){NULL, 0};
    e->copied += count;
    if (count < CORE_WORK_BETWEEN_LOOKS || core_encoder_check(e) == 0) {
        items->items = PyMem_Malloc(((size_t)count + 1) * sizeof(*items->items));
        if (items->items != NULL)
            return 0;
        PyErr_NoMemory();
    }
    e->copied -= count;
    return -1;
}

/* All that there was room for was taken; otherwise what was is given back. */
static int settle(core_encoder *e, core_items *items, Py_ssize_t count, int r)
{
    e->copied -= count - items->count;
    if (r < 0)
        core_items_drop(e, items);
    return r;
}

int core_items_of_list(core_encoder *e, core_items *items, PyObject *list, Py_ssize_t first, Py_ssize_t end)
{
    PyObject *item;
    int r = make_room(e, items, end - first);

    if (r < 0)
        return -1;
    while (r == 0 && first + items->count < end) {
        item = PyList_GetItem(list, first + items->count);
        if (item != NULL)
            items->items[items->count++] = Py_NewRef(item);
        core_encoder_charge(e, 1);
        r = item == NULL ? -1 : core_encoder_keep_on(e);
    }
    return settle(e, items, end - first, r);
}

int core_items_of_dict(core_encoder *e, core_items *items, PyObject *dict)
{
    core_walk walk = core_walk_of(dict);
    Py_ssize_t count = 2 * walk.left;
    PyObject *key, *value;
    int r;

    if (count < 0 || (r = make_room(e, items, count)) < 0)
        return -1;
    while (r == 0 && core_walk_next(e, &walk, &key, &value)) {
        items->items[items->count++] = Py_NewRef(key);
        items->items[items->count++] = Py_NewRef(value);
        r = core_encoder_keep_on(e);
    }
    return settle(e, items, count, r);
}

PyObject *core_items_pop(core_encoder *e, core_items *items, Py_ssize_t place)
{
    PyObject *item = items->items[place];

    items->items[place] = NULL;
    e->copied--;
    return item;
}

void core_items_drop(core_encoder *e, core_items *items)
{
    Py_ssize_t i;

    for (i = 0; i < items->count; i++) {
        e->copied -= items->items[i] != NULL;
        Py_XDECREF(items->items[i]);
    }
    PyMem_Free(items->items);
    *items = (core_items){NULL, 0};
}
