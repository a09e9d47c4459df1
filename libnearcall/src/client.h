/* The handle and what the library's files share about it. */
#ifndef NC_CLIENT_H
#define NC_CLIENT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/uio.h>

#include "address.h"
#include "buffer.h"
#include "clock.h"
#include "embed.h"
#include "files.h"
#include "fork.h"
#include "identity.h"
#include "limits_gen.h"
#include "nearcall.h"
#include "output.h"
#include "spin.h"
#include "transport.h"
#include "transport_sharedmemory.h"
#include "watch.h"
#include "wire.h"

/* The most calls a handle can have; ids are counted by it. A power of two. */
#define NC_CALLS NC_CLIENT_CALLS_IN_FLIGHT_MAX_CEILING
#define NC_CALLS_IN_CHUNK 64
#define NC_FUNCTION_BUCKETS 64
#define NC_LOST_TEXT_BYTES 512
#define NC_SOFTWARE_NAME_BYTES_MAX 255

/* ---- Functions of the server ---- */

#define NC_HASH_DIGITS 64

/* One block, replaced as a whole, so that a fork at any moment finds either. */
struct nc_description {
    uint32_t check; /* of the hash, as a request carries it; 0 without one */
    char hash[NC_HASH_DIGITS + 1]; /* "" from a server that does not say it */
    size_t bytes;
    uint8_t data[];
};

/* By which description a request was encoded. */
struct nc_encoding {
    bool by_description;
    uint32_t check;
    uint64_t schema_hash; /* under which the description was learned */
};

struct nearcall_function {
    nearcall_function *next; /* in its bucket */
    struct nc_description *description; /* NULL until the first RESOLVE was answered */
    uint64_t description_hash; /* the schema it was learned under */
    bool is_refused; /* the server has another one: the next to ask for it learns which */
    bool was_unsent; /* by it was encoded what may not be sent: who encodes looks again */
    uint64_t refused_schema_hash; /* of the server that refused it */
    struct nc_fit { /* generated code of one description may call the function of another */
        char generated_hash[NC_HASH_DIGITS + 1]; /* "": nothing is known */
        char function_hash[NC_HASH_DIGITS + 1]; /* "": whatever servers of the schema have, which cannot say */
        uint64_t schema_hash;
    } fit;
    uint64_t id_hash;
    uint32_t id; /* 0: not known */
    uint32_t library_number; /* in the library of this process; 0: not known */
    uint32_t revision; /* 0: never handed to the user, may be freed */
    uint16_t name_bytes;
    char name[];
};

/* ---- Calls ---- */

enum nc_call_state {
    NC_CALL_FREE,
    NC_CALL_PENDING, /* nothing was given to the connection */
    NC_CALL_SENT, /* its frame is in the connection's output, or further on its way */
    NC_CALL_CANCELLING, /* its deadline passed; waits cancel_grace_ms for an answer */
    NC_CALL_FINISHED
};

/* A line of calls in the order they joined it. */
struct nc_queue {
    struct nc_call *first;
    struct nc_call *last;
    unsigned count;
};

/* Call number i of the table has ids that leave i when divided by NC_CALLS: so it is
 * found at once. */
struct nc_call {
    nearcall_call_id id; /* also on the wire; 0 while free or not yet drawn */
    enum nc_call_state state;
    uint32_t number;
    struct nc_call *next; /* of those in use, or of the free */
    struct nc_call *former; /* of those in use */
    struct nc_queue *queue; /* client->pending, client->finished, or NULL: in none */
    struct nc_call *queue_next;
    struct nc_call *queue_former;
    enum nc_frame_type type; /* NC_REQUEST, NC_RESOLVE, NC_PING */
    uint32_t function_id; /* as it was sent */
    bool synchronous; /* belongs to client->sync, unknown to the user */
    bool known; /* the user was given its id */
    bool by_memory; /* its frame was sent through shared memory, all of it at once */
    bool files_sent; /* the request's first byte, and with it its files, were */
    bool retryable;
    bool untouched; /* lost before the kernel, or the server, took its first byte */
    uint8_t codec;
    uint8_t reply_codec;
    nearcall_function *function;
    struct nc_encoding encoding; /* NC_REQUEST only */
    int64_t deadline_ns;
    int64_t grace_ns;
    uint64_t frame_start; /* in the connection's stream of frames */
    uint64_t frame_end;
    /* Borrowed from the caller, from client->request, or from store. */
    const uint8_t *payload;
    size_t payload_bytes;
    struct nc_files *files; /* of the request; NULL: none */
    struct nc_files *reply_files;
    /* Owns a pending payload first, and a kept reply later. Empty, perhaps with memory for the
     * next, in a free call. */
    struct nc_buffer store;
    /* The result. data lies in store, or, for the call that is being waited for,
     * in the connection's input or memory until these are read again. */
    int code; /* positive */
    int outcome;
    const char *what; /* static, or client->lost_text; NULL: data is the server's error */
    const uint8_t *data;
    size_t data_bytes;
    int64_t sent_ns; /* NC_PING only, and its payload */
    uint8_t ping_payload[sizeof(uint64_t)];
};

