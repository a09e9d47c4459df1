/* Replies into Perl values, as the function's description says. The only user code that runs
 * here is handlers of signals; one that uses the reply's handle ends the call. */
#include "nearcall_perl.h"

#include <string.h>

/* Values take a byte of a reply each, and some hundred nanoseconds: millions of them last for seconds. */
#define VALUES_BETWEEN_LOOKS 4096

/* One takes some 30 ns, where nothing of it is in the processor's caches. */
#define VALUES_GIVEN_BACK_PER_MS 32768

/* A value that nothing owns yet: a handler that dies leads past the functions that would free it. */
typedef struct unfinished {
    SV *value;
    struct unfinished *outer;
} unfinished;

typedef struct decoder {
    nearcall_reader reader;
    const ncp_bounds *bounds; /* NULL: none */
    unfinished *innermost;
    U32 values_left;          /* until the time is looked at */
    U32 looks;
    bool is_late;
    ncp_handle *handle; /* whose reply it is; NULL: no files came with it */
    bool gives_packed;
    int depth;
    const char *expected; /* what did not fit */
} decoder;

/* NULL when the bytes do not fit; the caller owns what is returned. */
static SV *decode_value(pTHX_ decoder *d, const ncp_type *type);
static SV *decode_any(pTHX_ decoder *d, const nearcall_value *value);

static SV *misfit(decoder *d, const char *expected)
{
    if (!d->expected)
        d->expected = expected;
    return NULL;
}

static void hold(decoder *d, unfinished *what, void *value)
{
    what->value = (SV *)value;
    what->outer = d->innermost;
    d->innermost = what;
}

static SV *let_go(decoder *d)
{
    SV *value = d->innermost->value;

    d->innermost = d->innermost->outer;
    return value;
}

static SV *discard(pTHX_ decoder *d)
{
    SvREFCNT_dec(let_go(d));
    return NULL;
}

/* ---- The call's time, and signals ---- */

/* Whether the time is over, or will be once all that was made has been given back. */
static bool is_late(const decoder *d)
{
    const ncp_bounds *bounds = d->bounds;
    int64_t given_back_ms = (int64_t)d->looks * VALUES_BETWEEN_LOOKS / VALUES_GIVEN_BACK_PER_MS;

    return bounds->timeout_ms > 0
        && ncp_coarse_now_ms() - bounds->began_ms + given_back_ms >= bounds->timeout_ms;
}

/* What is unfinished is freed if a handler dies or used the handle. */
static void run_handlers(pTHX_ const decoder *d)
{
    AV *held = newAV();
    const unfinished *what;

    ENTER;
    SAVEFREESV((SV *)held);
    for (what = d->innermost; what; what = what->outer)
        av_push(held, what->value);
    ncp_run_signal_handlers(aTHX_ d->bounds->call, NEARCALL_OUTCOME_EXECUTED_RESULT_LOST);
    AvFILLp(held) = -1;
    LEAVE;
}

static bool look(pTHX_ decoder *d)
{
    d->values_left = VALUES_BETWEEN_LOOKS;
    d->looks++;
    if (!d->bounds)
        return true;
    d->is_late = is_late(d);
    if (!d->is_late && d->bounds->call && PL_sig_pending)
        run_handlers(aTHX_ d);
    return !d->is_late;
}

static inline bool count_value(pTHX_ decoder *d)
{
    return LIKELY(--d->values_left > 0) || look(aTHX_ d);
}

/* Every element takes a byte at least, so a lying count allocates nothing. */
static bool plausible(const decoder *d, const nearcall_value *value)
{
    return value->count <= (size_t)(d->reader.end - d->reader.next);
}

/* ---- Scalars ---- */

static SV *new_bool(pTHX_ const decoder *d, int truth)
{
    if (d->handle && d->handle->json_booleans)
        return newSVsv(ncp_boolean(aTHX_ d->handle, truth != 0));
    return newSVsv(truth ? &PL_sv_yes : &PL_sv_no);
}

static SV *decode_bool(pTHX_ decoder *d, const ncp_type *type, const nearcall_value *value)
{
    return value->type == NEARCALL_BOOL ? new_bool(aTHX_ d, value->as.boolean) : misfit(d, type->name);
}

static SV *decode_integer(pTHX_ decoder *d, const ncp_type *type, const nearcall_value *value)
{
    if (value->type == NEARCALL_INT)
        return newSViv((IV)value->as.integer);
    if (value->type == NEARCALL_UINT)
        return newSVuv((UV)value->as.unsigned_integer);
    return misfit(d, type->name);
}

