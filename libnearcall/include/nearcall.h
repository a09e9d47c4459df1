/*
 * nearcall.h - call functions of another process as if they were your own
 *
 * This header is the manual of libnearcall. A shorter tour is in
 * docs/guides/c.md, the wire format in spec/wire-format.md.
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
 * RETURN VALUES. Functions that can fail return NEARCALL_OK (0) or a count,
 * or a negative NEARCALL_E_... number. What failed, in words, with the outcome
 * and details, is kept on the handle until its next call: see "Errors".
 * Output parameters come last, are named ret_..., and are untouched on failure.
 *
 * THREADS. A handle is used by one thread at a time; different handles are independent.
 * Using one that is inside a function already, as from a signal's handler that interrupted
 * it in a wait or while it puts, is NEARCALL_E_MISUSE at once, or a put that is dropped,
 * and changes nothing, its error functions included; see nearcall_wake(). The library
 * starts no thread, takes no lock, has no global state and installs no signal handler.
 * SIGPIPE is never raised.
 *
 * FORK. A handle opened before a fork works in parent and child. The child notices at its
 * next use, sends not one byte on the parent's connection, and opens a connection of its
 * own. Calls that were in flight belong to the parent; waiting for one in the child fails
 * with NEARCALL_E_UNAVAILABLE and outcome unknown. A request that was being put together
 * may have lain in memory that only the parent has: then what is put or sent in the child
 * fails with NEARCALL_E_FAILED_PRECONDITION, and nearcall_request() begins it again; room
 * got by nearcall_put_reserve() before the fork is not to be written in the child. A reply
 * that was handed out before stays readable in the child, but may lie in memory shared with
 * the server: its bytes stay the same only until the parent uses its handle again. A fork
 * while another thread is inside the library is safe: the child's copy of that handle
 * starts anew. Every descriptor is close-on-exec.
 *   A child that is forked by a signal's handler, which has interrupted a function of the
 * library, must not return from the handler into that function: it calls exec or _exit, or
 * goes on with handles that were not in use. Where it returns all the same most is noticed,
 * but not everything: it may die by SIGSEGV, or disturb calls of the parent. See
 * docs/guides/prefork.md.
 *
 * TIME. A timeout_ms parameter bounds the whole call: connecting, sending, waiting. 0 means
 * the handle's default, NEARCALL_NO_TIMEOUT means none. A call returns within its timeout +
 * 50 ms whatever the server does, and never before it with NEARCALL_E_DEADLINE_EXCEEDED.
 * Clocks are monotonic. Only looking up a host's name (tcp: with a name instead of a
 * number) takes the time the system's resolver takes.
 *
 * SHARED MEMORY. On a "unix:" address calls begin on the socket; when the connection has
 * made some, the server gives it memory that both map, and a call of a busy connection then
 * costs two cache lines instead of two system calls on each side. Nothing else changes:
 * what does not fit goes over the socket, and where memory, descriptors or the server's
 * leave are missing everything does. A call that waits looks at that memory for some
 * microseconds before it sleeps (it spins), as long as that makes calls faster and there is
 * more than one CPU. Requests that are put together and large are built where the server
 * reads them, and replies are read where the server wrote them. When the connection is
 * lost, marks in that memory tell whether a call was started, so that its outcome is
 * unknown less often.
 *   ?shm=off   or NEARCALL_NO_SHARED_MEMORY: the socket only
 *   ?spin=off  or NEARCALL_SPIN_OFF: never spin, sleep at once
 *   ?spin=dedicated or NEARCALL_SPIN_DEDICATED: never sleep
 * An option and the address together: what switches more off wins.
 *
 * ANOTHER SERVER. A server may be replaced by one whose functions have other parameters or
 * results. A request that was put together for a function carries which description it was
 * encoded by (nearcall_request() takes it down), and a server that has another refuses it:
 * nearcall_request_call(), nearcall_request_send(), nearcall_wait() or nearcall_poll()
 * return NEARCALL_E_ABORTED with outcome not executed, because the bytes are the caller's
 * and only the caller can make others. The next nearcall_find() then asks the server. Where
 * the values are still there, they are put once more:
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
 * A server that is too old to look is sent no request that was encoded under another schema
 * than its own; that fails in the same way. Raw payloads are the same under every
 * description.
 *
 * FILES. Functions take and return open files and TCP connections where the server lets
 * this process pass them; over local sockets only. nearcall_put_file() gives a request a
 * duplicate, nearcall_take_file() hands out what came with a reply; all else is closed by
 * the library. A child of a fork has copies of both, as of all descriptors.
 *
 * SAME PROCESS. "embed:/path/of/library.so" is a Go library, built by `nearcall build`,
 * that this process loads: a call of nearcall_call() or nearcall_request_call() then
 * runs the function in the calling thread. All else, and functions that have proved
 * slow, go over a private socket to the same functions in the same process, so that
 * deadlines and signals end the wait for them; only the first call of a slow function
 * lasts as long as it does. In a forked child no Go code is entered: the same handle
 * goes on over shared memory to the process that loaded the library, and with
 * ?children=own fails, unless nobody had loaded it before the fork. A process can have
 * one Go library, for ever, and needs the GNU C library; what stands against it is in
 * the error of nearcall_open(). Handlers of signals: see nearcall_block_signals().
 *
 * MEMORY. Every allocation is checked; when memory runs out a function returns
 * NEARCALL_E_RESOURCE_EXHAUSTED and the handle stays usable.
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

/* Who builds the library into something of their own may define it as nothing, so that it is
 * not mistaken for another libnearcall of the process. */