/* All calls of a handle. A chunk is published whole, by one store; who finds the rest
 * half-way, in a child, makes it anew from the states of the calls. */
struct nc_calls {
    struct nc_call *chunks[NC_CALLS / NC_CALLS_IN_CHUNK]; /* NULL from the first not needed yet */
    struct nc_call first_chunk[NC_CALLS_IN_CHUNK];
    struct nc_call *free;
    struct nc_call *free_last; /* meaningless when there is none */
    struct nc_call *used;
    unsigned used_count;
    struct nc_queue pending; /* those that are not waited for from their beginning */
    struct nc_queue finished; /* those that their user may fetch */
    bool unreported; /* one has finished since nearcall_process() told of them */
    int64_t timer_ns; /* no call in use has to be looked at before */
};

/* ---- Connection ---- */

enum nc_connection_state {
    NC_CLOSED,
    NC_BACKLOG_FULL, /* no descriptor; tried again at retry_ns */
    NC_CONNECTING,
    NC_HELLO, /* the hello was sent, the welcome is awaited */
    NC_READY
};

struct nc_connection {
    enum nc_connection_state state;
    int fd; /* -1 when there is none */
    dev_t device; /* with inode: which socket fd was, for a child that */
    ino_t inode; /* closes only what is still its own */
    const struct nc_transport *transport;
    unsigned candidate;
    unsigned backlog_tries;
    int64_t connect_deadline_ns; /* the last of those who wait for it, up to the limit */
    int64_t connect_limit_ns; /* what connect_timeout_ms allows */
    int64_t retry_ns;
    int64_t hello_ns; /* when the hello was made */
    int64_t clock_ahead_ns; /* what deadlines on the shared clock are ahead on the server's */
    struct nc_buffer in;
    uint64_t taken; /* bytes of frames before the input's start */
    size_t skip_bytes; /* of a reply nobody waits for */
    struct nc_buffer out;
    /* Follows out; the memory of a caller that is still inside the library. */
    const uint8_t *borrowed;
    size_t borrowed_bytes;
    uint64_t written; /* frame bytes the kernel took since the welcome */
    uint64_t forsaken_end; /* of the last frame whose call ended while it was half sent; 0: none */
    int64_t moved_ns; /* when the kernel last took some of it */
    /* The answer to the last ping that found output before it. */
    uint8_t pong[NC_PING_BYTES_MAX];
    uint8_t pong_bytes;
    bool pong_waits;
    bool has_files; /* a request with descriptors may be in the output */
    bool refused; /* the kernel did not take them; tried again at retry_ns */
    uint64_t first_id; /* of requests; they rise in the order of sending */
    uint64_t last_id;
    uint64_t first_ping_id;
    uint64_t last_ping_id;
    /* Requests the server has not answered yet, those included that nobody waits for
     * any more: they count against what it allows. */
    uint32_t unanswered;
    bool draining;
    bool reading_left; /* a turn has read as much as it may, and nobody tells of the rest */
    bool non_blocking; /* the descriptor's mode */
    bool timed_out; /* SO_RCVTIMEO has ended a wait for the call that is waited for */
    int64_t receive_timeout_ns; /* what SO_RCVTIMEO is set to; 0: not set */
    struct nc_memory memory;
    struct nc_spinning spinning;
    bool memory_came; /* and was used or not; there is one a connection */
    bool spins; /* whether the present wait does */
    int64_t spun_since_ns; /* it has looked in vain since then; 0: not yet */
    struct nc_descriptors descriptors;
    struct nc_identity identity; /* whether fd still means that socket */
    int64_t looked_ns; /* when the socket was read last; kept only with memory */
    struct nc_welcome welcome; /* schema_hash stays after the connection is closed */
};

/* ---- The call that is being waited for from its beginning ---- */

