/* Files and connections that came with a reply, as objects of Python's.
 *
 * Each descriptor has one owner at any time: this code, or an object that closes it. So it is not closed twice, and
 * not kept for ever, whatever fails: memory can run out between any two steps, and what runs as bytecode can be ended
 * by what a signal's handler raises. Files are made without any bytecode. */
#include "core.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

/* ---- Files ---- */

/* Whether a file blocks is for its owner to say, because the giver has closed its own descriptor: files of Python
 * block. Returns how it may be accessed, or -1 with an exception set. */
static int make_blocking(int fd)
{
    int flags = fcntl(fd, F_GETFL);

    if (flags < 0 || ((flags & O_NONBLOCK) != 0 && fcntl(fd, F_SETFL, flags & ~O_NONBLOCK) < 0)) {
        PyErr_SetFromErrno(PyExc_OSError);
        return -1;
    }
    return flags & O_ACCMODE;
}

/* One that has no place, such as a socket, is read and written without buffers. */
static PyObject *buffered_type(core_state *state, int fd, int access)
{
    if (access == O_RDONLY)
        return state->buffered_reader;
    if (access == O_WRONLY)
        return state->buffered_writer;
    return lseek(fd, 0, SEEK_CUR) < 0 ? NULL : state->buffered_random;
}

static const char *mode_of(int access)
{
    return access == O_RDONLY ? "rb" : access == O_WRONLY ? "wb" : "r+b";
}

/* Takes the raw file over, and closes it when it cannot be buffered. */
static PyObject *buffered(PyObject *type, PyObject *raw)
{
    PyObject *file = PyObject_CallFunctionObjArgs(type, raw, NULL), *error, *closed;

    if (file == NULL) {
        error = core_exception_take();
        closed = PyObject_CallMethod(raw, "close", NULL);
        Py_XDECREF(closed);
        core_exception_set(error);
    }
    Py_DECREF(raw);
    return file;
}

PyObject *core_file_to_python(core_state *state, int fd)
{
    int access = make_blocking(fd);
    PyObject *raw = NULL, *type;

    if (access >= 0)
        raw = PyObject_CallFunction(state->raw_file, "is", fd, mode_of(access));
    if (raw == NULL) {
        close(fd); /* one that was not made has not taken it */
        return NULL;
    }
    type = buffered_type(state, fd, access);
    return type == NULL ? raw : buffered(type, raw);
}

/* ---- Connections ---- */

/* After a failure: takes the descriptor back from a socket that has it already. One that does not give it back
 * closes it itself. */
static void close_unfilled(PyObject *socket, int fd)
{
    PyObject *number = PyObject_CallMethod(socket, "fileno", NULL), *given = NULL;
    int has_taken = number != NULL && PyLong_Check(number) && PyLong_AsLong(number) == fd;

    PyErr_Clear();
    if (has_taken)
        given = PyObject_CallMethod(socket, "detach", NULL);
    if (!has_taken || given != NULL)
        close(fd);
    Py_XDECREF(number);
    Py_XDECREF(given);
}

int core_socket_fill(PyObject *socket, PyObject *fill, int fd)
{
    PyObject *filled = PyObject_CallFunction(fill, "Oiiii", socket, -1, -1, -1, fd), *error;

    if (filled != NULL) {
        Py_DECREF(filled);
        return 0;
    }
    error = core_exception_take();
    close_unfilled(socket, fd);
    core_exception_set(error);
    return -1;
}

/* As socket.setdefaulttimeout() says. */
static int set_timeout(PyObject *module, PyObject *socket)
{
    PyObject *seconds = PyObject_CallMethod(module, "getdefaulttimeout", NULL);
    PyObject *done = seconds == NULL ? NULL : PyObject_CallMethod(socket, "settimeout", "O", seconds);

    Py_XDECREF(seconds);
    Py_XDECREF(done);
    return done == NULL ? -1 : 0;
}

/* It is made before it has the descriptor, so that it can be asked whether it has taken it. */
static PyObject *filled_socket(PyObject *module, PyObject *type, int fd)
{
    PyObject *fill = PyObject_GetAttrString(type, "__init__");
    PyObject *socket = fill == NULL ? NULL : PyObject_CallMethod(type, "__new__", "O", type);

    if (socket == NULL)
        close(fd);
    else if (core_socket_fill(socket, fill, fd) < 0 || set_timeout(module, socket) < 0)
        Py_CLEAR(socket);
    Py_XDECREF(fill);
    return socket;
}

/* The class is looked up each time: gevent and others put their own in its place. */
PyObject *core_connection_to_python(int fd)
{
    PyObject *module = PyImport_ImportModule("socket");
    PyObject *type = module == NULL ? NULL : PyObject_GetAttrString(module, "socket"), *socket = NULL;

    if (type == NULL)
        close(fd);
    else
        socket = filled_socket(module, type, fd);
    Py_XDECREF(module);
    Py_XDECREF(type);
    return socket;
}
