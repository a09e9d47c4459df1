/*
 * nearcall.h - call functions of another process as if they were your own
 *
 * This header is the manual of libnearcall. A shorter tour is in docs/guides/c.md, the wire
 * format in spec/wire-format.md.
 *
 *     nearcall_client *client;
 *     nearcall_reply reply;
 *     int r = nearcall_open(&client, "unix:/run/demo/nearcall.sock", NULL);
 *     if (r == NEARCALL_OK)
 *         r = nearcall_call(client, "echo", "hello", 5, 0, &reply);
 *     if (r == NEARCALL_OK)
 *         fwrite(reply.data, 1, reply.bytes, stdout);
 *     else
 *         fprintf(stderr, "%s\n", nearcall_error_message(client));
 *     nearcall_close(client);
 *
 * RETURN VALUES. Functions that can fail return NEARCALL_OK (0) or a count on success, and
 * a negative NEARCALL_E_... number on failure. The handle keeps the error in words, its
 * outcome and its details until its next call: see "Errors". Output parameters come last,
 * have names that begin with ret_, and are left untouched on failure.
 *
 * THREADS. A handle may be used by one thread at a time, and by any: it may move from one to
 * another, but must not be shared without a lock. Different handles are independent.
 * If a function is given a handle that is already inside another function, it changes
 * nothing and returns NEARCALL_E_MISUSE at once; a put is dropped, and what the error functions
 * return stays the same. This can happen in a signal handler that has interrupted a wait or
 * a put; see nearcall_wake(). Such a handler must return, and not leave the function by
 * longjmp(3); nearcall_abandon() ends what one has left. The library starts no thread, takes
 * no lock, has no global state, installs no signal handler, and never raises SIGPIPE.
 *
 * FORK. A handle that was opened before a fork works in parent and child. The child notices
 * at its next use, sends not a single byte on the parent's connection, and opens a
 * connection of its own. Calls that were in flight belong to the parent; waiting for one in
 * the child fails with NEARCALL_E_UNAVAILABLE and outcome unknown. A request that was being
 * put together may lie in memory that only the parent has. Putting to it or sending it in
 * the child then fails with NEARCALL_E_FAILED_PRECONDITION, and nearcall_request() begins
 * it again; the child must not write into room that nearcall_put_reserve() returned before
 * the fork. A reply that was handed out before the fork stays readable in the child, but it
 * may lie in memory shared with the server, so its bytes stay the same only until the
 * parent uses its handle again. A fork while another thread is inside the library is safe:
 * the child's copy of that handle starts anew. Every descriptor is close-on-exec.
 *   A signal handler may interrupt a function of the library and fork. Its child must call
 * exec or _exit, or go on with handles that were not in use. A child that returns into that
 * function is mostly noticed, but not always: it may die by SIGSEGV or disturb calls of the
 * parent. See docs/guides/prefork.md.
 *
 * TIME. A timeout_ms parameter bounds the whole call: connecting, sending and waiting. It
 * is in milliseconds; 0 means the default of the view that is used (nearcall_calls.h) or of
 * the handle, and NEARCALL_NO_TIMEOUT means no limit. A call returns at most 50 ms after its
 * timeout, whatever the server does, and it never returns NEARCALL_E_DEADLINE_EXCEEDED
 * before its timeout. Clocks are monotonic. Only looking up a host's name may take longer.
 *
 * LOST CONNECTIONS. If a connection is lost, the handle makes another and asks the same server
 * what became of the calls, in their time; of begun ones unless there are several endpoints. A
 * call that was not started is sent again if a function waits for it and attempts_max allows it.
 *
 * SHARED MEMORY. On a "unix:" address calls begin on the socket. After some calls the
 * server gives the connection memory that both sides map. On a busy connection a call then
 * costs two cache lines instead of two system calls on each side. Nothing else changes:
 * what does not fit goes over the socket, and so does everything if memory, descriptors or
 * the server's permission are missing. A call that waits looks at the memory for some
 * microseconds before it sleeps; it spins, as long as that makes calls faster and the server
 * runs on another CPU. Large requests that are put together are built where the server reads
 * them, and replies are read where the server has written them. When the connection is
 * lost, marks in the memory tell whether a call was started.
 *   ?shm=off   or NEARCALL_NO_SHARED_MEMORY: use the socket only
 *   ?spin=off  or NEARCALL_SPIN_OFF: never spin, sleep at once
 *   ?spin=dedicated or NEARCALL_SPIN_DEDICATED: never sleep
 * If an option and the address differ, the one that switches more off wins.
 *
 * ANOTHER SERVER. A server may be replaced by one whose functions have other parameters or
 * results. nearcall_request() notes the description by which a request is encoded, and a
 * server with another description refuses the request: nearcall_request_call(),
 * nearcall_request_send(), nearcall_wait() or nearcall_poll() return NEARCALL_E_ABORTED
 * with outcome not executed. The library does not send the call again, because only the
 * program can encode its values anew. The next nearcall_find() asks the server for the new
 * description. If the program still has the values, it puts them once more:
 *     for (int tries = 0; tries < 3; tries++) {
 *         r = nearcall_find(client, "add", 3, 0, &add);
 *         if (r != NEARCALL_OK)
 *             break;
 *         if (nearcall_function_revision(add) != revision)
 *             ... look at nearcall_function_schema() again, or give up ...
 *         nearcall_request(client, add, NEARCALL_CODEC_MSGPACK);
 *         ... nearcall_put_array() and the arguments, as it says ...
 *         r = nearcall_request_call(client, 0, &reply);
 *         if (r != NEARCALL_E_ABORTED ||
 *             nearcall_error_outcome(client) != NEARCALL_OUTCOME_NOT_EXECUTED)
 *             break;
 *     }
 * Older servers do not look at descriptions: a request that was encoded under another schema
 * than theirs fails in the same way. Raw payloads are the same under every description.
 *
 * FILES. Functions take and return open files and TCP connections if the server allows this
 * process to pass them. That works over local sockets only. nearcall_put_file() gives a
 * request a duplicate, and nearcall_take_file() hands out what came with a reply; the
 * library closes everything else. A forked child has copies of both, as of all descriptors.
 *
 * OTHER MACHINES, of which an address may name several: see nearcall_endpoints.h. Whatever goes
 * to a "tcp:" address can be read and changed on the way. To another machine that is logged once
 * (nearcall_hooks.h), or refused with NEARCALL_NO_PLAIN_TCP or ?plain=refuse. A server that leaves
 * bytes unanswered for 30 seconds, or is silent for ?silence=MS or silence_ms (100 to 300000) while
 * a call waits, counts as gone. A "tls:" address is TCP with TLS 1.3, by OpenSSL 3, which is
 * loaded for it. PEM files are named in the options or in the address ("?ca=PATH&cert=PATH&
 * key=PATH&name=HOST"), which comes first, and are read again when they have changed. If a side does
 * not accept the other: NEARCALL_E_UNAUTHENTICATED, not executed. See docs/guides/c.md for forks.
 *
 * SAME PROCESS. "embed:/path/of/library.so" names a Go library, built by `nearcall build`,
 * which this process loads. nearcall_call() and nearcall_request_call() then run the
 * function in the calling thread. All other calls, and functions that have proved to be
 * slow, go over a private socket to the same functions in the same process, so that
 * deadlines and signals can end the wait for them; only the first slow call of a function
 * lasts as long as the function does. A forked child does not enter Go code: the same
 * handle goes on over shared memory to the process that has loaded the library. With
 * ?children=own it fails instead, unless the library was not loaded before the fork. A
 * process can load one Go library only, for as long as it lives, and it needs the GNU C
 * library. For signal handlers see nearcall_block_signals() in nearcall_signals.h.
 *
 * MEMORY. Every allocation is checked. When memory runs out a function returns
 * NEARCALL_E_RESOURCE_EXHAUSTED, and the handle stays usable.
 *
 * All functions exist since version 0.1.
 */