struct nc_sync {
    struct nc_call *call; /* NULL: none was interrupted */
    uint64_t token; /* of the last one that began; names it to who resumes */
    uint64_t abandoned_token; /* the last that gave way to another, with its outcome */
    int abandoned_outcome;
    bool sends_request; /* what client->request holds is the interrupted call's alone */
    bool stale_connection; /* it stood before the call began */
    unsigned attempts;
    int64_t pause_until_ns;
};

/* ---- Errors, options, the handle ---- */

struct nc_error {
    int code;
    int outcome;
    const uint8_t *details;
    size_t details_bytes;
    int64_t deadline_ns; /* of the call that failed last */
    char message[NC_ERROR_MESSAGE_BYTES_MAX + 1];
};

struct nc_options {
    int64_t timeout_ms;
    int64_t connect_timeout_ms;
    uint32_t flags;
    uint32_t frame_bytes_max;
    uint32_t attempts_max;
    uint32_t calls_in_flight_max;
    uint32_t server_user_ids_count;
    uint32_t *server_user_ids;
    char *name;
};

/* The request itself, the array of its arguments, and what a value may nest. */
#define NC_WRITER_LEVELS (NC_NESTING_DEPTH_MAX + 2)

struct nc_writer {
    struct nc_buffer buffer;
    bool in_arena; /* buffer lies there; it is not to be freed */
    struct nc_buffer private_buffer; /* waits meanwhile */
    nearcall_function *function; /* NULL: there is none that may be put to or sent */
    struct nc_encoding encoding;
    uint8_t codec;
    unsigned sendings; /* made of the same call, with other encodings */
    struct nc_files *files; /* NULL: none */
    bool unchecked; /* nearcall_put_raw() was used: values cannot be counted */
    int failure; /* the first one; 0 */
    const char *what;
    size_t reserved_end; /* the buffer's end after the last reservation; 0: none */
    size_t reserved_bytes;
    unsigned depth;
    uint64_t left[NC_WRITER_LEVELS]; /* values missing, by level */
};

struct nearcall_client {
    struct nc_fork_guard guard;
    /* 1 while a thread is inside and memory may be half-way; a child that finds
     * it so trusts nothing of what it inherited. */
    atomic_int busy;
    bool unusable; /* nearcall_open() failed */
    struct nc_options options;
    struct nc_address address;
    char *address_text;
    int64_t now_ns; /* the clock as it was read last */
    uint64_t last_id;
    uint64_t random;
    struct nc_embed embed;
    struct nc_connection connection;
    struct nc_calls calls;
    /* Its user was told what to watch, or will be without asking: so that the
     * descriptor wakes it, the handle sleeps while it is outside. */
    bool watched;
    struct nc_watch watch;
    struct nc_call *waiting; /* its reply need not be copied */
    struct nc_sync sync;
    nearcall_call_id half_begun; /* nearcall_request_send() was interrupted when a part of it was sent; 0: none */
    bool half_given_up; /* one that was, and its user was not told yet */
    struct nc_buffer lent; /* a kept reply the user reads now */
    struct nc_files *lent_files; /* that came with the reply the user reads now */
    struct nc_writer request;
    struct nc_error error;
    int (*interrupt_check)(void *argument); /* NULL: nobody is asked */
    void *interrupt_argument;
    int lost_code; /* positive: why the last connection ended */
    int lost_outcome; /* of what waited for it: not executed if it never stood */
    char lost_text[NC_LOST_TEXT_BYTES];
    bool connects; /* nearcall_connect() has begun without blocking, and has not told the end */
    int64_t connect_until_ns;
    int connect_code; /* positive: why it failed meanwhile */
    nearcall_function *functions[NC_FUNCTION_BUCKETS];
    nearcall_function *last_function; /* the one that was looked up last, or NULL */
};

/* client.c: every public function that changes the handle begins with nc_enter()
 * and ends with nc_leave(). */
int nc_enter(nearcall_client *client);
void nc_go_outside(nearcall_client *client);
static inline bool nc_is_busy(const nearcall_client *client)
{
    return atomic_load_explicit(&client->busy, memory_order_relaxed) != 0;
}
static inline void nc_become_idle(nearcall_client *client)
{
    atomic_store_explicit(&client->busy, 0, memory_order_release);
}
static inline int nc_leave(nearcall_client *client, int r)
{
    if (__builtin_expect(client->watched, 0))
        nc_go_outside(client);
    nc_become_idle(client);
    return r;
}
static inline void nc_become_busy(nearcall_client *client)
{
    atomic_store_explicit(&client->busy, 1, memory_order_relaxed);
    atomic_thread_fence(memory_order_release);
}
void nc_after_fork(nearcall_client *client);
bool nc_take_over_inside(nearcall_client *client);

