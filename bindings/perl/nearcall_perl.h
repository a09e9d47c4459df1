/*
 * What the C files of the Perl binding share. Names begin with ncp_.
 *
 * Memory: everything that outlives a C function hangs on an SV, so that a
 * croak, a die in a signal handler or the end of the interpreter frees it.
 * User code (tied variables, overloading, signal handlers) may run wherever a
 * comment says so, may die there, and may use or close the same handle.
 */
#ifndef NEARCALL_PERL_H
#define NEARCALL_PERL_H

#define PERL_NO_GET_CONTEXT
#include "EXTERN.h"
#include "perl.h"
#include "XSUB.h"

#include <setjmp.h>
#include <stdbool.h>
#include <stdint.h>

#include "limits_gen.h"
#include "nearcall.h"
#include "nearcall_handoff.h"
#include "nearcall_resident.h"

/* Guards the C stack where this binding recurses. It lies above the protocol's
 * limit on nesting, so that libnearcall's error comes first. */
#define NCP_RECURSION_MAX 100

/* A copy that leaves the original whole: sv_mortalcopy() takes the buffer of a temporary. Large strings are
 * shared until one of both is changed. Magic is not fetched again. */
static inline SV *ncp_mortal_copy(pTHX_ SV *original)
{
    return sv_mortalcopy_flags(original, SV_DO_COW_SVSETSV | SV_NOSTEAL);
}

/* What a value is now, which the caller owns. One with magic is only what it says when it
 * is asked, and immortal ones are told by their address: these are the value itself. */
static inline SV *ncp_copy_of(pTHX_ SV *value)
{
    SV *copy;

    if (SvGMAGICAL(value) || SvIMMORTAL(value))
        return SvREFCNT_inc_simple_NN(value);
    copy = newSV(0);
    sv_setsv_flags(copy, value, SV_DO_COW_SVSETSV | SV_NOSTEAL);
    return copy;
}

/* For what runs user code and then still needs the object, which lives to the end of the statement
 * then. Handlers of signals are such code wherever the library is, as perl may run them at once. */
static inline void ncp_keep_object(pTHX_ SV *object)
{
    (void)sv_2mortal(SvREFCNT_inc_simple_NN(object));
}

/* A value that says from now on what it says now, which can run user code. A temporary, or
 * the value itself where it has no magic. */
static inline SV *ncp_asked(pTHX_ SV *value)
{
    if (LIKELY(!SvGMAGICAL(value)))
        return value;
    mg_get(value);
    return ncp_mortal_copy(aTHX_ value);
}

/* Whether reading a value can run user code. */
static inline bool ncp_has_code(const SV *value)
{
    return SvGMAGICAL(value) || SvROK(value);
}

/* Perl's own functions take a length of 0 for "up to the NUL". */
static inline bool ncp_is_ascii(const U8 *text, STRLEN bytes)
{
    return bytes == 0 || is_utf8_invariant_string(text, bytes);
}

/* As Perl has characters, which need not be those of Unicode. */
static inline bool ncp_is_characters(const U8 *text, STRLEN bytes)
{
    return bytes == 0 || is_utf8_string(text, bytes);
}

static inline bool ncp_is_unicode(const U8 *text, STRLEN bytes)
{
    return bytes == 0 || is_c9strict_utf8_string(text, bytes);
}

/* ---- Texts that the library takes (text.c) ---- */

/* The value as text, in a temporary without code of its own; its code runs here. */
SV *ncp_plain_text(pTHX_ SV *value);

/* As C has it, for as long as perl has the value; throws for a NUL, with what it is. */
const char *ncp_c_text(pTHX_ SV *value, const char *what);

bool ncp_is_run_by_perl(const char *name); /* a sub of that name, as soon as it is there or at the end */

/* A function's name in UTF-8. */
const char *ncp_name_text(pTHX_ SV *name, STRLEN *ret_bytes);

/* ---- Plans: a function's description, compiled once (plan.c) ---- */