#ifndef NEARCALL_H
#define NEARCALL_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A program that builds the library into itself may define this as nothing, so that it is
 * not mistaken for another libnearcall in the process. */
#if defined(NEARCALL_API)
#elif defined(__GNUC__)
#define NEARCALL_API __attribute__((visibility("default")))
#else
#define NEARCALL_API
#endif

#define NEARCALL_VERSION_MAJOR 0
#define NEARCALL_VERSION_MINOR 1
#define NEARCALL_VERSION_PATCH 0

/* The version of the library that is running, such as "0.1.0". Never NULL. */
NEARCALL_API const char *nearcall_version(void);

/* ---- Codes and outcomes ---- */

/* generated from spec/errors.json: begin */
/* What functions return: 0, or the code's number made negative. */
enum {
    NEARCALL_OK = 0,                     /* the call succeeded */
    NEARCALL_E_CANCELLED = -1,           /* the caller gave the call up */
    NEARCALL_E_UNKNOWN = -2,             /* the function returned an error that carries no code */
    NEARCALL_E_INVALID_ARGUMENT = -3,    /* an argument, a frame or an option is not of the agreed form */
    NEARCALL_E_DEADLINE_EXCEEDED = -4,   /* the deadline passed before the reply came */
    NEARCALL_E_NOT_FOUND = -5,           /* what the function was asked for does not exist */
    NEARCALL_E_ALREADY_EXISTS = -6,      /* what the function was asked to create exists */
    NEARCALL_E_PERMISSION_DENIED = -7,   /* the peer is known and may not do this */
    NEARCALL_E_RESOURCE_EXHAUSTED = -8,  /* a limit was reached, or memory ran out */
    NEARCALL_E_FAILED_PRECONDITION = -9, /* the state the call needs does not hold */
    NEARCALL_E_ABORTED = -10,            /* a conflict with another call; it may be tried again from the start */
    NEARCALL_E_OUT_OF_RANGE = -11,       /* beyond the end of what there is */
    NEARCALL_E_UNIMPLEMENTED = -12,      /* the server has no such function, or this version does not do that */
    NEARCALL_E_INTERNAL = -13,           /* a fault in the server; its log has the details */
    NEARCALL_E_UNAVAILABLE = -14,        /* no server is there, or the connection to it was lost */
    NEARCALL_E_DATA_LOSS = -15,          /* data was lost or damaged beyond repair */
    NEARCALL_E_UNAUTHENTICATED = -16,    /* who the peer is could not be established */
    NEARCALL_E_INTERRUPTED = -100,       /* never on the wire: a signal arrived while waiting; run its handlers, then resume the call */
    NEARCALL_E_AGAIN = -101,             /* never on the wire: not finished yet; wait for the descriptor, then ask again */
    NEARCALL_E_MISUSE = -102             /* never on the wire: the library was called in an order or with an argument it documents as wrong */
};

