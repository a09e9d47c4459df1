/* What the files of nearcall._core share. Everything here runs under the GIL
 * unless it says otherwise. */
#ifndef NEARCALL_CORE_H
#define NEARCALL_CORE_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <stdint.h>

#include <nearcall.h>
#include <nearcall_handoff.h>

/* ---- The module's state ---- */

typedef struct core_state {
    PyTypeObject *client_type;
    PyTypeObject *function_type;
    PyTypeObject *call_type;
    PyTypeObject *engine_type;
    PyTypeObject *handoff_type;
    PyTypeObject *resident_type;
    PyTypeObject *view_type;
    nearcall_client *judge;    /* says what is wrong with options of calls; NULL: none was looked at yet */
    PyObject *make_error;      /* nearcall._errors.make_error */
    PyObject *make_signature;  /* nearcall._schema.signature */
    PyObject *make_doc;        /* nearcall._schema.doc */
    PyObject *keyword_names;   /* nearcall._schema.keyword_names */
    PyObject *descriptor_of;   /* nearcall._files */
    PyObject *raw_file;        /* io.FileIO, and what buffers one */
    PyObject *buffered_reader;
    PyObject *buffered_writer;
    PyObject *buffered_random;
    PyObject *no_lists;        /* these twelve of nearcall._values */
    PyObject *shown;
    PyObject *finer_of;
    PyObject *plain_of;
    PyObject *number_of;
    PyObject *seconds_of_number;
    PyObject *boolean_of;
    PyObject *integer_of;
    PyObject *text_of;
    PyObject *buffer_of;
    PyObject *declared_names;
    PyObject *record_of;
    PyObject *require_elements;
    PyObject *is_absent;
    PyObject *refusal;         /* nearcall._values.Refusal */
    PyObject *error_class;     /* nearcall._errors.NearcallError */
    PyTypeObject *memoryview_type;
    PyObject *datetime_type;
    PyObject *timedelta_type;
    PyObject *epoch;           /* 1970-01-01 in UTC */
    PyObject *order_of;        /* type's own __mro__ and __dict__ */
    PyObject *names_of;
    PyObject *dict_keys;       /* dict's own keys and __getitem__ */
    PyObject *dict_getitem;
    PyTypeObject *slot_type;   /* of the descriptors of slots, */
    PyTypeObject *place_type;  /* of the fields of named tuples, */
    PyTypeObject *getset_type; /* and of what classes made in C have */
    PyObject *mapping_type;    /* collections.abc.Mapping */
    PyObject *days_of;         /* these three are timedelta's own */
    PyObject *seconds_of;
    PyObject *microseconds_of;
    PyObject *text_timeout;
    PyObject *text_keys;
    PyObject *text_getitem;
    PyObject *text_data;
    uint64_t fork_generation;  /* grows in every forked child */
} core_state;

/* Whether this is a child of the process that was of the generation; then an exception says that the call is the
 * parent's. In the child, the memory that a reply lies in is overwritten by the parent's next calls. */
int core_is_child(core_state *state, uint64_t generation);

/* The state of the module that made a type or one of its base types. */
core_state *core_state_of(PyTypeObject *type);

/* ---- Errors: each sets a Python exception and returns -1 or NULL ---- */

/* What the last failed function left on a handle; code is its return value. */
void core_raise(core_state *state, const nearcall_client *handle, int code);

/* An error that this binding found itself. code is a NEARCALL_E_... number. */
void core_raise_format(core_state *state, int code, int outcome, const char *format, ...);

/* The same, with the exception that is set now as its cause. */
void core_raise_from_current(core_state *state, int code, int outcome, const char *text);

/* Text for a message: what the program gave, shortened where it is large. New reference. */
PyObject *core_shown(core_state *state, PyObject *value);

/* The exception that is set, which is set no more; NULL: none was. New reference. */
PyObject *core_exception_take(void);

/* What a descriptor gives for an object. New reference. */
PyObject *core_described(PyObject *descriptor, PyObject *object);

/* Sets an exception, and takes it over; NULL sets none. */
void core_exception_set(PyObject *error);

/* Gives the exception that is set a cause, and takes that over; NULL gives it none. */
void core_exception_because(PyObject *cause);

/* ---- Plans: a function's description, compiled ---- */

