/* Structs: of hashes, which may leave fields out, and of objects, which may not. */
#include "encode.h"

/* ---- Refusing ---- */

/* Perl itself would warn of a key that only claims to hold characters, and handlers of warnings are
 * user code. A name does hold them. */
bool ncp_is_key(pTHX_ SV *name, SV *key)
{
    if (UNLIKELY(SvUTF8(name) && !SvUTF8(key)))
        return sv_eq(name, key);
    return SvCUR(name) == SvCUR(key) && memEQ(SvPVX_const(name), SvPVX_const(key), SvCUR(key));
}

U32 ncp_field_place(pTHX_ const ncp_struct *structure, SV *key)
{
    U32 place;

    for (place = 0; place < structure->fields_count; place++)
        if (ncp_is_key(aTHX_ structure->fields[place].name, key))
            break;
    return place;
}

static bool is_field(pTHX_ const ncp_struct *structure, SV *key)
{
    return ncp_field_place(aTHX_ structure, key) < structure->fields_count;
}

/* The place is that of the struct, whatever field it is at. */
static SV *place_of(pTHX_ const ncp_encoder *e, const ncp_node *node)
{
    ncp_encoder outside = *e;

    if (outside.node == node)
        outside.node = node->parent;
    return ncp_place(aTHX_ &outside);
}

void ncp_append_fields(pTHX_ SV *message, const ncp_struct *structure)
{
    U32 i;

    for (i = 0; i < structure->fields_count; i++)
        sv_catpvf(message, "%s%" SVf, i ? ", " : "", SVfARG(structure->fields[i].name));
    if (structure->fields_count == 0)
        sv_catpvs(message, "no fields");
}

void ncp_refuse_unknown_key(pTHX_ const ncp_encoder *e, const ncp_node *node, SV *key)
{
    SV *message = place_of(aTHX_ e, node);

    sv_catpvf(message, ": %" SVf " has no field %" SVf "; it has ",
              SVfARG(node->structure->name), SVfARG(ncp_shown_name(aTHX_ key)));
    ncp_append_fields(aTHX_ message, node->structure);
    ncp_throw_invalid(aTHX_ e->call, message);
}

void ncp_refuse_unknown_field(pTHX_ ncp_encoder *e, const ncp_node *node)
{
    ncp_node walk = { 0 };
    SV *value;

    ncp_hash_begin(aTHX_ e, &walk, node->hash);
    while (ncp_hash_next(aTHX_ e, &walk, &value) && is_field(aTHX_ node->structure, walk.name))
        continue;
    ncp_refuse_unknown_key(aTHX_ e, node, walk.name);
}

static void refuse_without(pTHX_ const ncp_encoder *e, const ncp_node *node, SV *object)
    __attribute__((noreturn));

static void refuse_without(pTHX_ const ncp_encoder *e, const ncp_node *node, SV *object)
{
    SV *message = place_of(aTHX_ e, node);

    sv_catpvf(message, ": an object of class %s has neither a key nor a method \"%" SVf "\", "
              "which %" SVf " needs", sv_reftype(SvRV(object), TRUE),
              SVfARG(node->structure->fields[node->index].name), SVfARG(node->structure->name));
    ncp_throw_invalid(aTHX_ e->call, message);
}

/* ---- Objects ---- */

/* What an object keeps for itself begins with an underscore. */
bool ncp_is_private(const ncp_node *node, SV *key)
{
    return node->is_object && *SvPVX(key) == '_';
}

static void require_known_attributes(pTHX_ ncp_encoder *e, ncp_node *node)
{
    ncp_node walk = { 0 };
    SV *value;

    ncp_hash_begin(aTHX_ e, &walk, node->hash);
    while (ncp_hash_next(aTHX_ e, &walk, &value))
        if (!ncp_is_private(node, walk.name) && !is_field(aTHX_ node->structure, walk.name))
            ncp_refuse_unknown_key(aTHX_ e, node, walk.name);
}

/* Whether the object's class has the method. What every class has, as import, can and VERSION, is no
 * attribute, nor is a function whose package stands in the name. */
static bool has_attribute(pTHX_ SV *object, SV *name)
{
    const char *text = SvPVX_const(name);
    COP quiet;
    const COP *former = ncp_hush(aTHX_ &quiet);
    GV *own = gv_fetchmeth_pvn(SvSTASH(SvRV(object)), text, SvCUR(name), 0, 0);
    GV *everybodys = own
        ? gv_fetchmeth_pvn(gv_stashpvs("UNIVERSAL", GV_ADD), text, SvCUR(name), -1, 0) : NULL;

    PL_curcop = (COP *)former;
    return own && (!everybodys || GvCV(everybodys) != GvCV(own));
}