/* Whether the function of a failed call ran. */
enum {
    NEARCALL_OUTCOME_NONE = 0,                 /* the call has not failed */
    NEARCALL_OUTCOME_NOT_EXECUTED = 1,         /* the function did not run and will not; the call may be sent again */
    NEARCALL_OUTCOME_UNKNOWN = 2,              /* the function ran once, runs now, or did not run; only the application can tell */
    NEARCALL_OUTCOME_EXECUTED_RESULT_LOST = 3, /* the function ran once to its end and its result did not arrive */
    NEARCALL_OUTCOME_EXECUTED = 4              /* the function ran once and returned this error itself */
};
/* generated from spec/errors.json: end */

/* How a payload is encoded. The server refuses any other number. */
enum {
    NEARCALL_CODEC_RAW = 0,     /* the bytes themselves */
    NEARCALL_CODEC_MSGPACK = 1, /* MessagePack; arguments as an array */
    NEARCALL_CODEC_JSON = 2,    /* JSON; arguments as an array */
    NEARCALL_CODEC_PACKED = 4   /* MessagePack in which lists of numbers may be blocks: see nearcall_put_packed() */
};

/* The name of a code, such as "DEADLINE_EXCEEDED". The code may have either sign. Never
 * NULL. */
NEARCALL_API const char *nearcall_code_name(int code);

/* An outcome in words, such as "not executed". Never NULL. */
NEARCALL_API const char *nearcall_outcome_text(int outcome);

/* ---- Handles ---- */

/* A client handle. It opens its connection when it is first needed, and opens it again
 * after it was lost. Opaque. */
typedef struct nearcall_client nearcall_client;

/* A function of the server, found by name. Opaque. It belongs to its client and is valid
 * until the client is closed, across reconnects and forks. */
typedef struct nearcall_function nearcall_function;

/* Identifies one call of one handle. Never 0, and never used twice. */
typedef uint64_t nearcall_call_id;

#define NEARCALL_NO_TIMEOUT (-1)

