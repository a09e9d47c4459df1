/* What the files of the encoder share. Every function may throw. */
#ifndef NEARCALL_PERL_ENCODE_H
#define NEARCALL_PERL_ENCODE_H

#include "limits_gen.h"
#include "nearcall_perl.h"

/* A container that is being walked; nodes live on the C stack.
 *
 * Who owns what: a container is walked where it lies, and owns its values, as long as
 * no user code runs. Before the first does, the values that are still to come are copied
 * into a list of the encoder's own, for this container and for all around it: user code
 * may then change or drop what it likes (encode_own.c). Containers among these values are
 * not copied, but kept: they are walked as they are when their turn comes. */
typedef struct ncp_node {
    struct ncp_node *parent;
    SV *name;       /* of the value that is being written: a field or a key; else NULL */
    SSize_t index;  /* its place in values, or its field's */
    SSize_t count;  /* of values */
    SV **values;    /* of a list; with is_owned also of a struct, and of a hash with its keys */
    SV *tied;       /* the object behind a tied array or hash, which is asked value by value */
    SV *magical;    /* a container whose values perl makes, as @- and what threads share */
    HV *hash;       /* of a hash or a struct that is not owned */
    SV *key;        /* of a hash that is not owned: refers to the name, which goes with the next */
    HE *next;       /* of a hash that is not owned: what comes next */
    STRLEN bucket;  /* in which that lies */
    SV *value;      /* of a hash that is not owned: that is being written */
    SSize_t copies; /* that were made of what is in it */
    const ncp_struct *structure; /* of a struct */
    bool is_object;              /* from which the struct is read */
    bool is_owned;
} ncp_node;

typedef struct ncp_encoder {
    ncp_invocation *call;
    nearcall_client *client;
    const ncp_plan *plan;   /* NULL while arguments are fetched */
    const ncp_field *param; /* of the argument that is being written */
    I32 argument;           /* its index */
    ncp_node *node;         /* NULL: the argument itself */
    AV *owned;              /* what is held to the end; NULL until user code runs */
    U32 runs;               /* of user code, so far */
    U32 quiet_runs;         /* of these: all was owned, and no code ran */
    size_t copied_bytes;    /* of values that were copied, but for arguments */
    bool is_interrupted;    /* by a signal, which is no reason to refuse what is not copied */
    size_t work_left;       /* until the time is looked at: ncp_spend() */
    SSize_t copies;         /* that are to be given back, of the containers around */
    const HV *class_known;  /* for ncp_require_class(): was looked at since user code ran; NULL */
} ncp_encoder;

/* ---- Refusing (encoder.c) ---- */

/* "argument 2 (person), "tags", element 3": the beginning of a message. */
SV *ncp_place(pTHX_ const ncp_encoder *e);

/* A name in quotes, as much as is shown of one. */
SV *ncp_shown_name(pTHX_ SV *name);

/* Throws INVALID_ARGUMENT, not executed; takes the message over. */
void ncp_throw_invalid(pTHX_ ncp_invocation *call, SV *message) __attribute__((noreturn));
void ncp_refuse(pTHX_ const ncp_encoder *e, const ncp_type *type, SV *value)
    __attribute__((noreturn));
void ncp_refuse_because(pTHX_ const ncp_encoder *e, const char *reason) __attribute__((noreturn));

/* Writes a Nearcall::Packed whose elements are those of the list. False: the value is none, or of other
 * elements, and nothing was written (encode_packed.c). */
bool ncp_encode_packed(pTHX_ ncp_encoder *e, const ncp_type *type, SV *value);

/* ---- What encoding takes of the call's time (encode_meter.c) ---- */

#define NCP_WORK_BETWEEN_LOOKS 4096

/* Throws when the call's time is over, or the request fits no frame any more. */
void ncp_look_up(pTHX_ ncp_encoder *e);

/* Counts work: values and buckets of hashes that are looked at, bytes of text that are read.
 * Every loop over what a caller gave does, as what costs time need not be bytes of the request. */