/* A signal's handler may fork while this thread is inside, and return in the child:
 * then the thread inside is this one, at a place where memory is whole. True when
 * that has happened; all calls have ended and there is no connection then. */
static inline bool nc_forked_inside(nearcall_client *client)
{
    return __builtin_expect(nc_forked(&client->guard), 0) && nc_take_over_inside(client);
}
int64_t nc_deadline(nearcall_client *client, int64_t timeout_ms);
int nc_check_timeout(nearcall_client *client, int64_t timeout_ms);

/* error.c. code is NEARCALL_E_...; returns it. */
int nc_fail(nearcall_client *client, int code, int outcome, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
int nc_fail_no_memory(nearcall_client *client, const char *what);
int nc_fail_table_full(nearcall_client *client);
int nc_fail_as_call(nearcall_client *client, const struct nc_call *call);
void nc_error_clear(nearcall_client *client);
bool nc_error_payload_is_valid(const uint8_t *data, size_t bytes);

/* connection.c */
enum nc_end {
    NC_ENDED_HERE, /* the server may live, and start what it has */
    NC_CLOSED_BY_SERVER, /* or by its death: it starts nothing any more */
    NC_RESET_BY_SERVER /* the same, and it had not read everything: ECONNRESET */
};
struct nc_loss {
    int code; /* positive */
    bool retryable;
    enum nc_end end;
};
void nc_connection_start(nearcall_client *client, int64_t deadline_ns);
void nc_connection_expect(nearcall_client *client, int64_t deadline_ns);
void nc_connection_lost(nearcall_client *client, const struct nc_loss *loss,
                        const char *format, ...) __attribute__((format(printf, 3, 4)));
void nc_connection_close(nearcall_client *client);
/* Whether the descriptor is still the connection's, as the program may close what it does not
 * know. Asked before each read, write or wait; true as long as the clock was not read again. */
static inline bool nc_connection_is_ours(nearcall_client *client)
{
    return client->connection.identity.seen_ns == client->now_ns || nc_connection_identify(client);
}
void nc_connection_orphan(nearcall_client *client, bool trust_memory);
void nc_connection_advance(nearcall_client *client, int events);
short nc_connection_events(const nearcall_client *client);
int64_t nc_connection_timer_ns(const nearcall_client *client);
static inline bool nc_connection_usable(const nearcall_client *client)
{
    return client->connection.state == NC_READY && !client->connection.draining;
}

/* Whether the server lets one more request be sent. */
static inline bool nc_connection_has_room(const nearcall_client *client)
{
    uint32_t allowed = client->connection.welcome.calls_in_flight_max;
    return allowed == 0 || client->connection.unanswered < allowed;
}

bool nc_connection_is_over(const nearcall_client *client); /* it drains, and has answered all */

/* send_memory.c: false: it did not fit, or the socket is the better way. */
bool nc_send_by_memory(nearcall_client *client, struct nc_call *call);
bool nc_cancel_by_memory(nearcall_client *client, const struct nc_call *call);

/* send_files.c */
struct nc_call *nc_files_in_message(nearcall_client *client, struct msghdr *message,
                                    union nc_control *room);
void nc_files_are_sent(struct nc_call *call);
void nc_send_later(nearcall_client *client);
bool nc_may_send_again(nearcall_client *client);

/* send.c */
/* Whether it is the call's turn. Those that wait in line are sent by nc_send_pending(). */
static inline bool nc_may_send(const nearcall_client *client, const struct nc_call *call)
{
    return nc_connection_usable(client) &&
           (call->type == NC_PING ||
            (!client->calls.pending.first && nc_connection_has_room(client)));
}
static inline bool nc_may_send_pending(const nearcall_client *client)
{
    return client->calls.pending.first && nc_connection_usable(client) &&
           nc_connection_has_room(client);
}
void nc_send_call(nearcall_client *client, struct nc_call *call);
void nc_send_cancel(nearcall_client *client, const struct nc_call *call);
void nc_send_pong(nearcall_client *client, const uint8_t *payload, size_t bytes);
void nc_send_line(nearcall_client *client);
static inline void nc_send_pending(nearcall_client *client)
{
    if (__builtin_expect(nc_may_send_pending(client), 0))
        nc_send_line(client);
}
ssize_t nc_send_now(nearcall_client *client, struct iovec *parts, size_t count);
size_t nc_extension_bytes(const nearcall_client *client, const struct nc_call *call);
void nc_encode_head(nearcall_client *client, struct nc_call *call, uint8_t *header,
                    uint8_t *extensions);
void nc_mark_as_sent(nearcall_client *client, struct nc_call *call);
static inline size_t nc_output_bytes(const struct nc_connection *connection)
{
    return nc_buffer_bytes(&connection->out) + connection->borrowed_bytes;
}

/* receive.c */
enum { NC_RECEIVED = 1, NC_NOTHING = 0 };
int nc_receive(nearcall_client *client, int flags);
int nc_receive_socket(nearcall_client *client, int flags);
void nc_lose_answer(nearcall_client *client, const struct nc_frame *frame);
void nc_answer_came(struct nc_connection *connection, const struct nc_frame *frame);
void nc_dispatch(nearcall_client *client);
int nc_handle_frame(nearcall_client *client, const struct nc_frame *frame, const uint8_t *body,
                    struct nc_fault *fault);
void nc_protocol_error(nearcall_client *client, const struct nc_frame *frame,
                       const struct nc_fault *fault);
void nc_keep_waiting_result(nearcall_client *client);

/* receive_memory.c */
int nc_receive_memory(nearcall_client *client);
void nc_drain_memory(nearcall_client *client);
int nc_on_memory(nearcall_client *client, const struct nc_frame *frame, const uint8_t *payload,
                 size_t bytes, struct nc_fault *fault);
bool nc_reply_has_begun(const nearcall_client *client, const struct nc_call *call);

/* receive_files.c */
void nc_agree_on_descriptors(const nearcall_client *client);
ssize_t nc_receive_bytes(nearcall_client *client, int flags, bool *ret_illegal);
bool nc_descriptors_are_misplaced(const struct nc_connection *connection);
int nc_take_descriptors(struct nc_connection *connection, const struct nc_frame *frame,
                        struct nc_fault *fault);
bool nc_keep_files(nearcall_client *client, struct nc_call *call);

/* calls.c */
void nc_calls_init(struct nc_calls *calls);
void nc_calls_free(struct nc_calls *calls);
struct nc_call *nc_call_new(nearcall_client *client, enum nc_frame_type type,
                            nearcall_function *function, int64_t deadline_ns);
void nc_call_draw_id(nearcall_client *client, struct nc_call *call);
void nc_call_free(nearcall_client *client, struct nc_call *call);
void nc_call_wait_its_turn(nearcall_client *client, struct nc_call *call);
void nc_queue_remove(struct nc_call *call);
static inline void nc_call_leave_queue(struct nc_call *call)
{
    if (call->queue)
        nc_queue_remove(call);
}
void nc_call_finish(nearcall_client *client, struct nc_call *call, int code, int outcome,
                    const char *what);
void nc_call_begin_again(struct nc_call *call);
void nc_calls_keep_what(nearcall_client *client);
void nc_calls_after_busy_fork(nearcall_client *client);
static inline bool nc_call_is_on_connection(const struct nc_call *call)
{
    return call->state == NC_CALL_SENT || call->state == NC_CALL_CANCELLING;
}
/* NULL: the handle has no such call. */
static inline struct nc_call *nc_call_by_id(const nearcall_client *client, nearcall_call_id id)
{
    struct nc_call *chunk = client->calls.chunks[id % NC_CALLS / NC_CALLS_IN_CHUNK];
    struct nc_call *call = chunk ? &chunk[id % NC_CALLS_IN_CHUNK] : NULL;
    return call && id != 0 && call->id == id && call->state != NC_CALL_FREE ? call : NULL;
}
static inline void nc_calls_look_by(nearcall_client *client, int64_t until_ns)
{
    if (until_ns < client->calls.timer_ns)
        client->calls.timer_ns = until_ns;
}

/* call.c */
void nc_leave_to_parent(nearcall_client *client, struct nc_call *call);
void nc_call_expire(nearcall_client *client, struct nc_call *call);
void nc_call_expire_all(nearcall_client *client);
bool nc_calls_wait_for_connection(const nearcall_client *client);
int64_t nc_calls_pending_deadline_ns(const nearcall_client *client);
void nc_call_give_up(nearcall_client *client, struct nc_call *call);
void nc_calls_lose(nearcall_client *client, const struct nc_loss *loss, bool before_welcome);
void nc_calls_drain(nearcall_client *client, uint64_t last_served_id);
void nc_calls_after_fork(nearcall_client *client);
unsigned nc_calls_on_connection(const nearcall_client *client);
int nc_call_deliver(nearcall_client *client, struct nc_call *call, nearcall_reply *ret_reply);
static inline bool nc_frame_is_written(const nearcall_client *client, const struct nc_call *call)
{
    return call->by_memory || client->connection.written >= call->frame_end;
}
/* Whether the kernel has nothing of it, so that it can be taken back. */
static inline bool nc_frame_is_untouched(const nearcall_client *client, const struct nc_call *call)
{
    return !call->by_memory && client->connection.written <= call->frame_start;
}

/* wait.c: 0 or NEARCALL_E_INTERRUPTED; what happened is in the calls. */
int nc_pump(nearcall_client *client, int64_t until_ns);
int nc_pause(nearcall_client *client, int64_t until_ns);
int nc_make_ready(nearcall_client *client, struct nc_call *call);
int nc_wait(nearcall_client *client, struct nc_call *call);
void nc_choose_waiting(nearcall_client *client);

/* begin.c */
int nc_begin(nearcall_client *client, struct nc_call *call, nearcall_call_id *ret_call);
int nc_begin_go_on(nearcall_client *client, nearcall_call_id *ret_call);
void nc_begin_abandon(nearcall_client *client);

/* watch.c */
static inline bool nc_is_woken(nearcall_client *client)
{
    return atomic_load_explicit(&client->watch.is_woken, memory_order_relaxed) &&
           nc_wake_confirm(client);
}

/* process.c */
int nc_poll_now(const nearcall_client *client);

/* retry.c */
int nc_sync_run(nearcall_client *client, nearcall_reply *ret_reply);
uint64_t nc_random(nearcall_client *client);
int64_t nc_random_pause_ns(nearcall_client *client, unsigned tries);
int nc_sync_call(nearcall_client *client, struct nc_call *call, unsigned sendings, nearcall_reply *ret_reply);
void nc_sync_abandon(nearcall_client *client);

/* functions.c */
nearcall_function *nc_function_intern(nearcall_client *client, const char *name, size_t bytes);
nearcall_function *nc_function_known(nearcall_client *client, const char *name, size_t bytes);
bool nc_function_is_described(const nearcall_client *client, const nearcall_function *function);
int nc_function_learn(nearcall_client *client, nearcall_function *function, const uint8_t *data,
                      size_t bytes);
void nc_function_forget_if_unused(nearcall_client *client, nearcall_function *function);
void nc_functions_free(nearcall_client *client);

/* description.c */
struct nc_description *nc_description_new(const uint8_t *data, size_t bytes);
/* Of a request that begins now. A raw payload is the same under every description. */
static inline struct nc_encoding nc_encoding_of(const nearcall_function *function, int codec)
{
    if (codec == NEARCALL_CODEC_RAW || !function->description)
        return (struct nc_encoding){0};
    return (struct nc_encoding){.by_description = true,
                                .check = function->description->check,
                                .schema_hash = function->description_hash};
}
bool nc_encoding_is_outdated(const nearcall_client *client, const struct nc_encoding *encoding);
void nc_description_unsent(nearcall_client *client, struct nc_call *call);
void nc_description_refused(const nearcall_client *client, const struct nc_call *call);

/* request_buffer.c: where a request is built; once it has so many bytes, in shared memory. */
#define NC_IN_ARENA_BYTES_MIN 4096
#define NC_REQUEST_TOO_LARGE                                                                  \
    "the request is larger than the " NC_TEXT(                                                \
        NC_FRAME_BYTES_MAX_CEILING) " bytes that any frame may have (limit frame_bytes_max)"
int nc_request_reserve(nearcall_client *client, size_t bytes);
bool nc_request_moves(const nearcall_client *client, size_t bytes);
int nc_request_own(nearcall_client *client);
bool nc_request_settle(nearcall_client *client);
void nc_request_leave_arena(nearcall_client *client);
void nc_request_after_fork(nearcall_client *client);

/* msgpack_write.c */
void nc_writer_begin(nearcall_client *client, nearcall_function *function, int codec);
int nc_writer_check(nearcall_client *client);
void nc_writer_lend(nearcall_client *client);
void nc_writer_give_back(nearcall_client *client);
void nc_writer_drop(nearcall_client *client);

#endif