#if defined(NEARCALL_API)
#elif defined(__GNUC__)
#define NEARCALL_API __attribute__((visibility("default")))
#else
#define NEARCALL_API
#endif

#define NEARCALL_VERSION_MAJOR 0
#define NEARCALL_VERSION_MINOR 1
#define NEARCALL_VERSION_PATCH 0

/* The version of the library that is running, as "0.1.0". Never NULL. */
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

/* How a payload is encoded; any other number is refused by the server. */
enum {
    NEARCALL_CODEC_RAW = 0,     /* the bytes themselves */
    NEARCALL_CODEC_MSGPACK = 1, /* MessagePack; arguments as an array */
    NEARCALL_CODEC_JSON = 2     /* JSON; arguments as an array */
};

/* The name of a code, as "DEADLINE_EXCEEDED"; accepts both signs. Never NULL. */
NEARCALL_API const char *nearcall_code_name(int code);

/* The words for an outcome, as "not executed". Never NULL. */
NEARCALL_API const char *nearcall_outcome_text(int outcome);

/* ---- Handles ---- */

/* A connection that opens, and reopens, itself. Opaque. */
typedef struct nearcall_client nearcall_client;

/* A function of the server, found by name. Opaque; owned by its client and
 * valid until that is closed, across reconnects and forks. */
typedef struct nearcall_function nearcall_function;

/* Names one call of one handle. Never 0, never used twice. */
typedef uint64_t nearcall_call_id;

#define NEARCALL_NO_TIMEOUT (-1)

enum {
    /* Return NEARCALL_E_INTERRUPTED when a signal arrives during a wait, so
     * that the caller can run its handlers; see nearcall_resume(). One that arrives
     * just before the wait ends it only by nearcall_interruptible_check(), or
     * nearcall_wake(). Without the flag signals are waited through. */
    NEARCALL_INTERRUPTIBLE = 1,
    /* Accept addresses in the abstract namespace ("unix:@name"). Any user of
     * the machine can take such a name, so they are refused unless asked for. */
    NEARCALL_ALLOW_ABSTRACT = 2,
    /* nearcall_connect(), nearcall_find_begin(), nearcall_request_send() and
     * nearcall_cancel() never block: connecting and sending go on in
     * nearcall_process(). Functions that wait by their nature (nearcall_call(),
     * nearcall_request_call(), nearcall_find(), nearcall_wait(),
     * nearcall_ping()) still do. */
    NEARCALL_NONBLOCKING = 4,
    /* Talk to a server of any user. Without it the server's user must be root,
     * the caller's own, the owner of the socket's directory, or listed in
     * server_user_ids; otherwise nothing is sent to it. */
    NEARCALL_ANY_SERVER_USER = 8,
    /* Use the socket only; see "Shared memory". The same as ?shm=off in the
     * address. */
    NEARCALL_NO_SHARED_MEMORY = 16,
    /* Never spin: sleep at once. The same as ?spin=off. */
    NEARCALL_SPIN_OFF = 32,
    /* Never sleep while waiting for a reply, for who has a CPU to give. The same as
     * ?spin=dedicated; NEARCALL_SPIN_OFF, or ?spin=off, wins over it. A signal does
     * not end such a wait, with NEARCALL_INTERRUPTIBLE neither. */
    NEARCALL_SPIN_DEDICATED = 64,
    /* As if nearcall_block_signals(client, 1) were called at once. */
    NEARCALL_BLOCK_SIGNALS = 128,
    /* nearcall_wake() ends waits. It takes two descriptors, and a system call more for each
     * wait that sleeps. */
    NEARCALL_WAKEABLE = 256
};

