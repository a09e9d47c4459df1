/*
 * nearcall_handoff.h - take live connections from other processes, and give them away
 *
 * A process that listens for handoffs is given connections that another process has
 * accepted: `nearcall front`, a Go program with package handoff, or one with this
 * library. From then on client and server speak with each other alone. The protocol is
 * spec/handoff.md; return values, output parameters and memory are as in nearcall.h.
 *
 *     nearcall_handoff *handoff;
 *     nearcall_handoff_item item;
 *     int r = nearcall_handoff_listen(&handoff, "unix:/run/shop/backend.sock", NULL);
 *     while (r == NEARCALL_OK) {
 *         r = nearcall_handoff_accept(handoff, NEARCALL_NO_TIMEOUT, &item);
 *         if (r == NEARCALL_OK)
 *             serve(item.fd, item.prefix, item.prefix_bytes);
 *     }
 *     fprintf(stderr, "%s\n", nearcall_handoff_error_message(handoff));
 *     nearcall_handoff_close(handoff);
 *
 * OWNERSHIP. A connection has one owner at any time. What was given is the receiver's
 * when nearcall_handoff_accept() has returned it, and its giver's until then. When
 * nearcall_handoff_give() returns NEARCALL_OK it is the peer's; after any error it is the
 * caller's: open, untouched, and to be given to another process, served, or closed. A
 * giver does not read, write, shut down or close it meanwhile. A process that was stopped
 * when it was to get a connection keeps a copy of it for as long: who serves it shuts it
 * down, by shutdown(2), before closing it, so that its client need not wait for that one.
 *
 * PREFIX. The giver may have read the connection's first bytes. They come as prefix, and
 * whoever serves the connection reads them before all others. There are none where the
 * giver only looked at them, as `nearcall front` does.
 *
 * CHANNELS. A handle has a listening socket and any number of channels, one for each
 * giver that has connected, or the one channel that it has connected itself. Nothing
 * happens on them while the program is outside the library: what is given meanwhile waits
 * until it is accepted, and its giver may take it back.
 *
 * TIME. Here a timeout_ms of 0 means not to wait: NEARCALL_E_AGAIN is returned where
 * there is nothing yet. NEARCALL_NO_TIMEOUT waits for ever.
 *
 * THREADS. As in nearcall.h: a handle is used by one thread at a time, the library starts
 * none, and SIGPIPE is never raised.
 *
 * FORK. A channel belongs to the process that opened it. A child that uses the handle
 * closes its copies of the parent's channels, and of what had arrived by them, without a
 * word on them; then it accepts channels of its own on the listening socket. So a master
 * makes the handle, and each forked worker accepts. The socket's path stays the parent's
 * to remove. A handle that has connected is of no more use in a child. A child that does
 * not use the handle keeps copies until it closes the handle, runs another program (every
 * descriptor is close-on-exec) or ends.
 *
 * All functions exist since version 0.1.
 */
#ifndef NEARCALL_HANDOFF_H
#define NEARCALL_HANDOFF_H

#include "nearcall.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A listening socket and its channels, or a channel to another process. Opaque. */
typedef struct nearcall_handoff nearcall_handoff;

/* What is given. */
enum {
    NEARCALL_HANDOFF_CONNECTION = 1, /* a connected stream socket, TCP or Unix */
    NEARCALL_HANDOFF_LISTENER = 2,   /* a listening stream socket */
    NEARCALL_HANDOFF_FILE = 3        /* any other descriptor */
};

/* Why it was refused. */
enum {
    NEARCALL_HANDOFF_BUSY = 1,          /* it has as many as it can hold */
    NEARCALL_HANDOFF_NO_DESCRIPTOR = 2, /* the descriptor did not arrive */
    NEARCALL_HANDOFF_WRONG_KIND = 3,    /* it does not take what was given */
    NEARCALL_HANDOFF_DRAINING = 4,      /* it takes no more */
    NEARCALL_HANDOFF_DENIED = 5,        /* this peer may not give it */
    NEARCALL_HANDOFF_RECALLED = 6       /* it was asked back in time */
};

enum {
    /* Return NEARCALL_E_INTERRUPTED when a signal arrives while
     * nearcall_handoff_accept() or nearcall_handoff_wait() waits; one that arrives just
     * before ends them only by nearcall_handoff_interruptible_check(). */
    NEARCALL_HANDOFF_INTERRUPTIBLE = 1,
    /* Descriptors that are accepted do not block. Without it they do. */
    NEARCALL_HANDOFF_NONBLOCKING = 2,
    /* What is taken; none of them means connections on a handle that listens, and
     * nothing on one that has connected. */
    NEARCALL_HANDOFF_TAKE_CONNECTIONS = 4,
    NEARCALL_HANDOFF_TAKE_LISTENERS = 8,
    NEARCALL_HANDOFF_TAKE_FILES = 16
};

