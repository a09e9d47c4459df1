/* The encoder's ground: where it is, how it refuses, and user code that values
 * carry along. */
#include "encode.h"

/* ---- Refusing ---- */

#define PATH_ENDS 3 /* of a long path so many steps are shown at either end */
#define SHOWN_CHARACTERS_MAX 40
#define NAME_BYTES_MAX 64 /* of a name that is shown as it is */

/* Characters, which a text with Perl's flag need not hold: anybody can set that. */
static bool is_wide(pTHX_ const SV *text)
{
    return SvUTF8(text) && ncp_is_characters((const U8 *)SvPVX_const(text), SvCUR(text));
}

/* Perl would look for characters before the beginning of what only claims to be some. */
static SV *shown(pTHX_ SV *text)
{
    return sv_2mortal(newSVpv(pv_pretty(sv_newmortal(), SvPVX(text), SvCUR(text),
        SHOWN_CHARACTERS_MAX, NULL, NULL,
        PERL_PV_PRETTY_DUMP | (is_wide(aTHX_ text) ? PERL_PV_ESCAPE_UNI : 0)), 0));
}

SV *ncp_shown_name(pTHX_ SV *name)
{
    if (SvCUR(name) > NAME_BYTES_MAX || (SvUTF8(name) && !is_wide(aTHX_ name)))
        return shown(aTHX_ name);
    return sv_2mortal(newSVpvf("\"%" SVf "\"", SVfARG(name)));
}

static void append_step(pTHX_ SV *message, const ncp_node *node)
{
    if (node->name)
        sv_catpvf(message, ", %" SVf, SVfARG(ncp_shown_name(aTHX_ node->name)));
    else
        sv_catpvf(message, ", element %" IVdf, (IV)node->index);
}

/* Returns the step's place, the outermost being 0, plus one; inner is how many steps are
 * inside of it. */
static U32 append_path(pTHX_ SV *message, const ncp_node *node, U32 inner)
{
    U32 place, steps;

    if (!node)
        return 0;
    place = append_path(aTHX_ message, node->parent, inner + 1);
    steps = place + inner + 1;
    if (steps <= 2 * PATH_ENDS || place < PATH_ENDS || inner < PATH_ENDS)
        append_step(aTHX_ message, node);
    else if (place == PATH_ENDS)
        sv_catpvf(message, ", ... %" UVuf " more ...", (UV)(steps - 2 * PATH_ENDS));
    return place + 1;
}

SV *ncp_place(pTHX_ const ncp_encoder *e)
{
    SV *message = newSVpvf("argument %" IVdf, (IV)e->argument + 1);

    if (e->param)
        sv_catpvf(message, " (%" SVf ")", SVfARG(e->param->name));
    (void)append_path(aTHX_ message, e->node, 0);
    return message;
}

void ncp_throw_invalid(pTHX_ ncp_invocation *call, SV *message)
{
    SV *error = ncp_error_new(aTHX_ -NEARCALL_E_INVALID_ARGUMENT, NEARCALL_OUTCOME_NOT_EXECUTED,
                              call->name, message, NULL);

    ncp_throw_of(aTHX_ call, ncp_unless_outdated(aTHX_ call, error));
}

static void append_value(pTHX_ SV *message, SV *value)
{
    if (SvROK(value))
        sv_catpvf(message, "a reference to %s", sv_reftype(SvRV(value), TRUE));
    else if (!SvOK(value))
        sv_catpvs(message, "undef");
    else if (SvNIOK(value) && !SvPOK(value))
        sv_catpvf(message, "%" SVf, SVfARG(ncp_mortal_copy(aTHX_ value)));
    else if (!SvPOK(value))
        sv_catpvf(message, "a %s", sv_reftype(value, FALSE));
    else
        sv_catsv(message, shown(aTHX_ value));
}

/* What a type takes that does not go without saying. */
static const char *const fitting[] = {
    [NCP_FLOAT32] = "a number of at most 3.4e38, with no digits that a float64 would lose",
    [NCP_FLOAT64] = "a number, with no digits that it would lose",
    [NCP_TIME] = "seconds since 1970, text as 2026-01-31T12:00:00Z, or an object with epoch",
    [NCP_DURATION] = "seconds, as 1.5, of at most 9223372036",
    [NCP_ANY] = "undef, numbers, text, booleans, times, references to arrays and hashes, "
                "objects with TO_JSON or \"\"",
    [NCP_LIST] = "a reference to an array",
    [NCP_MAP] = "a reference to a hash",
    [NCP_FILE] = "an open handle",
    [NCP_CONNECTION] = "an open handle",
};

static void append_fitting(pTHX_ SV *message, const ncp_type *type)
{
    if (type->kind == NCP_STRUCT) {
        sv_catpvs(message, " (a reference to a hash with ");
        ncp_append_fields(aTHX_ message, type->structure);
        sv_catpvs(message, ")");
    } else if (type->kind == NCP_INTEGER && type->min < 0) {
        sv_catpvf(message, " (%" IVdf " to %" UVuf ")", (IV)type->min, (UV)type->max);
    } else if (type->kind == NCP_INTEGER) {
        sv_catpvf(message, " (0 to %" UVuf ")", (UV)type->max);
    } else if (type->kind < C_ARRAY_LENGTH(fitting) && fitting[type->kind]) {
        sv_catpvf(message, " (%s)", fitting[type->kind]);
    }
}