typedef struct nearcall_options {
    size_t struct_size;           /* sizeof(nearcall_options) */
    int64_t timeout_ms;           /* default of calls; 0: 30 seconds */
    int64_t connect_timeout_ms;   /* bounds connecting within a call; 0: only the call's own timeout does */
    uint32_t flags;               /* NEARCALL_INTERRUPTIBLE | ... */
    uint32_t frame_bytes_max;     /* largest reply accepted; 0: 4 MiB */
    uint32_t attempts_max;        /* how often a call that was not executed is sent in all; 0: 3, 1: never again */
    uint32_t server_user_ids_count;
    const uint32_t *server_user_ids; /* further users the server may run as; copied */
    const char *name;             /* what this program calls itself, for the server's log; NULL: the library's name; copied */
    size_t calls_in_flight_max;   /* calls unfinished or not fetched at a time; 0: 1024; 16384 at most */
} nearcall_options;

#define NEARCALL_OPTIONS_INIT { sizeof(nearcall_options), 0, 0, 0, 0, 0, 0, NULL, NULL, 0 }

/*
 * Makes a handle for an address: "unix:/path", "unix:@name", "tcp:host:port",
 * "embed:/path/of/library.so". Behind those of "unix:" and "embed:" may stand
 * "?shm=auto|off" and "?spin=auto|off|dedicated", joined by "&"; see "Shared memory"
 * above. Behind "embed:" also "children=parent|own"; see "Same process".
 * Does not connect: that happens at the first call, or in nearcall_connect(). A library
 * is loaded, though, unless each child is to have its own.
 * options may be NULL. On failure a handle is still returned, for its error
 * message, unless there was no memory for one: then *ret_client is NULL. Every
 * later function on such a handle fails with the same error.
 * Free it with nearcall_close() in every case.
 */
NEARCALL_API int nearcall_open(nearcall_client **ret_client, const char *address,
                               const nearcall_options *options);

/* Closes the connection of this process and frees the handle and all that
 * belongs to it. NULL is allowed. In a forked child it sends nothing and
 * leaves the parent's connection as it was. */
NEARCALL_API void nearcall_close(nearcall_client *client);

/* For an "embed:" address: block all but synchronous signals while a Go function runs
 * in the calling thread, or, with 0, the default, do not. Go runs on small stacks, where
 * only handlers that were installed with SA_ONSTACK are safe. Those installed before the
 * library was loaded get that flag; a program that installs others later, and cannot
 * give it to them, blocks, for the price of two system calls a call. */
NEARCALL_API void nearcall_block_signals(nearcall_client *client, int block);

/* With NEARCALL_INTERRUPTIBLE: a signal that arrives after the program has looked for one,
 * and before the wait sleeps, wakes nobody. So check is asked for it before each sleep, and
 * every 20 ms meanwhile; where it returns another number than 0, as a flag that handlers
 * set, the wait returns NEARCALL_E_INTERRUPTED. It runs in the thread that waits, must be
 * quick, and must not use the handle. Who clears the flag does so before the wait goes on.
 * NULL: nobody is asked. */
NEARCALL_API int nearcall_interruptible_check(nearcall_client *client, int (*check)(void *argument),
                                              void *argument);

/* Connects now if not connected. Optional; useful to check an address early. With
 * NEARCALL_NONBLOCKING it starts connecting and returns NEARCALL_E_AGAIN until it has told,
 * once, what became of that, also if nearcall_process() told of it before. The time counts
 * from the first of these questions. After NEARCALL_E_INTERRUPTED call it again. */
NEARCALL_API int nearcall_connect(nearcall_client *client, int64_t timeout_ms);

/* Drops the connection, if any; the next call opens a new one. Calls in flight
 * fail with outcome unknown. */
NEARCALL_API void nearcall_disconnect(nearcall_client *client);

/* Asks the server for a sign of life. ret_round_trip_ns may be NULL; connecting
 * is not part of it. After NEARCALL_E_INTERRUPTED call it again. */
NEARCALL_API int nearcall_ping(nearcall_client *client, int64_t timeout_ms,
                               uint64_t *ret_round_trip_ns);

