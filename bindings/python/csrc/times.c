/* datetime and timedelta. The C interface of datetime is no part of the stable
 * ABI, so these go through its Python interface. */
#include "core.h"

#include <math.h>

#define SECONDS_PER_DAY INT64_C(86400)
#define NANOSECONDS_PER_MICROSECOND INT64_C(1000)
#define MICROSECONDS_PER_SECOND INT64_C(1000000)
#define NANOSECONDS_PER_SECOND INT64_C(1000000000)
/* More than a duration has, and few enough for an integer. */
#define SECONDS_BOUND 1e10
/* Python's arithmetic takes numbers below it as small. */
#define SMALL_SECONDS (INT64_C(1) << 30)
/* In the year 5000, from where all moments that a duration reaches have a year. */
#define MIDDLE_SECONDS INT64_C(95617584000)

/* What timedelta itself has there: its subclasses make something else of these names. */
static int part_of(PyObject *delta, PyObject *descriptor, int64_t *ret_value)
{
    PyObject *value = core_described(descriptor, delta);

    if (value == NULL)
        return -1;
    *ret_value = PyLong_AsLongLong(value);
    Py_DECREF(value);
    return *ret_value == -1 && PyErr_Occurred() ? -1 : 0;
}

/* What a library's own class has beyond microseconds: 1 with both parts; 0: it has no more than timedelta. */
static int split_finer(core_state *state, PyObject *delta, int64_t *ret_seconds, int64_t *ret_nanoseconds)
{
    PyObject *pair = PyObject_CallFunctionObjArgs(state->finer_of, delta, NULL);
    long long seconds, nanoseconds;
    int r = -1;

    if (pair == Py_None)
        r = 0;
    else if (pair != NULL && PyArg_ParseTuple(pair, "LL", &seconds, &nanoseconds)) {
        *ret_seconds = seconds;
        *ret_nanoseconds = nanoseconds;
        r = 1;
    }
    Py_XDECREF(pair);
    return r;
}

/* Seconds, and nanoseconds that are never negative, of what has the class truly: a moment that is
 * none, as pandas' NaT, leaves a difference that is none. */
static int split_timedelta(core_state *state, PyObject *delta, int64_t *ret_seconds,
                           int64_t *ret_nanoseconds)
{
    int64_t days, seconds, microseconds;
    int r;

    if (!PyObject_TypeCheck(delta, (PyTypeObject *)state->timedelta_type)) {
        PyErr_SetNone(state->refusal);
        return -1;
    }
    if (!Py_IS_TYPE(delta, (PyTypeObject *)state->timedelta_type)) {
        r = split_finer(state, delta, ret_seconds, ret_nanoseconds);
        if (r != 0)
            return r < 0 ? -1 : 0;
    }
    if (part_of(delta, state->days_of, &days) < 0 || part_of(delta, state->seconds_of, &seconds) < 0
        || part_of(delta, state->microseconds_of, &microseconds) < 0)
        return -1;
    *ret_seconds = days * SECONDS_PER_DAY + seconds;
    *ret_nanoseconds = microseconds * NANOSECONDS_PER_MICROSECOND;
    return 0;
}

/* In numbers that are small; see core_time_to_python(). Of more seconds Python would make larger ones. */
static PyObject *make_timedelta(core_state *state, int64_t seconds, int64_t microseconds)
{
    return PyObject_CallFunction(state->timedelta_type, "iLL", 0, (long long)seconds,
                                 (long long)microseconds);
}

/* A TypeError is that of a moment without a time zone, or with one that does not know the
 * time; or the time zone's own code has raised it, and stays. */
static void refuse_naive(core_state *state, PyObject *moment)
{
    PyObject *error, *offset;

    if (!PyErr_ExceptionMatches(PyExc_TypeError))
        return;
    error = core_exception_take();
    offset = PyObject_CallMethod(moment, "utcoffset", NULL);
    if (offset == Py_None)
        PyErr_SetNone(state->refusal);
    else if (offset != NULL)
        core_exception_set(Py_NewRef(error));
    Py_XDECREF(offset);
    Py_DECREF(error);
}