/* A number out of range is refused (NEARCALL_E_INVALID_ARGUMENT): the ceilings are in spec/limits.md. */
typedef struct nearcall_handoff_options {
    size_t struct_size;          /* sizeof(nearcall_handoff_options) */
    uint32_t flags;              /* NEARCALL_HANDOFF_INTERRUPTIBLE | ... */
    uint32_t mode;               /* permissions of the socket's file; 0: 0660 */
    uint32_t window;             /* how many may wait to be accepted on a channel; 0: 64 */
    uint32_t prefix_bytes_max;   /* longest prefix taken; 0: 64 KiB */
    uint32_t message_bytes_max;  /* longest message taken; 0: 64 KiB */
    uint32_t channels_max;       /* channels at a time, further ones wait; 0: 16384 */
    uint32_t peer_user_ids_count;
    const uint32_t *peer_user_ids; /* users allowed besides root and this process's own; copied */
} nearcall_handoff_options;

#define NEARCALL_HANDOFF_OPTIONS_INIT { sizeof(nearcall_handoff_options), 0, 0, 0, 0, 0, 0, 0, NULL }

/*
 * Listens on "unix:/path". The socket gets its mode under a temporary name and is
 * renamed; a lock on PATH.lock shows that it is in use, and NEARCALL_E_ALREADY_EXISTS is
 * returned when another process holds it. options may be NULL. On failure a handle is
 * still returned, for its error message, unless there was no memory for one. Free it with
 * nearcall_handoff_close() in every case; the same goes for the other two.
 */
NEARCALL_API int nearcall_handoff_listen(nearcall_handoff **ret_handoff, const char *address,
                                         const nearcall_handoff_options *options);

/* Listens on a Unix stream socket that listens already: one that a master or a service
 * manager has opened. fd stays the caller's; it is made not to block, which counts for all
 * who share the socket. mode is not looked at, and no file is locked or removed. */
NEARCALL_API int nearcall_handoff_listen_fd(nearcall_handoff **ret_handoff, int fd,
                                            const nearcall_handoff_options *options);

/* Connects to the process that listens on "unix:/path", so as to give. Its user must be
 * root, this process's own, or one of peer_user_ids. With NEARCALL_HANDOFF_TAKE_CONNECTIONS
 * it may hand connections back, which are then accepted from this handle. With a
 * timeout_ms of 0 connecting still waits, for two seconds at most. */
NEARCALL_API int nearcall_handoff_connect(nearcall_handoff **ret_handoff, const char *address,
                                          const nearcall_handoff_options *options,
                                          int64_t timeout_ms);

/* Ends all channels and frees the handle; the path of a socket that this process listened
 * on is removed if it still is its own. What was not accepted stays its giver's, what was
 * accepted the program's. NULL is allowed. */
NEARCALL_API void nearcall_handoff_close(nearcall_handoff *handoff);

/* What the last failed function on the handle left, in words: UTF-8, never NULL, valid
 * until the next function on it. */
NEARCALL_API const char *nearcall_handoff_error_message(const nearcall_handoff *handoff);

/* NEARCALL_HANDOFF_BUSY ... when the last nearcall_handoff_give() was refused by the peer;
 * otherwise 0. */
NEARCALL_API int nearcall_handoff_error_reason(const nearcall_handoff *handoff);

/* ---- Taking ---- */

typedef struct nearcall_handoff_item {
    int fd;                /* the caller's to close; close-on-exec */
    int kind;              /* NEARCALL_HANDOFF_CONNECTION ... */
    uint64_t channel;      /* that it came by, for handing it back; never used twice */
    uint32_t process_id;   /* of the giver, when it connected, by the kernel; for logs */
    uint32_t user_id;
    /* The rest belongs to the handle, until the next item is accepted from it. Texts end
     * in NUL and are never NULL. */
    const char *name;      /* what the giver calls it: a route, a listener's name */
    const char *local;     /* "tcp:host:port", "unix:path" or "": what the giver says, or the socket itself */
    const char *remote;
    const uint8_t *prefix; /* what was read of a connection already; read it first */
    size_t prefix_bytes;
    const uint8_t *message; /* whatever the two programs agreed on */
    size_t message_bytes;
} nearcall_handoff_item;

