/* What the encoder walks, and how it becomes the encoder's own before user code can
 * change it. As long as none runs, nothing is copied and no reference is counted. */
#include "encode.h"

/* An object whose code sends the object again does so for ever. */
#define ENCODINGS_MAX 50

void ncp_hold(pTHX_ ncp_encoder *e, SV *value)
{
    av_push(e->owned, SvREFCNT_inc_simple_NN(value));
}

/* ---- Taking over ---- */

void ncp_count_copy(pTHX_ ncp_encoder *e, const SV *value)
{
    if (UNLIKELY(!ncp_fits_copied(e->call, &e->copied_bytes, value)))
        ncp_throw_too_large(aTHX_ e->call);
}

SV *ncp_own_copy(pTHX_ ncp_encoder *e, SV *value)
{
    e->copies++;
    if (UNLIKELY(!ncp_fits_copied(e->call, &e->copied_bytes, value))) {
        if (!e->is_interrupted)
            ncp_throw_too_large(aTHX_ e->call);
        return SvREFCNT_inc_simple_NN(value);
    }
    return ncp_copy_of(aTHX_ value);
}

SV **ncp_new_values(pTHX_ ncp_encoder *e, SSize_t count)
{
    AV *list = newAV();

    av_push(e->owned, (SV *)list);
    if (count == 0)
        return NULL;
    av_fill(list, count - 1);
    return AvARRAY(list);
}

static void own_list(pTHX_ ncp_encoder *e, ncp_node *node)
{
    SV **values;
    SSize_t i;

    if (node->tied || node->magical)
        return;
    if (node->index < node->count && node->values[node->index])
        ncp_hold(aTHX_ e, node->values[node->index]);
    ncp_foresee_copies(aTHX_ e, node->count - node->index);
    values = ncp_new_values(aTHX_ e, node->count);
    for (i = node->index + 1; i < node->count; i++) {
        ncp_spend(aTHX_ e, 1);
        values[i] = node->values[i] ? ncp_own_copy(aTHX_ e, node->values[i]) : NULL;
    }
    node->values = values;
}

/* The entry from here on that holds a value: those of restricted hashes need not. */
static HE *entry_from(pTHX_ ncp_encoder *e, ncp_node *node, HE *entry)
{
    HE **buckets = HvARRAY(node->hash);

    for (;; ncp_spend(aTHX_ e, 1)) {
        if (entry && HeVAL(entry) == &PL_sv_placeholder)
            entry = HeNEXT(entry);
        else if (entry || !buckets || node->bucket > HvMAX(node->hash))
            return entry;
        else
            entry = buckets[node->bucket++];
    }
}

void ncp_hash_skip(pTHX_ ncp_encoder *e, ncp_node *node)
{
    node->next = entry_from(aTHX_ e, node, HeNEXT(node->next));
}

static SSize_t hash_left(pTHX_ ncp_encoder *e, const ncp_node *node)
{
    ncp_node ahead = *node;
    SSize_t left = 0;

    for (; ahead.next; ncp_hash_skip(aTHX_ e, &ahead))
        left++;
    return left;
}

/* At its beginning no pair is being written. */
static void own_hash(pTHX_ ncp_encoder *e, ncp_node *node)
{
    SV **values;

    if (node->value) {
        ncp_hold(aTHX_ e, node->name);
        ncp_hold(aTHX_ e, node->value);
    }
    node->count = 2 * hash_left(aTHX_ e, node);
    ncp_foresee_copies(aTHX_ e, node->count);
    node->values = ncp_new_values(aTHX_ e, node->count);
    for (values = node->values; node->next; ncp_hash_skip(aTHX_ e, node)) {
        e->copies++;
        *values++ = newSVhek(HeKEY_hek(node->next));
        *values++ = ncp_own_copy(aTHX_ e, HeVAL(node->next));
    }
    node->index = 0;
}

/* Keys that are no fields are refused now: later they may be gone. */
static void own_struct(pTHX_ ncp_encoder *e, ncp_node *node)
{
    ncp_node ahead = *node;
    SV **values = ncp_new_values(aTHX_ e, node->structure->fields_count);
    SSize_t left = 0;

    for (; ahead.index < (SSize_t)node->structure->fields_count; ahead.index++) {
        SV *value = ncp_field_value(aTHX_ e, &ahead);
        if (!value)
            continue;
        if (ahead.index == node->index)
            ncp_hold(aTHX_ e, value);
        values[ahead.index] = ncp_own_copy(aTHX_ e, value);
        left++;
    }
    if (left != node->count)
        ncp_refuse_unknown_field(aTHX_ e, node);
    node->values = values;
}

static SV *name_at(const ncp_node *node, SSize_t place)
{
    if (node->structure)
        return node->structure->fields[place].name;
    return node->hash ? node->values[place - 1] : NULL;
}

/* The node is where errors say that they are. What was there is freed with the element that
 * is being written. */