typedef enum {
    NCP_BOOL, NCP_INTEGER, NCP_FLOAT32, NCP_FLOAT64, NCP_STRING, NCP_BYTES,
    NCP_TIME, NCP_DURATION, NCP_ANY, NCP_LIST, NCP_MAP, NCP_OPTIONAL, NCP_STRUCT,
    NCP_FILE, NCP_CONNECTION
} ncp_kind;

typedef struct ncp_type ncp_type;

typedef struct ncp_field {
    SV *name;             /* shared-key scalar, so that its hash is known */
    const char *text;     /* the same in UTF-8, as it travels */
    STRLEN text_bytes;
    const ncp_type *type;
} ncp_field;

typedef struct ncp_struct {
    SV *name;
    U32 fields_count;
    ncp_field *fields;
} ncp_struct;

struct ncp_type {
    ncp_kind kind;
    const char *name;            /* as the schema writes it; for messages */
    int64_t min;                 /* INTEGER */
    uint64_t max;                /* INTEGER */
    const ncp_type *key;         /* MAP */
    const ncp_type *element;     /* LIST, MAP, OPTIONAL */
    const ncp_struct *structure; /* STRUCT */
    int packed;                  /* LIST: NEARCALL_ELEMENT_... that it can travel as a block of; 0: it cannot */
};

/* The sizes of elements, by NEARCALL_ELEMENT_... */
extern const STRLEN ncp_element_bytes[];

typedef struct ncp_plan {
    AV *memory;        /* owns this plan and all that it points to */
    uint32_t revision; /* of the description it was compiled from; 0: it has been refused */
    bool raw;
    bool variadic;
    bool has_connections; /* some type is a connection */
    bool packs;           /* some list can travel as a block */
    bool is_simple;       /* so many arguments as parameters, of none but simple types */
    U32 params_count;
    U32 params_required;
    ncp_field *params;
    U32 results_count;
    const ncp_type **results;
} ncp_plan;

/* The codec of requests. Lists that come back as blocks are arrays nevertheless, unless strings are asked for. */
static inline int ncp_codec_of(const ncp_plan *plan)
{
    if (plan->raw)
        return NEARCALL_CODEC_RAW;
    return plan->packs ? NEARCALL_CODEC_PACKED : NEARCALL_CODEC_MSGPACK;
}

/* Compiles a description (plan.c); throws Nearcall::Error when it cannot be read. */
ncp_plan *ncp_plan_compile(pTHX_ SV *function_name, const uint8_t *description,
                           size_t bytes, uint32_t revision);
void ncp_plan_free(pTHX_ ncp_plan *plan);

/* ---- Handles, views, functions (handle.c) ---- */

typedef struct ncp_call ncp_call;

typedef struct ncp_function {
    SV *name;                    /* in UTF-8 */
    bool is_ascii;               /* the name is, so that its bytes are the same for all */
    nearcall_function *function; /* owned by the client */
    ncp_plan *plan;              /* NULL until first used */
} ncp_function;

/* Calls, not owned; each is in one list at most. */
typedef struct ncp_calls {
    ncp_call *first;
    ncp_call *last;
} ncp_calls;

/* What a handle was opened with, for the threads that are to open it as well. */
typedef struct ncp_opening {
    char *address;
    nearcall_options options; /* owns name and server_user_ids */
} ncp_opening;

typedef struct ncp_handle {
    nearcall_client *client; /* NULL once closed, and in a new thread until it is used */
    ncp_opening *opening;
    nearcall_view *view;     /* that the client uses, and holds */
    bool is_closed;
    HV *functions;           /* name => address of an ncp_function; NULL without a client */
    ncp_function *last_function; /* that was looked up last; NULL */
    ncp_calls in_flight;     /* in the order in which they began */
    ncp_calls finished;      /* that ncp_process() has not returned yet */
    U32 references;          /* views, function objects and call objects */
    I32 encodings;           /* that are under way with user code, inside or beside each other */
    U32 requests;            /* grows whenever the library's request changes hands */
    U32 fetches;             /* grows whenever its reply may */
    U32 attempts_max;        /* how often a call is sent in all */
    SV *booleans[2];         /* false and true as JSON::PP has them; NULL until one comes */
    bool json_booleans;      /* results of type bool are such */
    bool nonblocking, warns_of_plain; /* once, if calls turn out to leave the machine in plain text */
    bool embedded; /* functions run in this process; see ncp_protect_stack() */
    bool block_signals; /* also while %SIG has no handler */
} ncp_handle;

