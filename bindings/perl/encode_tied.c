/* Tied hashes: their keys are asked for first, as a count stands before all pairs; a value
 * is fetched when its turn comes. The object behind is asked itself: perl's iterator of a
 * tied hash does not stand being used by its code. */
#include "encode.h"

typedef struct tied_walk {
    HV *hash;
    SV *object;
    SV *name;     /* the key; NULL before the first */
    size_t bytes; /* that the pairs need at least */
} tied_walk;

bool ncp_is_tied(const HV *hash)
{
    return SvRMAGICAL(hash) && mg_find((const SV *)hash, PERL_MAGIC_tied);
}

SV *ncp_tied_value(pTHX_ HV *hash, SV *name)
{
    HE *entry = hv_fetch_ent(hash, name, 0, 0);

    return entry ? sv_2mortal(SvREFCNT_inc_simple_NN(HeVAL(entry))) : &PL_sv_undef;
}

static void walk_begin(pTHX_ ncp_encoder *e, tied_walk *walk, HV *hash)
{
    ncp_own(aTHX_ e);
    ncp_hold(aTHX_ e, (SV *)hash);
    walk->hash = hash;
    walk->object = SvTIED_obj((SV *)hash, mg_find((SV *)hash, PERL_MAGIC_tied));
    ncp_hold(aTHX_ e, walk->object);
}

/* Ends where the keys alone do not fit a frame. */
static bool walk_next(pTHX_ ncp_encoder *e, tied_walk *walk)
{
    U32 runs = e->runs;
    SV *key = walk->name ? ncp_call_object(aTHX_ e, walk->object, "NEXTKEY", walk->name)
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
    tied_walk walk = { 0 };
    AV *list = newAV();

    walk_begin(aTHX_ e, &walk, hash);
    av_push(e->owned, (SV *)list);
    while (walk_next(aTHX_ e, &walk)) {
        av_push(list, newSVsv(walk.name));
        av_push(list, NULL);
    }
    node->values = AvARRAY(list);
    node->count = AvFILLp(list) + 1;
    node->tied = (SV *)hash;
    node->is_owned = true;
}

void ncp_tied_fields(pTHX_ ncp_encoder *e, ncp_node *node, HV *hash)
{
    const ncp_struct *structure = node->structure;
    tied_walk walk = { 0 };
    SV **values;

    walk_begin(aTHX_ e, &walk, hash);
    values = ncp_new_values(aTHX_ e, structure->fields_count);
    while (walk_next(aTHX_ e, &walk)) {
        U32 place = ncp_field_place(aTHX_ structure, walk.name);
        if (place == structure->fields_count)
            ncp_refuse_unknown_key(aTHX_ e, node, walk.name);
        if (values[place])
            continue;
        values[place] = ncp_tied_value(aTHX_ hash, walk.name);
        SvREFCNT_inc_simple_void_NN(values[place]);
        node->count++;
    }
    node->values = values;
    node->is_owned = true;
}