/* The server's process id as it says itself; 0 when not connected. */
NEARCALL_API uint32_t nearcall_server_process_id(const nearcall_client *client);

/* How the calls of this handle travel: "same process", "shared memory", "unix socket",
 * "tcp", or "" when not connected. A local connection begins with its socket and gets
 * memory when it has made some calls. */
NEARCALL_API const char *nearcall_transport(const nearcall_client *client);

/* ---- Errors: what the last failed function on this handle left ---- */

/* Positive code (NEARCALL_E_... without its sign), 0 when nothing failed. */
NEARCALL_API int nearcall_error_code(const nearcall_client *client);

/* NEARCALL_OUTCOME_...: whether the function ran. */
NEARCALL_API int nearcall_error_outcome(const nearcall_client *client);

/* A sentence for a person. UTF-8, never NULL, valid until the next call on
 * this handle. Texts change between versions; test codes. A NULL client gives
 * the text for "no memory for a handle". */
NEARCALL_API const char *nearcall_error_message(const nearcall_client *client);

/* The error's details as MessagePack, an array of [type, value] pairs; NULL and
 * 0 when there are none. Valid until the next call on this handle. */
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
 * A call that was certainly not executed is sent again, up to attempts_max
 * times within its timeout; any other failure is final. data must stay as it is
 * until the call has ended, also while it is interrupted and will be resumed.
 * reply->data belongs to the handle and is valid until the next function that is
 * given this handle, the reading and error functions excepted, and nearcall_fd(),
 * nearcall_events(), nearcall_timeout_ms(). It is not to be written, and may lie in
 * memory shared with the server: check a copy where you do not trust the server. To
 * send it on with the same handle, copy it first.
 *
 * A server that is stopping answers what it has accepted. A call made while
 * others of this handle are still being answered so waits for them, then goes
 * over a new connection; one on another handle does not.
 *
 * A request that is half sent when the timeout passes, or the call is cancelled, goes
 * on being sent, so that others of the handle do not end with it. Where the server takes
 * nothing of it for two seconds the connection is dropped.
 */
NEARCALL_API int nearcall_call(nearcall_client *client, const char *name,
                               const void *data, size_t bytes,
                               int64_t timeout_ms, nearcall_reply *ret_reply);

/* ---- Calling with values ---- */

/*
 * Finds a function and learns its schema. One round trip the first time, none
 * later; after a reconnect to a server with another schema, and after a request was
 * refused because of its description, it is asked again.
 * name need not end in NUL. Fails with NEARCALL_E_UNIMPLEMENTED when the server
 * has no such function.
 */
NEARCALL_API int nearcall_find(nearcall_client *client, const char *name,
                               size_t name_bytes, int64_t timeout_ms,
                               nearcall_function **ret_function);

/* The same without waiting: when the returned call has finished, fetch it as any
 * other, and nearcall_find() answers at once. Returns NEARCALL_E_AGAIN never. */
NEARCALL_API int nearcall_find_begin(nearcall_client *client, const char *name,
                                     size_t name_bytes, int64_t timeout_ms,
                                     nearcall_call_id *ret_call);

/* The function's description as MessagePack (spec/schema.md), owned by the
 * client, valid until nearcall_function_revision() changes. */
NEARCALL_API const uint8_t *nearcall_function_schema(const nearcall_function *function,
                                                     size_t *ret_bytes);

/* Grows whenever the description was replaced by another, or has to be looked at again
 * because what was encoded by it could not be sent, or was refused by a server that is gone
 * again. 0 while a server has refused what was encoded by it, and nobody has asked since:
 * nearcall_find() does. */
NEARCALL_API uint32_t nearcall_function_revision(const nearcall_function *function);

/* The description's hash (spec/schema.md) as 64 hex digits; "" when the server is too
 * old to say it. Functions of one hash take and return the same. Valid as the
 * description is. */
NEARCALL_API const char *nearcall_function_hash(const nearcall_function *function);

/*
 * For generated code, which encodes by the description it was written for: whether it may
 * call the function as the server describes it now. hash is that description's, of 64 hex
 * digits, and description its JSON (spec/schema.md). Where the hash is the function's, or
 * was compared with that, nothing is asked; else the server says what has changed. Where
 * that describes the function otherwise than is known here, nearcall_find() is called
 * first: what nearcall_function_revision() tells afterwards was compared, and no other.
 * NEARCALL_E_FAILED_PRECONDITION, not executed: it may not, and the message says why.
 * NEARCALL_OK from a server that is too old to say. NEARCALL_E_ABORTED, not executed:
 * servers took each other's place all the time. After NEARCALL_E_INTERRUPTED call it again.
 */
