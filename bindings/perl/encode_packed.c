/* Objects of Nearcall::Packed: strings that pack has made travel as they are. */
#include "encode.h"

/* What lies in an object: lib/Nearcall/Packed.pm. */
enum { ELEMENT, BYTES };

static SV *member(pTHX_ AV *object, SSize_t index)
{
    SV **place = SvMAGICAL(object) ? NULL : av_fetch(object, index, 0);

    return place && !SvGMAGICAL(*place) ? *place : NULL;
}

bool ncp_encode_packed(pTHX_ ncp_encoder *e, const ncp_type *type, SV *value)
{
    SV *element, *bytes;
    STRLEN size;

    if (LIKELY(!SvROK(value) || !SvOBJECT(SvRV(value))) || SvTYPE(SvRV(value)) != SVt_PVAV || !type->packed
        || type->element->kind == NCP_DURATION)
        return false;
    ncp_require_class(aTHX_ e, value);
    if (!sv_derived_from(value, "Nearcall::Packed"))
        return false;
    element = member(aTHX_ (AV *)SvRV(value), ELEMENT);
    bytes = member(aTHX_ (AV *)SvRV(value), BYTES);
    if (!element || !bytes || !SvIOK(element) || SvIVX(element) != type->packed || !SvPOK(bytes) || SvUTF8(bytes))
        return false;
    size = ncp_element_bytes[type->packed];
    if (SvCUR(bytes) % size != 0)
        return false;
    ncp_spend(aTHX_ e, SvCUR(bytes) / 16);
    nearcall_put_packed(e->client, type->packed, SvPVX_const(bytes), SvCUR(bytes) / size);
    return true;
}