enum {
    /* Return NEARCALL_E_INTERRUPTED when a signal arrives during a wait, so that the
     * program can run its handlers; see nearcall_resume(). A signal that arrives just
     * before the wait ends it only with the help of nearcall_interruptible_check() or
     * nearcall_wake(). Without this flag waits go on when signals arrive. */
    NEARCALL_INTERRUPTIBLE = 1,
    /* Accept addresses in the abstract namespace ("unix:@name"). Any user of the machine
     * can take such a name, so they are refused by default. */
    NEARCALL_ALLOW_ABSTRACT = 2,
    /* nearcall_connect(), nearcall_find_begin(), nearcall_request_send() and
     * nearcall_cancel() never block: connecting and sending go on in nearcall_process().
     * Functions whose purpose is to wait still do: nearcall_call(),
     * nearcall_request_call(), nearcall_find(), nearcall_wait() and nearcall_ping(). */
    NEARCALL_NONBLOCKING = 4,
    /* Accept a server that runs as any user. By default the user must be root, the caller's
     * own, the owner of the directory with the socket, or one of server_user_ids. Nothing
     * is sent to any other server. */
    NEARCALL_ANY_SERVER_USER = 8,
    /* Use the socket only; see "Shared memory". The same as ?shm=off in the address. */
    NEARCALL_NO_SHARED_MEMORY = 16,
    /* Never spin, but sleep at once. The same as ?spin=off. */
    NEARCALL_SPIN_OFF = 32,
    /* Never sleep while waiting for a reply. Use it only if there is a CPU to spare. The
     * same as ?spin=dedicated. NEARCALL_SPIN_OFF and ?spin=off take precedence over it. A
     * signal does not end such a wait, not even with NEARCALL_INTERRUPTIBLE. */
    NEARCALL_SPIN_DEDICATED = 64,
    /* Do what nearcall_block_signals(client, 1) does, from the beginning. */
    NEARCALL_BLOCK_SIGNALS = 128,
    /* Let nearcall_wake() end waits. This takes two descriptors, and one more system call
     * for each wait that sleeps. */
    NEARCALL_WAKEABLE = 256,
    NEARCALL_NO_PLAIN_TCP = 512 /* plain TCP to another machine is NEARCALL_E_FAILED_PRECONDITION */
};

typedef struct nearcall_options {
    size_t struct_size;           /* sizeof(nearcall_options) */
    int64_t timeout_ms;           /* default timeout of calls; 0: 30 seconds */
    int64_t connect_timeout_ms;   /* bounds connecting within a call; 0: only the timeout of the call does */
    uint32_t flags;               /* NEARCALL_INTERRUPTIBLE | ... */
    uint32_t frame_bytes_max;     /* largest reply accepted; 0: 4 MiB */
    uint32_t attempts_max;        /* how many times in all a call that was not executed is sent; 0: 3, 1: never again */
    uint32_t server_user_ids_count;
    const uint32_t *server_user_ids; /* further users as which the server may run; copied */
    const char *name;             /* the name of this program for the server's log; NULL: the library's name; copied */
    size_t calls_in_flight_max;   /* calls at a time that are unfinished or not fetched; 0: 1024; 16384 at most */
    size_t value_bytes_max;       /* larger requests and replies, up to so many bytes: see nearcall_values.h; 0: none */
    const char *tls_authorities;  /* PEM file: the authorities that are trusted; NULL: the system's; copied, as the next three */
    const char *tls_certificate;  /* PEM file: this program's certificate, then those between it and its authority; NULL: none */
    const char *tls_key;          /* PEM file: its key, without a passphrase; NULL: in the file of the certificate */
    const char *tls_server_name;  /* the name in the server's certificate; NULL: the host of the address */
    int64_t silence_ms;           /* 0: off, or 1000 if the address has several endpoints; see "Other machines" */
} nearcall_options;

#define NEARCALL_OPTIONS_INIT { sizeof(nearcall_options), 0, 0, 0, 0, 0, 0, NULL, NULL, 0, 0, NULL, NULL, NULL, NULL, 0 }