typedef enum core_kind {
    CORE_BOOL, CORE_INT, CORE_UINT, CORE_FLOAT32, CORE_FLOAT64, CORE_STRING, CORE_BYTES,
    CORE_TIME, CORE_DURATION, CORE_FILE, CORE_CONNECTION, CORE_ANY, CORE_LIST, CORE_MAP, CORE_OPTIONAL, CORE_STRUCT,
    CORE_KINDS
} core_kind;

typedef struct core_struct core_struct;
typedef struct core_node core_node;

struct core_node {
    core_kind kind;
    const char *name;         /* as the schema spells it */
    int64_t least;            /* CORE_INT */
    uint64_t most;            /* CORE_INT, CORE_UINT */
    const core_node *element; /* CORE_LIST, CORE_OPTIONAL, CORE_MAP: of the values */
    const core_node *key;     /* CORE_MAP */
    core_struct *structure;   /* CORE_STRUCT */
    int packed;               /* CORE_LIST: NEARCALL_ELEMENT_... that it can travel as a block of; 0: it cannot */
};

typedef struct core_field {
    PyObject *name;
    const char *text; /* inside name */
    Py_ssize_t text_bytes;
    const core_node *type;
} core_field;

struct core_struct {
    core_struct *next; /* all structs of a plan */
    PyObject *name;
    core_field *fields;
    Py_ssize_t field_count;
};

typedef struct core_plan {
    Py_ssize_t references;
    PyObject *description;
    core_field *params;
    Py_ssize_t param_count;
    PyObject *keywords;        /* tuple: by which each may be given too that Python cannot write by its name */
    int has_timeout;           /* a parameter that is called as what a call takes for itself */
    Py_ssize_t required_count; /* params without the optional ones at the end and the variadic one */
    const core_node **results;
    Py_ssize_t result_count;
    int raw;
    int variadic;
    int packs; /* has lists that can travel as blocks */
    int is_plain; /* takes a few arguments, all of kinds that core_plain_values() knows */
    int nests_freely; /* has types of no fixed depth: any, and structs that may contain themselves */
    core_struct *structs;
    core_node *nodes; /* by the numbers of their types */
    nearcall_schema *schema; /* in which the names of nodes lie */
} core_plan;

/* The codec of requests of values. */
static inline int core_codec_of(const core_plan *plan)
{
    return plan->packs ? NEARCALL_CODEC_PACKED : NEARCALL_CODEC_MSGPACK;
}

core_plan *core_plan_new(core_state *state, const uint8_t *schema, size_t schema_bytes);
core_plan *core_plan_keep(core_plan *plan);
void core_plan_drop(core_plan *plan);

/* ---- Channels: the handles of one client, one for each thread that calls ---- */

/* A thread that is within methods which use a channel. */
typedef struct core_keeper {
    unsigned long thread;
    int times;
} core_keeper;

typedef struct core_channel {
    nearcall_client *handle;       /* NULL once closed */
    nearcall_view *view;           /* that the handle uses, which holds it */
    int busy;                      /* a thread works with the handle, perhaps without the GIL */
    core_keeper *keepers;          /* who hold it: closing waits, and all else goes on */
    Py_ssize_t keeper_count;
    Py_ssize_t keeper_room;
    int is_read;                   /* replies on it are being decoded, perhaps beside a request that is put together */
    unsigned long reader;          /* the thread that decodes them */
    unsigned long holder;          /* the thread that works with it */
    unsigned long owner;           /* the thread that began the calls in flight */
    const void *frame;             /* of Python's, if this is a call within others of its thread: only to be compared */
    int64_t signals_ms;            /* when a wait was last left to look for signals */
    int is_whole_wait;             /* what waits would begin anew when it was left to look */
    int handler_raised;            /* a wait ended with CORE_RAISED; whoever asks makes it 0 before */
    Py_ssize_t calls_in_flight;    /* Call objects not finished; they pin the channel to owner */
    Py_ssize_t index;
    nearcall_call_id *abandoned;   /* dropped while it was in use, to be cancelled afterwards */
    Py_ssize_t abandoned_count;
} core_channel;

#define CORE_OPTION_TEXTS 5            /* of nearcall_options, those that are strings */

typedef struct core_pool {
    Py_ssize_t references;
    core_state *state;
    uint64_t generation;           /* the process that the channels were checked in */
    core_channel **channels;
    Py_ssize_t channel_count;
    int closed;
    char *address;
    char *texts[CORE_OPTION_TEXTS];
    uint32_t *users;
    nearcall_options options;      /* points into the strings above */
    int warns_of_plain;            /* nobody was warned yet, and has to be if calls leave the machine in plain text */
} core_pool;

