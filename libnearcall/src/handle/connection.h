/* The connection of a handle, and how one ends. */
#ifndef NC_HANDLE_CONNECTION_H
#define NC_HANDLE_CONNECTION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/buffer.h"
#include "base/limits_gen.h"
#include "memory/memory.h"
#include "memory/spin.h"
#include "memory/store.h"
#include "transport/files.h"
#include "transport/tls.h"
#include "transport/transport.h"
#include "wire/wire.h"

/* Whether the descriptor still is the connection's. Owned by connection/identity.c. */
struct nc_identity {
    int64_t seen_ns; /* the handle's clock when the number last meant the connection's socket; 0: look */
    int64_t left_ns; /* when a begun call that was sent there left the library; 0: none has */
    int64_t look_ns; /* what a look takes: no system call that replaces a descriptor takes less */
    unsigned inferred; /* how often in a row it was known without a look */
};

/* Whether a server of another machine is there while calls wait. Owned by connection/silence.c. */
struct nc_silence {
    int64_t limit_ns; /* the connection has ended after so long; 0: nobody looks */
    int64_t since_ns; /* when calls began to wait, or when the server's host has taken more of what is being sent */
    int64_t asked_ns; /* when the server was asked last */
    int64_t asked_for_ns; /* the last sign of life at that time; 0: it was not asked yet */
    uint64_t acknowledged; /* how much that host had taken then */
};

/* The stores of a connection that this side has, and the one that the frame names that is being
 * handled. Owned by connection/stores.c. */
struct nc_stores {
    size_t value_bytes_max; /* of a request that the server takes in one; 0: none are agreed on */
    bool trusted; /* the server is of this user */
    bool has_work; /* a call has got its store, or a release is in the output: see send/stores.c */
    int64_t idle_ns; /* when to look for what has not been used for a while; 0: never */
    struct nc_store held[NC_STORE_PLACES];
    int64_t used_ns[NC_STORES_PER_DIRECTION]; /* when a request was written there last */
    /* RELEASEs of what was named to nobody, and that may still be in the output: those from before told_until was
     * set, and those since. */
    size_t told_before_bytes, told_since_bytes;
    uint64_t told_until; /* the output's end at that time, as frame_end of calls */
    struct {
        bool named; /* and neither used nor given back yet */
        bool is_missing; /* this side has none at that place, nor was one sent */
        const char *what; /* why it cannot be used; NULL: it can */
        struct nc_stored stored;
    } came;
};

enum nc_connection_state {
    NC_CLOSED,
    NC_BACKLOG_FULL, /* no descriptor; tried again at retry_ns */
    NC_CONNECTING,
    NC_SECURING, /* the handshake of TLS goes on */
    NC_HELLO, /* the hello was sent, the welcome is awaited */
    NC_READY
};

struct nc_connection {
    enum nc_connection_state state;
    int fd; /* -1 when there is none */
    dev_t device; /* with inode: which socket fd was, for a child that */
    ino_t inode; /* closes only what is still its own */
    const struct nc_transport *transport;
    struct nc_tls_stream *tls; /* NULL: what is sent is not sealed, or there is no connection */
    unsigned candidate;
    unsigned backlog_tries;
    int64_t connect_deadline_ns; /* the last of those who wait for it, up to the limit */
    int64_t connect_limit_ns; /* what connect_timeout_ms allows */
    int64_t retry_ns;
    int64_t hello_ns; /* when the hello was made */
    int64_t welcome_limit_ns; /* until when this socket is given to send its welcome */
    int64_t welcome_patience_ns; /* how long the next one is given */
    int64_t clock_ahead_ns; /* what deadlines on the shared clock are ahead on the server's */
    struct nc_buffer in;
    uint64_t taken; /* bytes of frames before the input's start */
    size_t skip_bytes; /* of a reply nobody waits for */
    struct nc_buffer out;
    /* Frames that were taken back and still lie in out, though never alone. Owned by
     * connection/output.c. */
    size_t hole_bytes;
    uint64_t hole_start; /* of the first, as frame_start of calls; meaningless when there is none */
    /* Follows out; the memory of a caller that is still inside the library. */
    const uint8_t *borrowed;
    size_t borrowed_bytes;
    uint64_t written; /* frame bytes the kernel took since the welcome, and holes that it was spared */
    uint64_t received; /* bytes of frames that were read from the socket since the welcome */
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
    bool bytes_alone; /* no descriptors can come, so reads need no room for them */
    bool timed_out; /* SO_RCVTIMEO has ended a wait for the call that is waited for */
    int64_t receive_timeout_ns; /* what SO_RCVTIMEO is set to; 0: not set */
    struct nc_memory memory;
    struct nc_spinning spinning;
    bool memory_came; /* and was used or not; there is one a connection */
    bool spins; /* whether the present wait does */
    int64_t spun_since_ns; /* it has looked in vain since then; 0: not yet */
    struct nc_stores stores;
    struct nc_descriptors descriptors;
    struct nc_silence silence;
    struct nc_identity identity; /* whether fd still means that socket */
    int64_t looked_ns; /* when the socket was read last, or was looked at for want of frames in memory */
    struct nc_welcome welcome; /* schema_hash stays after the connection is closed */
};

static inline size_t nc_output_bytes(const struct nc_connection *connection)
{
    return nc_buffer_bytes(&connection->out) + connection->borrowed_bytes;
}
/* The same without what was taken back. */
static inline size_t nc_output_bytes_to_send(const struct nc_connection *connection)
{
    return nc_output_bytes(connection) - connection->hole_bytes;
}

/* ---- TLS: bytes of frames count as written when they are sealed, and as received when they are opened. ---- */

/* Whether something is sealed that the kernel has not taken. */
static inline bool nc_connection_keeps(const struct nc_connection *connection)
{
    return __builtin_expect(connection->tls != NULL, 0) && nc_tls_keeps(connection->tls);
}
/* Whether something can be read though the socket may not be readable. */
static inline bool nc_connection_holds(const struct nc_connection *connection)
{
    return __builtin_expect(connection->tls != NULL, 0) && nc_tls_holds(connection->tls);
}
/* Whether the kernel is to be given something. */
static inline bool nc_output_waits(const struct nc_connection *connection)
{
    return nc_output_bytes(connection) > 0 || nc_connection_keeps(connection);
}

/* ---- The end of a connection ---- */

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

#endif