/*
 * Makes a handle for an address: "unix:/path", "unix:@name", "tcp:host:port", "tls:host:port"
 * or "embed:/path/of/library.so". "unix:" and "embed:" addresses may be followed by
 * "?shm=auto|off" and "?spin=auto|off|dedicated", joined by "&" (see "Shared memory"), and
 * "embed:" addresses also by "children=parent|own" (see "Same process"). Lists are refused.
 *
 * It does not connect: the first call does, or nearcall_connect(). A library is loaded at
 * once, though, unless each child is to have its own. options may be NULL.
 *
 * On failure a handle is still returned, for its error message; every later function on it
 * fails with the same error. Only if there was no memory for a handle, *ret_client is NULL.
 * Free the handle with nearcall_close() in every case.
 */
NEARCALL_API int nearcall_open(nearcall_client **ret_client, const char *address,
                               const nearcall_options *options);

/* Closes the connection of this process and frees the handle with all that belongs to it.
 * client may be NULL. In a forked child it sends nothing, and the parent's connection stays. */
NEARCALL_API void nearcall_close(nearcall_client *client);

/* Connects now if the handle is not connected. It is optional, and useful for checking an
 * address early. With NEARCALL_NONBLOCKING it starts to connect and returns
 * NEARCALL_E_AGAIN until it has reported the result once, even if nearcall_process() has
 * reported it before. The timeout counts from the first of these calls. After
 * NEARCALL_E_INTERRUPTED call it again. */
NEARCALL_API int nearcall_connect(nearcall_client *client, int64_t timeout_ms);

/* Drops the connection, if there is one; the next call opens a new one. Calls in flight
 * fail with outcome unknown; nobody is asked about them. */
NEARCALL_API void nearcall_disconnect(nearcall_client *client);

/* Asks the server for a sign of life. *ret_round_trip_ns is set to the time until its
 * answer, in nanoseconds, without the time for connecting; ret_round_trip_ns may be NULL.
 * After NEARCALL_E_INTERRUPTED call it again. */
NEARCALL_API int nearcall_ping(nearcall_client *client, int64_t timeout_ms,
                               uint64_t *ret_round_trip_ns);

/* The process id of the server, as the server states it; 0 if the handle is not connected. */
NEARCALL_API uint32_t nearcall_server_process_id(const nearcall_client *client);

/* How calls of this handle travel at present: "same process", "shared memory", "unix
 * socket", "tcp" or "tls"; "" if the handle is not connected. A local connection begins with its
 * socket and gets memory after some calls. */
NEARCALL_API const char *nearcall_transport(const nearcall_client *client);

/* ---- Errors: what the last failed function on this handle left ---- */

/* The code as a positive number (NEARCALL_E_... without its sign); 0 if nothing has failed. */
NEARCALL_API int nearcall_error_code(const nearcall_client *client);

/* Whether the function ran: one of NEARCALL_OUTCOME_... */
NEARCALL_API int nearcall_error_outcome(const nearcall_client *client);

/* A sentence for people. It is UTF-8, never NULL, and valid until the next call on this
 * handle. Texts may change between versions; compare codes instead. For a client that is
 * NULL it is the text for "no memory for a handle". */
NEARCALL_API const char *nearcall_error_message(const nearcall_client *client);

/* The details of the error in MessagePack, an array of [type, value] pairs. NULL, with 0
 * bytes, if there are none. Valid until the next call on this handle. */
NEARCALL_API const uint8_t *nearcall_error_details(const nearcall_client *client,
                                                   size_t *ret_bytes);

/* ---- Calling with bytes ---- */

typedef struct nearcall_reply {
    const uint8_t *data; /* never NULL, even for 0 bytes */
    size_t bytes;
    int codec;           /* NEARCALL_CODEC_... */
} nearcall_reply;

/*
 * Calls a function by name with raw bytes and waits for the reply.
 *
 * A call that was certainly not executed is sent again, up to attempts_max times in all
 * within its timeout. Any other failure is final. data must not change until the call has
 * ended, which includes the time in which it is interrupted and may be resumed.
 *
 * ret_reply->data belongs to the handle. It is valid until the next function that is given
 * this handle, except the functions that read replies and errors, nearcall_use_view(),
 * nearcall_fd(), nearcall_events() and nearcall_timeout_ms(). It must not be written to.
 * It may lie in memory shared with the server: if you do not trust the server, copy it and
 * check the copy. To send it on with the same handle, copy it first.
 *
 * A server that is stopping answers the calls that it has accepted. A call that is made
 * while others of the same handle are still being answered waits for them and then goes
 * over a new connection. A call on another handle does not wait.
 *
 * If the timeout passes or the call is cancelled while its request is half sent, sending
 * goes on, so that other calls of the handle do not fail. If the server takes nothing of it
 * for two seconds, the connection is dropped.
 */
