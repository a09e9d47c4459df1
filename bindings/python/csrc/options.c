/* Options: what a program gives beside the arguments of a function. Each is refused by its name, before it is cut
 * to the form that the library takes. */
#include "core.h"

#include "limits_gen.h"

#include <math.h>
#include <string.h>

#define MILLISECONDS_PER_SECOND 1000

/* ---- Numbers ---- */

static int refuse_number(const core_number *number, PyObject *value)
{
    PyObject *shown = core_shown(number->state, value);

    if (shown != NULL)
        core_raise_format(number->state, NEARCALL_E_INVALID_ARGUMENT, NEARCALL_OUTCOME_NOT_EXECUTED,
                          "%s is %U; it is a whole number from %lu to %lu", number->name, shown,
                          (unsigned long)number->least, (unsigned long)number->most);
    Py_XDECREF(shown);
    return -1;
}

int core_number_from(core_number *number, PyObject *value)
{
    PyObject *integer;
    long long whole;
    int overflow;

    if (PyBool_Check(value) || !PyIndex_Check(value))
        return refuse_number(number, value);
    integer = PyNumber_Index(value);
    if (integer == NULL)
        return -1;
    whole = PyLong_AsLongLongAndOverflow(integer, &overflow);
    if (overflow != 0 || whole < number->least || whole > number->most)
        refuse_number(number, integer);
    Py_DECREF(integer);
    number->value = (uint32_t)whole;
    return PyErr_Occurred() ? -1 : 0;
}

int core_number_parse(PyObject *value, void *number)
{
    return core_number_from(number, value) == 0;
}

PyObject *core_whole_number(PyObject *module, PyObject *args)
{
    core_number number = {.state = PyModule_GetState(module)};
    PyObject *value;
    unsigned long long least, most;

    if (!PyArg_ParseTuple(args, "sOKK", &number.name, &value, &least, &most))
        return NULL;
    number.least = (uint32_t)least;
    number.most = (uint32_t)most;
    return core_number_from(&number, value) < 0 ? NULL : PyLong_FromUnsignedLong(number.value);
}

