/* Perl values into a request, as the function's description says. The bytes go
 * straight into the handle's send buffer; a refusal throws, and the unfinished
 * request is dropped by the next one. */
#include "encode.h"

static const ncp_type any_type = { .kind = NCP_ANY, .name = "any" };
static const ncp_type string_type = { .kind = NCP_STRING, .name = "string" };
static const ncp_type bool_type = { .kind = NCP_BOOL, .name = "bool" };
static const ncp_type time_type = { .kind = NCP_TIME, .name = "time" };

static void encode_value(pTHX_ ncp_encoder *e, const ncp_type *type, SV *value);
static void encode_fetched(pTHX_ ncp_encoder *e, const ncp_type *type, SV *value);

/* ---- Lists, maps, structs ---- */

static void descend(pTHX_ ncp_encoder *e, ncp_path *node)
{
    if (++e->depth > NCP_RECURSION_MAX)
        ncp_refuse_because(aTHX_ e, "the value is nested too deeply, or contains itself");
    node->parent = e->path;
    e->path = node;
}

static void ascend(ncp_encoder *e, const ncp_path *node)
{
    e->path = node->parent;
    e->depth--;
}

static void put_elements(pTHX_ ncp_encoder *e, const ncp_type *type, AV *array)
{
    AV *plain = ncp_plain_array(aTHX_ e, array);
    SSize_t count = av_len(plain) + 1;
    ncp_path node = { 0 };

    descend(aTHX_ e, &node);
    nearcall_put_array(e->client, (uint32_t)count);
    for (node.index = 0; node.index < count; node.index++) {
        SV **element = av_fetch(plain, node.index, 0);
        encode_value(aTHX_ e, type, element ? *element : &PL_sv_undef);
    }
    ascend(e, &node);
}

static void encode_list(pTHX_ ncp_encoder *e, const ncp_type *type, SV *value)
{
    AV *array = (AV *)ncp_dereference(aTHX_ e, value, to_av_amg, SVt_PVAV);

    if (!array)
        ncp_refuse(aTHX_ e, type, value);
    put_elements(aTHX_ e, type->element, array);
}

static void put_pairs(pTHX_ ncp_encoder *e, const ncp_type *key_type, const ncp_type *type, HV *hash)
{
    HV *plain = ncp_plain_hash(aTHX_ e, hash);
    ncp_path node = { 0 };
    HE *entry;

    descend(aTHX_ e, &node);
    nearcall_put_map(e->client, (uint32_t)HvUSEDKEYS(plain));
    hv_iterinit(plain);
    while ((entry = hv_iternext(plain)) != NULL) {
        node.name = hv_iterkeysv(entry);
        encode_fetched(aTHX_ e, key_type, node.name);
        encode_value(aTHX_ e, type, HeVAL(entry));
    }
    ascend(e, &node);
}

static void encode_map(pTHX_ ncp_encoder *e, const ncp_type *type, SV *value)
{
    HV *hash = (HV *)ncp_dereference(aTHX_ e, value, to_hv_amg, SVt_PVHV);

    if (!hash)
        ncp_refuse(aTHX_ e, type, value);
    put_pairs(aTHX_ e, type->key, type->element, hash);
}

static bool is_field(pTHX_ const ncp_struct *structure, SV *key)
{
    U32 i;

    for (i = 0; i < structure->fields_count; i++)
        if (sv_eq(structure->fields[i].name, key))
            return true;
    return false;
}

static void refuse_unknown_field(pTHX_ ncp_encoder *e, const ncp_struct *structure, HV *hash)
    __attribute__((noreturn));

static void refuse_unknown_field(pTHX_ ncp_encoder *e, const ncp_struct *structure, HV *hash)
{
    SV *message = ncp_place(aTHX_ e);
    SV *unknown = &PL_sv_undef;
    HE *entry;
    U32 i;

    hv_iterinit(hash);
    while ((entry = hv_iternext(hash)) != NULL)
        if (!is_field(aTHX_ structure, unknown = hv_iterkeysv(entry)))
            break;
    sv_catpvf(message, ": %" SVf " has no field \"%" SVf "\"; it has",
              SVfARG(structure->name), SVfARG(unknown));
    for (i = 0; i < structure->fields_count; i++)
        sv_catpvf(message, "%s %" SVf, i ? "," : "", SVfARG(structure->fields[i].name));
    ncp_throw_invalid(aTHX_ e->call, message);
}

