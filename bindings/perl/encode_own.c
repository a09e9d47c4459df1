/* What the encoder walks, and how it becomes the encoder's own before user code can
 * change it. As long as none runs, nothing is copied and no reference is counted. */
#include "encode.h"

/* An object whose code sends the object again does so for ever. */
#define NESTED_ENCODINGS_MAX 50

void ncp_hold(pTHX_ ncp_encoder *e, SV *value)
{
    av_push(e->owned, SvREFCNT_inc_simple_NN(value));
}

/* ---- Taking over ---- */

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
    values = ncp_new_values(aTHX_ e, node->count);
    for (i = node->index + 1; i < node->count; i++)
        values[i] = node->values[i] ? ncp_copy_of(aTHX_ node->values[i]) : NULL;
    node->values = values;
}

/* The entry from here on that holds a value: those of restricted hashes need not. */
static HE *entry_from(ncp_node *node, HE *entry)
{
    HE **buckets = HvARRAY(node->hash);

    for (;;) {
        while (entry && HeVAL(entry) == &PL_sv_placeholder)
            entry = HeNEXT(entry);
        if (entry || !buckets || node->bucket > HvMAX(node->hash))
            return entry;
        entry = buckets[node->bucket++];
    }
}

void ncp_hash_skip(ncp_node *node)
{
    node->next = entry_from(node, HeNEXT(node->next));
}

static SSize_t hash_left(const ncp_node *node)
{
    ncp_node ahead = *node;
    SSize_t left = 0;

    for (; ahead.next; ncp_hash_skip(&ahead))
        left++;
    return left;
}

static void own_hash(pTHX_ ncp_encoder *e, ncp_node *node)
{
    SV **values;

    ncp_hold(aTHX_ e, node->name);
    ncp_hold(aTHX_ e, node->value);
    node->count = 2 * hash_left(node);
    node->values = ncp_new_values(aTHX_ e, node->count);
    for (values = node->values; node->next; ncp_hash_skip(node)) {
        *values++ = newSVhek(HeKEY_hek(node->next));
        *values++ = ncp_copy_of(aTHX_ HeVAL(node->next));
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
        SV *value = ncp_field_value(aTHX_ &ahead);
        if (!value)
            continue;
        if (ahead.index == node->index)
            ncp_hold(aTHX_ e, value);
        values[ahead.index] = ncp_copy_of(aTHX_ value);
        left++;
    }
    if (left != node->count)
        ncp_refuse_unknown_field(aTHX_ e, node);
    node->values = values;
}

static void own_node(pTHX_ ncp_encoder *e, ncp_node *node)
{
    if (node->structure)
        own_struct(aTHX_ e, node);
    else if (node->hash)
        own_hash(aTHX_ e, node);
    else
        own_list(aTHX_ e, node);
    node->is_owned = true;
}

/* Closing the handle frees the plan. What is kept for after the encoding is made before
 * SAVETMPS. */
static void own_call(pTHX_ ncp_encoder *e)
{
    ncp_handle *handle = e->call->handle;

    e->call->code_began_ms = ncp_now_ms();
    ncp_keep(aTHX_ e->call);
    e->owned = (AV *)sv_2mortal((SV *)newAV());
    ENTER;
    SAVETMPS;
    SAVEI32(handle->encodings);
    if (e->plan)
        ncp_hold(aTHX_ e, (SV *)e->plan->memory);
    if (++handle->encodings > NESTED_ENCODINGS_MAX)
        ncp_refuse_because(aTHX_ e, "its own code calls the same handle with it, again and again");
}

void ncp_own(pTHX_ ncp_encoder *e)
{
    ncp_node *node;

    e->runs++;
    e->call->has_asked = e->call->has_asked || e->plan;
    if (!e->owned)
        own_call(aTHX_ e);
    /* What is around an owned node is owned as well. */
    for (node = e->node; node && !node->is_owned; node = node->parent)
        own_node(aTHX_ e, node);
}

/* ---- After user code ---- */

static void check_time(pTHX_ const ncp_encoder *e)
{
    const ncp_invocation *call = e->call;

    if (call->timeout_ms <= 0 || ncp_now_ms() - call->code_began_ms < call->timeout_ms)
        return;
    ncp_throw(aTHX_ ncp_error_new(aTHX_ -NEARCALL_E_DEADLINE_EXCEEDED,
        NEARCALL_OUTCOME_NOT_EXECUTED, call->name,
        newSVpvs("code that belongs to the arguments took all of the call's time"), NULL));
}