NEARCALL_API int nearcall_call(nearcall_client *client, const char *name,
                               const void *data, size_t bytes,
                               int64_t timeout_ms, nearcall_reply *ret_reply);

/* ---- Calling with values ---- */

/*
 * Calls a function by name with arguments that are encoded already, and returns its result
 * encoded in the same way: for NEARCALL_CODEC_JSON, a JSON array of the arguments and the
 * JSON of the result; for NEARCALL_CODEC_MSGPACK the same in MessagePack. Everything else is
 * as for nearcall_call(). The server checks the arguments against its own description of
 * the function; a program that has encoded them by a description that it was given should
 * use nearcall_request(), which says by which one, instead.
 */
NEARCALL_API int nearcall_call_codec(nearcall_client *client, const char *name, int codec,
                                     const void *data, size_t bytes, int64_t timeout_ms,
                                     nearcall_reply *ret_reply);

/*
 * Finds a function and learns its schema. The first time this takes a round trip to the
 * server, later none. The server is asked again after a reconnect to a server with another
 * schema, and after a request was refused because of its description.
 *
 * name need not end in NUL. If the server has no such function, the error is
 * NEARCALL_E_UNIMPLEMENTED.
 */
NEARCALL_API int nearcall_find(nearcall_client *client, const char *name,
                               size_t name_bytes, int64_t timeout_ms,
                               nearcall_function **ret_function);

/* The same without waiting. Fetch the returned call when it has finished, as any other;
 * nearcall_find() then answers at once. It never returns NEARCALL_E_AGAIN. */
NEARCALL_API int nearcall_find_begin(nearcall_client *client, const char *name,
                                     size_t name_bytes, int64_t timeout_ms,
                                     nearcall_call_id *ret_call);

/* The description of the function in MessagePack (spec/schema.md). It belongs to the client
 * and is valid until nearcall_function_revision() changes. */
NEARCALL_API const uint8_t *nearcall_function_schema(const nearcall_function *function,
                                                     size_t *ret_bytes);

/* A number that grows when the description is replaced by another. It also grows when the
 * description has to be looked at again, because a request encoded by it could not be sent,
 * or was refused by a server that has gone again. It is 0 after a server has refused such a
 * request and until the server is asked again, which nearcall_find() does. */
NEARCALL_API uint32_t nearcall_function_revision(const nearcall_function *function);

/* The hash of the description (spec/schema.md) as 64 hex digits; "" if the server is too
 * old to tell. Functions with the same hash take and return the same. Valid for as long as
 * the description. */
NEARCALL_API const char *nearcall_function_hash(const nearcall_function *function);

/*
 * For generated code, which encodes by the description from which it was generated: checks
 * whether it may call the function as the server describes it now. hash is the hash of that
 * description, 64 hex digits, and description its JSON (spec/schema.md).
 *
 * If hash is that of the function, or was compared with it before, the server is not asked.
 * Otherwise the server says whether the two are compatible. If the server's description is
 * not the one that is known here, nearcall_find() is called first, so the description that
 * was compared is the one that nearcall_function_revision() stands for afterwards.
 *
 * NEARCALL_OK: the call may be made, or the server is too old to tell.
 * NEARCALL_E_FAILED_PRECONDITION, not executed: it may not, and the message says why.
 * NEARCALL_E_ABORTED, not executed: servers replaced each other all the time.
 * NEARCALL_E_INTERRUPTED: call it again.
 * Any other code, not executed: the server could not be asked.
 */
NEARCALL_API int nearcall_compare(nearcall_client *client, nearcall_function *function,
                                  const char *hash, const char *description,
                                  int64_t timeout_ms);

/*
 * Starts a request in the handle's own send buffer. Then put the payload with the
 * nearcall_put_... functions of nearcall_values.h: for NEARCALL_CODEC_MSGPACK, an array
 * with as many elements as there are arguments. Finish with nearcall_request_call() or
 * nearcall_request_send(). Starting another request drops an unfinished one, and gives up
 * an interrupted call. The request is encoded by the description that the function has at
 * this moment (see "Another server"), and its result must be read by the same description.
 */
NEARCALL_API int nearcall_request(nearcall_client *client, nearcall_function *function,
                                  int codec);