/* What a Nearcall object is: a handle, and the timeout and the options of calls through it. */
typedef struct ncp_view {
    ncp_handle *handle;
    int64_t timeout_ms; /* 0: the handle's default */
    SV *options;        /* of options.c; NULL: none */
} ncp_view;

/* What a generated function was written for. */
typedef struct ncp_origin {
    SV *hash;
    SV *description; /* JSON */
    bool warns;      /* instead of throwing */
    uint32_t revision; /* of the function it was compared with last; 0: none */
} ncp_origin;

/* What a Nearcall::Function object is. */
typedef struct ncp_callable {
    ncp_origin *origin;       /* NULL: encoded by what the server says, whatever that is */
    ncp_view view;
    SV *name;
    ncp_function *function; /* NULL until the first call */
} ncp_callable;

/* Before a call that may run Go in this thread. */
void ncp_protect_stack(pTHX_ const ncp_handle *handle);

ncp_handle *ncp_handle_new(pTHX);

/* Keeps what the handle is opened with, and opens it; throws what fails. */
void ncp_handle_open(pTHX_ ncp_handle *handle, const char *address, const nearcall_options *options);

/* What tells the library that a handler of this interpreter waits to be run. */
void *ncp_signal_check(pTHX_ int (**ret_check)(void *));

/* Whether perl runs a handler for a signal, at once or when it was safe. */
bool ncp_runs_handler(pTHX);

/* From Perl's values, each a path or a name, or undef. They belong to these values. */
void ncp_tls_options(pTHX_ nearcall_options *options, SV *authorities, SV *certificate, SV *key, SV *server_name);

/* Replaces what another owner's copy points to by copies. */
void ncp_opening_own(pTHX_ ncp_opening *opening);
void ncp_handle_release(pTHX_ ncp_handle *handle);
void ncp_handle_close(pTHX_ ncp_handle *handle);

/* Before the client is used: ends what a handler for a signal has left by dying. */
void ncp_handle_abandon(pTHX_ ncp_handle *handle);

/* JSON::PP's object for a truth; the handle's. */
SV *ncp_boolean(pTHX_ ncp_handle *handle, bool truth);

/* A new object of a class for a handle that gains a reference. */
SV *ncp_view_new(pTHX_ HV *stash, ncp_handle *handle, int64_t timeout_ms, SV *options);
ncp_view *ncp_view_of(pTHX_ SV *object);      /* croaks on anything else */
nearcall_client *ncp_view_client(pTHX_ const ncp_view *view); /* croaks when closed */
SV *ncp_callable_new(pTHX_ const ncp_view *view, SV *name, XSUBADDR_t body);
ncp_callable *ncp_callable_of(const CV *code);
ncp_callable *ncp_callable_of_object(pTHX_ SV *object); /* croaks on anything else */
void ncp_callable_compares(pTHX_ SV *callable, SV *hash, SV *description, bool warns);

/* ---- New threads (threads.c): what perl calls for each object that it clones ---- */

int ncp_view_dup(pTHX_ MAGIC *magic, CLONE_PARAMS *params);
int ncp_callable_dup(pTHX_ MAGIC *magic, CLONE_PARAMS *params);
int ncp_call_dup(pTHX_ MAGIC *magic, CLONE_PARAMS *params);

/* Seconds, fractions allowed, infinite for none; croaks on what is no time. */
int64_t ncp_timeout_ms(pTHX_ SV *seconds);

/* ---- One call (call.c) ---- */

/* Leads from wherever a value is refused back to where encoding begins. */
typedef struct ncp_way_back {
    jmp_buf frame;
    I32 scopes; /* of perl that were open there */
} ncp_way_back;

/* One call while it is made; lives on the C stack. The arguments are on the
 * Perl stack from first_argument on, or in list if that is not NULL. */
