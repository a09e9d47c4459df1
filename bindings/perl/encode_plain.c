/* Plain arguments into a request: numbers, text and bytes that fit, without code of their own.
 * Nearly all calls have no others, and what the encoder does to be able to leave them, to come
 * back and to own them would be a third of their price. Whatever is not plain is the encoder's. */
#include "encode.h"

/* The flags that tell plain values from others. */
static U32 flags_of(const SV *value)
{
    return SvFLAGS(value) & (SVf_IOK | SVf_NOK | SVf_POK | SVf_ROK | SVs_GMG);
}

static bool is_integer(const ncp_type *type, const SV *value)
{
    IV number;

    if (UNLIKELY((flags_of(value) & ~(U32)SVf_NOK) != SVf_IOK || SvIsUV(value)))
        return false;
    number = SvIVX(value);
    return LIKELY(number < 0 ? number >= type->min : (UV)number <= type->max);
}

static bool put_integer(nearcall_client *client, const ncp_type *type, const SV *value)
{
    if (!is_integer(type, value))
        return false;
    nearcall_put_int(client, SvIVX(value));
    return true;
}

/* Large text and bytes are the encoder's, which looks at the time meanwhile. */
static bool is_text(const SV *value)
{
    return (flags_of(value) & ~(U32)(SVf_IOK | SVf_NOK)) == SVf_POK && SvCUR(value) < NCP_LARGE_BYTES;
}

static bool is_bytes(const SV *value)
{
    return is_text(value) && !SvUTF8(value);
}

static bool put_plain(pTHX_ nearcall_client *client, const ncp_type *type, SV *value)
{
    switch (type->kind) {
    case NCP_INTEGER:
        return put_integer(client, type, value);
    case NCP_STRING:
        return is_text(value) && ncp_put_characters(aTHX_ client, value);
    case NCP_BYTES:
        if (!is_bytes(value))
            return false;
        nearcall_put_bytes(client, SvPVX_const(value), SvCUR(value));
        return true;
    case NCP_FLOAT64:
        if (flags_of(value) != SVf_NOK)
            return false;
        nearcall_put_double(client, SvNVX(value));
        return true;
    case NCP_BOOL:
        if (flags_of(value) & (SVf_ROK | SVs_GMG))
            return false;
        nearcall_put_bool(client, SvTRUE_nomg(value));
        return true;
    default:
        return false;
    }
}

bool ncp_is_simple(const ncp_type *type)
{
    return type->kind == NCP_INTEGER || type->kind == NCP_STRING || type->kind == NCP_BYTES
        || type->kind == NCP_FLOAT64 || type->kind == NCP_BOOL;
}

static bool put_arguments(pTHX_ nearcall_client *client, const ncp_plan *plan, SV *const *values)
{
    U32 i;

    if (plan->raw) {
        if (!is_bytes(values[0]))
            return false;
        nearcall_put_raw(client, SvPVX_const(values[0]), SvCUR(values[0]));
        return true;
    }
    nearcall_put_array(client, plan->params_count);
    for (i = 0; i < plan->params_count; i++)
        if (UNLIKELY(!put_plain(aTHX_ client, plan->params[i].type, values[i])))
            return false;
    return true;
}

/* The plan, if it is up to date and made for simple arguments, and such as many came. */
static const ncp_plan *simple_plan(const ncp_invocation *call)
{
    const ncp_plan *plan = call->function->plan;
    uint32_t revision = nearcall_function_revision(call->function->function);

    if (UNLIKELY(!plan || revision == 0 || plan->revision != revision || !plan->is_simple
                 || call->arguments_count != (I32)plan->params_count))
        return NULL;
    return LIKELY(!call->origin) || call->origin->revision == revision ? plan : NULL;
}

/* ---- Calls that are waited for: their values are handed over all at once ---- */

static void give_octets(int type, const SV *value, nearcall_value *ret_value)
{
    ret_value->type = type;
    ret_value->as.data = (const uint8_t *)SvPVX_const(value);
    ret_value->count = (uint32_t)SvCUR(value);
}

/* Text that would have to be converted is not handed over. */
static bool is_utf8(const SV *text)
{
    const U8 *start = (const U8 *)SvPVX_const(text);

    return SvUTF8(text) ? ncp_is_unicode(start, SvCUR(text)) : ncp_is_ascii(start, SvCUR(text));
}

static bool give_plain(pTHX_ const ncp_type *type, SV *value, nearcall_value *ret_value)
{
    switch (type->kind) {
    case NCP_INTEGER:
        if (!is_integer(type, value))
            return false;
        ret_value->type = NEARCALL_INT;
        ret_value->as.integer = SvIVX(value);
        return true;
    case NCP_STRING:
        if (!is_text(value) || !is_utf8(value))
            return false;
        give_octets(NEARCALL_STRING, value, ret_value);
        return true;
    case NCP_BYTES:
        if (!is_bytes(value))
            return false;
        give_octets(NEARCALL_BYTES, value, ret_value);
        return true;
    case NCP_FLOAT64:
        if (flags_of(value) != SVf_NOK)
            return false;
        ret_value->type = NEARCALL_FLOAT;
        ret_value->as.real = SvNVX(value);
        return true;
    case NCP_BOOL:
        if (flags_of(value) & (SVf_ROK | SVs_GMG))
            return false;
        ret_value->type = NEARCALL_BOOL;
        ret_value->as.boolean = SvTRUE_nomg(value);
        return true;
    default:
        return false;
    }
}

U32 ncp_plain_values(pTHX_ ncp_invocation *call, nearcall_value *values)
{
    const ncp_plan *plan = simple_plan(call);
    SV *const *arguments = call->list ? AvARRAY(call->list) : PL_stack_base + call->first_argument;
    U32 i;

    if (UNLIKELY(!plan || plan->raw || plan->params_count >= NCP_PLAIN_VALUES_MAX))
        return 0;
    values[0].type = NEARCALL_ARRAY;
    values[0].count = plan->params_count;
    for (i = 0; i < plan->params_count; i++)
        if (UNLIKELY(!give_plain(aTHX_ plan->params[i].type, arguments[i], &values[i + 1])))
            return 0;
    call->requests = ++call->handle->requests;
    call->attempts_left--;
    call->work_began_ms = 0;
    call->revision = plan->revision;
    return plan->params_count + 1;
}

/* ---- Calls that are begun, and arguments that have to be converted ---- */

/* Where it turns out that an argument is not plain, the encoder begins the request again. */
bool ncp_encode_plain(pTHX_ ncp_invocation *call)
{
    ncp_handle *handle = call->handle;
    nearcall_client *client = handle->client;
    const ncp_plan *plan = simple_plan(call);

    if (UNLIKELY(!plan))
        return false;
    call->requests = ++handle->requests;
    if (nearcall_request(client, call->function->function, ncp_codec_of(plan)) != NEARCALL_OK)
        return false;
    if (!put_arguments(aTHX_ client, plan,
                       call->list ? AvARRAY(call->list) : PL_stack_base + call->first_argument))
        return false;
    call->attempts_left--;
    call->work_began_ms = 0;
    call->revision = plan->revision;
    return true;
}
