/* The encoder's ground: where it is, how it refuses, and user code that values
 * carry along. */
#include "encode.h"

/* ---- Refusing ---- */

static void append_path(pTHX_ SV *message, const ncp_path *node)
{
    if (!node)
        return;
    append_path(aTHX_ message, node->parent);
    if (node->name)
        sv_catpvf(message, ", \"%" SVf "\"", SVfARG(node->name));
    else
        sv_catpvf(message, ", element %" IVdf, (IV)node->index);
}

SV *ncp_place(pTHX_ const ncp_encoder *e)
{
    SV *message = newSVpvf("argument %" IVdf, (IV)e->argument + 1);

    if (e->param)
        sv_catpvf(message, " (%" SVf ")", SVfARG(e->param->name));
    append_path(aTHX_ message, e->path);
    return message;
}

void ncp_throw_invalid(pTHX_ const ncp_invocation *call, SV *message)
{
    SV *error = ncp_error_new(aTHX_ -NEARCALL_E_INVALID_ARGUMENT, NEARCALL_OUTCOME_NOT_EXECUTED,
                              call->name, message, NULL);

    ncp_throw(aTHX_ ncp_unless_outdated(aTHX_ call, error));
}

static void append_value(pTHX_ SV *message, SV *value)
{
    static const int shown_characters_max = 40;

    if (SvROK(value))
        sv_catpvf(message, "a reference to %s", sv_reftype(SvRV(value), TRUE));
    else if (!SvOK(value))
        sv_catpvs(message, "undef");
    else if (SvNIOK(value) && !SvPOK(value))
        sv_catpvf(message, "%" SVf, SVfARG(ncp_mortal_copy(aTHX_ value)));
    else if (!SvPOK(value))
        sv_catpvf(message, "a %s", sv_reftype(value, FALSE));
    else
        sv_catsv(message, sv_2mortal(newSVpv(pv_pretty(sv_newmortal(), SvPVX(value),
            SvCUR(value), shown_characters_max, NULL, NULL,
            PERL_PV_PRETTY_DUMP | (SvUTF8(value) ? PERL_PV_ESCAPE_UNI : 0)), 0)));
}

void ncp_refuse(pTHX_ const ncp_encoder *e, const ncp_type *type, SV *value)
{
    SV *message = ncp_place(aTHX_ e);

    sv_catpvf(message, ": expected %s", type->name);
    if (type->kind == NCP_INTEGER && type->min < 0)
        sv_catpvf(message, " (%" IVdf " to %" UVuf ")", (IV)type->min, (UV)type->max);
    else if (type->kind == NCP_INTEGER)
        sv_catpvf(message, " (0 to %" UVuf ")", (UV)type->max);
    sv_catpvs(message, ", got ");
    append_value(aTHX_ message, value);
    ncp_throw_invalid(aTHX_ e->call, message);
}

void ncp_refuse_because(pTHX_ const ncp_encoder *e, const char *reason)
{
    SV *message = ncp_place(aTHX_ e);

    sv_catpvf(message, ": %s", reason);
    ncp_throw_invalid(aTHX_ e->call, message);
}

/* ---- User code: tied variables and overloaded objects ---- */

/* Code that made a call on this handle has overwritten the request, and may
 * have closed the handle: nothing may be written any more. */
void ncp_user_code_ran(pTHX_ const ncp_encoder *e)
{
    const ncp_handle *handle = e->call->handle;

    if (!handle->client || handle->requests != e->call->requests)
        ncp_refuse_because(aTHX_ e, "its own code used the handle that it is an argument for; "
                                "compute the value before the call");
}

void ncp_fetch_magic(pTHX_ ncp_encoder *e, SV *value)
{
    if (LIKELY(!SvGMAGICAL(value)))
        return;
    ncp_keep_object(aTHX_ e->call);
    mg_get(value);
    ncp_user_code_ran(aTHX_ e);
}

SV *ncp_call_object(pTHX_ ncp_encoder *e, SV *object, const char *method)
{
    SV *result;
    dSP;

    ncp_keep_object(aTHX_ e->call);
    PUSHMARK(SP);
    XPUSHs(object);
    PUTBACK;
    call_method(method, G_SCALAR);
    SPAGAIN;
    result = POPs;
    PUTBACK;
    SvGETMAGIC(result);
    ncp_user_code_ran(aTHX_ e);
    return result;
}

bool ncp_object_can(pTHX_ SV *value, const char *method)
{
    return sv_isobject(value) && gv_fetchmethod_autoload(SvSTASH(SvRV(value)), method, FALSE);
}

/* An object that overloads strings is what it says it is; other references are
 * returned as they came, to be refused. Never changes the caller's scalar. */
SV *ncp_unwrap(pTHX_ ncp_encoder *e, SV *value)
{
    SV *text;

    if (LIKELY(!SvROK(value)) || !SvAMAGIC(value))
        return value;
    ncp_keep_object(aTHX_ e->call);
    text = AMG_CALLunary(value, string_amg);
    ncp_user_code_ran(aTHX_ e);
    return text && !SvROK(text) ? text : value;
}

SV *ncp_dereference(pTHX_ ncp_encoder *e, SV *value, int overloaded, svtype wanted)
{
    if (SvROK(value) && SvTYPE(SvRV(value)) != wanted && SvAMAGIC(value)) {
        ncp_keep_object(aTHX_ e->call);
        value = amagic_deref_call(value, overloaded);
        ncp_user_code_ran(aTHX_ e);
    }
    return SvROK(value) && SvTYPE(SvRV(value)) == wanted ? SvRV(value) : NULL;
}

/* A tied array or hash is copied first, so that its code does not run between
 * the count and the elements. */
AV *ncp_plain_array(pTHX_ ncp_encoder *e, AV *array)
{
    AV *copy;
    SSize_t count, i;

    if (LIKELY(!SvRMAGICAL(array)))
        return array;
    ncp_keep_object(aTHX_ e->call);
    copy = (AV *)sv_2mortal((SV *)newAV());
    count = av_len(array) + 1;
    for (i = 0; i < count; i++) {
        SV **element = av_fetch(array, i, 0);
        av_push(copy, element ? newSVsv(*element) : newSV(0));
    }
    ncp_user_code_ran(aTHX_ e);
    return copy;
}

HV *ncp_plain_hash(pTHX_ ncp_encoder *e, HV *hash)
{
    HV *copy;
    HE *entry;

    if (LIKELY(!SvRMAGICAL(hash)))
        return hash;
    ncp_keep_object(aTHX_ e->call);
    copy = (HV *)sv_2mortal((SV *)newHV());
    hv_iterinit(hash);
    while ((entry = hv_iternext(hash)) != NULL)
        (void)hv_store_ent(copy, hv_iterkeysv(entry), newSVsv(hv_iterval(hash, entry)), 0);
    ncp_user_code_ran(aTHX_ e);
    return copy;
}