static bool number_of(const nearcall_value *value, NV *ret_number)
{
    switch (value->type) {
    case NEARCALL_FLOAT: *ret_number = value->as.real; return true;
    case NEARCALL_INT: *ret_number = (NV)value->as.integer; return true;
    case NEARCALL_UINT: *ret_number = (NV)value->as.unsigned_integer; return true;
    }
    return false;
}

static SV *decode_float(pTHX_ decoder *d, const ncp_type *type, const nearcall_value *value)
{
    NV number;

    return number_of(value, &number) ? newSVnv(number) : misfit(d, type->name);
}

/* Only well-formed UTF-8 may carry Perl's flag: the interpreter trusts it. The copy
 * is looked at, because the server can still write to a reply in shared memory. */
static SV *new_text(pTHX_ decoder *d, const nearcall_value *value)
{
    SV *result = newSVpvn((const char *)value->as.data, value->count);
    const U8 *text = (const U8 *)SvPVX(result);

    if (ncp_is_ascii(text, SvCUR(result)))
        return result;
    if (!ncp_is_unicode(text, SvCUR(result))) {
        SvREFCNT_dec(result);
        return misfit(d, "a string in UTF-8");
    }
    SvUTF8_on(result);
    return result;
}

static SV *decode_string(pTHX_ decoder *d, const ncp_type *type, const nearcall_value *value)
{
    return value->type == NEARCALL_STRING ? new_text(aTHX_ d, value) : misfit(d, type->name);
}

static SV *decode_bytes(pTHX_ decoder *d, const ncp_type *type, const nearcall_value *value)
{
    if (value->type == NEARCALL_NIL)
        return newSVpvs("");
    if (value->type != NEARCALL_BYTES && value->type != NEARCALL_STRING)
        return misfit(d, type->name);
    return newSVpvn((const char *)value->as.data, value->count);
}

static SV *new_time(pTHX_ const nearcall_value *value)
{
    return newSVnv((NV)value->as.integer + (NV)value->count / 1e9);
}

static SV *decode_time(pTHX_ decoder *d, const ncp_type *type, const nearcall_value *value)
{
    return value->type == NEARCALL_TIME ? new_time(aTHX_ value) : misfit(d, type->name);
}

static SV *decode_duration(pTHX_ decoder *d, const ncp_type *type, const nearcall_value *value)
{
    if (value->type != NEARCALL_INT)
        return misfit(d, type->name);
    return newSVnv((NV)value->as.integer / 1e9);
}

static SV *decode_file(pTHX_ decoder *d, const ncp_type *type, const nearcall_value *value)
{
    int fd = -1;

    if (value->type == NEARCALL_FILE && d->handle)
        fd = nearcall_take_file(d->handle->client, value->as.integer);
    if (fd < 0)
        return misfit(d, type->name);
    return ncp_new_file(aTHX_ fd, type->kind == NCP_CONNECTION ? NCP_SOCKET_CLASS : NULL);
}

/* ---- Lists, maps, structs ---- */

static SV *decode_read(pTHX_ decoder *d, const ncp_type *type, const nearcall_value *value);

static SV *decode_block(pTHX_ decoder *d, const ncp_type *type, const nearcall_value *block)
{
    unfinished self;
    AV *list;
    U32 i;

    if (block->extension_type != type->packed)
        return misfit(d, type->name);
    list = newAV();
    hold(d, &self, list);
    if (block->count > 0)
        av_extend(list, (SSize_t)block->count - 1);
    for (i = 0; i < block->count; i++) {
        nearcall_value value;
        SV *element = NULL;
        if (nearcall_packed_at(block, i, &value) == NEARCALL_OK)
            element = decode_read(aTHX_ d, type->element, &value);
        if (!element) {
            (void)misfit(d, type->element->name);
            return discard(aTHX_ d);
        }
        av_push(list, element);
    }
    return newRV_noinc(let_go(d));
}

/* As pack has it, from a block or from an array. */
static SV *decode_packed(pTHX_ decoder *d, const ncp_type *type, const nearcall_value *value)
{
    size_t count = value->type == NEARCALL_NIL ? 0 : value->count;
    STRLEN bytes = count * ncp_element_bytes[type->packed];
    SV *result;

    if (value->type != NEARCALL_NIL && value->type != NEARCALL_PACKED
        && (value->type != NEARCALL_ARRAY || !plausible(d, value)))
        return misfit(d, type->name);
    result = newSV(bytes + 1);
    /* The head is not read again: the server can still write to a reply in shared memory. */
    if (nearcall_read_elements(&d->reader, value, type->packed, SvPVX(result)) != NEARCALL_OK) {
        SvREFCNT_dec(result);
        return misfit(d, type->element->name);
    }
    SvPOK_only(result);
    SvCUR_set(result, bytes);
    *SvEND(result) = '\0';
    return result;
}