/* The strings of the options are copied. */
core_pool *core_pool_new(core_state *state, const char *address, const nearcall_options *options, PyObject *users);
core_pool *core_pool_keep(core_pool *pool);
void core_pool_drop(core_pool *pool);
void core_pool_close(core_pool *pool);
#define CORE_CLOSED "the client was closed; make another one"
int core_pool_check_open(core_pool *pool); /* refuses one that was closed */

/* After something came through the channel: a warning, once, if its calls leave the machine in plain text. Fails where
 * warnings are errors. */
int core_pool_warn_of_plain(core_pool *pool, const core_channel *channel);

/* After a fork, forgets what threads did that the child does not have. */
void core_pool_check_process(core_pool *pool);

/* A channel for this thread alone until core_channel_release(). For pipelining
 * it is the one that holds the thread's calls in flight. NULL: exception set. */
core_channel *core_channel_take(core_pool *pool, int pipelining);

/* The same for one channel; fails when another call uses it at this moment. */
int core_channel_take_this(core_pool *pool, core_channel *channel);
void core_channel_release(core_pool *pool, core_channel *channel);

/* Until it is let go closing waits: code that runs meanwhile may use the handle, and close the client. */
int core_channel_hold(core_channel *channel);
void core_channel_let_go(core_pool *pool, core_channel *channel);

/* Until the end nobody else may use the handle, and closing it waits. */
void core_channel_read_begin(core_channel *channel);
void core_channel_read_end(core_pool *pool, core_channel *channel);

/* Cancels a call now, or when the channel is released. Never fails. */
void core_channel_abandon(core_pool *pool, core_channel *channel, nearcall_call_id id);

/* Blocking functions of libnearcall with the GIL released and signal handlers
 * run. They return what libnearcall does, or CORE_RAISED with an exception set. */
#define CORE_RAISED 1
/* Makes the channel's waits notice signals that come just before them. */
int core_notice_signals(core_channel *channel);
/* Runs the handlers of the signals that have come, in the thread that they run in. -1 with what one has raised. */
int core_run_handlers(core_channel *channel);
int core_wait_find(core_channel *channel, const char *name, size_t name_bytes,
                   int64_t timeout_ms, nearcall_function **ret_function);
int core_wait_compare(core_channel *channel, nearcall_function *function, const char *hash,
                      const char *description, int64_t timeout_ms);
int core_wait_request(core_channel *channel, int64_t timeout_ms, nearcall_reply *ret_reply);
int core_wait_values(core_channel *channel, nearcall_function *function, int codec, const nearcall_value *values,
                     size_t count, int64_t timeout_ms, nearcall_reply *ret_reply);
int core_wait_raw(core_channel *channel, const char *name, const void *data, size_t bytes,
                  int64_t timeout_ms, nearcall_reply *ret_reply);
int core_wait_connect(core_channel *channel, int64_t timeout_ms);
int core_wait_ping(core_channel *channel, int64_t timeout_ms, uint64_t *ret_round_trip_ns);
int core_send_request(core_channel *channel, int64_t timeout_ms, nearcall_call_id *ret_id);

/* ---- Options of single calls ---- */

/* What with_options() gives. It never changes. */
typedef struct core_view {
    PyObject_HEAD
    nearcall_view *options;
    PyObject *reply_metadata; /* the dict that the metadata of replies go to; NULL: nowhere */
    uint32_t attempts_max;    /* 0: the client's */
    int retries_unknown;      /* a call may be sent again when nobody knows whether it ran */
    int gives_buffers;        /* lists of numbers are returned as memoryviews */
} core_view;

/* Calls that begin on the channel from now on have these options; NULL: none. What the library returns. */
int core_channel_use(core_channel *channel, const core_view *view);

/* Puts the metadata of the reply that the handle has given last where the view wants them. -1 with an exception
 * set. view may be NULL. */
int core_view_take_metadata(const core_view *view, const nearcall_client *handle);

/* How long the objects of finished calls are made before an event loop has its turn again, as libnearcall reads. */
#define CORE_TURN_MS 10

int64_t core_monotonic_ms(void);
double core_seconds_from_now(int64_t milliseconds); /* as time.monotonic() counts */
/* The same, by up to a tick of the kernel's earlier, for a third of the price. */
int64_t core_coarse_ms(void);
int64_t core_milliseconds_left(int64_t timeout_ms, int64_t started_ms);

/* ---- Options ---- */