void ncp_ask_from(pTHX_ ncp_encoder *e, ncp_node *node, SSize_t place)
{
    ncp_node asked = *node, *inside = e->node;
    SSize_t count = node->structure ? (SSize_t)node->structure->fields_count : node->count;

    if (!node->values || node->tied || node->magical)
        return;
    e->node = &asked;
    for (asked.index = place; asked.index < count; asked.index++) {
        SV *said, *value = node->values[asked.index];
        if (!value || LIKELY(!SvGMAGICAL(value)))
            continue;
        asked.name = name_at(node, asked.index);
        said = ncp_fetched(aTHX_ e, value);
        node->values[asked.index] = SvREFCNT_inc_simple_NN(said);
        (void)sv_2mortal(value);
    }
    e->node = inside;
}

static void own_node(pTHX_ ncp_encoder *e, ncp_node *node)
{
    SSize_t former = e->copies;

    if (node->structure)
        own_struct(aTHX_ e, node);
    else if (node->hash)
        own_hash(aTHX_ e, node);
    else
        own_list(aTHX_ e, node);
    node->is_owned = true;
    node->copies += e->copies - former;
}

static void end_encoding(pTHX_ void *handle)
{
    ((ncp_handle *)handle)->encodings--;
    ncp_handle_release(aTHX_ handle);
}

/* Counted down, not set back to what it was: with coroutines it is not the last that ends first. */
static void begin_encoding(pTHX_ const ncp_encoder *e)
{
    ncp_handle *handle = e->call->handle;

    handle->references++;
    handle->encodings++;
    SAVEDESTRUCTOR_X(end_encoding, handle);
    if (handle->encodings > ENCODINGS_MAX)
        ncp_refuse_because(aTHX_ e, "its own code runs within, or beside, that of "
                           STRINGIFY(ENCODINGS_MAX) " other calls by the same handle");
}

/* Closing the handle frees the plan. What is kept for after the encoding is made before
 * SAVETMPS. */
static void own_call(pTHX_ ncp_encoder *e)
{
    if (!e->call->work_began_ms)
        e->call->work_began_ms = ncp_now_ms();
    ncp_keep(aTHX_ e->call);
    e->owned = (AV *)sv_2mortal((SV *)newAV());
    ENTER;
    SAVETMPS;
    begin_encoding(aTHX_ e);
    if (!ncp_fits_bytes(e->client, e->call->copied_bytes) && !e->is_interrupted)
        ncp_throw_too_large(aTHX_ e->call);
    if (e->plan)
        ncp_hold(aTHX_ e, (SV *)e->plan->memory);
}

/* Returns the first node that was owned before; NULL. */
ncp_node *ncp_own_unasked(pTHX_ ncp_encoder *e)
{
    ncp_node *node;

    e->runs++;
    e->class_known = NULL;
    e->call->has_asked = e->call->has_asked || e->plan;
    if (!e->owned)
        own_call(aTHX_ e);
    /* What is around an owned node is owned as well. */
    for (node = e->node; node && !node->is_owned; node = node->parent)
        own_node(aTHX_ e, node);
    return node;
}

void ncp_ask_ahead(pTHX_ ncp_encoder *e, const ncp_node *end)
{
    ncp_node *node;

    for (node = e->node; node != end; node = node->parent)
        ncp_ask_from(aTHX_ e, node, node->hash && !node->structure ? 0 : node->index + 1);
}

void ncp_own(pTHX_ ncp_encoder *e)
{
    ncp_ask_ahead(aTHX_ e, ncp_own_unasked(aTHX_ e));
}

/* ---- After user code ---- */

/* Code that made a call on this handle has overwritten the request, and may have closed
 * the handle: nothing may be written any more. Before there is a request it may call. */
void ncp_user_code_ran(pTHX_ ncp_encoder *e)
{
    const ncp_handle *handle = e->call->handle;

    e->class_known = NULL;
    if (!e->plan && !handle->client)
        croak("Nearcall: the handle was closed by an argument's own code");
    if (e->plan && (!handle->client || handle->requests != e->call->requests))
        ncp_refuse_because(aTHX_ e, "its own code used the handle that it is an argument for; "
                                "compute the value before the call");
    ncp_check_time(aTHX_ e);
}

void ncp_free_temporaries(pTHX_ ncp_encoder *e, U32 *runs)
{
    if (LIKELY(e->runs == *runs))
        return;
    FREETMPS; /* destructors are user code too */
    ncp_user_code_ran(aTHX_ e);
    *runs = e->runs;
}

/* What is around an owned node is owned as well: nothing will be held for it any more. Nothing is around
 * an argument, and before any is encoded only the plan is held. */
ncp_element ncp_element_begin(const ncp_encoder *e, const ncp_node *node)
{
    SSize_t held = node ? -1 : 1;

    if (e->owned && (!node || node->is_owned))
        held = AvFILLp(e->owned) + 1;
    return (ncp_element){ .runs = e->runs, .held = held };
}

