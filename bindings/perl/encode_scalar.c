/* Numbers, truth, times, characters and bytes into a request. */
#include "encode.h"

#include <float.h>
#include <math.h>

/* ---- Whole numbers ---- */

static bool whole_of_number(NV number, ncp_whole *ret_whole)
{
    static const NV limit = 18446744073709551616.0; /* 2 to the 64th */
    NV magnitude = fabs(number);

    if (!(magnitude < limit) || magnitude != floor(magnitude))
        return false;
    ret_whole->negative = number < 0;
    ret_whole->magnitude = (UV)magnitude;
    return true;
}

/* Text of more digits than a frame has bytes is not read as a number, nor as a time. */
static bool is_readable(STRLEN bytes)
{
    return bytes <= NC_FRAME_BYTES_MAX_CEILING;
}

static bool whole_of_text(pTHX_ const char *text, STRLEN bytes, ncp_whole *ret_whole)
{
    static const int inexact = IS_NUMBER_NOT_INT | IS_NUMBER_GREATER_THAN_UV_MAX;
    UV magnitude = 0;
    int found = is_readable(bytes) ? grok_number(text, bytes, &magnitude) : 0;

    if (!found || (found & (IS_NUMBER_INFINITY | IS_NUMBER_NAN)))
        return false;
    if ((!(found & IS_NUMBER_IN_UV) || (found & inexact))
        && !ncp_whole_of_decimal(text, bytes, &magnitude))
        return false;
    ret_whole->negative = (found & IS_NUMBER_NEG) != 0;
    ret_whole->magnitude = magnitude;
    return true;
}

/* Whether the text of a value counts. Using a text as a number leaves beside it what floating
 * point has of it. One that does not read as that number belongs to a number that was printed,
 * with fewer digits, or to two values in one: their number counts. */
static bool is_text(pTHX_ SV *value)
{
    if (LIKELY(!SvPOK(value)) || !SvNIOK(value))
        return cBOOL(SvPOK(value));
    return SvNOK(value) && is_readable(SvCUR(value)) && looks_like_number(value)
        && my_atof(SvPVX(value)) == SvNVX(value);
}

bool ncp_whole_of(pTHX_ SV *value, ncp_whole *ret_whole)
{
    if (is_text(aTHX_ value))
        return whole_of_text(aTHX_ SvPVX(value), SvCUR(value), ret_whole);
    if (SvIOK(value)) {
        IV number = SvIVX(value);
        ret_whole->negative = !SvIsUV(value) && number < 0;
        ret_whole->magnitude = ret_whole->negative ? (UV)0 - (UV)number : (UV)number;
        return true;
    }
    return SvNOK(value) && whole_of_number(SvNVX(value), ret_whole);
}

static bool fits(const ncp_type *type, const ncp_whole *number)
{
    if (number->negative)
        return number->magnitude <= (UV)0 - (UV)type->min;
    return number->magnitude <= type->max;
}

void ncp_put_whole(nearcall_client *client, const ncp_whole *number)
{
    if (number->negative)
        nearcall_put_int(client, (int64_t)((UV)0 - number->magnitude));
    else
        nearcall_put_uint(client, number->magnitude);
}

void ncp_encode_integer(pTHX_ ncp_encoder *e, const ncp_type *type, SV *value)
{
    ncp_whole number;
    SV *plain = ncp_unwrap(aTHX_ e, value);

    if (!ncp_whole_of(aTHX_ plain, &number) || !fits(type, &number))
        ncp_refuse(aTHX_ e, type, plain);
    ncp_put_whole(e->client, &number);
}

/* ---- Other numbers ---- */

static const NV whole_numbers_end = 9007199254740992.0; /* 2 to the 53rd: from there on some are missing */

/* A number that is only too large for floating point is not infinite. */
static bool is_overflow(pTHX_ SV *value, NV number)
{
    UV ignored;

    return Perl_isinf(number) && SvPOK(value)
        && (!is_readable(SvCUR(value))
            || !(grok_number(SvPVX(value), SvCUR(value), &ignored) & IS_NUMBER_INFINITY));
}

/* A whole number that lies between two of floating point has lost digits in one of them. */
static bool is_rounded(pTHX_ SV *value, NV number)
{
    ncp_whole whole, kept;

    return fabs(number) >= whole_numbers_end && (!SvNOK(value) || is_text(aTHX_ value))
        && ncp_whole_of(aTHX_ value, &whole)
        && !(whole_of_number(number, &kept) && kept.magnitude == whole.magnitude);
}

static bool number_of(pTHX_ SV *value, NV *ret_number)
{
    if (SvNOK(value))
        *ret_number = SvNVX(value);
    else if (SvIOK(value))
        *ret_number = SvIsUV(value) ? (NV)SvUVX(value) : (NV)SvIVX(value);
    else if (SvPOK(value) && is_readable(SvCUR(value)) && looks_like_number(value))
        *ret_number = my_atof(SvPVX(value));
    else
        return false;
    return !is_overflow(aTHX_ value, *ret_number) && !is_rounded(aTHX_ value, *ret_number);
}