/* A whole number that is to be within bounds; -1 with an exception that names it. The second form is a converter
 * of PyArg_Parse..., for "O&". */
typedef struct core_number {
    core_state *state;
    const char *name;
    uint32_t least;
    uint32_t most;
    uint32_t value;
} core_number;

int core_number_from(core_number *number, PyObject *value);
int core_number_parse(PyObject *value, void *number);

/* A text for C, inside of the value: one with a NUL is refused. Likewise. */
typedef struct core_text {
    const char *name;
    const char *text;
} core_text;

const char *core_text_from(PyObject *value, const char *name);
int core_text_parse(PyObject *value, void *text);

/* Numbers of users; the caller frees them, by PyMem_Free(). */
int core_users_from(core_state *state, PyObject *users, uint32_t **ret_users, uint32_t *ret_count);

/* A function's name, as what it is in the library: of a subclass of str the text alone, so that no code of its own
 * tells which function it is. New reference. */
PyObject *core_exact_name(core_state *state, PyObject *name);

/* Seconds as Python gives them to milliseconds: None is default_ms, infinity
 * is NEARCALL_NO_TIMEOUT. -1 with an exception set for anything else. */
int core_timeout_ms(core_state *state, PyObject *seconds, int64_t default_ms,
                    int64_t *ret_timeout_ms);

/* The same for Python: functions of the module. */
PyObject *core_whole_number(PyObject *module, PyObject *args);
PyObject *core_function_name(PyObject *module, PyObject *name);
PyObject *core_seconds(PyObject *module, PyObject *seconds);

/* ---- Functions ---- */

/* What one channel knows of a function. */
typedef struct core_slot {
    nearcall_function *function;
    uint32_t revision;
    uint32_t compared; /* the revision that generated code was compared with; 0: none */
    core_plan *plan;
} core_slot;

/* A function by its name, with what each channel knows of it. It refers to no
 * client: whoever drops the last reference to a client closes its connections. */
typedef struct core_entry {
    Py_ssize_t references;
    PyObject *name;
    const char *text; /* inside name */
    Py_ssize_t text_bytes;
    PyObject *hash;        /* of the description that generated code was written for; NULL: none */
    PyObject *description; /* the same as JSON */
    int warns;             /* where that does not fit, instead of raising */
    core_slot **slots; /* by the channel's index; NULL: that has not come to it. Each stays where it is */
    Py_ssize_t slot_count;
} core_entry;

typedef struct core_client {
    PyObject_HEAD
    core_state *state;
    core_pool *pool;      /* NULL before __init__; shared with the views with_timeout() and with_options() make */
    int64_t timeout_ms;
    core_view *view;      /* of its calls; NULL: none */
    PyObject *entries;    /* name to capsule of core_entry: functions that exist; shared likewise */
    PyObject *proxies;    /* the part of entries that was asked for as an attribute; likewise */
    core_entry *recent;   /* of entries: what was called last, for programs call by the same constant again */
} core_client;

/* How often a call is sent in all. */
uint32_t core_client_attempts(const core_client *client);

/* The arguments of one call, as they came. Nothing is owned. */
typedef struct core_arguments {
    PyObject *const *positional;
    Py_ssize_t positional_count;
    PyObject *names; /* tuple of str or NULL */
    PyObject *const *named;
    PyObject *timeout; /* NULL or None: the client's */
    int is_timeout_named; /* the caller may have meant a parameter of that name */
} core_arguments;

core_entry *core_entry_new(PyObject *name); /* an exact one */
core_entry *core_entry_keep(core_entry *entry);
void core_entry_drop(core_entry *entry);

/* Entries as values of a dict. Borrowed; NULL without an exception: not there. */
core_entry *core_entry_lookup(PyObject *entries, PyObject *name);
int core_entry_store(PyObject *entries, core_entry *entry);

/* The client's entry for a name, kept for the caller. It need not exist on the server. */
core_entry *core_client_entry(core_client *client, PyObject *name);
int core_client_check(core_client *client); /* refuses one whose __init__ did not run */

/* Finds the function on a channel, asking the server when it is not known
 * yet, or with look_again when the library does not know that it is the same; *timeout_ms
 * shrinks by the time that takes. NULL: exception set. */
core_slot *core_entry_slot(core_client *client, core_entry *entry, core_channel *channel,
                           int look_again, int64_t *timeout_ms);
int core_entry_set_slot(core_state *state, core_entry *entry, const core_channel *channel,
                        nearcall_function *function);