int core_users_from(core_state *state, PyObject *users, uint32_t **ret_users, uint32_t *ret_count)
{
    core_number user = {.state = state, .name = "a user's id", .most = UINT32_MAX};
    Py_ssize_t i, count = PyTuple_Size(users);
    uint32_t *numbers = PyMem_Calloc((size_t)count + 1, sizeof(*numbers));

    if (numbers == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    for (i = 0; i < count; i++) {
        if (core_number_from(&user, PyTuple_GetItem(users, i)) < 0) {
            PyMem_Free(numbers);
            return -1;
        }
        numbers[i] = user.value;
    }
    *ret_users = numbers;
    *ret_count = (uint32_t)count;
    return 0;
}

/* ---- Texts ---- */

const char *core_text_from(PyObject *value, const char *name)
{
    const char *text;
    Py_ssize_t bytes;

    if (!PyUnicode_Check(value)) {
        PyErr_Format(PyExc_TypeError, "%s is a str, not %R", name, (PyObject *)Py_TYPE(value));
        return NULL;
    }
    text = PyUnicode_AsUTF8AndSize(value, &bytes);
    if (text != NULL && strlen(text) != (size_t)bytes) {
        PyErr_Format(PyExc_ValueError, "%s has a NUL character, at which C would cut it: leave that out", name);
        return NULL;
    }
    return text;
}

int core_text_parse(PyObject *value, void *text)
{
    core_text *given = text;

    given->text = core_text_from(value, given->name);
    return given->text != NULL;
}

PyObject *core_exact_name(core_state *state, PyObject *name)
{
    if (!PyUnicode_Check(name)) {
        PyErr_SetString(PyExc_TypeError, "a function's name is a str");
        return NULL;
    }
    if (PyUnicode_GetLength(name) <= NC_FUNCTION_NAME_BYTES_MAX)
        return PyUnicode_FromObject(name);
    core_raise_format(state, NEARCALL_E_INVALID_ARGUMENT, NEARCALL_OUTCOME_NOT_EXECUTED,
                      "a function's name has 1 to %d bytes, and this one has %zd characters",
                      NC_FUNCTION_NAME_BYTES_MAX, PyUnicode_GetLength(name));
    return NULL;
}

PyObject *core_function_name(PyObject *module, PyObject *name)
{
    return core_exact_name(PyModule_GetState(module), name);
}

/* ---- Times ---- */

static int refuse_timeout(core_state *state, PyObject *seconds)
{
    PyObject *shown = core_shown(state, seconds);

    if (shown != NULL)
        core_raise_format(state, NEARCALL_E_INVALID_ARGUMENT, NEARCALL_OUTCOME_NOT_EXECUTED,
                          "a timeout is a positive number of seconds, got %U; math.inf waits without a limit", shown);
    Py_XDECREF(shown);
    return -1;
}

/* Infinity is what no clock of the library can count, too. */
static int seconds_from(core_state *state, PyObject *seconds, double *ret_value)
{
    double value;

    if (PyBool_Check(seconds) || !PyNumber_Check(seconds)) {
        PyObject *shown = core_shown(state, seconds);

        if (shown != NULL)
            PyErr_Format(PyExc_TypeError, "timeout is a number of seconds, or None, not %U%s", shown,
                         PyBool_Check(seconds) ? "; a function's own parameter of that name is given as timeout_=" : "");
        Py_XDECREF(shown);
        return -1;
    }
    value = PyFloat_AsDouble(seconds);
    if (value == -1.0 && PyErr_Occurred()) {
        if (!PyLong_Check(seconds) || !PyErr_ExceptionMatches(PyExc_OverflowError))
            return -1;
        PyErr_Clear();
        return refuse_timeout(state, seconds);
    }
    if (!(value > 0))
        return refuse_timeout(state, seconds);
    *ret_value = value < INT32_MAX ? value : INFINITY;
    return 0;
}

int core_timeout_ms(core_state *state, PyObject *seconds, int64_t default_ms,
                    int64_t *ret_timeout_ms)
{
    double value;

    if (seconds == NULL || seconds == Py_None) {
        *ret_timeout_ms = default_ms;
        return 0;
    }
    if (seconds_from(state, seconds, &value) < 0)
        return -1;
    *ret_timeout_ms = isinf(value) ? NEARCALL_NO_TIMEOUT : (int64_t)ceil(value * MILLISECONDS_PER_SECOND);
    return 0;
}

static int refuse_silence(core_state *state, PyObject *seconds)
{
    int is_number = !PyBool_Check(seconds) && PyNumber_Check(seconds);
    PyObject *shown = core_shown(state, seconds);

    if (shown != NULL && !is_number)
        PyErr_Format(PyExc_TypeError, "silence is a number of seconds, or None, not %U", shown);
    else if (shown != NULL)
        core_raise_format(state, NEARCALL_E_INVALID_ARGUMENT, NEARCALL_OUTCOME_NOT_EXECUTED,
                          "silence is %U; it is a positive and finite number of seconds, such as 2", shown);
    Py_XDECREF(shown);
    return -1;
}

/* 0 for None. The library says within which limits it is. */
static int silence_ms(core_state *state, PyObject *seconds, int64_t *ret_silence_ms)
{
    double value;

    *ret_silence_ms = 0;
    if (seconds == Py_None)
        return 0;
    if (PyBool_Check(seconds) || !PyNumber_Check(seconds))
        return refuse_silence(state, seconds);
    value = PyFloat_AsDouble(seconds);
    if (value == -1.0 && PyErr_Occurred()) {
        if (!PyErr_ExceptionMatches(PyExc_OverflowError))
            return -1;
        PyErr_Clear();
    }
    if (!(value > 0 && value < INT32_MAX))
        return refuse_silence(state, seconds);
    *ret_silence_ms = (int64_t)ceil(value * MILLISECONDS_PER_SECOND);
    return 0;
}

PyObject *core_seconds(PyObject *module, PyObject *seconds)
{
    double value;

    if (seconds == Py_None)
        return Py_NewRef(Py_None);
    return seconds_from(PyModule_GetState(module), seconds, &value) < 0 ? NULL : PyFloat_FromDouble(value);
}

/* ---- Client and AsyncClient ---- */

static int spin_flag(const char *spin, uint32_t *ret_flag)
{
    static const struct {
        const char *name;
        uint32_t flag;
    } spins[] = {{"auto", 0}, {"off", NEARCALL_SPIN_OFF}, {"dedicated", NEARCALL_SPIN_DEDICATED}};

    for (size_t i = 0; i < sizeof(spins) / sizeof(spins[0]); i++)
        if (strcmp(spin, spins[i].name) == 0) {
            *ret_flag = spins[i].flag;
            return 0;
        }
    PyErr_Format(PyExc_ValueError, "spin is 'auto', 'off' or 'dedicated', not '%.80s'", spin);
    return -1;
}

/* NULL for None. */
static int optional_text_parse(PyObject *value, void *text)
{
    return value == Py_None || core_text_parse(value, text);
}

enum { PLAIN_WARNED, PLAIN_REFUSED };

core_pool *core_pool_from_arguments(core_state *state, PyObject *args, uint32_t flags,
                                    int64_t *ret_timeout_ms)
{
    nearcall_options options = NEARCALL_OPTIONS_INIT;
    core_number attempts = {state, "attempts", 1, NC_ATTEMPTS_MAX_CEILING, 0};
    core_number frame_bytes_max = {state, "frame_bytes_max", 0, NC_FRAME_BYTES_MAX_CEILING, 0};
    core_number value_bytes_max = {state, "value_bytes_max", 0, NC_VALUE_BYTES_MAX_CEILING, 0};
    core_text address = {"address", NULL}, name = {"name", NULL}, spin_name = {"spin", NULL};
    int any_server_user, allow_abstract, shared_memory, block_signals;
    core_text authorities = {"tls_authorities", NULL}, certificate = {"tls_certificate", NULL};
    core_text key = {"tls_key", NULL}, server_name = {"tls_server_name", NULL};
    int plain; /* _options.py has what it may be */
    core_pool *pool;
    PyObject *timeout, *users, *silence;
    uint32_t spin;

    if (!PyArg_ParseTuple(args, "O&O&OO&O&O&O!pppO&p(O&O&O&O&)Oi", core_text_parse, &address, core_text_parse, &name, &timeout,
                          core_number_parse, &attempts, core_number_parse, &frame_bytes_max, core_number_parse,
                          &value_bytes_max, &PyTuple_Type, &users, &any_server_user, &allow_abstract, &shared_memory, core_text_parse, &spin_name,
                          &block_signals, optional_text_parse, &authorities, optional_text_parse, &certificate,
                          optional_text_parse, &key, optional_text_parse, &server_name, &silence, &plain)
        || spin_flag(spin_name.text, &spin) < 0)
        return NULL;
    if (core_timeout_ms(state, timeout, NEARCALL_NO_TIMEOUT, ret_timeout_ms) < 0
        || silence_ms(state, silence, &options.silence_ms) < 0)
        return NULL;
    options.name = name.text;
    options.tls_authorities = authorities.text;
    options.tls_certificate = certificate.text;
    options.tls_key = key.text;
    options.tls_server_name = server_name.text;
    options.attempts_max = attempts.value;
    options.frame_bytes_max = frame_bytes_max.value;
    options.value_bytes_max = value_bytes_max.value;
    options.flags = flags | (any_server_user ? NEARCALL_ANY_SERVER_USER : 0)
                    | (allow_abstract ? NEARCALL_ALLOW_ABSTRACT : 0)
                    | (shared_memory ? 0 : NEARCALL_NO_SHARED_MEMORY)
                    | (block_signals ? NEARCALL_BLOCK_SIGNALS : 0) | (plain == PLAIN_REFUSED ? NEARCALL_NO_PLAIN_TCP : 0) | spin;
    pool = core_pool_new(state, address.text, &options, users);
    if (pool != NULL)
        pool->warns_of_plain = plain == PLAIN_WARNED && strstr(pool->address, "tcp:") != NULL;
    return pool;
}