static SV *decode_list(pTHX_ decoder *d, const ncp_type *type, const nearcall_value *value)
{
    unfinished self;
    AV *list;
    U32 i;

    if (d->gives_packed && type->packed && type->element->kind != NCP_DURATION)
        return decode_packed(aTHX_ d, type, value);
    if (value->type == NEARCALL_PACKED)
        return decode_block(aTHX_ d, type, value);
    if (value->type == NEARCALL_NIL)
        return newRV_noinc((SV *)newAV());
    if (value->type != NEARCALL_ARRAY || !plausible(d, value))
        return misfit(d, type->name);
    list = newAV();
    hold(d, &self, list);
    if (value->count > 0)
        av_extend(list, (SSize_t)value->count - 1);
    for (i = 0; i < value->count; i++) {
        SV *element = decode_value(aTHX_ d, type->element);
        if (!element)
            return discard(aTHX_ d);
        av_push(list, element);
    }
    return newRV_noinc(let_go(d));
}

static bool decode_pair(pTHX_ decoder *d, const ncp_type *type, HV *map)
{
    unfinished self;
    SV *key = decode_value(aTHX_ d, type->key);
    SV *element = NULL;

    if (key && SvOK(key) && !SvROK(key)) {
        hold(d, &self, key);
        element = decode_value(aTHX_ d, type->element);
        (void)let_go(d);
    }
    if (element)
        (void)hv_store_ent(map, key, element, 0);
    SvREFCNT_dec(key);
    return element != NULL;
}

static SV *decode_map(pTHX_ decoder *d, const ncp_type *type, const nearcall_value *value)
{
    unfinished self;
    HV *map;
    U32 i;

    if (value->type == NEARCALL_NIL)
        return newRV_noinc((SV *)newHV());
    if (value->type != NEARCALL_MAP || !plausible(d, value))
        return misfit(d, type->name);
    map = newHV();
    hold(d, &self, map);
    for (i = 0; i < value->count; i++)
        if (!decode_pair(aTHX_ d, type, map))
            return discard(aTHX_ d);
    return newRV_noinc(let_go(d));
}

static bool is_name(const ncp_field *field, const nearcall_value *key)
{
    return field->text_bytes == key->count && memcmp(field->text, key->as.data, key->count) == 0;
}

/* Servers write fields in order, so the expected one is looked at first. */
static const ncp_field *find_field(const ncp_struct *structure, U32 expected,
                                   const nearcall_value *key)
{
    U32 i;

    if (expected < structure->fields_count && is_name(&structure->fields[expected], key))
        return &structure->fields[expected];
    for (i = 0; i < structure->fields_count; i++)
        if (is_name(&structure->fields[i], key))
            return &structure->fields[i];
    return NULL;
}

/* A field that a newer server added is skipped. */
static bool decode_member(pTHX_ decoder *d, const ncp_struct *structure, U32 index, HV *hash)
{
    const ncp_field *field;
    nearcall_value key;
    SV *element;

    if (nearcall_read(&d->reader, &key) != NEARCALL_OK || key.type != NEARCALL_STRING)
        return misfit(d, "a field's name") != NULL;
    field = find_field(structure, index, &key);
    if (!field)
        return nearcall_skip(&d->reader) == NEARCALL_OK && count_value(aTHX_ d);
    element = decode_value(aTHX_ d, field->type);
    if (!element)
        return false;
    (void)hv_store_ent(hash, field->name, element, SvSHARED_HASH(field->name));
    return true;
}

static SV *decode_struct(pTHX_ decoder *d, const ncp_type *type, const nearcall_value *value)
{
    unfinished self;
    HV *hash;
    U32 i;

    if (value->type != NEARCALL_MAP || !plausible(d, value))
        return misfit(d, type->name);
    hash = newHV();
    hold(d, &self, hash);
    for (i = 0; i < value->count; i++)
        if (!decode_member(aTHX_ d, type->structure, i, hash))
            return discard(aTHX_ d);
    return newRV_noinc(let_go(d));
}