/* All keys are taken for fields; if fewer were found, one of them is none. */
static void encode_struct(pTHX_ ncp_encoder *e, const ncp_type *type, SV *value)
{
    const ncp_struct *structure = type->structure;
    HV *hash = (HV *)ncp_dereference(aTHX_ e, value, to_hv_amg, SVt_PVHV);
    U32 count, found = 0, i;
    ncp_path node = { 0 };

    if (!hash)
        ncp_refuse(aTHX_ e, type, value);
    hash = ncp_plain_hash(aTHX_ e, hash);
    count = (U32)HvUSEDKEYS(hash);
    nearcall_put_map(e->client, count);
    for (i = 0; i < structure->fields_count; i++) {
        const ncp_field *field = &structure->fields[i];
        HE *entry = hv_fetch_ent(hash, field->name, 0, SvSHARED_HASH(field->name));
        if (!entry)
            continue;
        found++;
        node.name = field->name;
        descend(aTHX_ e, &node);
        ncp_encode_string(aTHX_ e, &string_type, field->name);
        encode_value(aTHX_ e, field->type, HeVAL(entry));
        ascend(e, &node);
    }
    if (found != count)
        refuse_unknown_field(aTHX_ e, structure, hash);
}

static void encode_optional(pTHX_ ncp_encoder *e, const ncp_type *type, SV *value)
{
    if (SvOK(value))
        encode_fetched(aTHX_ e, type->element, value);
    else
        nearcall_put_nil(e->client);
}

/* ---- Any: the value speaks for itself ---- */

static void encode_any_object(pTHX_ ncp_encoder *e, SV *value)
{
    if (sv_derived_from(value, "JSON::PP::Boolean"))
        ncp_encode_bool(aTHX_ e, &bool_type, value);
    else if (ncp_object_can(aTHX_ value, "epoch"))
        ncp_encode_time(aTHX_ e, &time_type, value);
    else if (SvAMAGIC(value))
        ncp_encode_string(aTHX_ e, &string_type, value);
    else
        ncp_refuse(aTHX_ e, &any_type, value);
}

static void encode_any_reference(pTHX_ ncp_encoder *e, SV *value)
{
    SV *target = SvRV(value);

    if (SvOBJECT(target))
        encode_any_object(aTHX_ e, value);
    else if (SvTYPE(target) == SVt_PVAV)
        put_elements(aTHX_ e, &any_type, (AV *)target);
    else if (SvTYPE(target) == SVt_PVHV)
        put_pairs(aTHX_ e, &string_type, &any_type, (HV *)target);
    else if (SvTYPE(target) < SVt_PVAV && !SvROK(target) && !isGV(target))
        ncp_encode_bool(aTHX_ e, &bool_type, value);
    else
        ncp_refuse(aTHX_ e, &any_type, value);
}

static bool is_bool(pTHX_ SV *value)
{
#ifdef SvIsBOOL
    return SvIsBOOL(value);
#else
    PERL_UNUSED_CONTEXT;
    return value == &PL_sv_yes || value == &PL_sv_no;
#endif
}

/* What was made as a string stays one, even when it was used as a number. */
static void encode_any(pTHX_ ncp_encoder *e, const ncp_type *type, SV *value)
{
    ncp_whole number;

    if (SvROK(value))
        encode_any_reference(aTHX_ e, value);
    else if (!SvOK(value))
        nearcall_put_nil(e->client);
    else if (is_bool(aTHX_ value))
        nearcall_put_bool(e->client, SvTRUE_nomg(value));
    else if (SvPOK(value) || !SvNIOK(value))
        ncp_encode_string(aTHX_ e, type, value);
    else if (SvIOK(value) && ncp_whole_of(aTHX_ value, &number))
        ncp_put_whole(e->client, &number);
    else
        nearcall_put_double(e->client, SvNVX(value));
}

/* ---- From types to functions ---- */

typedef void (*encode_function)(pTHX_ ncp_encoder *e, const ncp_type *type, SV *value);