int core_time_from_python(core_state *state, PyObject *value, int64_t *ret_seconds,
                          uint32_t *ret_nanoseconds)
{
    int is_time = PyObject_IsInstance(value, state->datetime_type);
    PyObject *since_epoch;
    int64_t nanoseconds;
    int r;

    if (is_time <= 0) {
        if (is_time == 0)
            PyErr_SetNone(state->refusal);
        return -1;
    }
    since_epoch = PyNumber_Subtract(value, state->epoch);
    if (since_epoch == NULL) {
        refuse_naive(state, value);
        return -1;
    }
    r = split_timedelta(state, since_epoch, ret_seconds, &nanoseconds);
    Py_DECREF(since_epoch);
    if (r == 0)
        *ret_nanoseconds = (uint32_t)nanoseconds;
    return r;
}

/* Of days since 1970, in years that begin with March, so that leap days come last. */
static void date_of(int64_t days, int64_t *ret_year, int *ret_month, int *ret_day)
{
    int64_t since = days + 719468, cycle = (since >= 0 ? since : since - 146096) / 146097;
    int64_t day = since - cycle * 146097;
    int64_t year = (day - day / 1460 + day / 36524 - day / 146096) / 365;
    int day_of_year = (int)(day - (365 * year + year / 4 - year / 100));
    int month = (5 * day_of_year + 2) / 153;

    *ret_day = day_of_year - (153 * month + 2) / 5 + 1;
    *ret_month = month < 10 ? month + 3 : month - 9;
    *ret_year = year + cycle * 400 + (*ret_month <= 2);
}

static PyObject *beyond_years(core_state *state, int64_t seconds, int64_t microseconds)
{
    PyObject *since_epoch = make_timedelta(state, seconds, microseconds), *moment;

    if (since_epoch == NULL)
        return NULL;
    moment = PyNumber_Add(state->epoch, since_epoch);
    Py_DECREF(since_epoch);
    return moment;
}

/* From numbers that are small: Python runs handlers of signals within the arithmetic of larger ones,
 * and what they raise would be taken for a value that cannot be made. */
PyObject *core_time_to_python(core_state *state, int64_t seconds, uint32_t nanoseconds)
{
    int microseconds = (int)(nanoseconds / NANOSECONDS_PER_MICROSECOND), month, day, second;
    int64_t days = seconds / SECONDS_PER_DAY, year;
    PyObject *zone, *moment;

    if (seconds < days * SECONDS_PER_DAY)
        days--;
    second = (int)(seconds - days * SECONDS_PER_DAY);
    date_of(days, &year, &month, &day);
    if (year < 1 || year > 9999)
        return beyond_years(state, seconds, microseconds); /* which says so */
    zone = PyObject_GetAttrString(state->epoch, "tzinfo");
    if (zone == NULL)
        return NULL;
    moment = PyObject_CallFunction(state->datetime_type, "iiiiiiiO", (int)year, month, day, second / 3600,
                                   second / 60 % 60, second % 60, microseconds, zone);
    Py_DECREF(zone);
    return moment;
}

/* The difference of two moments, which Python makes of the days and seconds between them. */
static PyObject *make_long_timedelta(core_state *state, int64_t seconds, int64_t microseconds)
{
    PyObject *from = core_time_to_python(state, MIDDLE_SECONDS, 0), *to = NULL, *delta = NULL;

    if (from != NULL)
        to = core_time_to_python(state, MIDDLE_SECONDS + seconds,
                                 (uint32_t)(microseconds * NANOSECONDS_PER_MICROSECOND));
    if (to != NULL)
        delta = PyNumber_Subtract(to, from);
    Py_XDECREF(from);
    Py_XDECREF(to);
    return delta;
}

/* Both parts must have the same sign: then the sum fits wherever it is in range. */
static int put_together(core_state *state, int64_t seconds, int64_t rest, int64_t *ret_nanoseconds)
{
    int64_t nanoseconds;

    if (__builtin_mul_overflow(seconds, NANOSECONDS_PER_SECOND, &nanoseconds)
        || __builtin_add_overflow(nanoseconds, rest, ret_nanoseconds)) {
        PyErr_SetNone(state->refusal);
        return -1;
    }
    return 0;
}