static NV require_number(pTHX_ ncp_encoder *e, const ncp_type *type, SV *value)
{
    NV number = 0;
    SV *plain = ncp_unwrap(aTHX_ e, value);

    if (!number_of(aTHX_ plain, &number))
        ncp_refuse(aTHX_ e, type, plain);
    return number;
}

/* Whole numbers have been looked at already. */
static NV require_float(pTHX_ ncp_encoder *e, const ncp_type *type, SV *value)
{
    SV *plain = ncp_unwrap(aTHX_ e, value);
    NV number = require_number(aTHX_ e, type, plain);
    ncp_whole whole;

    if (is_text(aTHX_ plain) && !Perl_isinf(number) && !Perl_isnan(number)
        && ncp_has_lost_digits(aTHX_ SvPVX(plain), SvCUR(plain), number)
        && !ncp_whole_of(aTHX_ plain, &whole))
        ncp_refuse(aTHX_ e, type, plain);
    return number;
}

void ncp_encode_float32(pTHX_ ncp_encoder *e, const ncp_type *type, SV *value)
{
    NV number = require_float(aTHX_ e, type, value);

    if (!Perl_isinf(number) && fabs(number) > FLT_MAX)
        ncp_refuse(aTHX_ e, type, value);
    nearcall_put_float(e->client, (float)number);
}

void ncp_encode_float64(pTHX_ ncp_encoder *e, const ncp_type *type, SV *value)
{
    nearcall_put_double(e->client, require_float(aTHX_ e, type, value));
}

/* Truth that the value's own code may tell. */
static bool truth_of_object(pTHX_ ncp_encoder *e, const ncp_type *type, SV *value)
{
    if (!SvAMAGIC(value) || ncp_cannot_be(aTHX_ e, value, bool__amg))
        value = ncp_as_data(aTHX_ e, value);
    if (!SvROK(value) || !SvAMAGIC(value))
        return cBOOL(SvTRUE_nomg(value));
    if (ncp_cannot_be(aTHX_ e, value, bool__amg))
        ncp_refuse(aTHX_ e, type, value);
    return ncp_is_true(aTHX_ e, value);
}

void ncp_encode_bool(pTHX_ ncp_encoder *e, const ncp_type *type, SV *value)
{
    if (SvROK(value) && !SvOBJECT(SvRV(value)) && SvTYPE(SvRV(value)) < SVt_PVAV) {
        value = SvRV(value); /* \1 and \0, as JSON modules have it */
        (void)sv_2mortal(SvREFCNT_inc_simple_NN(value));
        value = ncp_fetched(aTHX_ e, value);
    }
    nearcall_put_bool(e->client, SvROK(value) ? truth_of_object(aTHX_ e, type, value)
                                              : SvTRUE_nomg(value));
}

/* ---- Time: seconds to nanoseconds ---- */

static const NV seconds_limit = 9223372036854775808.0; /* 2 to the 63rd */
static const NV durations_end = 1e10; /* more than one has, and few enough for an integer */
#define NANOSECONDS_PER_SECOND INT64_C(1000000000)

static void put_time(pTHX_ ncp_encoder *e, const ncp_type *type, SV *value, NV seconds, IV extra_ns)
{
    NV whole_seconds = floor(seconds);
    NV nanoseconds = floor((seconds - whole_seconds) * 1e9 + 0.5) + (NV)extra_ns;

    if (nanoseconds >= 1e9) {
        whole_seconds += 1;
        nanoseconds -= 1e9;
    }
    if (!(fabs(whole_seconds) < seconds_limit) || nanoseconds < 0 || nanoseconds >= 1e9)
        ncp_refuse(aTHX_ e, type, value);
    nearcall_put_time(e->client, (int64_t)whole_seconds, (uint32_t)nanoseconds);
}

/* Time::Piece, DateTime, Time::Moment and their like: whole seconds from epoch,
 * the fraction from nanosecond where there is one. */
static void encode_time_object(pTHX_ ncp_encoder *e, const ncp_type *type, SV *object)
{
    NV seconds = 0;
    NV nanoseconds = 0;

    if (!number_of(aTHX_ ncp_call_object(aTHX_ e, object, "epoch", NULL), &seconds))
        ncp_refuse(aTHX_ e, type, object);
    if (ncp_object_can(aTHX_ e, object, "nanosecond")) {
        if (!number_of(aTHX_ ncp_call_object(aTHX_ e, object, "nanosecond", NULL), &nanoseconds))
            ncp_refuse(aTHX_ e, type, object);
        seconds = floor(seconds);
    }
    put_time(aTHX_ e, type, object, seconds, (IV)nanoseconds);
}

static void encode_time_value(pTHX_ ncp_encoder *e, const ncp_type *type, SV *value)
{
    int64_t seconds;
    uint32_t nanoseconds;

    if (SvPOK(value) && is_readable(SvCUR(value))
        && ncp_time_of_text(SvPVX(value), SvCUR(value), &seconds, &nanoseconds))
        nearcall_put_time(e->client, seconds, nanoseconds);
    else
        put_time(aTHX_ e, type, value, require_number(aTHX_ e, type, value), 0);
}