/* With NEARCALL_HANDOFF_INTERRUPTIBLE: what nearcall_interruptible_check() is for calls. */
NEARCALL_API int nearcall_handoff_interruptible_check(nearcall_handoff *handoff,
                                                      int (*check)(void *argument), void *argument);

/* Waits until something can be accepted or refused: NEARCALL_OK. Otherwise NEARCALL_E_AGAIN
 * (timeout_ms was 0), NEARCALL_E_DEADLINE_EXCEEDED, NEARCALL_E_INTERRUPTED, or, when nothing
 * can come any more, NEARCALL_E_UNAVAILABLE. A child needs a descriptor to wait with, and gets
 * NEARCALL_E_RESOURCE_EXHAUSTED while there is none: nothing was lost, and it may try again.
 * NEARCALL_E_FAILED_PRECONDITION: the program has closed descriptors of the library. */
NEARCALL_API int nearcall_handoff_wait(nearcall_handoff *handoff, int64_t timeout_ms);

/* Waits for what is given next and takes it: its giver is told before this returns. A
 * giver that does not read what it is told can make it a second late. Returns as
 * nearcall_handoff_wait() does. */
NEARCALL_API int nearcall_handoff_accept(nearcall_handoff *handoff, int64_t timeout_ms,
                                         nearcall_handoff_item *ret_item);

/* Refuses what would be accepted next; its giver keeps it. text, for a person, may be
 * NULL. NEARCALL_E_AGAIN: nothing waits. */
NEARCALL_API int nearcall_handoff_refuse(nearcall_handoff *handoff, int reason, const char *text);

/* Stops listening: what was not accepted goes back to its givers, and they are told that
 * nothing more is taken. text, for a person, may be NULL. Channels stay for what is to
 * be handed back by them, until nearcall_handoff_close(). */
NEARCALL_API int nearcall_handoff_drain(nearcall_handoff *handoff, const char *text);

/* ---- Giving ---- */

/*
 * Gives item->fd of item->kind away, with name, message, prefix, and the addresses where
 * they are known better than the kernel knows them; parts that are NULL or 0 bytes are
 * empty. Waits until the peer has accepted or refused it. channel 0 is that of
 * nearcall_handoff_connect(); any other is the one that a connection came by and now is
 * handed back by, with the bytes that were read of it and not used as prefix.
 *
 * NEARCALL_OK: it is the peer's. A connection was closed here; a listener or a file is
 * still open, and the caller's to close. Any error: the descriptor is as it was.
 * When the time is over the peer is asked to give it back; one that does not answer
 * within a second loses its channel, with all that it had not taken. A signal does not
 * end the wait.
 *
 * NEARCALL_E_DEADLINE_EXCEEDED, NEARCALL_E_UNAVAILABLE (the channel has ended, or the peer takes no
 * more), NEARCALL_E_RESOURCE_EXHAUSTED (it is busy or lacks descriptors), NEARCALL_E_UNIMPLEMENTED
 * (it does not take this kind), NEARCALL_E_PERMISSION_DENIED, NEARCALL_E_INVALID_ARGUMENT (a part
 * is longer than the peer takes).
 */
NEARCALL_API int nearcall_handoff_give(nearcall_handoff *handoff, uint64_t channel,
                                       const nearcall_handoff_item *item, int64_t timeout_ms);

/* ---- What is asked for ---- */

/* Whether a request for this host, as in its Host header, fits a pattern as `nearcall front`
 * compares them: "www.example.com", "*.example.com" for every name below example.com, or "*".
 * A port, a final dot and the case of letters make no difference. 1 or 0; NULL fits nothing.
 * A program that gets a request for another host hands it back. */
NEARCALL_API int nearcall_handoff_host_matches(const char *host, const char *pattern);

/* ---- Event loops ---- */

/* The descriptor to watch for reading, in this process. When it is readable, or after
 * nearcall_handoff_timeout_ms(), accept with a timeout of 0; it stays readable while there
 * is more, and when the handle was drained. It stays the same until a fork. -1: there is none,
 * and the error message says why. */
NEARCALL_API int nearcall_handoff_fd(nearcall_handoff *handoff);

/* Milliseconds until the handle wants to be used though its descriptor stays silent; -1:
 * never; 0: something can be accepted. */
NEARCALL_API int64_t nearcall_handoff_timeout_ms(nearcall_handoff *handoff);

#ifdef __cplusplus
}
#endif

#endif