/* The nearest nanosecond: the whole seconds of a float are exact, and so is what is left of it, but not
 * the product of all of it. */
static int duration_from_seconds(core_state *state, double seconds, int64_t *ret_nanoseconds)
{
    double whole = trunc(seconds);

    if (!(whole >= -SECONDS_BOUND && whole <= SECONDS_BOUND)) {
        PyErr_SetNone(state->refusal);
        return -1;
    }
    return put_together(state, (int64_t)whole, llrint((seconds - whole) * (double)NANOSECONDS_PER_SECOND),
                        ret_nanoseconds);
}

static int duration_from_timedelta(core_state *state, PyObject *value, int64_t *ret_nanoseconds)
{
    int64_t seconds, rest;

    if (split_timedelta(state, value, &seconds, &rest) < 0)
        return -1;
    if (seconds < 0) {
        seconds++;
        rest -= NANOSECONDS_PER_SECOND;
    }
    return put_together(state, seconds, rest, ret_nanoseconds);
}

/* Whole seconds, or nanoseconds where one is one of them. */
static int duration_from_integer(core_state *state, PyObject *value, int64_t one, int64_t *ret_nanoseconds)
{
    int overflow;
    long long whole = PyLong_AsLongLongAndOverflow(value, &overflow);

    if (whole == -1 && PyErr_Occurred())
        return -1;
    if (overflow || __builtin_mul_overflow(whole, one, ret_nanoseconds)) {
        PyErr_SetNone(state->refusal);
        return -1;
    }
    return 0;
}

static int duration_from_number(core_state *state, PyObject *value, int64_t *ret_nanoseconds)
{
    PyObject *number = PyObject_CallFunctionObjArgs(state->seconds_of_number, value, NULL);
    int r = -1;

    if (number != NULL && PyLong_Check(number))
        r = duration_from_integer(state, number, 1, ret_nanoseconds);
    else if (number != NULL)
        r = duration_from_seconds(state, PyFloat_AsDouble(number), ret_nanoseconds);
    Py_XDECREF(number);
    return r;
}

/* One that only says that it is a timedelta, as a proxy does, becomes one where it is added. */
static int duration_from_proxy(core_state *state, PyObject *value, int64_t *ret_nanoseconds)
{
    PyObject *zero = make_timedelta(state, 0, 0);
    PyObject *delta = zero == NULL ? NULL : PyNumber_Add(value, zero);
    int r = delta == NULL ? -1 : duration_from_timedelta(state, delta, ret_nanoseconds);

    Py_XDECREF(zero);
    Py_XDECREF(delta);
    return r;
}

int core_duration_from_python(core_state *state, PyObject *value, int64_t *ret_nanoseconds)
{
    int is_delta;

    if (PyObject_TypeCheck(value, (PyTypeObject *)state->timedelta_type))
        return duration_from_timedelta(state, value, ret_nanoseconds);
    is_delta = PyObject_IsInstance(value, state->timedelta_type);
    if (is_delta < 0)
        return -1;
    if (is_delta)
        return duration_from_proxy(state, value, ret_nanoseconds);
    if (PyFloat_Check(value))
        return duration_from_seconds(state, PyFloat_AsDouble(value), ret_nanoseconds);
    if (PyLong_Check(value))
        return duration_from_integer(state, value, NANOSECONDS_PER_SECOND, ret_nanoseconds);
    return duration_from_number(state, value, ret_nanoseconds);
}

PyObject *core_duration_to_python(core_state *state, int64_t nanoseconds)
{
    int64_t seconds = nanoseconds / NANOSECONDS_PER_SECOND;
    int64_t microseconds = nanoseconds % NANOSECONDS_PER_SECOND / NANOSECONDS_PER_MICROSECOND;

    if (seconds > -SMALL_SECONDS && seconds < SMALL_SECONDS)
        return make_timedelta(state, seconds, microseconds);
    if (microseconds < 0) {
        seconds--;
        microseconds += MICROSECONDS_PER_SECOND;
    }
    return make_long_timedelta(state, seconds, microseconds);
}