/* Code that made a call on this handle has overwritten the request, and may have closed
 * the handle: nothing may be written any more. Before there is a request it may call. */
void ncp_user_code_ran(pTHX_ const ncp_encoder *e)
{
    const ncp_handle *handle = e->call->handle;

    if (!e->plan && !handle->client)
        croak("Nearcall: the handle was closed by an argument's own code");
    if (e->plan && (!handle->client || handle->requests != e->call->requests))
        ncp_refuse_because(aTHX_ e, "its own code used the handle that it is an argument for; "
                                "compute the value before the call");
    check_time(aTHX_ e);
}

void ncp_free_temporaries(pTHX_ ncp_encoder *e, U32 *runs)
{
    if (LIKELY(e->runs == *runs))
        return;
    FREETMPS; /* destructors are user code too */
    ncp_user_code_ran(aTHX_ e);
    *runs = e->runs;
}

void ncp_disown(pTHX_ ncp_encoder *e)
{
    ncp_invocation *call = e->call;

    if (LIKELY(!e->owned))
        return;
    LEAVE;
    check_time(aTHX_ e);
    ncp_shorten_timeout(call, ncp_now_ms() - call->code_began_ms);
}

void ncp_check_room(pTHX_ const ncp_encoder *e)
{
    SV *error, *place, **message;

    if (LIKELY(nearcall_put_check(e->client) == NEARCALL_OK))
        return;
    error = ncp_error_from_client(aTHX_ e->client, e->call->name);
    message = hv_fetchs((HV *)SvRV(error), "message", 0);
    place = ncp_place(aTHX_ e);
    sv_catpvf(place, ": %" SVf, SVfARG(*message));
    sv_setsv(*message, sv_2mortal(place));
    ncp_throw(aTHX_ error);
}

/* ---- Walking ---- */

void ncp_enter(pTHX_ ncp_encoder *e, ncp_node *node)
{
    ncp_check_room(aTHX_ e);
    node->parent = e->node;
    e->node = node;
}

void ncp_leave(ncp_encoder *e, const ncp_node *node)
{
    e->node = node->parent;
}

void ncp_require_room(pTHX_ const ncp_encoder *e, size_t values)
{
    if (LIKELY(values <= NC_FRAME_BYTES_MAX_CEILING))
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

void ncp_hash_begin(ncp_node *node, HV *hash)
{
    node->hash = hash;
    node->next = entry_from(node, NULL);
}

/* Never by the hash's own iterator: that is the program's. */
bool ncp_hash_next(pTHX_ ncp_node *node, SV **ret_value)
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
    node->name = sv_2mortal(newSVhek(HeKEY_hek(node->next)));
    *ret_value = node->value = HeVAL(node->next);
    ncp_hash_skip(node);
    return true;
}

/* Perl itself would run the code of a hash with magic. As where all pairs are taken, what lies in
 * it is what it holds. */
static SV *value_in_magical(pTHX_ HV *hash, SV *name)
{
    ncp_node walk = { 0 };

    ncp_hash_begin(&walk, hash);
    for (; walk.next; ncp_hash_skip(&walk))
        if (sv_eq(name, sv_2mortal(newSVhek(HeKEY_hek(walk.next)))))
            return HeVAL(walk.next);
    return NULL;
}

/* A restricted hash dies of being asked for a key that it does not allow. */
SV *ncp_field_value(pTHX_ const ncp_node *node)
{
    const ncp_field *field = &node->structure->fields[node->index];
    HE *entry;

    if (node->is_owned)
        return node->values[node->index];
    if (UNLIKELY(SvMAGICAL(node->hash)))
        return value_in_magical(aTHX_ node->hash, field->name);
    if (UNLIKELY(SvREADONLY(node->hash))
        && !hv_exists_ent(node->hash, field->name, SvSHARED_HASH(field->name)))
        return NULL;
    entry = hv_fetch_ent(node->hash, field->name, 0, SvSHARED_HASH(field->name));
    return entry ? HeVAL(entry) : NULL;
}
