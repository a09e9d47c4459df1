/* Texts of Perl that the library takes: names, addresses, options. C ends them at a NUL, and what
 * is longer than any of them may be is neither converted nor copied. */
#include "limits_gen.h"
#include "nearcall_perl.h"

/* What an object says it is, which may be another object, for ever. */
static SV *said_by(pTHX_ SV *value)
{
    U32 step;

    for (step = 0; SvROK(value) && SvAMAGIC(value); step++) {
        SV *said = AMG_CALLunary(value, string_amg);
        if (!said)
            break;
        if (step == NC_NESTING_DEPTH_MAX || (SvROK(said) && SvRV(said) == SvRV(value)))
            croak("Nearcall: the text of an object is an object again and again, "
                  STRINGIFY(NC_NESTING_DEPTH_MAX) " times at most");
        (void)sv_2mortal(SvREFCNT_inc_simple_NN(said));
        SvGETMAGIC(said);
        value = said;
    }
    return value;
}

SV *ncp_plain_text(pTHX_ SV *value)
{
    SV *text = sv_2mortal(newSVpvs(""));

    (void)sv_2mortal(SvREFCNT_inc_simple_NN(value));
    SvGETMAGIC(value);
    sv_catsv_nomg(text, said_by(aTHX_ value));
    return text;
}

static void __attribute__((noreturn)) refuse_text(pTHX_ SV *function_name, SV *message)
{
    ncp_throw(aTHX_ ncp_error_new(aTHX_ -NEARCALL_E_INVALID_ARGUMENT,
        NEARCALL_OUTCOME_NOT_EXECUTED, function_name, message, NULL));
}

const char *ncp_c_text(pTHX_ SV *value, const char *what)
{
    STRLEN bytes;
    const char *text = SvPV(value, bytes);

    if (bytes > NC_FRAME_BYTES_MAX_CEILING)
        refuse_text(aTHX_ NULL, newSVpvf("%s is of %" UVuf " bytes, which is too long", what, (UV)bytes));
    if (memchr(text, '\0', bytes))
        refuse_text(aTHX_ NULL, newSVpvf("%s holds a NUL, at which it would be cut; leave it out", what));
    return text;
}

/* The library refuses what is too long by its number of bytes, which are no fewer in UTF-8. */
const char *ncp_name_text(pTHX_ SV *name, STRLEN *ret_bytes)
{
    const char *text;

    if (SvPOK(name) && SvCUR(name) > NC_FRAME_BYTES_MAX_CEILING) {
        *ret_bytes = SvCUR(name);
        return SvPVX_const(name);
    }
    text = SvPVutf8(name, *ret_bytes);
    if (memchr(text, '\0', *ret_bytes))
        refuse_text(aTHX_ name, newSVpvs("a function's name holds no NUL"));
    return text;
}

bool ncp_is_run_by_perl(const char *name)
{
    static const char *const names[] = { "BEGIN", "UNITCHECK", "CHECK", "INIT", "END" };
    size_t i;

    for (i = 0; i < C_ARRAY_LENGTH(names); i++)
        if (strEQ(name, names[i]))
            return true;
    return false;
}
