/* Perl values into a request, as the function's description says. The bytes go
 * straight into the handle's send buffer; a refusal throws, and the unfinished
 * request is dropped by the next one. */
#include "encode.h"

static const ncp_type any_type = { .kind = NCP_ANY, .name = "any" };
static const ncp_type string_type = { .kind = NCP_STRING, .name = "string" };
static const ncp_type bool_type = { .kind = NCP_BOOL, .name = "bool" };
static const ncp_type time_type = { .kind = NCP_TIME, .name = "time" };

static void encode_fetched(pTHX_ ncp_encoder *e, const ncp_type *type, SV *value);

/* ---- Lists and maps ---- */

static void put_elements(pTHX_ ncp_encoder *e, const ncp_type *type, AV *array)
{
    ncp_node node = { 0 };
    ncp_element written;

    ncp_list_begin(aTHX_ e, &node, array);
    nearcall_put_array(e->client, (uint32_t)node.count);
    ncp_enter(aTHX_ e, &node);
    written = ncp_element_begin(e, &node);
    for (; node.index < node.count; node.index++) {
        SV *element = ncp_list_value(aTHX_ e, &node);
        ncp_encode_value(aTHX_ e, type, element ? element : &PL_sv_undef);
        ncp_element_end(aTHX_ e, &node, &written);
    }
    ncp_leave(e, &node);
}

static void encode_list(pTHX_ ncp_encoder *e, const ncp_type *type, SV *value)
{
    SV *data;
    AV *array;

    if (UNLIKELY(SvROK(value) && SvOBJECT(SvRV(value))) && ncp_encode_packed(aTHX_ e, type, value))
        return;
    data = ncp_as_data(aTHX_ e, value);
    array = (AV *)ncp_dereference(aTHX_ e, data, to_av_amg, SVt_PVAV);
    if (!array)
        ncp_refuse(aTHX_ e, type, value);
    put_elements(aTHX_ e, type->element, array);
}

static void begin_pairs(pTHX_ ncp_encoder *e, ncp_node *node, const ncp_type *key_type, HV *hash)
{
    if (UNLIKELY(ncp_is_tied(hash))) {
        ncp_tied_pairs(aTHX_ e, node, hash);
        ncp_require_distinct(aTHX_ e, key_type, node);
        nearcall_put_map(e->client, (uint32_t)(node->count / 2));
    } else {
        ncp_hash_begin(aTHX_ e, node, hash);
        ncp_require_room(aTHX_ e, 2 * (size_t)HvUSEDKEYS(hash));
        if (key_type->kind == NCP_INTEGER && ncp_has_number_otherwise(aTHX_ e, node))
            ncp_require_distinct(aTHX_ e, key_type, node);
        nearcall_put_map(e->client, (uint32_t)(node->is_owned ? (size_t)node->count / 2 : HvUSEDKEYS(hash)));
    }
    ncp_enter(aTHX_ e, node);
}

static void put_pairs(pTHX_ ncp_encoder *e, const ncp_type *key_type, const ncp_type *type,
                      HV *hash)
{
    ncp_node node = { 0 };
    ncp_element written;
    SV *value;

    begin_pairs(aTHX_ e, &node, key_type, hash);
    written = ncp_element_begin(e, &node);
    while (ncp_hash_next(aTHX_ e, &node, &value)) {
        if (UNLIKELY(!value))
            value = ncp_tied_value(aTHX_ e, &node, node.name);
        encode_fetched(aTHX_ e, key_type, node.name);
        ncp_encode_value(aTHX_ e, type, value);
        ncp_element_end(aTHX_ e, &node, &written);
    }
    ncp_leave(e, &node);
}

static void encode_map(pTHX_ ncp_encoder *e, const ncp_type *type, SV *value)
{
    SV *data = ncp_as_data(aTHX_ e, value);
    HV *hash = (HV *)ncp_dereference(aTHX_ e, data, to_hv_amg, SVt_PVHV);

    if (!hash)
        ncp_refuse(aTHX_ e, type, value);
    put_pairs(aTHX_ e, type->key, type->element, hash);
}

