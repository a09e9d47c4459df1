/* Keys of a map that perl tells apart and that are one in the request: a number written in two
 * ways, or what a tied hash gives twice. The server would keep one of both, by chance. */
#include "encode.h"

/* A key that was seen is given back as so many copies of scalars are. */
#define COPIES_OF_KEY 2

/* As perl prints it; without a look at how many digits fit, as others are refused anyway. */
static bool is_printed_whole(const char *text, I32 bytes)
{
    const char *end = text + bytes;

    if (bytes > 1 && *text == '-' && text[1] != '0')
        text++;
    if (text == end || (*text == '0' && end - text > 1))
        return false;
    while (text < end && isDIGIT(*text))
        text++;
    return text == end;
}

bool ncp_has_number_otherwise(pTHX_ ncp_encoder *e, const ncp_node *node)
{
    ncp_node walk = *node;

    for (; walk.next; ncp_hash_skip(aTHX_ e, &walk)) {
        ncp_spend(aTHX_ e, (size_t)HeKLEN(walk.next));
        if (PL_sig_pending || !is_printed_whole(HeKEY(walk.next), HeKLEN(walk.next)))
            return true;
    }
    return false;
}

/* What the key is in the request. Texts that are no numbers are refused when they are encoded. */
static SV *encoded_key(pTHX_ const ncp_type *type, SV *key)
{
    ncp_whole number;

    if (type->kind != NCP_INTEGER || !ncp_whole_of(aTHX_ key, &number))
        return key;
    return sv_2mortal(newSVpvf("%s%" UVuf, number.negative && number.magnitude != 0 ? "-" : "",
                               number.magnitude));
}

static void refuse_same(pTHX_ const ncp_encoder *e, const ncp_type *type, SV *key)
    __attribute__((noreturn));

static void refuse_same(pTHX_ const ncp_encoder *e, const ncp_type *type, SV *key)
{
    SV *message = ncp_place(aTHX_ e);

    if (type->kind == NCP_INTEGER)
        sv_catpvf(message, ": two of its keys are the number %" SVf, SVfARG(key));
    else
        sv_catpvf(message, ": two of its keys are %" SVf, SVfARG(ncp_shown_name(aTHX_ key)));
    ncp_throw_invalid(aTHX_ e->call, message);
}

/* Throws where the key was seen before. */
static void note_key(pTHX_ const ncp_encoder *e, const ncp_type *type, SV *name, HV *seen)
{
    SV *key;

    ENTER;
    SAVETMPS;
    key = encoded_key(aTHX_ type, name);
    if (hv_exists_ent(seen, key, 0))
        refuse_same(aTHX_ e, type, key);
    (void)hv_store_ent(seen, key, &PL_sv_yes, 0);
    FREETMPS;
    LEAVE;
}

/* Whether the map has become the encoder's own with it, so that a walk through it has to begin anew. */
static bool run_handlers(pTHX_ ncp_encoder *e, ncp_node *node)
{
    bool was_owned = node->is_owned;

    ncp_enter(aTHX_ e, node);
    ncp_run_handlers(aTHX_ e);
    ncp_leave(e, node);
    return !was_owned;
}

void ncp_require_distinct(pTHX_ ncp_encoder *e, const ncp_type *key_type, ncp_node *node)
{
    ncp_node walk = *node;
    HV *seen = (HV *)sv_2mortal((SV *)newHV());
    SSize_t copies = 0, keys = node->is_owned ? node->count / 2 : (SSize_t)HvUSEDKEYS(node->hash);
    SV *ignored;

    ncp_foresee_copies(aTHX_ e, COPIES_OF_KEY * keys);
    while (ncp_hash_next(aTHX_ e, &walk, &ignored)) {
        copies += COPIES_OF_KEY;
        e->copies += COPIES_OF_KEY;
        ncp_spend(aTHX_ e, SvCUR(walk.name));
        note_key(aTHX_ e, key_type, walk.name, seen);
        if (UNLIKELY(PL_sig_pending) && run_handlers(aTHX_ e, node)) {
            walk = *node;
            hv_clear(seen);
            e->copies -= copies;
            copies = 0;
        }
    }
    hv_undef(seen);
    e->copies -= copies;
}