static inline void ncp_spend(pTHX_ ncp_encoder *e, size_t work)
{
    if (UNLIKELY(work >= e->work_left))
        ncp_look_up(aTHX_ e);
    else
        e->work_left -= work;
}

/* Runs the handlers of signals that have come, which is user code. */
void ncp_run_handlers(pTHX_ ncp_encoder *e);

/* The same before a value is written: returns what it was before they ran. */
SV *ncp_run_handlers_before(pTHX_ ncp_encoder *e, SV *value);

/* Between values, where the encoder can own all that is still to come. */
static inline void ncp_pause(pTHX_ ncp_encoder *e)
{
    ncp_spend(aTHX_ e, 1);
    if (UNLIKELY(PL_sig_pending))
        ncp_run_handlers(aTHX_ e);
}

/* Throws when the time that encoding may take is over. Giving copies back is a part of that. */
void ncp_check_time(pTHX_ const ncp_encoder *e);

/* Throws when giving back so many more copies would take too long. */
void ncp_foresee_copies(pTHX_ ncp_encoder *e, SSize_t count);

/* The copies that were made since there were so many are of a node that is not entered yet. */
static inline void ncp_assign_copies(ncp_encoder *e, ncp_node *node, SSize_t former)
{
    node->copies += e->copies - former;
    e->copies = former;
}

/* Takes from the call's timeout what encoding took. */
void ncp_settle(pTHX_ const ncp_encoder *e);

/* ---- What is walked, and who owns it (encode_own.c) ---- */

/* Called before every run of user code: from then on all that the encoder still needs
 * is its own. That asks values with magic, whose code may drop or change the very value that
 * is being written: who calls this has taken what it needs of that before. */
void ncp_own(pTHX_ ncp_encoder *e);

/* Before a value is copied: throws where all that was fits no frame. */
void ncp_count_copy(pTHX_ ncp_encoder *e, const SV *value);
/* What a value is now, which the caller owns. */
SV *ncp_own_copy(pTHX_ ncp_encoder *e, SV *value);

/* Keeps a value to the end of the encoding; only after ncp_own(). Temporaries of perl do
 * not outlive the element that they came with. */
void ncp_hold(pTHX_ ncp_encoder *e, SV *value);

/* Asks the values of an owned node, from a place on, that have magic: by their turn they would say
 * what other code has made of them. Their own code may run, to which all is owned already. */
void ncp_ask_from(pTHX_ ncp_encoder *e, ncp_node *node, SSize_t place);

/* The two halves of ncp_own(), for a value that is itself asked: it comes before those behind it. */
ncp_node *ncp_own_unasked(pTHX_ ncp_encoder *e);
void ncp_ask_ahead(pTHX_ ncp_encoder *e, const ncp_node *end);

/* Called after every run of user code: throws when it used the handle, or the time is up. */
void ncp_user_code_ran(pTHX_ ncp_encoder *e);

/* Frees the temporaries of what was done, when code has run since runs was taken. */
void ncp_free_temporaries(pTHX_ ncp_encoder *e, U32 *runs);

/* An element of a container, or an argument: what is held for it alone is given back behind it, so
 * that what the code of a million rows gives is not there at once. */
typedef struct ncp_element {
    U32 runs;     /* of user code when it began */
    SSize_t held; /* so many values were held then; -1: what follows may be for those around it */
} ncp_element;

/* The node that it is in; NULL for an argument. */
ncp_element ncp_element_begin(const ncp_encoder *e, const ncp_node *node);
/* The next one begins. */
void ncp_element_end(pTHX_ ncp_encoder *e, const ncp_node *node, ncp_element *element);

/* Gives all that is held back. */
void ncp_disown(pTHX_ ncp_encoder *e);

/* Throws when a frame cannot hold that many values. */
void ncp_require_room(pTHX_ const ncp_encoder *e, size_t values);

/* Throws what the library could not write: a frame that is too large, nesting too deep. */
void ncp_check_room(pTHX_ const ncp_encoder *e);

void ncp_enter(pTHX_ ncp_encoder *e, ncp_node *node);
void ncp_leave(ncp_encoder *e, const ncp_node *node);

