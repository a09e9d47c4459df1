/* A call, the table of all of a handle, and the one that is being waited for from its beginning. */
#ifndef NC_HANDLE_CALL_H
#define NC_HANDLE_CALL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buffer.h"
#include "base/limits_gen.h"
#include "handle/function.h"
#include "handle/view.h"
#include "nearcall.h"
#include "wire/wire.h"

struct nc_files;

/* How far a call is whose request travels in a store. Before NC_STORE_NAMED the server cannot have
 * run its function. */
enum nc_store_stage {
    NC_STORE_NONE,
    NC_STORE_ASKED, /* the frame that is on its way, as frame_start has it, is a STORE */
    NC_STORE_CROWDED, /* it is asked for again at ask_again_ns */
    NC_STORE_GIVEN, /* and the request is written there next */
    NC_STORE_NAMING, /* the frame of the request is being put together, and says where its payload lies */
    NC_STORE_NAMED /* that frame was sent, or a part of it */
};

struct nc_storing {
    enum nc_store_stage stage;
    unsigned missing; /* so often the server took this side to have a store that it had closed */
    nearcall_call_id known_id; /* by which the user knows the call, which draws further ones; 0: nobody does */
    struct nc_stored stored;
    int64_t ask_again_ns;
    int64_t pause_ns; /* the last before asking again */
};

/* The extensions of a reply or an error, as they came. */
struct nc_metadata {
    size_t bytes;
    uint8_t extensions[];
};

/* The most calls a handle can have; ids are counted by it. A power of two. */
#define NC_CALLS NC_CLIENT_CALLS_IN_FLIGHT_MAX_CEILING
#define NC_CALLS_IN_CHUNK 64

enum nc_call_state {
    NC_CALL_FREE,
    NC_CALL_PENDING, /* nothing was given to the connection */
    NC_CALL_SENT, /* its frame is in the connection's output, or further on its way */
    NC_CALL_CANCELLING, /* its deadline passed; waits cancel_grace_ms for an answer */
    NC_CALL_ASKING, /* it was begun, and its connection was lost: the server is asked what became of it */
    NC_CALL_FINISHED
};

/* A line of calls in the order they joined it. */
struct nc_queue {
    struct nc_call *first;
    struct nc_call *last;
    struct nc_call *untold; /* of the finished ones: the first that no hook was told of */
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
    enum nc_frame_type type; /* NC_REQUEST, NC_RESOLVE, NC_PING, NC_ASK */
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
    bool has_more; /* one of the next five may not be NULL; all are in a free call */
    struct nc_files *files; /* of the request; NULL: none */
    struct nc_files *reply_files;
    nearcall_view *view; /* through which it was begun; NULL: none */
    struct nc_metadata *metadata; /* of the reply; NULL: none */
    struct nc_storing *storing; /* NULL: the request travels in a frame */
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

/* A connection that was lost with calls that ask. Its server is asked about them by a call of type NC_ASK, which
 * waits in line as any other: first about all of them at once, which is answered without waiting for functions, and
 * then again and again about those whose functions run. About one call alone it is asked once, with all its time. */
struct nc_lost {
    struct nc_lost *next; /* that was lost later */
    uint64_t server_instance;
    uint8_t key[NC_CONNECTION_KEY_BYTES];
    nearcall_call_id first_id; /* of the requests that it carried; other connections have carried other ids */
    nearcall_call_id last_id;
    unsigned count; /* calls of it that ask */
    struct nc_call *question; /* pending, sent or finished; NULL: there is none */
    unsigned asked; /* calls that it is about */
    bool alone; /* it is about the only one that is left */
    nearcall_call_id asked_id; /* of this round of questions: the last call that one was about; 0: a round begins */
    int64_t due_ns; /* when to ask, while there is no question */
    int64_t pause_ns; /* the last before asking again */
    int64_t until_ns; /* asking ends then */
    int64_t running_until_ns; /* asking about functions that run ends then; 0: none is known to */
    struct nc_buffer payload; /* of the question */
    char what[]; /* why the connection ended */
};

/* Connections with calls that ask at a time. A program that goes on calling while its connections are cut one after the
 * other, and the answers with them, has several. */
#define NC_LOST_MAX 16

/* All calls of a handle. A chunk is published whole, by one store. A
 * child that finds the rest half-way makes it anew from the states of the calls. */
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
    bool looks_at_all; /* whatever waits for one call looks at the time of all */
    uint32_t used_max; /* what the options allow, and the questions, which no user counts */
    struct nc_lost *lost; /* the one that was lost first; NULL: no call asks */
};

static inline bool nc_call_is_on_connection(const struct nc_call *call)
{
    return call->state == NC_CALL_SENT || call->state == NC_CALL_CANCELLING;
}

/* The stage of a request that travels in a store. */
static inline enum nc_store_stage nc_store_stage_of(const struct nc_call *call)
{
    return __builtin_expect(call->has_more && call->storing, 0) ? call->storing->stage : NC_STORE_NONE;
}
/* Whether the request itself was not sent yet, whatever was. */
static inline bool nc_call_asks_for_store(const struct nc_call *call)
{
    enum nc_store_stage stage = nc_store_stage_of(call);
    return stage != NC_STORE_NONE && stage != NC_STORE_NAMED;
}

/* The same for the call that is being waited for from its beginning, which asks by itself. */
struct nc_asking {
    bool is_possible; /* the rest means nothing unless it is */
    bool retryable; /* the loss was a reason to send the call again, if it did not run */
    nearcall_call_id call_id; /* on that connection */
    unsigned endpoint; /* to which that led; meaningless if there is only one */
    uint64_t server_instance;
    int64_t until_ns;
    int64_t pause_ns; /* the last before asking again */
    uint8_t payload[NC_CONNECTION_KEY_BYTES + NC_ASKED_CALL_BYTES]; /* of the question */
};

/* The call that is being waited for from its beginning. Owned by wait/retry.c, asking by wait/ask.c. */
struct nc_sync {
    struct nc_call *call; /* NULL: none was interrupted */
    uint64_t token; /* of the last one that began; names it to the program that resumes it */
    uint64_t abandoned_token; /* the last that gave way to another, with its outcome */
    int abandoned_outcome;
    bool sends_request; /* what client->request holds is the interrupted call's alone */
    bool stale_connection; /* it stood before the call began */
    unsigned attempts;
    unsigned waits; /* for a server that was not ready, which are no attempts */
    int former_outcome; /* the worst of the attempts before the last */
    int64_t pause_until_ns;
    struct nc_asking asking;
};

#endif