typedef struct ncp_invocation {
    ncp_handle *handle;
    SV *object;             /* what the call is made through; borrowed */
    SV *options;            /* of options.c; NULL: none; borrowed */
    int64_t timeout_ms;
    ncp_function *function; /* NULL until found */
    SV *name;
    ncp_origin *origin;     /* of a generated function; NULL */
    AV *list;
    I32 first_argument;
    I32 arguments_count;
    U32 requests;           /* handle->requests when the request was begun */
    U32 attempts_left;      /* how often its arguments may still be encoded */
    uint32_t revision;      /* of the description that they are encoded by */
    int64_t sent_ms;        /* since when timeout_ms counts, by the coarse clock; 0: it was not sent */
    int64_t work_began_ms;  /* since when encoding counts: the first code of theirs, or much work; 0: it has not */
    ncp_way_back *way_back; /* NULL: they are not being encoded */
    SV *refusal;            /* of ncp_encode_request() */
    bool has_asked;         /* code within the arguments has run: they are not encoded again */
    bool may_have_run;      /* by a sending of an earlier encoding */
    bool is_begun;          /* it is not waited for, if the handle is nonblocking */
    bool is_kept;           /* see ncp_keep() */
    size_t copied_bytes;    /* of arguments that were copied: ncp_fits_copied() */
} ncp_invocation;

/* ---- Options of single calls (options.c) ---- */

/* What Nearcall::CallOptions::with makes of an XSUB's arguments. */
SV *ncp_with_options(pTHX_ I32 ax, I32 items);

/* An object like the former one with further options, which that has made plain; throws what is out of range. */
SV *ncp_view_with(pTHX_ const ncp_view *former, HV *stash, AV *given);

/* How often the call is sent in all. */
U32 ncp_attempts_max(const ncp_invocation *call);

/* What the client begins from now on has the call's options. */
void ncp_use_options(const ncp_invocation *call);

/* Whether a call may be sent again when nobody knows whether it ran. options may be NULL. */
bool ncp_retries_unknown(const SV *options);

/* Whether lists of numbers are to be returned as strings. options may be NULL. */
bool ncp_gives_packed(const SV *options);

/* Stores the metadata of the reply that the client has given last where the options say; they may be NULL. */
void ncp_take_metadata(pTHX_ const SV *options, const nearcall_client *client);

/* Whether a request may have so many bytes. Nearly all have so few that nobody has to be asked. */
static inline bool ncp_fits_bytes(const nearcall_client *client, size_t bytes)
{
    return bytes <= NC_FRAME_BYTES_MAX_CEILING || bytes <= nearcall_request_bytes_max(client);
}

/* Counts a value that is to be copied; whether all that was fits the request. */
bool ncp_fits_copied(const ncp_invocation *call, size_t *copied_bytes, const SV *value);
void ncp_throw_too_large(pTHX_ const ncp_invocation *call) __attribute__((noreturn));

SV *ncp_argument(pTHX_ const ncp_invocation *call, I32 index);

/* Makes plain text of the name, if it is tied or overloaded. */
void ncp_settle_name(pTHX_ ncp_invocation *call);

/* Before user code runs: the object lives to the end of the statement, and the arguments are
 * what they were, whatever becomes of the program's variables. */
void ncp_keep(pTHX_ ncp_invocation *call);

/* Runs the handlers of the signals that arrived; throws CANCELLED, with the
 * outcome, when one of them used the handle, because that gave this call up. */
void ncp_run_signal_handlers(pTHX_ ncp_invocation *call, int outcome);

/* Milliseconds of the monotonic clock. */
int64_t ncp_now_ms(void);
int64_t ncp_coarse_now_ms(void); /* a quarter of the price, some milliseconds late */
void ncp_shorten_timeout(ncp_invocation *call, int64_t elapsed_ms);
nearcall_function *ncp_find_waiting(pTHX_ ncp_invocation *call);

/* Before anything is sent: what is left of the call's timeout, which counts from then; throws
 * when nothing is, with what took it. */