static void encode_optional(pTHX_ ncp_encoder *e, const ncp_type *type, SV *value)
{
    if (SvOK(value))
        encode_fetched(aTHX_ e, type->element, value);
    else
        nearcall_put_nil(e->client);
}

/* ---- Any: the value speaks for itself ---- */

/* Those of JSON::PP and its like, of Types::Serialiser and of boolean. */
static bool is_boolean_object(pTHX_ SV *value)
{
    return sv_derived_from(value, "JSON::PP::Boolean")
        || sv_derived_from(value, "Types::Serialiser::BooleanBase")
        || sv_derived_from(value, "boolean");
}

static void encode_any_object(pTHX_ ncp_encoder *e, SV *value)
{
    SV *data;

    ncp_require_class(aTHX_ e, value);
    if (is_boolean_object(aTHX_ value)) {
        ncp_encode_bool(aTHX_ e, &bool_type, value);
    } else if (sv_derived_from(value, "Math::BigFloat")) {
        ncp_refuse_because(aTHX_ e, "any has no decimal numbers; send a number, or its text");
    } else if (ncp_object_can(aTHX_ e, value, "epoch")) {
        ncp_encode_time(aTHX_ e, &time_type, value);
    } else if (ncp_object_can(aTHX_ e, value, "TO_JSON")) {
        data = ncp_as_data(aTHX_ e, value);
        if (ncp_object_can(aTHX_ e, data, "TO_JSON"))
            ncp_refuse_because(aTHX_ e, "its method TO_JSON returned an object that has one too");
        encode_fetched(aTHX_ e, &any_type, data);
    } else {
        data = ncp_unwrap(aTHX_ e, value);
        if (SvROK(data))
            ncp_refuse(aTHX_ e, &any_type, value);
        ncp_encode_string(aTHX_ e, &string_type, data);
    }
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

/* \1 and \0, as JSON modules have them. Any other may be a slip: a value was meant. */
static void encode_any_scalar(pTHX_ ncp_encoder *e, SV *target)
{
    ncp_whole truth;

    (void)sv_2mortal(SvREFCNT_inc_simple_NN(target));
    target = ncp_fetched(aTHX_ e, target);
    ncp_spend(aTHX_ e, SvPOK(target) ? SvCUR(target) : 0);
    if (is_bool(aTHX_ target))
        nearcall_put_bool(e->client, SvTRUE_nomg(target));
    else if (ncp_whole_of(aTHX_ target, &truth) && !truth.negative && truth.magnitude <= 1)
        nearcall_put_bool(e->client, truth.magnitude);
    else
        ncp_refuse_because(aTHX_ e, "any takes a reference to a scalar only for a boolean, as \\1 "
                                "and \\0");
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
        encode_any_scalar(aTHX_ e, target);
    else
        ncp_refuse(aTHX_ e, &any_type, value);
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
    [NCP_STRUCT] = ncp_encode_struct, [NCP_FILE] = ncp_encode_file,
    [NCP_CONNECTION] = ncp_encode_file,
};

static void encode_fetched(pTHX_ ncp_encoder *e, const ncp_type *type, SV *value)
{
    encoders[type->kind](aTHX_ e, type, value);
}

void ncp_encode_value(pTHX_ ncp_encoder *e, const ncp_type *type, SV *value)
{
    value = ncp_fetched(aTHX_ e, value);
    ncp_spend(aTHX_ e, 1);
    if (UNLIKELY(PL_sig_pending))
        value = ncp_run_handlers_before(aTHX_ e, value);
    encode_fetched(aTHX_ e, type, value);
}

/* ---- The request ---- */

static void check_count(pTHX_ ncp_invocation *call, const ncp_plan *plan)
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

/* Tied arguments may call the same handle: their code runs before the request. What they
 * said stands, also where the call is encoded again. */
static void fetch_arguments(pTHX_ ncp_encoder *e)
{
    I32 i;

    for (i = 0; i < e->call->arguments_count; i++) {
        SV *argument = ncp_argument(aTHX_ e->call, i);
        SV *fetched = ncp_fetched(aTHX_ e, argument);
        if (UNLIKELY(fetched != argument))
            av_store(e->call->list, i, SvREFCNT_inc_simple_NN(fetched));
    }
}

static const ncp_field *param_at(const ncp_plan *plan, I32 index)
{
    U32 last = plan->params_count - 1;

    return &plan->params[(U32)index < last ? (U32)index : last];
}

static void encode_arguments(pTHX_ ncp_encoder *e)
{
    ncp_element written = ncp_element_begin(e, NULL);

    nearcall_put_array(e->client, (uint32_t)e->call->arguments_count);
    for (; e->argument < e->call->arguments_count; e->argument++) {
        ncp_pause(aTHX_ e);
        e->param = param_at(e->plan, e->argument);
        encode_fetched(aTHX_ e, e->param->type, ncp_argument(aTHX_ e->call, e->argument));
        ncp_element_end(aTHX_ e, NULL, &written);
    }
}

/* What the server describes by now, which so many arguments fit. */
static const ncp_plan *fitting_plan(pTHX_ ncp_invocation *call)
{
    const ncp_plan *plan = ncp_plan_current(aTHX_ call->function);

    if (UNLIKELY(plan->revision == 0))
        plan = ncp_plan_anew(aTHX_ call);
    if (UNLIKELY(call->origin != NULL)) {
        ncp_compare(aTHX_ call);
        plan = ncp_plan_current(aTHX_ call->function);
    }
    call->revision = plan->revision;
    check_count(aTHX_ call, plan);
    return plan;
}

/* The plan of the arguments, which their code, and that of modules that are loaded, can replace
 * until there is a request. */
static void choose_plan(pTHX_ ncp_encoder *e)
{
    const ncp_plan *plan = fitting_plan(aTHX_ e->call);

    if (plan->has_connections && ncp_load_sockets(aTHX_ e))
        plan = fitting_plan(aTHX_ e->call);
    if (e->owned)
        ncp_hold(aTHX_ e, (SV *)plan->memory);
    e->plan = plan;
}

static void __attribute__((noinline)) encode_request(pTHX_ ncp_invocation *call)
{
    ncp_handle *handle = call->handle;
    ncp_encoder e = { .call = call, .client = handle->client, .work_left = NCP_WORK_BETWEEN_LOOKS };
    int codec;

    call->attempts_left--;
    call->work_began_ms = 0;
    fetch_arguments(aTHX_ &e);
    choose_plan(aTHX_ &e);
    codec = ncp_codec_of(e.plan);
    call->requests = ++handle->requests;
    if (nearcall_request(e.client, call->function->function, codec) != NEARCALL_OK)
        ncp_throw_client(aTHX_ call);
    if (e.plan->raw) {
        e.param = &e.plan->params[0];
        ncp_encode_bytes(aTHX_ &e, e.param->type, ncp_argument(aTHX_ call, 0));
    } else {
        encode_arguments(aTHX_ &e);
    }
    ncp_disown(aTHX_ &e);
    ncp_settle(aTHX_ &e);
}

/* Coming back takes what plain arguments never need.
 * Nothing but the call changes between leaving and coming back, so that no variable of
 * this function can be out of date. */
bool ncp_encode_request(pTHX_ ncp_invocation *call)
{
    ncp_way_back way_back;

    if (LIKELY(ncp_encode_plain(aTHX_ call)))
        return true;
    way_back.scopes = PL_scopestack_ix;
    call->way_back = &way_back;
    (void)_setjmp(way_back.frame);
    if (LIKELY(!call->refusal))
        encode_request(aTHX_ call);
    call->way_back = NULL;
    return !call->refusal;
}