/* What the method of that name returns. */
static SV *attribute(pTHX_ ncp_encoder *e, const ncp_node *node, SV *object)
{
    const ncp_field *field = &node->structure->fields[node->index];

    ncp_require_class(aTHX_ e, object);
    if (has_attribute(aTHX_ object, field->name))
        return ncp_call_object(aTHX_ e, object, SvPVX(field->name), NULL);
    if (field->type->kind != NCP_OPTIONAL)
        refuse_without(aTHX_ e, node, object);
    return NULL;
}

/* The values under the fields' keys. */
static void read_keys(pTHX_ ncp_encoder *e, ncp_node *node, SV **values)
{
    ncp_node walk = *node;

    for (; walk.index < (SSize_t)walk.structure->fields_count; walk.index++) {
        SV *value = ncp_field_value(aTHX_ e, &walk);
        if (!value)
            continue;
        values[walk.index] = ncp_own_copy(aTHX_ e, value);
        node->count++;
    }
}

/* All attributes are read before the first is written; keys before methods, which may
 * change them. */
static void begin_object(pTHX_ ncp_encoder *e, ncp_node *node, SV *value)
{
    SV *object = sv_2mortal(newRV_inc(SvRV(value))), **values;
    bool had_asked = e->call->has_asked, is_tied = false;
    U32 runs = e->runs;
    SSize_t copies;
    HV *hash;

    e->quiet_runs++;
    ncp_own(aTHX_ e);
    copies = e->copies;
    node->is_object = true;
    ncp_hold(aTHX_ e, object);
    hash = SvTYPE(SvRV(object)) == SVt_PVHV ? (HV *)SvRV(object) : NULL;
    values = ncp_new_values(aTHX_ e, node->structure->fields_count);
    if (hash && ncp_is_tied(hash)) {
        is_tied = true;
        ncp_tied_fields(aTHX_ e, node, values, hash);
    } else if (hash) {
        node->hash = hash;
        require_known_attributes(aTHX_ e, node);
        read_keys(aTHX_ e, node, values);
        node->values = values;
        node->parent = e->node;
        node->is_owned = true;
        ncp_ask_from(aTHX_ e, node, 0);
    }
    for (; node->index < (SSize_t)node->structure->fields_count; node->index++) {
        SV *returned = values[node->index] ? NULL : attribute(aTHX_ e, node, object);
        if (!returned)
            continue;
        values[node->index] = ncp_own_copy(aTHX_ e, returned);
        node->count++;
    }
    node->index = 0;
    node->values = values;
    node->is_owned = true;
    ncp_assign_copies(e, node, copies);
    if (!is_tied && e->runs == runs + 1) /* it has only keys, and no code */
        e->call->has_asked = had_asked;
}

/* ---- Writing ---- */

/* An object that gives a hash, by overloading or TO_JSON, is that hash. */
static void begin_struct(pTHX_ ncp_encoder *e, ncp_node *node, const ncp_type *type, SV *value)
{
    SV *data = ncp_as_data(aTHX_ e, value);
    HV *hash = (HV *)ncp_dereference(aTHX_ e, data, to_hv_amg, SVt_PVHV);
    SSize_t copies;

    if (SvROK(data) && SvOBJECT(SvRV(data)) && (!hash || hash == (HV *)SvRV(data))) {
        begin_object(aTHX_ e, node, data);
        return;
    }
    if (!hash)
        ncp_refuse(aTHX_ e, type, value);
    if (UNLIKELY(ncp_is_tied(hash))) {
        (void)sv_2mortal(SvREFCNT_inc_simple_NN((SV *)hash));
        ncp_own(aTHX_ e);
        copies = e->copies;
        node->values = ncp_new_values(aTHX_ e, node->structure->fields_count);
        ncp_tied_fields(aTHX_ e, node, node->values, hash);
        node->is_owned = true;
        ncp_assign_copies(e, node, copies);
        return;
    }
    node->hash = hash;
    node->count = (SSize_t)HvUSEDKEYS(hash);
}

/* All keys are taken for fields, and counted down; one that is left over is none. */
void ncp_encode_struct(pTHX_ ncp_encoder *e, const ncp_type *type, SV *value)
{
    static const ncp_type string_type = { .kind = NCP_STRING, .name = "string" };
    ncp_node node = { .structure = type->structure };
    ncp_element written;

    begin_struct(aTHX_ e, &node, type, value);
    nearcall_put_map(e->client, (uint32_t)node.count);
    ncp_enter(aTHX_ e, &node);
    written = ncp_element_begin(e, &node);
    for (; node.index < (SSize_t)node.structure->fields_count; node.index++) {
        const ncp_field *field = &node.structure->fields[node.index];
        SV *content = ncp_field_value(aTHX_ e, &node);
        if (!content) {
            ncp_pause(aTHX_ e);
            continue;
        }
        node.name = field->name;
        ncp_encode_string(aTHX_ e, &string_type, field->name);
        ncp_encode_value(aTHX_ e, field->type, content);
        node.count--;
        ncp_element_end(aTHX_ e, &node, &written);
    }
    if (node.count != 0)
        ncp_refuse_unknown_field(aTHX_ e, &node);
    ncp_leave(e, &node);
}