NEARCALL_API int nearcall_compare(nearcall_client *client, nearcall_function *function,
                                  const char *hash, const char *description,
                                  int64_t timeout_ms);

/*
 * Starts a request in the handle's own send buffer. Then put the payload with the
 * nearcall_put_... functions of nearcall_values.h: for NEARCALL_CODEC_MSGPACK one array
 * with as many elements as there are arguments. Finish with nearcall_request_call() or
 * nearcall_request_send(); starting another request drops an unfinished one, and gives an
 * interrupted call up. The request is encoded by the description that the function has now;
 * see "Another server" above. A result is to be read by the same one.
 */
NEARCALL_API int nearcall_request(nearcall_client *client, nearcall_function *function,
                                  int codec);

/* Exchanges the requests, or their absence, of two handles of one thread; on failure none
 * was. For who puts several together at the same time and sends all on one connection: each
 * is begun on a handle of its own, which need not connect, with a function of the handle
 * that sends it, is exchanged to be sent, and what came for it back. */
NEARCALL_API int nearcall_request_swap(nearcall_client *client, nearcall_client *other);

/* Sends the request and waits for its reply; retries as nearcall_call() does. After
 * NEARCALL_E_INTERRUPTED the request is the call's until that has ended: what is put
 * meanwhile is dropped. Where another call takes its place, the request is there again, as
 * it was. */
NEARCALL_API int nearcall_request_call(nearcall_client *client, int64_t timeout_ms,
                                       nearcall_reply *ret_reply);

/* How often the call that was waited for last was sent; one that ended before, once. For who puts
 * the arguments of a refused one again: attempts_max is for all sendings of a call, so with as many
 * none is left. Otherwise nearcall_request_sent(), after nearcall_request(), says that so many were
 * made: they count in nearcall_request_call(), and in what this function tells of it. */
NEARCALL_API uint32_t nearcall_sendings(const nearcall_client *client);
NEARCALL_API int nearcall_request_sent(nearcall_client *client, uint32_t sendings);

/* Names the call that NEARCALL_E_INTERRUPTED was returned for last and that can be
 * resumed; 0 when there is none. Ask before handlers of signals run that may call, too. */
NEARCALL_API uint64_t nearcall_interrupted(const nearcall_client *client);

/* Goes on with nearcall_call(), nearcall_request_call(), nearcall_ping() or nearcall_find()
 * after NEARCALL_E_INTERRUPTED, with the same deadline: with the one that
 * nearcall_interrupted() named. For nearcall_ping() pass NULL; for nearcall_find() pass
 * NULL and call nearcall_find() again when it returned NEARCALL_OK. A caller that does not
 * want to go on just starts its next call: the interrupted one is cancelled.
 * NEARCALL_E_CANCELLED: that has happened, also by a call that was itself interrupted
 * since; the outcome says whether it may have run. ret_reply may be NULL. */
NEARCALL_API int nearcall_resume(nearcall_client *client, uint64_t interrupted,
                                 nearcall_reply *ret_reply);

/* ---- Several calls in flight ---- */

/* Sends the request without waiting. At most calls_in_flight_max calls may be
 * unfinished, or not fetched, on a handle (NEARCALL_E_RESOURCE_EXHAUSTED). What the
 * server lets one connection have in flight (its own calls_in_flight_max) is never
 * exceeded: further requests wait in line, in order and within their timeouts, and are
 * sent by the functions that wait or process. Calls that were given up, or timed out,
 * count there until the server has answered them. With NEARCALL_NONBLOCKING what the
 * socket does not take is sent by nearcall_process(). Calls sent this way are
 * sent once: the outcome tells whether to send them again. On failure there is no
 * call. NEARCALL_OK is returned when all of the request was sent, or it waits in line.
 * After NEARCALL_E_INTERRUPTED call it again: where nothing was sent, the request is still
 * there; else it goes on where it was, with the deadline that the call had, and there is
 * nothing to be put or sent otherwise. Starting another request in its place gives it up;
 * called again all the same, it returns NEARCALL_E_CANCELLED, outcome unknown. */