/* Exchanges the requests of two handles of one thread; either may have none. On failure
 * nothing is exchanged. It is for programs that put several requests together at the same
 * time and send all of them on one connection. Begin each on a handle of its own, which
 * need not connect, with a function of the handle that will send it. Exchange it to send
 * it, and exchange it back. */
NEARCALL_API int nearcall_request_swap(nearcall_client *client, nearcall_client *other);

/* Sends the request and waits for its reply. It retries as nearcall_call() does. After
 * NEARCALL_E_INTERRUPTED the request belongs to the call until that has ended: what is put
 * meanwhile is dropped. If another call takes its place, the request is there again as it
 * was. */
NEARCALL_API int nearcall_request_call(nearcall_client *client, int64_t timeout_ms,
                                       nearcall_reply *ret_reply);

/* For programs that put the arguments of a refused call again; attempts_max applies to all
 * sendings of a call together. nearcall_sendings() returns how many times the call was sent
 * for which the handle waited last; for a call that ended before, it returns 1. If that is
 * attempts_max, none is left. Otherwise call nearcall_request(), then
 * nearcall_request_sent() with that number: these sendings then count in
 * nearcall_request_call(), and in what nearcall_sendings() returns for it. */
NEARCALL_API uint32_t nearcall_sendings(const nearcall_client *client);
NEARCALL_API int nearcall_request_sent(nearcall_client *client, uint32_t sendings);

/* The call for which NEARCALL_E_INTERRUPTED was last returned, if it can be resumed; 0 if
 * there is none. Ask before running signal handlers that may make calls themselves. */
NEARCALL_API uint64_t nearcall_interrupted(const nearcall_client *client);

/* Goes on with a nearcall_call(), nearcall_request_call(), nearcall_ping() or
 * nearcall_find() that has returned NEARCALL_E_INTERRUPTED, with its original deadline.
 * interrupted is what nearcall_interrupted() returned. For nearcall_ping() pass NULL as
 * ret_reply. For nearcall_find() pass NULL as well, and call nearcall_find() again once
 * this has returned NEARCALL_OK. A program that does not want to go on simply starts its
 * next call, which cancels the interrupted one. NEARCALL_E_CANCELLED means that this has
 * happened, possibly by a call that was itself interrupted later; the outcome says whether
 * the function may have run. */
NEARCALL_API int nearcall_resume(nearcall_client *client, uint64_t interrupted,
                                 nearcall_reply *ret_reply);

/* ---- Several calls in flight ---- */

/* Sends the request without waiting for its reply. The call is sent only once; its outcome
 * tells whether to send it again. NEARCALL_OK means that the whole request was sent, or
 * that it waits in line. On failure there is no call.
 *
 * At most calls_in_flight_max calls of a handle may be unfinished or not fetched; one more
 * is NEARCALL_E_RESOURCE_EXHAUSTED. The server has a limit of its own for a connection,
 * which is never exceeded: further requests wait in line, in order and within their
 * timeouts, and are sent by the functions that wait or process. Calls that were given up or
 * have timed out count for the server's limit until the server has answered them. With
 * NEARCALL_NONBLOCKING, nearcall_process() sends what the socket does not take at once.
 *
 * After NEARCALL_E_INTERRUPTED call it again. If nothing was sent, the request is still
 * there. Otherwise sending goes on, with the deadline that the call had; nothing else can
 * be put or sent before that. Starting another request gives this one up; if
 * nearcall_request_send() is called again after that it returns NEARCALL_E_CANCELLED with
 * outcome unknown. */
NEARCALL_API int nearcall_request_send(nearcall_client *client, int64_t timeout_ms,
                                       nearcall_call_id *ret_call);

/* How many further requests the server accepts over this connection at once. At 0 the next
 * ones wait in line; it is 0 while a server that is stopping answers other calls.
 * UINT32_MAX means that there is no limit, or no connection yet that would know one. It is
 * for programs with several handles that look for one with room. */
NEARCALL_API uint32_t nearcall_room(const nearcall_client *client);

/* How many bytes of requests the kernel has not taken yet. A further request that goes over
 * the socket waits for them. This, too, is for programs with several handles. */
NEARCALL_API size_t nearcall_unsent_bytes(const nearcall_client *client);