/* Values are NULL where there is none. */
void ncp_list_begin(pTHX_ ncp_encoder *e, ncp_node *node, AV *array);
SV *ncp_list_value(pTHX_ ncp_encoder *e, const ncp_node *node);
void ncp_hash_begin(pTHX_ ncp_encoder *e, ncp_node *node, HV *hash);
bool ncp_hash_next(pTHX_ ncp_encoder *e, ncp_node *node, SV **ret_value); /* NULL: the hash is tied */
void ncp_hash_skip(pTHX_ ncp_encoder *e, ncp_node *node); /* of a hash that is not owned */
SV *ncp_field_value(pTHX_ ncp_encoder *e, const ncp_node *node);

/* A list of values that are held with it, whose places are empty. */
SV **ncp_new_values(pTHX_ ncp_encoder *e, SSize_t count);

/* ---- Tied arrays and hashes (encode_tied.c) ---- */

bool ncp_is_tied(const HV *hash);
/* Whether perl makes the elements of an array with magic when they are asked for, by FETCH or
 * otherwise. Other magic, as that of weak references to the array, leaves them in it. */
bool ncp_is_made(const AV *array);
/* What is behind a key of a tied hash. */
SV *ncp_tied_value(pTHX_ ncp_encoder *e, const ncp_node *node, SV *key);
SV *ncp_tied_element(pTHX_ ncp_encoder *e, const ncp_node *node);
void ncp_tied_list(pTHX_ ncp_encoder *e, ncp_node *node, AV *array);
void ncp_tied_pairs(pTHX_ ncp_encoder *e, ncp_node *node, HV *hash);
/* Into values, one for each field, and counts them. */
void ncp_tied_fields(pTHX_ ncp_encoder *e, ncp_node *node, SV **values, HV *hash);

/* ---- Keys that are the same once they are encoded (encode_keys.c) ---- */

/* Whether a key of a hash at its beginning is written as perl does not print whole numbers.
 * If not, no two are the same number, as no two are the same text. */
bool ncp_has_number_otherwise(pTHX_ ncp_encoder *e, const ncp_node *node);

/* Throws where two keys of a map at its beginning are one. The handlers of signals may run, to
 * which the map is the encoder's own. */
void ncp_require_distinct(pTHX_ ncp_encoder *e, const ncp_type *key_type, ncp_node *node);

/* ---- User code that values carry along (encoder.c) ---- */

/* What a value with magic says, as a temporary without. */
SV *ncp_fetched_magical(pTHX_ ncp_encoder *e, SV *value);

/* The same of any value: others are returned themselves. */
static inline SV *ncp_fetched(pTHX_ ncp_encoder *e, SV *value)
{
    return LIKELY(!SvGMAGICAL(value)) ? value : ncp_fetched_magical(aTHX_ e, value);
}
/* With an argument, or NULL. What it returns is a temporary without magic. */
SV *ncp_call_object(pTHX_ ncp_encoder *e, SV *object, const char *method, SV *argument);
bool ncp_object_can(pTHX_ ncp_encoder *e, SV *value, const char *method);
/* Before perl looks for anything in the class of an object: throws if that would run code, because
 * what stands in @ISA is an object, or has magic, or the table of the class has. */
void ncp_require_class(pTHX_ ncp_encoder *e, SV *object);
/* Until PL_curcop is again what this returns, perl warns of nothing. Where it looks for a method it warns of
 * a class that @ISA names and nobody has loaded, and handlers of warnings are user code. */
const COP *ncp_hush(pTHX_ COP *quiet);
/* Whether perl dies of converting an object that overloads, to string_amg or bool__amg. Code may run. */
bool ncp_cannot_be(pTHX_ ncp_encoder *e, SV *object, int conversion);
SV *ncp_unwrap(pTHX_ ncp_encoder *e, SV *value);
SV *ncp_dereference(pTHX_ ncp_encoder *e, SV *value, int conversion, svtype wanted);
bool ncp_is_true(pTHX_ ncp_encoder *e, SV *value);