NEARCALL_API int nearcall_request_send(nearcall_client *client, int64_t timeout_ms,
                                       nearcall_call_id *ret_call);

/* How many further requests the server takes over this connection at once; with 0 left the
 * next ones wait in line; there is none while a server that is stopping answers others. For
 * who has several handles, and looks for one with room. UINT32_MAX where there is no limit,
 * or no connection yet that would know it. */
NEARCALL_API uint32_t nearcall_room(const nearcall_client *client);

/* How many bytes of requests the kernel has not taken yet: a further request that goes by the
 * socket waits for those. For who has several handles, too. */
NEARCALL_API size_t nearcall_unsent_bytes(const nearcall_client *client);

/* Waits for one call, whatever order replies arrive in. The call is finished
 * and forgotten afterwards, unless NEARCALL_E_INTERRUPTED was returned: then wait
 * for it again. ret_reply may be NULL. The reply to a nearcall_find_begin() is
 * the function's description. */
NEARCALL_API int nearcall_wait(nearcall_client *client, nearcall_call_id call,
                               nearcall_reply *ret_reply);

/* As nearcall_wait(), but returns NEARCALL_E_AGAIN instead of waiting. Does no
 * I/O: call nearcall_process() before. */
NEARCALL_API int nearcall_poll(nearcall_client *client, nearcall_call_id call,
                               nearcall_reply *ret_reply);

/* Gives a call up: the server is told, a reply is dropped, the id is forgotten. */
NEARCALL_API void nearcall_cancel(nearcall_client *client, nearcall_call_id call);

/* ---- Event loops: wait for (fd, events, timeout) in any loop, then process ---- */

/* The descriptor to watch: one for the life of the handle, whatever becomes of its
 * connections, made at the first question and close-on-exec. -1: this process can open no
 * more, or the handle is in use and was not asked before. It belongs to the handle, and is
 * only to be waited for. A handle that was asked any of the three, and any with
 * NEARCALL_NONBLOCKING, is woken through it from then on, also for what comes through
 * shared memory and by nearcall_wake(). A program that has closed descriptors which it did
 * not know, as by closefrom(3), asks again: the number may be another. So does a child of a
 * fork: its own descriptor has the same number, unless the child has closed that, but is
 * another file. It asks before its loop adds the descriptor again: before event_reinit() of
 * libevent and uv_loop_fork() of libuv, and before an epoll instance of its own is filled. */
NEARCALL_API int nearcall_fd(const nearcall_client *client);

/* What to wait for on the descriptor: POLLIN. */
NEARCALL_API int nearcall_events(const nearcall_client *client);

/* Milliseconds until nearcall_process() should be called even if nothing happened on the
 * descriptor; -1: never. 0 while nearcall_process() has something to do or to tell: replies
 * in shared memory, or calls that finished since it last returned their number, as a
 * function that waited for another call may have read their replies, or more of them came
 * than one turn takes. What it has told of is not told again: fetch it, or not. It may be
 * earlier than the first deadline, never later: 20 ms at most while calls wait and what the
 * program was told to watch does not show all, for want of descriptors or because they were
 * closed. */
NEARCALL_API int64_t nearcall_timeout_ms(const nearcall_client *client);

/* Ends the wait that another thread is in, or that a signal has interrupted in this one: it
 * returns NEARCALL_E_INTERRUPTED, as if a signal had come, with NEARCALL_INTERRUPTIBLE or
 * without, and goes on in the same ways. A loop that waits for nearcall_fd() wakes up. If
 * nothing waits, or the wait ends by itself at that moment, the next one ends. For handles
 * with NEARCALL_WAKEABLE, and those that nearcall_fd() was asked for; NEARCALL_E_MISUSE for
 * others, and where the program has closed what this goes through, until the handle's next
 * use makes another. Unlike all other functions it may be called from any thread and from
 * signals' handlers, until the handle is closed. */
NEARCALL_API int nearcall_wake(nearcall_client *client);

/* Reads, writes, and times calls out, without blocking. Returns the number of
 * finished calls that wait to be fetched, or a negative code, once, when the
 * connection was lost (its calls are finished then, each with its outcome). */
NEARCALL_API int nearcall_process(nearcall_client *client);

/* Of the finished calls that were not fetched yet the one that finished first, the same
 * until it is fetched; 0 when there is none. */
NEARCALL_API nearcall_call_id nearcall_next_finished(nearcall_client *client);

#ifdef __cplusplus
}
#endif

#include "nearcall_values.h"

#endif