PyObject *core_entry_call(core_client *client, core_entry *entry,
                          const core_arguments *arguments);
PyObject *core_function_new(core_client *client, core_entry *entry);

/* Makes a slot's plan follow the function's description. */
int core_slot_refresh(core_state *state, core_slot *slot, nearcall_function *function);
void core_slot_clear(core_slot *slot);

/* The arguments that METH_FASTCALL | METH_KEYWORDS gives, with timeout= taken
 * out. *scratch holds what had to be made for it; clear it after the call. */
typedef struct core_scratch {
    PyObject *names;
    PyObject **named;
} core_scratch;
int core_arguments_set(core_state *state, core_arguments *arguments, PyObject *const *positional,
                       Py_ssize_t positional_count, PyObject *names, core_scratch *scratch);
void core_scratch_clear(core_scratch *scratch);

/* ---- Trying: a server may come in the place of another and describe a function
 * otherwise. What was encoded for the former one does not run, and is encoded again. ---- */

typedef struct core_attempt {
    nearcall_reply *reply;   /* set by a call that is waited for */
    nearcall_call_id id;     /* set by one that is not: reply is NULL */
    core_plan *plan;         /* the arguments were encoded by it, and the result is decoded by it; kept */
    uint32_t revision;       /* the plan's */
    uint32_t attempts_left;
    int may_have_run;        /* by a sending of an earlier encoding */
    int64_t started_ms;      /* when core_entry_attempt() began */
} core_attempt;

/* Encodes and sends until it is sent, or has its reply, or fails for good. 0, with a plan
 * that the caller drops, or -1 with an exception set. */
int core_entry_attempt(core_client *client, core_entry *entry, core_channel *channel,
                       const core_arguments *arguments, int64_t timeout_ms, core_attempt *attempt);

/* Whether what came of a call may be because of its encoding. */
int core_is_refused(const core_channel *channel, int r);

/* After an exception, which is set: 1, and none is set any more, when the server's description
 * is another than the attempt's, and one is left; else 0 with the exception that remains. */
int core_entry_has_changed(core_client *client, core_entry *entry, core_channel *channel,
                           int64_t timeout_ms, const core_attempt *attempt);

/* Arguments that outlive the function they were given to. */
typedef struct core_kept {
    core_arguments arguments; /* points into values */
    PyObject **values;
    Py_ssize_t value_count;
    int is_constant; /* no program can have changed them since: they may be encoded again */
} core_kept;
int core_kept_set(core_state *state, core_kept *kept, const core_arguments *arguments);
void core_kept_clear(core_kept *kept);

/* A call that was begun, with what it takes to begin it again; it takes the attempt's plan over.
 * Its time runs since started_ms, which was before the attempt. */
PyObject *core_call_new(core_client *client, core_entry *entry, core_channel *channel,
                        const core_arguments *arguments, int64_t timeout_ms,
                        int64_t started_ms, core_attempt *attempt);

/* ---- Values ---- */

/* One request as it is being encoded. */
typedef struct core_encoder {
    core_state *state;
    core_channel *channel;
    nearcall_client *handle; /* the channel's */
    int64_t timeout_ms;    /* of the whole call */
    int64_t started_ms;    /* when code of a value's own ran first, or much had been encoded; 0: not yet */
    size_t work;           /* since the last look, in the units of core_encoder_charge() */
    size_t checked;        /* of that, what was done when the time was looked at */
    Py_ssize_t copied;     /* references that are to be given back */
    PyObject **asked;      /* see core_encode_request() */
    PyTypeObject *plain_type; /* NULL, or a subclass of dict without code of its own, as far as is known; held */
    int has_refused;          /* the exception that is set is of Nearcall's, and of no code of an argument's */
    int is_plain_type_known;  /* no code has run since that may have changed it */
} core_encoder;

/* Writes a request for the function into the channel's buffer. *timeout_ms shrinks by
 * the time that values' own code took; what takes longer fails. *asked is what iterables
 * gave when they were encoded before: those that give it only once are not asked again. It is
 * NULL at first, or a dict, and the caller's to drop when the call is encoded no more.
 * Returns 0, -1, or CORE_RAISED: code of an argument's own has raised the exception that is set, and whatever that
 * is, the call is over. */
int core_encode_request(core_state *state, core_channel *channel, nearcall_function *function,
                        const core_plan *plan, const core_arguments *arguments, PyObject **asked,
                        int64_t *timeout_ms);

/* The array of arguments and so many of them at most. */
#define CORE_PLAIN_VALUES_MAX 9

