/* Texts in their UTF-8 form. The interpreter keeps that with a text, and makes it in one go. For what is long that
 * takes much memory, and time that no deadline bounds: its parts are converted one after the other. */
#include "encode.h"

#include "limits_gen.h"

#include <string.h>

#define LONG_TEXT (1 << 20)  /* in characters */
#define PART_OF_TEXT (1 << 16)

typedef struct utf8 {
    char *data;
    Py_ssize_t bytes;
    Py_ssize_t room;
} utf8;

/* The call makes nothing that the collector counts, so no code of the program's runs. */
static int is_ascii(PyObject *text)
{
    PyObject *answer = PyObject_CallMethod((PyObject *)&PyUnicode_Type, "isascii", "O", text);
    int r = answer == NULL ? -1 : answer == Py_True;

    Py_XDECREF(answer);
    return r;
}

static int append(utf8 *all, const char *data, Py_ssize_t bytes)
{
    Py_ssize_t room = 2 * (all->bytes + bytes);
    char *larger;

    if (all->bytes + bytes > all->room) {
        larger = PyMem_Realloc(all->data, (size_t)room);
        if (larger == NULL) {
            PyErr_NoMemory();
            return -1;
        }
        all->data = larger;
        all->room = room;
    }
    memcpy(all->data + all->bytes, data, (size_t)bytes);
    all->bytes += bytes;
    return 0;
}

static int refuse_text(core_encoder *e, const core_node *node, PyObject *text, const core_place *at)
{
    return core_refuse_because(e, node, text, at, PyExc_UnicodeEncodeError, "the text has no UTF-8 form");
}

static int append_part(core_encoder *e, const core_node *node, PyObject *text, Py_ssize_t first, utf8 *all,
                       const core_place *at)
{
    PyObject *part;
    Py_ssize_t bytes;
    const char *data;
    int r = core_encoder_keep_on(e);

    if (r < 0 || (part = PyUnicode_Substring(text, first, first + PART_OF_TEXT)) == NULL)
        return -1;
    data = PyUnicode_AsUTF8AndSize(part, &bytes);
    if (data == NULL && PyErr_ExceptionMatches(PyExc_UnicodeEncodeError)) {
        PyErr_Clear();
        (void)PyUnicode_AsUTF8AndSize(text, &bytes); /* whose error says where in the text; it gets no further */
    }
    r = data == NULL ? refuse_text(e, node, text, at) : append(all, data, bytes);
    core_encoder_charge(e, PART_OF_TEXT / CORE_TEXT_BYTES_PER_UNIT);
    Py_DECREF(part);
    return r;
}

static int put_long_text(core_encoder *e, const core_node *node, PyObject *text, const core_place *at)
{
    Py_ssize_t first, characters = PyUnicode_GetLength(text);
    utf8 all = {NULL, 0, 0};
    int r = core_encoder_check(e);

    for (first = 0; r == 0 && first < characters; first += PART_OF_TEXT) {
        r = append_part(e, node, text, first, &all, at);
        if (r == 0 && !core_request_holds(e, all.bytes))
            r = core_refuse_size(e, at, all.bytes, "bytes of text");
    }
    if (r == 0)
        nearcall_put_string(e->handle, all.data, (size_t)all.bytes);
    PyMem_Free(all.data);
    return r;
}

/* UTF-8 never has fewer bytes than a text has characters. */
int core_put_text(core_encoder *e, const core_node *node, PyObject *text, const core_place *at)
{
    Py_ssize_t bytes, characters = PyUnicode_GetLength(text);
    const char *data;
    int ascii;

    if (!core_request_holds(e, characters))
        return core_refuse_size(e, at, characters, "characters");
    if (characters >= LONG_TEXT) {
        ascii = is_ascii(text);
        if (ascii <= 0)
            return ascii < 0 ? -1 : put_long_text(e, node, text, at);
    }
    data = PyUnicode_AsUTF8AndSize(text, &bytes);
    if (data == NULL)
        return refuse_text(e, node, text, at);
    core_encoder_charge(e, bytes / CORE_TEXT_BYTES_PER_UNIT);
    nearcall_put_string(e->handle, data, (size_t)bytes);
    return 0;
}