int64_t ncp_left_ms(pTHX_ const ncp_invocation *call, int64_t began_ms, const char *reason);
#define NCP_CODE_TOOK_ALL "code that belongs to the arguments took all of the call's time; run it " \
                          "before the call, or give that more time"

/* The same where it is connecting that takes it. */
int64_t ncp_remaining_ms(pTHX_ const ncp_invocation *call, int64_t began_ms);

/* Sets call->function; waits for the server if it was not found before. */
void ncp_find(pTHX_ ncp_invocation *call);
bool ncp_find_known(pTHX_ ncp_invocation *call); /* without asking the server; false also where it has to be asked again */
void ncp_invoke(pTHX_ ncp_invocation *call, nearcall_reply *ret_reply);
SV *ncp_invoke_raw(pTHX_ ncp_invocation *call);
NV ncp_ping(pTHX_ ncp_invocation *call);
void ncp_connect(pTHX_ ncp_invocation *call);
ncp_plan *ncp_plan_current(pTHX_ ncp_function *function);

/* ---- Another server in the place of one, with other descriptions (description.c) ---- */

/* Whether what came of a call may be because of its encoding. */
bool ncp_is_refused(const nearcall_client *client, int r);

/* Looks the function up again, unless the library knows that this is the server's. Whether it has changed since. */
bool ncp_has_changed(pTHX_ ncp_invocation *call, uint32_t revision);

/* The plan to encode by where a server has refused the present one: finds the function again. */
ncp_plan *ncp_plan_anew(pTHX_ ncp_invocation *call);

/* Throws, or warns, when the function has changed so that its generated code does not fit. */
void ncp_compare(pTHX_ ncp_invocation *call);
void ncp_warn_caller(pTHX_ const ncp_invocation *call, const char *text); /* throws if that closes the handle */

/* For arguments that may not be encoded again, though the description is another now. */
SV *ncp_not_again(pTHX_ SV *name);

/* The error to throw for arguments that do not fit. Does not return when the description
 * that they do not fit is out of date: they are encoded again. Takes error over. */
SV *ncp_unless_outdated(pTHX_ ncp_invocation *call, SV *error);

/* Leaves results in place of an XSUB's arguments, as its context wants them. An array that
 * is kept is not handed out itself. */
void ncp_return_reply(pTHX_ I32 ax, ncp_invocation *call, const nearcall_reply *reply);
void ncp_return_list(pTHX_ I32 ax, AV *results, bool is_kept);

/* ---- Values (encode.c, encode_plain.c, decode.c) ---- */

/* Whether values of the type can be plain, and then all that there is to them is put. */
bool ncp_is_simple(const ncp_type *type);

/* The array of arguments and so many of them at most. */
#define NCP_PLAIN_VALUES_MAX 9

/* How many values a request consists of, for nearcall_call_values(), where all arguments are plain and need
 * not be converted; the values last as long as the arguments. No user code runs. 0: nothing has come of it. */
U32 ncp_plain_values(pTHX_ ncp_invocation *call, nearcall_value *values);

/* The same as ncp_encode_request() where that is simple: all arguments are plain values that fit.
 * No user code runs and nothing is refused. False: nothing has come of it. */
bool ncp_encode_plain(pTHX_ ncp_invocation *call);

/* Starts a request and writes the arguments into it. User code may run, more than once.
 * False, for a call that was begun: nothing is there to be sent, and call->refusal, which
 * the caller owns, is final unless the server describes the function otherwise by now. */
bool ncp_encode_request(pTHX_ ncp_invocation *call);

/* What decoding may take; where it is given as NULL, whatever it needs. */
typedef struct ncp_bounds {
    int64_t began_ms;     /* by the coarse clock */
    int64_t timeout_ms;   /* since then; none above 0: no limit */
    ncp_invocation *call; /* for the handlers of signals to run; NULL: they wait */
} ncp_bounds;

/* Those of a call that is waited for. */
ncp_bounds ncp_bounds_of(const ncp_invocation *call);

/* Those of one that was begun. What came in time is given whenever it is fetched: reading it may then
 * take as long as the call. */
ncp_bounds ncp_bounds_begun(int64_t began_ms, int64_t timeout_ms);

