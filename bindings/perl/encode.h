/* What the files of the encoder share. Every function may throw. */
#ifndef NEARCALL_PERL_ENCODE_H
#define NEARCALL_PERL_ENCODE_H

#include "nearcall_perl.h"

/* Where in an argument the encoder is; nodes live on the C stack. */
typedef struct ncp_path {
    const struct ncp_path *parent;
    SV *name;      /* a field or a key, else NULL */
    SSize_t index; /* an element */
} ncp_path;

typedef struct ncp_encoder {
    ncp_invocation *call;
    nearcall_client *client;
    const ncp_field *param; /* of the argument that is being written */
    I32 argument;           /* its index */
    const ncp_path *path;   /* NULL: the argument itself */
    int depth;
} ncp_encoder;

/* ---- Refusing (encoder.c) ---- */

/* "argument 2 (person), "tags", element 3": the beginning of a message. */
SV *ncp_place(pTHX_ const ncp_encoder *e);

/* Throws INVALID_ARGUMENT, not executed; takes the message over. */
void ncp_throw_invalid(pTHX_ const ncp_invocation *call, SV *message) __attribute__((noreturn));
void ncp_refuse(pTHX_ const ncp_encoder *e, const ncp_type *type, SV *value)
    __attribute__((noreturn));
void ncp_refuse_because(pTHX_ const ncp_encoder *e, const char *reason) __attribute__((noreturn));

/* ---- User code that values carry along (encoder.c) ---- */

/* Throws when that code used the handle; called after every run of it. */
void ncp_user_code_ran(pTHX_ const ncp_encoder *e);
void ncp_fetch_magic(pTHX_ ncp_encoder *e, SV *value);
SV *ncp_call_object(pTHX_ ncp_encoder *e, SV *object, const char *method);
bool ncp_object_can(pTHX_ SV *value, const char *method);
SV *ncp_unwrap(pTHX_ ncp_encoder *e, SV *value);
SV *ncp_dereference(pTHX_ ncp_encoder *e, SV *value, int overloaded, svtype wanted);
AV *ncp_plain_array(pTHX_ ncp_encoder *e, AV *array);
HV *ncp_plain_hash(pTHX_ ncp_encoder *e, HV *hash);

/* ---- Scalars (encode_scalar.c) ---- */

/* Covers int64 and uint64 both. */
typedef struct ncp_whole {
    bool negative;
    UV magnitude;
} ncp_whole;

bool ncp_whole_of(pTHX_ SV *value, ncp_whole *ret_whole);
void ncp_put_whole(nearcall_client *client, const ncp_whole *number);

typedef void (*ncp_put_function)(nearcall_client *client, const void *data, size_t bytes);
void ncp_put_octets(pTHX_ ncp_encoder *e, const ncp_type *type, SV *value, ncp_put_function put);

void ncp_encode_integer(pTHX_ ncp_encoder *e, const ncp_type *type, SV *value);
void ncp_encode_float32(pTHX_ ncp_encoder *e, const ncp_type *type, SV *value);
void ncp_encode_float64(pTHX_ ncp_encoder *e, const ncp_type *type, SV *value);
void ncp_encode_bool(pTHX_ ncp_encoder *e, const ncp_type *type, SV *value);
void ncp_encode_time(pTHX_ ncp_encoder *e, const ncp_type *type, SV *value);
void ncp_encode_duration(pTHX_ ncp_encoder *e, const ncp_type *type, SV *value);
void ncp_encode_string(pTHX_ ncp_encoder *e, const ncp_type *type, SV *value);
void ncp_encode_bytes(pTHX_ ncp_encoder *e, const ncp_type *type, SV *value);

/* ---- Files and connections (files.c) ---- */

void ncp_encode_file(pTHX_ ncp_encoder *e, const ncp_type *type, SV *value);

#endif