void ncp_encode_time(pTHX_ ncp_encoder *e, const ncp_type *type, SV *value)
{
    if (ncp_object_can(aTHX_ e, value, "epoch"))
        encode_time_object(aTHX_ e, type, value);
    else
        encode_time_value(aTHX_ e, type, ncp_unwrap(aTHX_ e, value));
}

void ncp_encode_duration(pTHX_ ncp_encoder *e, const ncp_type *type, SV *value)
{
    NV seconds = require_number(aTHX_ e, type, value);
    NV whole = trunc(seconds);
    int64_t nanoseconds;

    /* Whole seconds are exact, and so is what is left of them, but not the product of all of it. */
    if (!(fabs(whole) < durations_end)
        || __builtin_mul_overflow((int64_t)whole, NANOSECONDS_PER_SECOND, &nanoseconds)
        || __builtin_add_overflow(nanoseconds, llrint((double)(seconds - whole) * 1e9), &nanoseconds))
        ncp_refuse(aTHX_ e, type, value);
    nearcall_put_int(e->client, nanoseconds);
}

/* ---- Characters and bytes ---- */

/* Numbers are printed in a copy, because the caller's keep their flags. There may be millions of them. */
static void encode_printed(pTHX_ ncp_encoder *e, const ncp_type *type, SV *number,
                           void (*encode)(pTHX_ ncp_encoder *e, const ncp_type *type, SV *text))
{
    SV *text;

    if (!SvNIOK(number) || SvROK(number))
        ncp_refuse(aTHX_ e, type, number);
    ENTER;
    SAVETMPS;
    text = ncp_mortal_copy(aTHX_ number);
    (void)SvPV_force_nomg_nolen(text);
    encode(aTHX_ e, type, text);
    FREETMPS;
    LEAVE;
}

bool ncp_put_characters(pTHX_ nearcall_client *client, const SV *text)
{
    const char *start = SvPVX_const(text);
    STRLEN bytes = SvCUR(text);
    bool wide = cBOOL(SvUTF8(text));
    bool fits = ncp_fits_bytes(client, bytes); /* else it is refused for that, unread */
    U8 *widened;

    if (fits && wide && !ncp_is_unicode((const U8 *)start, bytes))
        return false;
    if (!fits || wide || ncp_is_ascii((const U8 *)start, bytes)) {
        nearcall_put_string(client, start, bytes);
        return true;
    }
    widened = bytes_to_utf8((const U8 *)start, &bytes);
    nearcall_put_string(client, (const char *)widened, bytes);
    Safefree(widened);
    return true;
}

/* What fits no request is refused for that, unread. */
static bool is_large_and_fits(const ncp_encoder *e, const SV *text)
{
    return SvCUR(text) >= NCP_LARGE_BYTES && ncp_fits_bytes(e->client, SvCUR(text) / (SvUTF8(text) ? 2 : 1));
}

void ncp_encode_string(pTHX_ ncp_encoder *e, const ncp_type *type, SV *value)
{
    SV *text = ncp_unwrap(aTHX_ e, value);

    if (UNLIKELY(!SvPOK(text)))
        encode_printed(aTHX_ e, type, text, ncp_encode_string);
    else if (UNLIKELY(is_large_and_fits(e, text)) ? !ncp_put_large_characters(aTHX_ e, text)
                                                  : !ncp_put_characters(aTHX_ e->client, text))
        ncp_refuse_because(aTHX_ e, "the string holds a code point that is not Unicode text, "
                                "as a lone surrogate");
}

static void refuse_wide(pTHX_ const ncp_encoder *e)
{
    ncp_refuse_because(aTHX_ e, "expected bytes, got a string with a character above 255; "
                            "encode it first");
}

/* Of a scalar with SvPOK. */
static void put_octets(pTHX_ ncp_encoder *e, const SV *text)
{
    void (*put)(nearcall_client *client, const void *data, size_t bytes) =
        e->plan->raw ? nearcall_put_raw : nearcall_put_bytes;
    STRLEN bytes = SvCUR(text);
    const U8 *narrowed;
    bool wide = true;

    if (UNLIKELY(is_large_and_fits(e, text))) {
        if (!ncp_put_large_octets(aTHX_ e, text))
            refuse_wide(aTHX_ e);
        return;
    }
    /* As bytes it has half of its length at least: what is refused for that is not read. */
    if (LIKELY(!SvUTF8(text)) || !ncp_fits_bytes(e->client, bytes / 2)) {
        put(e->client, SvPVX_const(text), bytes);
        return;
    }
    narrowed = bytes_from_utf8((const U8 *)SvPVX_const(text), &bytes, &wide);
    if (wide)
        refuse_wide(aTHX_ e);
    put(e->client, narrowed, bytes);
    Safefree(narrowed);
}

void ncp_encode_bytes(pTHX_ ncp_encoder *e, const ncp_type *type, SV *value)
{
    SV *text = ncp_unwrap(aTHX_ e, value);

    if (UNLIKELY(!SvPOK(text)))
        encode_printed(aTHX_ e, type, text, ncp_encode_bytes);
    else
        put_octets(aTHX_ e, text);
}