/* The result of a function that has one, which the caller owns; or NULL and an
 * error to throw. */
SV *ncp_decode_single(pTHX_ ncp_handle *handle, const SV *options, SV *function_name, const ncp_plan *plan,
                      const nearcall_reply *reply, const ncp_bounds *bounds, SV **ret_error);

/* All results as a mortal array; or NULL and an error to throw. */
AV *ncp_decode_results(pTHX_ ncp_handle *handle, const SV *options, SV *function_name, const ncp_plan *plan,
                       const nearcall_reply *reply, const ncp_bounds *bounds, SV **ret_error);

/* An error's details, as many as there is time for; an empty array for bytes that cannot be read. */
SV *ncp_decode_details(pTHX_ const uint8_t *data, size_t bytes, const ncp_bounds *bounds);

/* ---- Files and connections (files.c) ---- */

/* What connections are where it could be loaded. */
#define NCP_SOCKET_CLASS "IO::Socket::IP"
#define NCP_SOCKET_FILE "IO/Socket/IP.pm"

/* A handle for a descriptor, which it takes over: of that class, if it is loaded; with
 * NULL one as open() makes. */
SV *ncp_new_file(pTHX_ int fd, const char *class_name);

/* ---- Modules that are loaded when they are needed (load.c) ---- */

/* Whether the file of a module was loaded, or is being loaded; one that died has not been. */
bool ncp_is_loaded(pTHX_ const char *file);

/* Loads it while no signal's handler can end that halfway. Hooks of @INC are user code. */
void ncp_load(pTHX_ const char *file);

/* ---- Errors (error.c) ---- */

/* A new Nearcall::Error; takes over message and details (NULL for none). */
SV *ncp_error_new(pTHX_ int code, int outcome, SV *function_name, SV *message, SV *details);
SV *ncp_error_busy(pTHX_ int outcome, SV *function_name);
SV *ncp_error_from_client(pTHX_ const nearcall_client *client, SV *function_name, const ncp_bounds *bounds);

/* For a caller, who may change or lock it; another's exception itself. */
SV *ncp_error_copy(pTHX_ SV *error);

/* Where the program is: the statement that is being run, or that led to a generated module. */
const COP *ncp_caller(pTHX);

/* Throws with the line that the program is at. */
void ncp_throw(pTHX_ SV *error) __attribute__((noreturn));

/* The same of a call: what ends it says nothing about what was sent before. */
void ncp_throw_of(pTHX_ const ncp_invocation *call, SV *error) __attribute__((noreturn));
void ncp_throw_client(pTHX_ const ncp_invocation *call) __attribute__((noreturn));

/* ---- Several calls in flight (pending.c) ---- */

/* LEFT: in flight in the thread that this one came from. */
typedef enum {
    NCP_RESOLVING, NCP_SENT, NCP_SUCCEEDED, NCP_FAILED, NCP_CANCELLED, NCP_LEFT
} ncp_call_state;

/* Listed in its handle while in flight, and then until it was returned as finished. The
 * object owns this struct, not the other way round, so that a call that nobody wants any
 * more is cancelled. */
struct ncp_call {
    ncp_handle *handle;
    ncp_calls *list;        /* NULL: none */
    ncp_call *next;
    ncp_call *previous;
    SV *object;             /* the blessed scalar; not owned */
    SV *name;
    SV *options;            /* of options.c; NULL: none */
    ncp_function *function; /* NULL until found */
    ncp_plan *plan;         /* the arguments were encoded by it; kept by plan_memory */
    AV *plan_memory;
    AV *arguments;          /* until the call has ended: it may have to be encoded again */
    bool is_constant;       /* nothing can have changed them since */
    SV *refusal;            /* why it is RESOLVING again */
    ncp_origin *origin;     /* of the generated function that began it; NULL */
    SV *callable;           /* owns origin */
    U32 attempts_left;
    int64_t began_ms;       /* of what timeout_ms counts from */
    AV *results;            /* SUCCEEDED */
    SV *error;              /* FAILED */
    int64_t timeout_ms;
    nearcall_call_id id;    /* RESOLVING, SENT */
    ncp_call_state state;
    int cancelled_outcome;  /* CANCELLED */
    bool is_encoding;       /* its arguments' code may run, and must not end it; stays when that dies */
    bool reported;          /* ncp_process has returned it */
};

