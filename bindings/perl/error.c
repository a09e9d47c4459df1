/* Nearcall::Error objects: hashes that lib/Nearcall/Error.pm gives methods to. */
#include "nearcall_perl.h"

/* Generated code, and what the binding itself has in Perl below a method. */
static bool is_between(pTHX_ const COP *cop)
{
    HV *package = CopSTASH(cop);

    if (!package)
        return false;
    return hv_exists(package, "NEARCALL_GENERATED", strlen("NEARCALL_GENERATED"))
           || (HvNAME_get(package) && strEQ(HvNAME_get(package), "Nearcall::CallOptions"));
}

const COP *ncp_caller(pTHX)
{
    const COP *cop = PL_curcop;
    const PERL_CONTEXT *frame;
    I32 level = 0;

    while (is_between(aTHX_ cop) && (frame = caller_cx(level++, NULL)) != NULL)
        cop = frame->blk_oldcop;
    return cop;
}

static void store_place(pTHX_ HV *fields)
{
    const COP *cop = ncp_caller(aTHX);

    (void)hv_stores(fields, "file", newSVpv(CopFILE(cop) ? CopFILE(cop) : "-", 0));
    (void)hv_stores(fields, "line", newSVuv(CopLINE(cop)));
}

SV *ncp_error_new(pTHX_ int code, int outcome, SV *function_name, SV *message, SV *details)
{
    HV *fields = newHV();

    (void)hv_stores(fields, "code", newSViv(code < 0 ? -code : code));
    (void)hv_stores(fields, "name", newSVpv(nearcall_code_name(code), 0));
    (void)hv_stores(fields, "outcome", newSViv(outcome));
    (void)hv_stores(fields, "function", function_name ? newSVsv(function_name) : newSV(0));
    (void)hv_stores(fields, "message", message);
    (void)hv_stores(fields, "details", details ? details : newRV_noinc((SV *)newAV()));
    store_place(aTHX_ fields);
    return sv_bless(newRV_noinc((SV *)fields), gv_stashpvs("Nearcall::Error", GV_ADD));
}

static SV *text_from_peer(pTHX_ const char *text)
{
    SV *message = newSVpv(text, 0);

    if (ncp_is_unicode((const U8 *)SvPVX(message), SvCUR(message)))
        SvUTF8_on(message);
    return message;
}

/* The library keeps no error for a call that comes while it is inside another of the same handle. */
SV *ncp_error_busy(pTHX_ int outcome, SV *function_name)
{
    return ncp_error_new(aTHX_ -NEARCALL_E_MISUSE, outcome, function_name,
        newSVpvs("the handle is inside another call, which a signal handler that perl runs at once has "
                 "interrupted; give safe(1) to its POSIX::SigAction, or the handler a handle of its own"), NULL);
}

SV *ncp_error_from_client(pTHX_ const nearcall_client *client, SV *function_name, const ncp_bounds *bounds)
{
    size_t bytes = 0;
    const uint8_t *details;

    if (!client)
        return ncp_error_new(aTHX_ -NEARCALL_E_RESOURCE_EXHAUSTED, NEARCALL_OUTCOME_NOT_EXECUTED,
                             function_name, newSVpv(nearcall_error_message(NULL), 0), NULL);
    if (nearcall_error_code(client) == 0)
        return ncp_error_busy(aTHX_ NEARCALL_OUTCOME_NOT_EXECUTED, function_name);
    details = nearcall_error_details(client, &bytes);
    return ncp_error_new(aTHX_ nearcall_error_code(client), nearcall_error_outcome(client),
                         function_name, text_from_peer(aTHX_ nearcall_error_message(client)),
                         details ? ncp_decode_details(aTHX_ details, bytes, bounds) : NULL);
}

/* Not what the program's own code has thrown. */
static bool is_ours(pTHX_ SV *error)
{
    return SvROK(error) && SvTYPE(SvRV(error)) == SVt_PVHV && SvOBJECT(SvRV(error))
        && SvSTASH(SvRV(error)) == gv_stashpvs("Nearcall::Error", 0);
}

SV *ncp_error_copy(pTHX_ SV *error)
{
    if (!is_ours(aTHX_ error))
        return newSVsv(error);
    return sv_bless(newRV_noinc((SV *)newHVhv((HV *)SvRV(error))), SvSTASH(SvRV(error)));
}

/* A finished call's error may be thrown long after it came. */
void ncp_throw(pTHX_ SV *error)
{
    if (is_ours(aTHX_ error))
        store_place(aTHX_ (HV *)SvRV(error));
    croak_sv(sv_2mortal(error));
}

void ncp_throw_of(pTHX_ const ncp_invocation *call, SV *error)
{
    SV **outcome = call->may_have_run && is_ours(aTHX_ error) ? hv_fetchs((HV *)SvRV(error), "outcome", 0) : NULL;

    if (outcome && SvIV(*outcome) == NEARCALL_OUTCOME_NOT_EXECUTED)
        sv_setiv(*outcome, NEARCALL_OUTCOME_UNKNOWN);
    ncp_throw(aTHX_ error);
}

void ncp_throw_client(pTHX_ const ncp_invocation *call)
{
    const ncp_bounds bounds = ncp_bounds_of(call);

    ncp_throw_of(aTHX_ call, ncp_error_from_client(aTHX_ call->handle->client, call->name, &bounds));
}
