/* Buffers whose elements are what a list holds: numpy's arrays, array.array, memoryviews. The library takes them as they
 * lie in memory, and no object is made of an element. */
#include "encode.h"

#include "limits_gen.h"

/* Whether only code in C answers what memory a value has. A class made in Python may mean something else by its
 * elements than what lies in its memory, as numpy's masked arrays do. */
static int is_plain_buffer(PyObject *value)
{
    unsigned long flags = PyType_GetFlags(Py_TYPE(value));

    return PyObject_CheckBuffer(value) && !PyBytes_Check(value) && !PyByteArray_Check(value)
           && (!(flags & Py_TPFLAGS_HEAPTYPE) || flags & Py_TPFLAGS_IMMUTABLETYPE);
}

static int element_of_width(Py_ssize_t bytes, int one, int two, int four, int eight)
{
    switch (bytes) {
    case 1: return one;
    case 2: return two;
    case 4: return four;
    case 8: return eight;
    default: return 0;
    }
}

/* What the elements are, by a format of module struct; 0: no numbers, or not in the byte order of this machine. */
static int element_of(const Py_buffer *view)
{
    const char *format = view->format == NULL ? "B" : view->format;

    if (*format == '@' || *format == '=' || *format == (PY_LITTLE_ENDIAN ? '<' : '>'))
        format++;
    if (format[0] == '\0' || format[1] != '\0')
        return 0;
    switch (*format) {
    case '?': return view->itemsize == 1 ? NEARCALL_ELEMENT_BOOL : 0;
    case 'f': return view->itemsize == 4 ? NEARCALL_ELEMENT_FLOAT32 : 0;
    case 'd': return view->itemsize == 8 ? NEARCALL_ELEMENT_FLOAT64 : 0;
    case 'b': case 'h': case 'i': case 'l': case 'q': case 'n':
        return element_of_width(view->itemsize, NEARCALL_ELEMENT_INT8, NEARCALL_ELEMENT_INT16,
                                NEARCALL_ELEMENT_INT32, NEARCALL_ELEMENT_INT64);
    case 'B': case 'H': case 'I': case 'L': case 'Q': case 'N':
        return element_of_width(view->itemsize, NEARCALL_ELEMENT_UINT8, NEARCALL_ELEMENT_UINT16,
                                NEARCALL_ELEMENT_UINT32, NEARCALL_ELEMENT_UINT64);
    default: return 0;
    }
}

/* Whether the buffer has as many dimensions as lists lie in each other, and the elements of the innermost. */
static int fits(const core_node *node, const Py_buffer *view)
{
    int dimension;

    if (view->ndim < 1 || view->shape == NULL)
        return 0;
    for (dimension = 1; dimension < view->ndim; dimension++) {
        node = node->element;
        if (node->kind != CORE_LIST)
            return 0;
    }
    return node->packed != 0 && node->element->kind != CORE_DURATION && node->packed == element_of(view);
}

/* Writes one dimension of memory without gaps, and moves on behind it. */
static int put_dimension(core_encoder *e, const Py_buffer *view, int dimension, const char **memory,
                         const core_place *at)
{
    Py_ssize_t i, count = view->shape[dimension];
    int r = 0;

    if (!core_request_holds(e, count))
        return core_refuse_size(e, at, count, "elements");
    if (dimension == view->ndim - 1) {
        nearcall_put_packed(e->handle, element_of(view), *memory, (size_t)count);
        *memory += count * view->itemsize;
        core_encoder_charge(e, 1 + count * view->itemsize / CORE_TEXT_BYTES_PER_UNIT);
        return core_encoder_is_due(e) ? core_encoder_look(e) : 0;
    }
    nearcall_put_array(e->handle, (uint32_t)count);
    for (i = 0; i < count && r == 0; i++)
        r = put_dimension(e, view, dimension + 1, memory, at);
    return r;
}

static int put_buffer(core_encoder *e, const Py_buffer *view, const core_place *at)
{
    const char *memory = view->buf;
    char *copy = NULL;
    int r = 0;

    /* Before it is copied: one that is broadcast may claim any size, and have the memory of one element. */
    if (!core_request_holds(e, view->len / view->itemsize))
        return core_refuse_size(e, at, view->len / view->itemsize, "elements");
    if (!PyBuffer_IsContiguous(view, 'C')) {
        copy = PyMem_Malloc((size_t)view->len + 1);
        if (copy == NULL) {
            PyErr_NoMemory();
            return -1;
        }
        r = PyBuffer_ToContiguous(copy, (Py_buffer *)view, view->len, 'C');
        memory = copy;
    }
    if (r == 0)
        r = put_dimension(e, view, 0, &memory, at);
    PyMem_Free(copy);
    return r;
}

int core_encode_buffer(core_encoder *e, const core_node *node, PyObject *value, const core_place *at)
{
    Py_buffer view;
    int r = CORE_NO_BUFFER;

    if (!is_plain_buffer(value))
        return CORE_NO_BUFFER;
    if (PyObject_GetBuffer(value, &view, PyBUF_RECORDS_RO) < 0) {
        PyErr_Clear(); /* it is an iterable, or refused as what it is */
        return CORE_NO_BUFFER;
    }
    if (fits(node, &view))
        r = put_buffer(e, &view, at);
    PyBuffer_Release(&view);
    return r;
}