/* Waits for one call, in whatever order replies arrive. After that the call is finished and
 * its id is forgotten, unless NEARCALL_E_INTERRUPTED was returned: then wait for it again.
 * ret_reply may be NULL. The reply to a nearcall_find_begin() is the description of the
 * function. */
NEARCALL_API int nearcall_wait(nearcall_client *client, nearcall_call_id call,
                               nearcall_reply *ret_reply);

/* Does what nearcall_wait() does, but returns NEARCALL_E_AGAIN instead of waiting. It does
 * no I/O: call nearcall_process() before. */
NEARCALL_API int nearcall_poll(nearcall_client *client, nearcall_call_id call,
                               nearcall_reply *ret_reply);

/* Gives a call up: the server is told, its reply is dropped, and its id is forgotten. */
NEARCALL_API void nearcall_cancel(nearcall_client *client, nearcall_call_id call);

/* ---- Event loops: wait for (fd, events, timeout) in any loop, then process ---- */

/* The descriptor to watch. A handle has one descriptor for as long as it lives, whatever
 * happens to its connections. It is made when it is first asked for, is close-on-exec, and
 * belongs to the handle: only wait for it. It is -1 if the process can open no more, or if
 * the handle is in use and was not asked before. From the first use of nearcall_fd(),
 * nearcall_events() or nearcall_timeout_ms() on, and always with NEARCALL_NONBLOCKING, the
 * descriptor also wakes the loop for what comes through shared memory, and for
 * nearcall_wake().
 *
 * A program that closes descriptors which it does not know, for example by closefrom(3),
 * must ask again, because the number may be another. So must a forked child: its own
 * descriptor has the same number, unless the child has closed that, but is another file.
 * The child must ask before its loop adds the descriptor again, which is before
 * event_reinit() of libevent, before uv_loop_fork() of libuv, and before it fills an epoll
 * instance of its own. */
NEARCALL_API int nearcall_fd(const nearcall_client *client);

/* The events to wait for on the descriptor: POLLIN. */
NEARCALL_API int nearcall_events(const nearcall_client *client);

/* The number of milliseconds until nearcall_process() should be called even if nothing
 * happens on the descriptor; -1 means never. It may be earlier than the first deadline, but
 * never later. It is 20 ms at most while calls wait and the watched descriptor does not
 * show everything, for want of descriptors or because some were closed.
 *
 * It is 0 while nearcall_process() has something to do or to report: replies in shared
 * memory, or calls that have finished since it last returned their number. Those exist if a
 * function that waited for another call has read their replies, or if more replies came
 * than one turn takes. What was reported once is not reported again, whether or not it is
 * fetched. */
NEARCALL_API int64_t nearcall_timeout_ms(const nearcall_client *client);

/* Ends the wait in which another thread is, or which a signal has interrupted in this
 * thread. The wait returns NEARCALL_E_INTERRUPTED as if a signal had arrived, with or
 * without NEARCALL_INTERRUPTIBLE, and can go on in the same ways. A loop that waits for
 * nearcall_fd() wakes up. If nothing waits, or the wait ends by itself at that moment, the
 * next wait ends.
 *
 * It works for handles with NEARCALL_WAKEABLE and for those whose nearcall_fd() was asked
 * for. For others it returns NEARCALL_E_MISUSE; it also does so if the program has closed
 * the descriptors that it needs, until the next use of the handle makes others. Unlike all
 * other functions it may be called from any thread and from signal handlers, until the
 * handle is closed. */
NEARCALL_API int nearcall_wake(nearcall_client *client);

/* Reads, writes, and ends calls whose time is over, without blocking. It returns the number
 * of finished calls that wait to be fetched. When the connection was lost it returns a
 * negative code, once; its calls have finished then, each with its outcome, except those of
 * which the server is asked, which it does meanwhile: each finishes when the answer is there. */
NEARCALL_API int nearcall_process(nearcall_client *client);

/* Of the finished calls that were not fetched yet, the one that finished first; 0 if there
 * is none. It stays the same until that call is fetched. */
NEARCALL_API nearcall_call_id nearcall_next_finished(nearcall_client *client);

#ifdef __cplusplus
}
#endif

#include "nearcall_calls.h"
#include "nearcall_endpoints.h"
#include "nearcall_hooks.h"
#include "nearcall_signals.h"
#include "nearcall_values.h"
#include "nearcall_writer.h"
#include "nearcall_schema.h"

#endif