SV *ncp_call_begin(pTHX_ ncp_invocation *call);
ncp_call *ncp_call_of(pTHX_ SV *object);
void ncp_call_send(pTHX_ ncp_call *call);
void ncp_call_find(pTHX_ ncp_call *call);
bool ncp_call_ready(pTHX_ ncp_call *call);
AV *ncp_call_wait(pTHX_ ncp_call *call);
void ncp_call_cancel(pTHX_ ncp_call *call);
/* The caller owns what this and ncp_error_copy() return. */
SV *ncp_call_error(pTHX_ const ncp_call *call);
void ncp_calls_closed(pTHX_ ncp_handle *handle);

/* Does what can be done without waiting; returns the calls that finished and
 * were not returned before, as a mortal array of objects. */
AV *ncp_process(pTHX_ ncp_handle *handle);

/* ---- Handoffs: Nearcall::Handoff objects (handoff.c) ---- */

typedef struct ncp_handoff {
    nearcall_handoff *handle; /* NULL: closed, or not open yet */
    bool is_closed;           /* by the program; the handle is, too, as soon as nothing is inside it */
    int given_fd;             /* what is being given; -1: nothing */
    Stat_t given;             /* which file that is: the library closes it, and its number may mean another then */
    int (*has_signal)(void *argument);
    void *signal_argument;
} ncp_handoff;

/* An object for a handle that is not open yet; ncp_handoff_check() throws what failed. */
SV *ncp_handoff_new(pTHX_ HV *stash, ncp_handoff **ret_handoff);
ncp_handoff *ncp_handoff_of(pTHX_ SV *object);
nearcall_handoff *ncp_handoff_handle(pTHX_ ncp_handoff *self);
void ncp_handoff_check(pTHX_ ncp_handoff *self, int r);
void ncp_handoff_opened(pTHX_ ncp_handoff *self, int r);
void ncp_handoff_close(pTHX_ ncp_handoff *self);

/* Accepts, and runs the handlers of a signal that ends the wait. NULL, with $! set: nothing
 * came. Otherwise what came, for Nearcall::Handoff to make a socket of. */
HV *ncp_handoff_accept(pTHX_ ncp_handoff *self, int64_t timeout_ms);
void ncp_handoff_give(pTHX_ ncp_handoff *self, int fd, HV *what, SV *prefix, int64_t timeout_ms);

/* ---- Residents: what Nearcall::Resident is made of (resident.c) ---- */

/* These throw what fails. */
nearcall_resident *ncp_resident_open(pTHX_ const char *program, U32 workers, IV idle_ms, AV *names);
int ncp_resident_next(pTHX_ nearcall_resident *handle);
void ncp_resident_child(pTHX_ nearcall_resident *handle);

/* Waits for a run and makes perl's streams those of its caller; NULL: leave. */
HV *ncp_resident_accept(pTHX_ nearcall_resident *handle);
void ncp_resident_name(const char *path);
/* Of Nearcall::Resident::Reads (reads.c). */
enum { NCP_READS_DIRECTORY, NCP_READS_INPUT, NCP_READS_HOME, NCP_READS_VARIABLES, NCP_READS_KINDS };
void ncp_reads_files(pTHX);
void ncp_reads_notice(bool notice);
void ncp_reads_pattern(pTHX_ SV *pattern);
bool ncp_reads_noticed(int kind);
/* Of Nearcall::Resident::Notes (notes.c). Without ncp_notes_begin nothing is noted. */
void ncp_notes_begin(pTHX);
void ncp_notes_enter(bool is_entered);
void ncp_notes_run(pTHX);
void ncp_note(pTHX_ const char *kind, const char *by, const char *name);
void ncp_note_here(pTHX_ const char *kind, const char *name);
AV *ncp_notes(void);
void ncp_resident_leave(pTHX_ int code) __attribute__((noreturn));

#endif
