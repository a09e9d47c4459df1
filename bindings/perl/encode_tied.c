/* Tied arrays and hashes: the object behind is asked itself, because perl's iterator of a tied
 * hash does not stand being used by its code, and code may untie what is being walked. Keys
 * are asked for first, as a count stands before all pairs; a value when its turn comes. */
#include "encode.h"

typedef struct tied_walk {
    SV *object;
    SV *name;     /* the key; NULL before the first */
    size_t bytes; /* that the pairs need at least */
} tied_walk;

bool ncp_is_tied(const HV *hash)
{
    return SvRMAGICAL(hash) && mg_find((const SV *)hash, PERL_MAGIC_tied);
}

bool ncp_is_made(const AV *array)
{
    return mg_find((const SV *)array, PERL_MAGIC_tied)
        || mg_find((const SV *)array, PERL_MAGIC_regdata);
}

SV *ncp_tied_value(pTHX_ ncp_encoder *e, const ncp_node *node, SV *key)
{
    HE *entry;

    if (!node->magical)
        return ncp_call_object(aTHX_ e, node->tied, "FETCH", key);
    entry = hv_fetch_ent((HV *)node->magical, key, 0, 0);
    return entry ? ncp_fetched(aTHX_ e, HeVAL(entry)) : &PL_sv_undef;
}

/* An element that perl made is its temporary. */
SV *ncp_tied_element(pTHX_ ncp_encoder *e, const ncp_node *node)
{
    SV **element;

    if (!node->magical)
        return ncp_call_object(aTHX_ e, node->tied, "FETCH",
                               sv_2mortal(newSViv((IV)node->index)));
    element = av_fetch((AV *)node->magical, node->index, 0);
    return element ? sv_2mortal(SvREFCNT_inc_simple_NN(*element)) : NULL;
}

/* What threads share is tied, too, but to functions in C instead of a method FETCH: each value
 * that perl makes of it asks them. */
static bool has_fetch(SV *container)
{
    const MAGIC *magic = mg_find(container, PERL_MAGIC_tied);

    return magic && magic->mg_virtual == &PL_vtbl_pack;
}

/* What user code unties goes on being asked. NULL for magic that is perl's own. */
static SV *hold_object(pTHX_ ncp_encoder *e, ncp_node *node, SV *container)
{
    const MAGIC *magic = mg_find(container, PERL_MAGIC_tied);
    SV *object = magic ? SvTIED_obj(container, magic) : NULL;

    node->magical = has_fetch(container) ? NULL : container;
    (void)sv_2mortal(SvREFCNT_inc_simple_NN(container));
    (void)sv_2mortal(SvREFCNT_inc(object));
    ncp_own(aTHX_ e);
    ncp_hold(aTHX_ e, container);
    if (object)
        ncp_hold(aTHX_ e, object);
    return object;
}

void ncp_tied_list(pTHX_ ncp_encoder *e, ncp_node *node, AV *array)
{
    node->tied = hold_object(aTHX_ e, node, (SV *)array);
    node->count = av_len(array) + 1;
    ncp_user_code_ran(aTHX_ e);
}

/* Ends where the keys alone do not fit a frame. */
static bool walk_next(pTHX_ ncp_encoder *e, tied_walk *walk)
{
    U32 runs = e->runs;
    SV *key;

    ncp_pause(aTHX_ e);
    key = walk->name ? ncp_call_object(aTHX_ e, walk->object, "NEXTKEY", walk->name)
                     : ncp_call_object(aTHX_ e, walk->object, "FIRSTKEY", NULL);

    if (!SvOK(key))
        return false;
    if (!walk->name) {
        walk->name = newSV(0);
        av_push(e->owned, walk->name);
    }
    sv_setsv(walk->name, ncp_plain_text(aTHX_ key)); /* user code, where it overloads */
    walk->bytes += 2 + SvCUR(walk->name);
    ncp_free_temporaries(aTHX_ e, &runs);
    ncp_require_room(aTHX_ e, walk->bytes);
    return true;
}

void ncp_tied_pairs(pTHX_ ncp_encoder *e, ncp_node *node, HV *hash)
{
    tied_walk walk = { .object = hold_object(aTHX_ e, node, (SV *)hash) };
    SSize_t copies = e->copies;
    AV *list = newAV();

    av_push(e->owned, (SV *)list);
    while (walk_next(aTHX_ e, &walk)) {
        e->copies++;
        av_push(list, newSVsv(walk.name));
        av_push(list, NULL);
    }
    node->values = AvARRAY(list);
    node->count = AvFILLp(list) + 1;
    node->tied = walk.object;
    node->is_owned = true;
    ncp_assign_copies(e, node, copies);
}

void ncp_tied_fields(pTHX_ ncp_encoder *e, ncp_node *node, SV **values, HV *hash)
{
    const ncp_struct *structure = node->structure;
    tied_walk walk = { .object = hold_object(aTHX_ e, node, (SV *)hash) };

    node->tied = walk.object;
    while (walk_next(aTHX_ e, &walk)) {
        U32 place = ncp_field_place(aTHX_ structure, walk.name);
        if (place == structure->fields_count && !ncp_is_private(node, walk.name))
            ncp_refuse_unknown_key(aTHX_ e, node, walk.name);
        if (place == structure->fields_count || values[place])
            continue;
        values[place] = ncp_own_copy(aTHX_ e, ncp_tied_value(aTHX_ e, node, walk.name));
        node->count++;
    }
}
