/* Numbers and times that are written as text, without a detour through floating point. */
#include "encode.h"

#include <float.h>
#include <math.h>

/* ---- Whole numbers in decimal ---- */

/* Under `use locale` perl also takes what the locale has for a point, as a comma, which may have
 * several bytes. In what perl has found to be a number nothing else is left. */
static bool is_point(char c)
{
    return !isDIGIT(c) && !isSPACE(c) && c != 'e' && c != 'E';
}

typedef struct decimal {
    const char *text; /* the digits, and at most one point among them */
    const char *end;
    IV whole_digits;  /* so many are before the point, once the exponent has moved it */
} decimal;

/* Perl has found that the text is a number, and no infinity. */
static decimal decimal_of(const char *text, const char *end)
{
    static const IV exponent_limit = 100000000; /* no text that is read has as many digits */
    decimal result = { .end = end };
    IV exponent = 0;
    bool is_small = false, behind_point = false;

    while (text < end && (isSPACE(*text) || *text == '+' || *text == '-'))
        text++;
    for (result.text = text; text < end && (isDIGIT(*text) || is_point(*text)); text++) {
        behind_point = behind_point || is_point(*text);
        result.whole_digits += !behind_point;
    }
    result.end = text;
    if (text < end && (*text == 'e' || *text == 'E')) {
        is_small = *++text == '-';
        for (text += *text == '-' || *text == '+'; text < end && isDIGIT(*text); text++)
            exponent = exponent < exponent_limit ? exponent * 10 + (*text - '0') : exponent;
        result.whole_digits += is_small ? -exponent : exponent;
    }
    return result;
}

static bool append_digit(UV *magnitude, UV digit)
{
    if (*magnitude > (UV_MAX - digit) / 10)
        return false;
    *magnitude = *magnitude * 10 + digit;
    return true;
}

bool ncp_whole_of_decimal(const char *text, STRLEN bytes, UV *ret_magnitude)
{
    decimal number = decimal_of(text, text + bytes);
    UV magnitude = 0;
    IV left = number.whole_digits;

    for (text = number.text; text < number.end; text++) {
        if (is_point(*text))
            continue;
        if (left-- > 0 ? !append_digit(&magnitude, (UV)(*text - '0')) : *text != '0')
            return false;
    }
    for (; left > 0 && magnitude != 0; left--)
        if (!append_digit(&magnitude, 0))
            return false;
    *ret_magnitude = magnitude;
    return true;
}

/* ---- Decimal numbers that floating point has not ---- */

/* So that the first digit is not zero; a number of zeros has none. */
static void skip_zeros(decimal *number)
{
    for (; number->text < number->end && (*number->text == '0' || is_point(*number->text)); number->text++)
        number->whole_digits -= *number->text == '0';
}

static char next_digit(decimal *number)
{
    while (number->text < number->end && is_point(*number->text))
        number->text++;
    return number->text < number->end ? *number->text++ : '0';
}

static bool is_same(decimal a, decimal b)
{
    skip_zeros(&a);
    skip_zeros(&b);
    if (a.text == a.end || b.text == b.end)
        return a.text == a.end && b.text == b.end;
    if (a.whole_digits != b.whole_digits)
        return false;
    while (a.text < a.end || b.text < b.end)
        if (next_digit(&a) != next_digit(&b))
            return false;
    return true;
}

/* The shortest text that reads as the number; below DBL_MIN it can be shorter than DBL_DIG. */
bool ncp_has_lost_digits(pTHX_ const char *text, STRLEN bytes, NV number)
{
    char written[32];
    int precision = fabs(number) < DBL_MIN ? 1 : DBL_DIG;

    if (bytes <= DBL_DIG && precision == DBL_DIG)
        return false;
    do
        (void)snprintf(written, sizeof(written), "%.*e", precision - 1, (double)number);
    while (my_atof(written) != number && precision++ < DBL_DIG + 2);
    return !is_same(decimal_of(text, text + bytes), decimal_of(written, written + strlen(written)));
}

/* ---- Times of RFC 3339 ---- */

/* Reads exactly so many digits; false, or a number within its bounds. */
static bool digits(const char **text, int count, int min, int max, int *ret_number)
{
    int number = 0;

    for (; count > 0; count--, (*text)++) {
        if (!isDIGIT(**text))
            return false;
        number = number * 10 + (**text - '0');
    }
    *ret_number = number;
    return number >= min && number <= max;
}

static bool separator(const char **text, char wanted)
{
    return *(*text)++ == wanted;
}

static int days_of_month(int year, int month)
{
    static const int days[] = { 31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31 };
    bool is_leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);

    return days[month - 1] + (month == 2 && is_leap);
}

/* Days since 1970, in years that begin with March, so that leap days come last. */
static int64_t days_since_epoch(int year, int month, int day)
{
    int64_t years = year - (month <= 2);
    int64_t day_of_year = (153 * (month + (month > 2 ? -3 : 9)) + 2) / 5 + day - 1;

    return years * 365 + years / 4 - years / 100 + years / 400 + day_of_year - 719468;
}

static bool read_date(const char **text, int64_t *ret_days)
{
    int year, month, day;

    if (!digits(text, 4, 0, 9999, &year) || !separator(text, '-')
        || !digits(text, 2, 1, 12, &month) || !separator(text, '-')
        || !digits(text, 2, 1, days_of_month(year, month), &day))
        return false;
    *ret_days = days_since_epoch(year, month, day);
    return year > 0;
}

/* Digits below a nanosecond would be lost, as those of no other text are. */
static bool read_fraction(const char **text, uint32_t *ret_nanoseconds)
{
    uint32_t unit = 100000000;

    *ret_nanoseconds = 0;
    if (**text != '.')
        return true;
    if (!isDIGIT(*++*text))
        return false;
    for (; isDIGIT(**text); (*text)++, unit /= 10) {
        if (unit == 0 && **text != '0')
            return false;
        *ret_nanoseconds += unit * (uint32_t)(**text - '0');
    }
    return true;
}

static bool read_offset(const char **text, int *ret_seconds)
{
    int hours, minutes;
    bool is_west = **text == '-';

    *ret_seconds = 0;
    if (**text == 'Z') {
        (*text)++;
        return true;
    }
    if (!is_west && **text != '+')
        return false;
    (*text)++;
    if (!digits(text, 2, 0, 23, &hours) || !separator(text, ':') || !digits(text, 2, 0, 59, &minutes))
        return false;
    *ret_seconds = (hours * 60 + minutes) * (is_west ? -60 : 60);
    return true;
}

/* Perl's strings end in NUL, at which every reader stops. */
bool ncp_time_of_text(const char *text, STRLEN bytes, int64_t *ret_seconds,
                      uint32_t *ret_nanoseconds)
{
    const char *end = text + bytes;
    int hour, minute, second, offset;
    int64_t days;

    if (!read_date(&text, &days) || !separator(&text, 'T')
        || !digits(&text, 2, 0, 23, &hour) || !separator(&text, ':')
        || !digits(&text, 2, 0, 59, &minute) || !separator(&text, ':')
        || !digits(&text, 2, 0, 59, &second)
        || !read_fraction(&text, ret_nanoseconds) || !read_offset(&text, &offset) || text != end)
        return false;
    *ret_seconds = days * 86400 + hour * 3600 + minute * 60 + second - offset;
    return true;
}