/* ---- Any ---- */

static const ncp_type any_type = { .kind = NCP_ANY, .name = "any" };
static const ncp_type any_list = { .kind = NCP_LIST, .name = "list", .element = &any_type };
static const ncp_type any_map = { .kind = NCP_MAP, .name = "map", .key = &any_type,
                                  .element = &any_type };

static SV *decode_any(pTHX_ decoder *d, const nearcall_value *value)
{
    switch (value->type) {
    case NEARCALL_NIL: return newSV(0);
    case NEARCALL_BOOL: return new_bool(aTHX_ d, value->as.boolean);
    case NEARCALL_INT: return newSViv((IV)value->as.integer);
    case NEARCALL_UINT: return newSVuv((UV)value->as.unsigned_integer);
    case NEARCALL_FLOAT: return newSVnv(value->as.real);
    case NEARCALL_STRING: return new_text(aTHX_ d, value);
    case NEARCALL_BYTES: return newSVpvn((const char *)value->as.data, value->count);
    case NEARCALL_TIME: return new_time(aTHX_ value);
    case NEARCALL_ARRAY: return decode_list(aTHX_ d, &any_list, value);
    case NEARCALL_MAP: return decode_map(aTHX_ d, &any_map, value);
    }
    return misfit(d, "a value that Perl has");
}

static SV *decode_any_value(pTHX_ decoder *d, const ncp_type *type, const nearcall_value *value)
{
    PERL_UNUSED_ARG(type);
    return decode_any(aTHX_ d, value);
}

/* ---- From types to functions ---- */

typedef SV *(*decode_function)(pTHX_ decoder *d, const ncp_type *type,
                               const nearcall_value *value);

static SV *decode_optional(pTHX_ decoder *d, const ncp_type *type, const nearcall_value *value)
{
    return value->type == NEARCALL_NIL ? newSV(0) : decode_read(aTHX_ d, type->element, value);
}

static const decode_function decoders[] = {
    [NCP_BOOL] = decode_bool,       [NCP_INTEGER] = decode_integer,
    [NCP_FLOAT32] = decode_float,   [NCP_FLOAT64] = decode_float,
    [NCP_STRING] = decode_string,   [NCP_BYTES] = decode_bytes,
    [NCP_TIME] = decode_time,       [NCP_DURATION] = decode_duration,
    [NCP_ANY] = decode_any_value,   [NCP_LIST] = decode_list,
    [NCP_MAP] = decode_map,         [NCP_OPTIONAL] = decode_optional,
    [NCP_STRUCT] = decode_struct,   [NCP_FILE] = decode_file,
    [NCP_CONNECTION] = decode_file,
};

static SV *decode_read(pTHX_ decoder *d, const ncp_type *type, const nearcall_value *value)
{
    return count_value(aTHX_ d) ? decoders[type->kind](aTHX_ d, type, value) : NULL;
}

static SV *decode_value(pTHX_ decoder *d, const ncp_type *type)
{
    nearcall_value value;
    SV *result;

    if (nearcall_read(&d->reader, &value) != NEARCALL_OK)
        return misfit(d, "MessagePack that is whole");
    if (++d->depth > NCP_RECURSION_MAX)
        return misfit(d, "less nesting");
    result = decode_read(aTHX_ d, type, &value);
    d->depth--;
    return result;
}

/* ---- Results ---- */

static SV *misfit_error(pTHX_ SV *function_name, const char *expected)
{
    SV *message = newSVpvf("the result cannot be read: expected %s; "
                           "the server does not keep to its own description", expected);

    return ncp_error_new(aTHX_ -NEARCALL_E_INTERNAL, NEARCALL_OUTCOME_EXECUTED_RESULT_LOST,
                         function_name, message, NULL);
}

static SV *late_error(pTHX_ SV *function_name)
{
    return ncp_error_new(aTHX_ -NEARCALL_E_DEADLINE_EXCEEDED, NEARCALL_OUTCOME_EXECUTED_RESULT_LOST, function_name,
        newSVpvs("the deadline passed while the result was decoded; ask for less in one call, or give it "
                 "a longer timeout"), NULL);
}

/* Whether a reply is one value and nothing behind it, as deep as the protocol
 * allows, with as many results as are described; NULL, or what it should have been.
 * The library's reader does not recurse, so it looks before anything is built. */