void ncp_element_end(pTHX_ ncp_encoder *e, const ncp_node *node, ncp_element *element)
{
    if (LIKELY(e->runs == element->runs))
        return;
    FREETMPS;
    while (element->held >= 0 && AvFILLp(e->owned) >= element->held)
        SvREFCNT_dec(av_pop(e->owned));
    ncp_user_code_ran(aTHX_ e);
    *element = ncp_element_begin(e, node);
}

void ncp_disown(pTHX_ ncp_encoder *e)
{
    if (UNLIKELY(e->owned))
        LEAVE;
}

void ncp_check_room(pTHX_ const ncp_encoder *e)
{
    SV *error, *place, **message;

    if (LIKELY(nearcall_put_check(e->client) == NEARCALL_OK))
        return;
    error = ncp_error_from_client(aTHX_ e->client, e->call->name, NULL);
    message = hv_fetchs((HV *)SvRV(error), "message", 0);
    place = ncp_place(aTHX_ e);
    sv_catpvf(place, ": %" SVf, SVfARG(*message));
    sv_setsv(*message, sv_2mortal(place));
    ncp_throw_of(aTHX_ e->call, error);
}

/* ---- Walking ---- */

void ncp_enter(pTHX_ ncp_encoder *e, ncp_node *node)
{
    ncp_check_room(aTHX_ e);
    node->parent = e->node;
    e->node = node;
    e->copies += node->copies;
}

void ncp_leave(ncp_encoder *e, const ncp_node *node)
{
    e->node = node->parent;
    e->copies -= node->copies;
}

void ncp_require_room(pTHX_ const ncp_encoder *e, size_t values)
{
    if (LIKELY(ncp_fits_bytes(e->client, values)))
        return;
    (void)nearcall_put_reserve(e->client, values);
    ncp_check_room(aTHX_ e);
}

void ncp_list_begin(pTHX_ ncp_encoder *e, ncp_node *node, AV *array)
{
    if (LIKELY(!SvRMAGICAL(array)) || !ncp_is_made(array)) {
        node->values = AvARRAY(array);
        node->count = AvFILLp(array) + 1;
    } else {
        ncp_tied_list(aTHX_ e, node, array);
    }
    ncp_require_room(aTHX_ e, (size_t)node->count);
}

SV *ncp_list_value(pTHX_ ncp_encoder *e, const ncp_node *node)
{
    return LIKELY(node->values != NULL) ? node->values[node->index]
                                        : ncp_tied_element(aTHX_ e, node);
}

void ncp_hash_begin(pTHX_ ncp_encoder *e, ncp_node *node, HV *hash)
{
    node->hash = hash;
    node->key = sv_2mortal(newRV_noinc(newSV(0)));
    node->next = entry_from(aTHX_ e, node, NULL);
}

/* A map may have millions of them. */
static SV *take_name(pTHX_ ncp_node *node)
{
    SV *former = SvRV(node->key);

    SvRV_set(node->key, newSVhek(HeKEY_hek(node->next)));
    SvREFCNT_dec(former);
    return SvRV(node->key);
}

/* Never by the hash's own iterator: that is the program's. */
bool ncp_hash_next(pTHX_ ncp_encoder *e, ncp_node *node, SV **ret_value)
{
    if (node->is_owned) {
        if (node->index == node->count)
            return false;
        node->name = node->values[node->index++];
        *ret_value = node->values[node->index++];
        return true;
    }
    if (!node->next)
        return false;
    node->name = take_name(aTHX_ node);
    *ret_value = node->value = HeVAL(node->next);
    ncp_hash_skip(aTHX_ e, node);
    return true;
}

/* Perl itself would run the code of a hash with magic. As where all pairs are taken, what lies in
 * it is what it holds. */
static SV *value_in_magical(pTHX_ ncp_encoder *e, HV *hash, SV *name)
{
    ncp_node walk = { 0 };
    SV *value;

    ncp_hash_begin(aTHX_ e, &walk, hash);
    while (ncp_hash_next(aTHX_ e, &walk, &value))
        if (ncp_is_key(aTHX_ name, walk.name))
            return value;
    return NULL;
}

/* A restricted hash dies of being asked for a key that it does not allow. */
SV *ncp_field_value(pTHX_ ncp_encoder *e, const ncp_node *node)
{
    const ncp_field *field = &node->structure->fields[node->index];
    HE *entry;

    ncp_spend(aTHX_ e, 1);
    if (node->is_owned)
        return node->values[node->index];
    if (UNLIKELY(SvMAGICAL(node->hash)))
        return value_in_magical(aTHX_ e, node->hash, field->name);
    if (UNLIKELY(SvREADONLY(node->hash))
        && !hv_exists_ent(node->hash, field->name, SvSHARED_HASH(field->name)))
        return NULL;
    entry = hv_fetch_ent(node->hash, field->name, 0, SvSHARED_HASH(field->name));
    return entry ? HeVAL(entry) : NULL;
}