/* What the method TO_JSON of an object returns; the value itself where it has none. */
SV *ncp_as_data(pTHX_ ncp_encoder *e, SV *value);

/* ---- Structs (encode_struct.c) ---- */

void ncp_encode_struct(pTHX_ ncp_encoder *e, const ncp_type *type, SV *value);
/* Whether the key of a hash is the name of a field. */
bool ncp_is_key(pTHX_ SV *name, SV *key);
/* fields_count for a key that is none. */
U32 ncp_field_place(pTHX_ const ncp_struct *structure, SV *key);
void ncp_append_fields(pTHX_ SV *message, const ncp_struct *structure);
void ncp_refuse_unknown_key(pTHX_ const ncp_encoder *e, const ncp_node *node, SV *key)
    __attribute__((noreturn));
/* Whether the key of a hash may stay unsent: what an object keeps for itself. */
bool ncp_is_private(const ncp_node *node, SV *key);
void ncp_refuse_unknown_field(pTHX_ ncp_encoder *e, const ncp_node *node)
    __attribute__((noreturn));

/* Writes a value whose magic was not looked at yet (encode.c). */
void ncp_encode_value(pTHX_ ncp_encoder *e, const ncp_type *type, SV *value);

/* ---- Numbers and times as text (encode_text.c) ---- */

/* The text is a finite number as perl reads it; false unless it is whole and fits. */
bool ncp_whole_of_decimal(const char *text, STRLEN bytes, UV *ret_magnitude);

/* Whether the text, which perl has read as this finite number, is another number than the
 * one written out. */
bool ncp_has_lost_digits(pTHX_ const char *text, STRLEN bytes, NV number);

/* RFC 3339, as 2026-01-31T12:00:00.5Z. */
bool ncp_time_of_text(const char *text, STRLEN bytes, int64_t *ret_seconds,
                      uint32_t *ret_nanoseconds);

/* ---- Scalars (encode_scalar.c) ---- */

/* Covers int64 and uint64 both. */
typedef struct ncp_whole {
    bool negative;
    UV magnitude;
} ncp_whole;

bool ncp_whole_of(pTHX_ SV *value, ncp_whole *ret_whole);
void ncp_put_whole(nearcall_client *client, const ncp_whole *number);

/* Of a scalar with SvPOK. False: it is not Unicode text, and nothing was put. */
bool ncp_put_characters(pTHX_ nearcall_client *client, const SV *text);

/* ---- Large text and bytes (encode_large.c) ---- */

/* From so many bytes on a value is written in pieces. */
#define NCP_LARGE_BYTES ((STRLEN)4 << 20)

/* Of a scalar with SvPOK. False: the text is not Unicode. */
bool ncp_put_large_characters(pTHX_ ncp_encoder *e, const SV *text);

/* The same of bytes. False: a character is above 255. */
bool ncp_put_large_octets(pTHX_ ncp_encoder *e, const SV *text);

void ncp_encode_integer(pTHX_ ncp_encoder *e, const ncp_type *type, SV *value);
void ncp_encode_float32(pTHX_ ncp_encoder *e, const ncp_type *type, SV *value);
void ncp_encode_float64(pTHX_ ncp_encoder *e, const ncp_type *type, SV *value);
void ncp_encode_bool(pTHX_ ncp_encoder *e, const ncp_type *type, SV *value);
void ncp_encode_time(pTHX_ ncp_encoder *e, const ncp_type *type, SV *value);
void ncp_encode_duration(pTHX_ ncp_encoder *e, const ncp_type *type, SV *value);
void ncp_encode_string(pTHX_ ncp_encoder *e, const ncp_type *type, SV *value);
/* Also the whole of a request that is raw. */
void ncp_encode_bytes(pTHX_ ncp_encoder *e, const ncp_type *type, SV *value);

/* ---- Files and connections (files.c) ---- */

void ncp_encode_file(pTHX_ ncp_encoder *e, const ncp_type *type, SV *value);

/* Loads the class of connections unless it is there; whether code ran. */
bool ncp_load_sockets(pTHX_ ncp_encoder *e);

#endif