static const char *reply_fault(const ncp_plan *plan, nearcall_reader reader)
{
    nearcall_value list;
    U32 missing = 1;

    if (plan->results_count > 1) {
        if (nearcall_read(&reader, &list) != NEARCALL_OK || list.type != NEARCALL_ARRAY
            || list.count != plan->results_count)
            return "as many results as are described";
        missing = list.count;
    }
    for (; missing > 0; missing--)
        if (nearcall_skip(&reader) != NEARCALL_OK)
            return "MessagePack that is whole and not nested too deeply";
    return reader.next == reader.end ? NULL : "nothing behind the result";
}

/* A reader of the reply, past the head of several results. */
static bool begin_results(pTHX_ decoder *d, SV *function_name, const ncp_plan *plan,
                          const nearcall_reply *reply, SV **ret_error)
{
    nearcall_value list;
    const char *expected;

    d->reader.next = reply->data;
    d->reader.end = reply->data + reply->bytes;
    expected = reply_fault(plan, d->reader);
    if (expected)
        *ret_error = misfit_error(aTHX_ function_name, expected);
    else if (plan->results_count > 1)
        (void)nearcall_read(&d->reader, &list);
    return !expected;
}

static SV *decode_result(pTHX_ decoder *d, SV *function_name, const ncp_type *type,
                         SV **ret_error)
{
    SV *result = decode_value(aTHX_ d, type);

    if (!result)
        *ret_error = d->is_late ? late_error(aTHX_ function_name)
                                : misfit_error(aTHX_ function_name, d->expected ? d->expected : "a result");
    return result;
}

/* The reply, where it is one value with none inside of it and nothing behind it. */
static bool is_one_value(const nearcall_reply *reply, nearcall_value *ret_value)
{
    nearcall_reader reader = { reply->data, reply->data + reply->bytes };

    return nearcall_read(&reader, ret_value) == NEARCALL_OK && reader.next == reader.end
        && ret_value->type != NEARCALL_ARRAY && ret_value->type != NEARCALL_MAP;
}

SV *ncp_decode_single(pTHX_ ncp_handle *handle, const SV *options, SV *function_name, const ncp_plan *plan,
                      const nearcall_reply *reply, const ncp_bounds *bounds, SV **ret_error)
{
    decoder d = { .handle = handle, .gives_packed = ncp_gives_packed(options), .bounds = bounds,
                  .values_left = VALUES_BETWEEN_LOOKS };
    nearcall_value value;
    SV *result;

    if (LIKELY(is_one_value(reply, &value))
        && (result = decode_read(aTHX_ &d, plan->results[0], &value)) != NULL)
        return result;
    if (!begin_results(aTHX_ &d, function_name, plan, reply, ret_error))
        return NULL;
    return decode_result(aTHX_ &d, function_name, plan->results[0], ret_error);
}

AV *ncp_decode_results(pTHX_ ncp_handle *handle, const SV *options, SV *function_name, const ncp_plan *plan,
                       const nearcall_reply *reply, const ncp_bounds *bounds, SV **ret_error)
{
    AV *results = (AV *)sv_2mortal((SV *)newAV());
    decoder d = { .handle = handle, .gives_packed = ncp_gives_packed(options), .bounds = bounds,
                  .values_left = VALUES_BETWEEN_LOOKS };
    U32 i;

    if (reply->codec == NEARCALL_CODEC_RAW) {
        av_push(results, newSVpvn((const char *)reply->data, reply->bytes));
        return results;
    }
    if (!begin_results(aTHX_ &d, function_name, plan, reply, ret_error))
        return NULL;
    for (i = 0; i < plan->results_count; i++) {
        SV *result = decode_result(aTHX_ &d, function_name, plan->results[i], ret_error);
        if (!result)
            return NULL;
        av_push(results, result);
    }
    return results;
}

SV *ncp_decode_details(pTHX_ const uint8_t *data, size_t bytes, const ncp_bounds *bounds)
{
    decoder d = { .reader = { data, data + bytes }, .depth = 1, .bounds = bounds, .values_left = VALUES_BETWEEN_LOOKS };
    AV *details = newAV();
    nearcall_value list;
    U32 i;

    if (nearcall_read(&d.reader, &list) != NEARCALL_OK || list.type != NEARCALL_ARRAY)
        return newRV_noinc((SV *)details);
    for (i = 0; i < list.count; i++) {
        SV *detail = decode_value(aTHX_ &d, &any_type);
        if (detail) {
            av_push(details, detail);
            continue;
        }
        if (!d.is_late)
            av_clear(details);
        break;
    }
    return newRV_noinc((SV *)details);
}