void ncp_refuse(pTHX_ const ncp_encoder *e, const ncp_type *type, SV *value)
{
    SV *message = ncp_place(aTHX_ e);

    sv_catpvf(message, ": expected %s", type->name);
    append_fitting(aTHX_ message, type);
    sv_catpvs(message, ", got ");
    append_value(aTHX_ message, value);
    ncp_throw_invalid(aTHX_ e->call, message);
}

void ncp_refuse_because(pTHX_ const ncp_encoder *e, const char *reason)
{
    SV *message = ncp_place(aTHX_ e);

    sv_catpvf(message, ": %s", reason);
    ncp_throw_invalid(aTHX_ e->call, message);
}

/* ---- User code: tied variables and overloaded objects ---- */

/* Alive until the temporaries of the element are freed. */
static void keep(pTHX_ SV *value)
{
    (void)sv_2mortal(SvREFCNT_inc_simple_NN(value));
}

SV *ncp_fetched_magical(pTHX_ ncp_encoder *e, SV *value)
{
    const ncp_node *owned = ncp_own_unasked(aTHX_ e);

    mg_get(value);
    ncp_count_copy(aTHX_ e, value);
    value = ncp_mortal_copy(aTHX_ value);
    ncp_user_code_ran(aTHX_ e);
    ncp_ask_ahead(aTHX_ e, owned);
    return value;
}

/* The method is given a reference and an argument of its own: what it does to the variable
 * that holds the object does not end the object. On a stack of its own, as perl itself calls
 * what is tied or overloaded: it cannot leave by last, next or goto. */
SV *ncp_call_object(pTHX_ ncp_encoder *e, SV *object, const char *method, SV *argument)
{
    SV *result, *invocant = sv_mortalcopy(object);
    dSP;

    ncp_own(aTHX_ e);
    SPAGAIN;
    ENTER; /* perl keeps what it saved for a call to the end of the scope */
    PUSHSTACKi(PERLSI_MAGIC);
    PUSHMARK(SP);
    XPUSHs(invocant);
    if (argument)
        XPUSHs(ncp_mortal_copy(aTHX_ argument));
    PUTBACK;
    call_method(method, G_SCALAR);
    SPAGAIN;
    result = POPs;
    PUTBACK;
    POPSTACK;
    LEAVE;
    keep(aTHX_ result);
    result = ncp_asked(aTHX_ result);
    ncp_user_code_ran(aTHX_ e);
    return result;
}

const COP *ncp_hush(pTHX_ COP *quiet)
{
    const COP *former = PL_curcop;

    *quiet = *former;
    quiet->cop_warnings = pWARN_NONE;
    PL_curcop = quiet;
    return former;
}

/* Looks at @ISA itself, as perl would not: it asks an object there for its text. */
static bool is_named_plainly(pTHX_ SV *name)
{
    return SvPOK(name) && !SvROK(name) && !SvGMAGICAL(name);
}

static bool inherits_by_names(pTHX_ HV *stash, U32 depth)
{
    SV **isa;
    AV *names;
    SSize_t i;

    if (depth == NCP_RECURSION_MAX || (SvGMAGICAL(stash) && SvSMAGICAL(stash)))
        return false;
    isa = hv_fetchs(stash, "ISA", 0);
    names = isa && isGV_with_GP(*isa) ? GvAV((GV *)*isa) : NULL;
    for (i = 0; names && i <= AvFILLp(names); i++) {
        SV *name = AvARRAY(names)[i];
        HV *parent;

        if (!name || (!SvOK(name) && !SvGMAGICAL(name)))
            continue;
        if (!is_named_plainly(aTHX_ name))
            return false;
        parent = gv_stashsv(name, 0);
        if (parent && !inherits_by_names(aTHX_ parent, depth + 1))
            return false;
    }
    return true;
}

/* Most objects are of the class of the one before them. */
void ncp_require_class(pTHX_ ncp_encoder *e, SV *object)
{
    HV *stash = SvSTASH(SvRV(object));

    if (LIKELY(e->class_known == stash))
        return;
    if (UNLIKELY(!inherits_by_names(aTHX_ stash, 0)))
        ncp_refuse_because(aTHX_ e, "what its class inherits from is not the name of a class, but has code of "
                           "its own: put names into @ISA");
    e->class_known = stash;
}

bool ncp_object_can(pTHX_ ncp_encoder *e, SV *value, const char *method)
{
    COP quiet;
    const COP *former;
    GV *found;

    if (!sv_isobject(value))
        return false;
    ncp_require_class(aTHX_ e, value);
    former = ncp_hush(aTHX_ &quiet);
    found = gv_fetchmethod_autoload(SvSTASH(SvRV(value)), method, FALSE);
    PL_curcop = (COP *)former;
    return found != NULL;
}