static const encode_function encoders[] = {
    [NCP_BOOL] = ncp_encode_bool,         [NCP_INTEGER] = ncp_encode_integer,
    [NCP_FLOAT32] = ncp_encode_float32,   [NCP_FLOAT64] = ncp_encode_float64,
    [NCP_STRING] = ncp_encode_string,     [NCP_BYTES] = ncp_encode_bytes,
    [NCP_TIME] = ncp_encode_time,         [NCP_DURATION] = ncp_encode_duration,
    [NCP_ANY] = encode_any,           [NCP_LIST] = encode_list,
    [NCP_MAP] = encode_map,           [NCP_OPTIONAL] = encode_optional,
    [NCP_STRUCT] = encode_struct,     [NCP_FILE] = ncp_encode_file,
    [NCP_CONNECTION] = ncp_encode_file,
};

static void encode_fetched(pTHX_ ncp_encoder *e, const ncp_type *type, SV *value)
{
    encoders[type->kind](aTHX_ e, type, value);
}

static void encode_value(pTHX_ ncp_encoder *e, const ncp_type *type, SV *value)
{
    ncp_fetch_magic(aTHX_ e, value);
    encode_fetched(aTHX_ e, type, value);
}

/* ---- The request ---- */

static void check_count(pTHX_ const ncp_invocation *call, const ncp_plan *plan)
{
    U32 count = (U32)call->arguments_count;
    SV *message;

    if (LIKELY(count >= plan->params_required
               && (count <= plan->params_count || plan->variadic)))
        return;
    message = newSVpvf("%" SVf " takes %" UVuf, SVfARG(call->name), (UV)plan->params_required);
    if (plan->variadic)
        sv_catpvs(message, " or more");
    else if (plan->params_required < plan->params_count)
        sv_catpvf(message, " to %" UVuf, (UV)plan->params_count);
    sv_catpvf(message, " arguments; %" UVuf " came", (UV)count);
    if (count < plan->params_required)
        sv_catpvf(message, ", and argument %" UVuf " (%" SVf ") is missing", (UV)count + 1,
                  SVfARG(plan->params[count].name));
    ncp_throw_invalid(aTHX_ call, message);
}

/* Tied arguments may call the same handle: their code runs before the request. */
static void fetch_arguments(pTHX_ ncp_invocation *call)
{
    I32 i;

    for (i = 0; i < call->arguments_count; i++) {
        SV *value = ncp_argument(aTHX_ call, i);
        if (LIKELY(!SvGMAGICAL(value)))
            continue;
        ncp_keep_object(aTHX_ call);
        mg_get(value);
        if (!call->handle->client)
            croak("Nearcall: the handle was closed by an argument's own code");
    }
}

static const ncp_field *param_at(const ncp_plan *plan, I32 index)
{
    U32 last = plan->params_count - 1;

    return &plan->params[(U32)index < last ? (U32)index : last];
}

static void encode_arguments(pTHX_ ncp_encoder *e, const ncp_plan *plan)
{
    nearcall_put_array(e->client, (uint32_t)e->call->arguments_count);
    for (; e->argument < e->call->arguments_count; e->argument++) {
        e->param = param_at(plan, e->argument);
        encode_fetched(aTHX_ e, e->param->type, ncp_argument(aTHX_ e->call, e->argument));
    }
}

void ncp_encode_request(pTHX_ ncp_invocation *call)
{
    ncp_handle *handle = call->handle;
    ncp_encoder e = { .call = call, .client = handle->client };
    const ncp_plan *plan;
    int codec;

    fetch_arguments(aTHX_ call);
    plan = ncp_plan_current(aTHX_ call->function);
    check_count(aTHX_ call, plan);
    if (plan->has_connections)
        ncp_load_sockets(aTHX);
    codec = plan->raw ? NEARCALL_CODEC_RAW : NEARCALL_CODEC_MSGPACK;
    call->requests = ++handle->requests;
    if (nearcall_request(e.client, call->function->function, codec) != NEARCALL_OK)
        ncp_throw_client(aTHX_ call);
    if (plan->raw) {
        e.param = &plan->params[0];
        ncp_put_octets(aTHX_ &e, e.param->type, ncp_argument(aTHX_ call, 0), nearcall_put_raw);
    } else {
        encode_arguments(aTHX_ &e, plan);
    }
}