int core_is_plain_kind(core_kind kind);

/* How many values a request consists of, for core_wait_values(), if all arguments are plain; they last as long as
 * the arguments. 0, without an exception: they are to be encoded. */
size_t core_plain_values(const core_plan *plan, const core_arguments *arguments, nearcall_value *values);

int core_encode_argument(core_encoder *e, const core_field *param, Py_ssize_t index,
                         PyObject *value);
int core_encode_raw(core_encoder *e, const core_field *param, PyObject *value);

/* The bytes of a buffer that holds bytes, to be released. -1 with an exception for any other: a
 * Refusal, which is a TypeError, or what its own code raises. */
int core_bytes_of(core_state *state, PyObject *value, Py_buffer *ret_view);

/* By when a reply is to be decoded. */
typedef struct core_bounds {
    int64_t started_ms;
    int64_t timeout_ms;    /* of the whole call since then; 0 or less: no limit */
    core_channel *channel; /* that the reply came on, if handlers of signals may run meanwhile; else NULL */
} core_bounds;

/* The same of a reply that is fetched. One that came in time and is fetched later is decoded without a limit. */
core_bounds core_bounds_from_now(int64_t started_ms, int64_t timeout_ms, core_channel *channel);

/* handle is the one that handed the reply out. view may be NULL. */
PyObject *core_decode_reply(core_state *state, nearcall_client *handle, const core_view *view,
                            const core_plan *plan, const nearcall_reply *reply,
                            const core_bounds *bounds);

/* Giving a reference back takes some 20 ns where nothing is in the processor's caches. */
#define CORE_REFERENCES_GIVEN_BACK_PER_MS 50000

/* How a call ended, apart from what a signal's handler raised while that was put into
 * Python's words: that is not of the call. */
typedef struct core_ending {
    PyObject *result;  /* this or error */
    PyObject *error;
    PyObject *others;  /* NULL, or an exception to be raised besides */
} core_ending;

/* r and reply are what the library said; plan is NULL for what has no result. */
core_ending core_ending_of(core_state *state, nearcall_client *handle, const core_view *view, int r,
                           const core_plan *plan, const nearcall_reply *reply,
                           const core_bounds *bounds);

/* A call that an engine has sent, as a capsule. New reference. The second says what became of it, while the capsule is
 * held; NULL is for what was asked for the library's sake, which has taken the result in. */
PyObject *core_sent_new(core_plan *plan, core_view *view, int64_t timeout_ms);
core_ending core_sent_ending(core_state *state, nearcall_client *handle, int r, PyObject *capsule,
                             const nearcall_reply *reply);

/* Any MessagePack, without a schema. */
PyObject *core_decode_any(core_state *state, const uint8_t *data, size_t bytes);

/* Times. Failing, they set a Refusal without a text, or what the value's own code raises. */
int core_time_from_python(core_state *state, PyObject *value, int64_t *ret_seconds,
                          uint32_t *ret_nanoseconds);
int core_duration_from_python(core_state *state, PyObject *value, int64_t *ret_nanoseconds);
PyObject *core_time_to_python(core_state *state, int64_t seconds, uint32_t nanoseconds);
PyObject *core_duration_to_python(core_state *state, int64_t nanoseconds);

/* ---- Files: both own the descriptor, also when they fail ---- */

PyObject *core_file_to_python(core_state *state, int fd);
PyObject *core_connection_to_python(int fd);

/* Gives a socket that is made and has no descriptor this one, by a function as socket.__init__. Where that fails the
 * descriptor is closed. */
int core_socket_fill(PyObject *socket, PyObject *fill, int fd);

/* ---- Work that is not left half done: functions of the module ---- */

PyObject *core_carry_out(PyObject *module, PyObject *const *args, Py_ssize_t count);
PyObject *core_carry_out_and_tell(PyObject *module, PyObject *const *args, Py_ssize_t count);

/* ---- Types and helpers ---- */

extern PyType_Spec core_client_spec;
extern PyType_Spec core_function_spec;
extern PyType_Spec core_call_spec;
extern PyType_Spec core_engine_spec;
extern PyType_Spec core_handoff_spec;
extern PyType_Spec core_resident_spec;
extern PyType_Spec core_view_spec;

/* Fills pool options from what nearcall.Client and AsyncClient were given. */
core_pool *core_pool_from_arguments(core_state *state, PyObject *args,
                                    uint32_t flags, int64_t *ret_timeout_ms);

#endif