/* What is no reference is written before the temporaries of any element are freed. */
SV *ncp_as_data(pTHX_ ncp_encoder *e, SV *value)
{
    if (LIKELY(!SvROK(value)) || !ncp_object_can(aTHX_ e, value, "TO_JSON"))
        return value;
    value = ncp_call_object(aTHX_ e, value, "TO_JSON", NULL);
    if (SvROK(value))
        ncp_hold(aTHX_ e, value);
    return value;
}

/* Where overload.pm keeps it; NULL. */
static SV *fallback_of(pTHX_ HV *stash)
{
    GV *name = gv_fetchmeth_pvn(stash, "()", 2, -1, 0);

    return name ? GvSV(name) : NULL;
}

static int fallback_kind(pTHX_ HV *stash)
{
    SV *fallback = fallback_of(aTHX_ stash);

    if (!fallback || !SvOK(fallback))
        return AMGfallNO;
    return SvTRUE(fallback) ? AMGfallYES : AMGfallNEVER;
}

static bool has_no_conversion(pTHX_ HV *stash, int conversion)
{
    int fallback;

    if (LIKELY(gv_handler(stash, conversion)) || gv_handler(stash, nomethod_amg))
        return false;
    fallback = fallback_kind(aTHX_ stash);
    return fallback == AMGfallNEVER
        || (fallback == AMGfallNO && !gv_handler(stash, string_amg)
            && !gv_handler(stash, numer_amg) && !gv_handler(stash, bool__amg));
}

/* Perl asks the fallback for its truth, too, where it looks for the conversions of a class. It may
 * be an object, whose truth is code. */
bool ncp_cannot_be(pTHX_ ncp_encoder *e, SV *object, int conversion)
{
    HV *stash = SvSTASH(SvRV(object));
    COP quiet;
    const COP *former;
    SV *fallback;
    bool has_code, cannot;

    ncp_require_class(aTHX_ e, object);
    former = ncp_hush(aTHX_ &quiet);
    fallback = fallback_of(aTHX_ stash);
    has_code = fallback && ncp_has_code(fallback);
    if (UNLIKELY(has_code)) {
        keep(aTHX_ (SV *)stash);
        ncp_own(aTHX_ e);
    }
    cannot = has_no_conversion(aTHX_ stash, conversion);
    PL_curcop = (COP *)former;
    if (UNLIKELY(has_code))
        ncp_user_code_ran(aTHX_ e);
    return cannot;
}

/* What its overloading makes of an object; NULL where that leaves it to perl. An object may
 * give another that overloads as well, for ever. */
static SV *overloaded(pTHX_ ncp_encoder *e, SV *object, int conversion, U32 step)
{
    SV *made, *own = sv_2mortal(newRV_inc(SvRV(object)));

    if (step == NC_NESTING_DEPTH_MAX)
        ncp_refuse_because(aTHX_ e, "its overloading gave an object that overloads as well, "
                           STRINGIFY(NC_NESTING_DEPTH_MAX) " times in a row, which is the end");
    ncp_own(aTHX_ e);
    made = AMG_CALLunary(own, conversion);
    if (made) {
        keep(aTHX_ made);
        made = ncp_asked(aTHX_ made);
    }
    ncp_user_code_ran(aTHX_ e);
    return made;
}

/* An object that overloads strings is what it says it is; other references are
 * returned as they came, to be refused. Never changes the caller's scalar. */
SV *ncp_unwrap(pTHX_ ncp_encoder *e, SV *value)
{
    SV *text;

    if (LIKELY(!SvROK(value))) {
        ncp_spend(aTHX_ e, SvPOK(value) ? SvCUR(value) : 0);
        return value;
    }
    if (!SvAMAGIC(value) || ncp_cannot_be(aTHX_ e, value, string_amg) || !SvROK(value))
        return ncp_as_data(aTHX_ e, value);
    text = overloaded(aTHX_ e, value, string_amg, 0);
    if (!text)
        return ncp_as_data(aTHX_ e, value);
    return SvROK(text) ? value : text;
}

static bool is_same(const SV *object, const SV *made)
{
    return SvROK(made) && SvRV(made) == SvRV(object);
}

SV *ncp_dereference(pTHX_ ncp_encoder *e, SV *value, int conversion, svtype wanted)
{
    U32 step;

    for (step = 0; SvROK(value) && SvAMAGIC(value); step++) {
        SV *made = overloaded(aTHX_ e, value, conversion, step);
        if (!made || is_same(value, made))
            break;
        if (!SvROK(made))
            croak("Overloaded dereference did not return a reference"); /* as perl has it */
        ncp_hold(aTHX_ e, SvRV(made));
        value = made;
    }
    return SvROK(value) && SvTYPE(SvRV(value)) == wanted ? SvRV(value) : NULL;
}

bool ncp_is_true(pTHX_ ncp_encoder *e, SV *value)
{
    U32 step;

    for (step = 0; SvROK(value) && SvAMAGIC(value); step++) {
        SV *made = overloaded(aTHX_ e, value, bool__amg, step);
        if (!made || is_same(value, made))
            return true;
        value = made;
    }
    return cBOOL(SvTRUE_nomg(value));
}
