/*
 * nearcall_handoff.h - take live connections from other processes, and give them away
 *
 * A process that listens for handoffs is given connections that another process has
 * accepted: `nearcall front`, a Go program with package handoff, or a program with this
 * library. From then on client and server talk to each other directly. The process that
 * gives is called the giver. The protocol is described in spec/handoff.md. Return
 * values, output parameters and memory are as in nearcall.h.
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
 * OWNERSHIP. A connection has one owner at any time. It belongs to its giver until
 * nearcall_handoff_accept() returns it, and to the receiver from then on. If
 * nearcall_handoff_give() returns NEARCALL_OK it belongs to the peer. After any error
 * it belongs to the caller: it is open and untouched, and can be given to another
 * process, served, or closed. Until nearcall_handoff_give() returns, the giver must not
 * read from it, write to it, shut it down or close it. A process that was stopped when
 * it was to get a connection keeps a copy of it until it goes on. So whoever serves the
 * connection must call shutdown(2) before closing it; otherwise its client would wait
 * for that process.
 *
 * PREFIX. The giver may have read the first bytes of the connection. They come as the
 * prefix, and whoever serves the connection reads them before all others. There is no
 * prefix if the giver only looked at the bytes, as `nearcall front` does.
 *
 * CHANNELS. A handle has a listening socket and any number of channels, one for each
 * giver that has connected; or it has the one channel that it has connected itself.
 * Nothing happens on channels while the program is outside the library: what is given
 * then waits until it is accepted, and its giver may take it back.
 *
 * TIME. Here a timeout_ms of 0 means not to wait: if there is nothing yet, the function
 * returns NEARCALL_E_AGAIN. NEARCALL_NO_TIMEOUT waits without a limit.
 *
 * THREADS. As in nearcall.h, a handle may be used by one thread at a time, the library
 * starts no thread, and it never raises SIGPIPE.
 *
 * SIGNALS. A function that a signal handler calls on the handle that it has interrupted
 * returns NEARCALL_E_MISUSE, and nearcall_handoff_close() does nothing there. A handler must
 * not leave a function by longjmp(3); nearcall_handoff_abandon() ends what one has left.
 *
 * FORK. A channel belongs to the process that opened it. When a child uses the handle,
 * its copies of the parent's channels, and of what had arrived on them, are closed
 * without sending anything; after that it accepts channels of its own on the listening
 * socket. So a master can make the handle, and each forked worker accepts. Removing the
 * path of the socket stays with the parent. A handle that has connected cannot be used
 * in a child. A child that does not use the handle keeps its copies until it closes the
 * handle, runs another program (every descriptor is close-on-exec), or ends.
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

/* Why a peer has refused it. */
enum {
    NEARCALL_HANDOFF_BUSY = 1,          /* the peer has as many as it can hold */
    NEARCALL_HANDOFF_NO_DESCRIPTOR = 2, /* the descriptor did not arrive */
    NEARCALL_HANDOFF_WRONG_KIND = 3,    /* the peer does not take this kind */
    NEARCALL_HANDOFF_DRAINING = 4,      /* the peer takes no more */
    NEARCALL_HANDOFF_DENIED = 5,        /* the giver may not give it */
    NEARCALL_HANDOFF_RECALLED = 6       /* its giver has asked it back in time */
};

enum {
    /* Return NEARCALL_E_INTERRUPTED when a signal arrives while
     * nearcall_handoff_accept() or nearcall_handoff_wait() waits. A signal that arrives
     * just before the wait ends it only with the help of
     * nearcall_handoff_interruptible_check(). */
    NEARCALL_HANDOFF_INTERRUPTIBLE = 1,
    /* Make descriptors that are accepted non-blocking. By default they block. */
    NEARCALL_HANDOFF_NONBLOCKING = 2,
    /* What this handle takes. With none of these flags, a handle that listens takes
     * connections, and one that has connected takes nothing. */
    NEARCALL_HANDOFF_TAKE_CONNECTIONS = 4,
    NEARCALL_HANDOFF_TAKE_LISTENERS = 8,
    NEARCALL_HANDOFF_TAKE_FILES = 16
};

/* A number that is out of range is refused (NEARCALL_E_INVALID_ARGUMENT);
 * spec/limits.md has the ceilings. */
typedef struct nearcall_handoff_options {
    size_t struct_size;          /* sizeof(nearcall_handoff_options) */
    uint32_t flags;              /* NEARCALL_HANDOFF_INTERRUPTIBLE | ... */
    uint32_t mode;               /* permissions of the socket file; 0: 0660 */
    uint32_t window;             /* how many may wait to be accepted on each channel; 0: 64 */
    uint32_t prefix_bytes_max;   /* longest prefix that is taken; 0: 64 KiB */
    uint32_t message_bytes_max;  /* longest message that is taken; 0: 64 KiB */
    uint32_t channels_max;       /* channels at a time, further ones wait; 0: 16384 */
    uint32_t peer_user_ids_count;
    const uint32_t *peer_user_ids; /* users allowed besides root and this process's own; copied */
} nearcall_handoff_options;

#define NEARCALL_HANDOFF_OPTIONS_INIT { sizeof(nearcall_handoff_options), 0, 0, 0, 0, 0, 0, 0, NULL }

/*
 * Listens on "unix:/path". The socket gets its permissions under a temporary name and
 * is then renamed. A lock on PATH.lock shows that it is in use; if another process
 * holds the lock the error is NEARCALL_E_ALREADY_EXISTS. options may be NULL.
 *
 * On failure a handle is still returned, for its error message, unless there was no
 * memory for one. Free it with nearcall_handoff_close() in every case. The same is true
 * for the next two functions.
 */
NEARCALL_API int nearcall_handoff_listen(nearcall_handoff **ret_handoff, const char *address,
                                         const nearcall_handoff_options *options);

/* Listens on a Unix stream socket that already listens, because a master or a service
 * manager has opened it. fd still belongs to the caller. It is made non-blocking, for
 * everybody who shares the socket. mode is ignored, and no file is locked or removed. */
NEARCALL_API int nearcall_handoff_listen_fd(nearcall_handoff **ret_handoff, int fd,
                                            const nearcall_handoff_options *options);

/* Connects to the process that listens on "unix:/path", in order to give. That process
 * must run as root, as this process's own user, or as one of peer_user_ids. With
 * NEARCALL_HANDOFF_TAKE_CONNECTIONS it may hand connections back, which are then
 * accepted from this handle. With a timeout_ms of 0 connecting still waits, for two
 * seconds at most. */
NEARCALL_API int nearcall_handoff_connect(nearcall_handoff **ret_handoff, const char *address,
                                          const nearcall_handoff_options *options,
                                          int64_t timeout_ms);

/* Ends all channels and frees the handle. The socket file that this process listened on
 * is removed if it is still its own. What was not accepted belongs to its giver, and
 * what was accepted to the program. NULL is allowed. */
NEARCALL_API void nearcall_handoff_close(nearcall_handoff *handoff);

/* What went wrong in the last function that failed on the handle, in words. UTF-8,
 * never NULL, valid until the next function on the handle. */
NEARCALL_API const char *nearcall_handoff_error_message(const nearcall_handoff *handoff);

/* NEARCALL_HANDOFF_BUSY ... if the peer refused in the last nearcall_handoff_give(),
 * otherwise 0. */
NEARCALL_API int nearcall_handoff_error_reason(const nearcall_handoff *handoff);

/* ---- Taking ---- */

typedef struct nearcall_handoff_item {
    int fd;                /* belongs to the caller; close-on-exec */
    int kind;              /* NEARCALL_HANDOFF_CONNECTION ... */
    uint64_t channel;      /* the channel it came by, for handing it back; never used twice */
    uint32_t process_id;   /* the giver's when it connected, from the kernel; for logs */
    uint32_t user_id;
    /* The rest belongs to the handle and is valid until the next item is accepted from
     * it. Strings end in NUL and are never NULL. */
    const char *name;      /* the giver's name for it: that of a route or a listener */
    const char *local;     /* "tcp:host:port", "unix:path" or ""; from the giver, or else from the socket */
    const char *remote;
    const uint8_t *prefix; /* what was already read from a connection; read it first */
    size_t prefix_bytes;
    const uint8_t *message; /* anything that the two programs have agreed on */
    size_t message_bytes;
} nearcall_handoff_item;

/* For use with NEARCALL_HANDOFF_INTERRUPTIBLE: does for this handle what
 * nearcall_interruptible_check() does for calls. */
NEARCALL_API int nearcall_handoff_interruptible_check(nearcall_handoff *handoff,
                                                      int (*check)(void *argument), void *argument);

/* Waits until there is something to accept, and returns NEARCALL_OK. It
 * returns NEARCALL_E_AGAIN if timeout_ms was 0 and there is nothing,
 * NEARCALL_E_DEADLINE_EXCEEDED, NEARCALL_E_INTERRUPTED, or, if nothing can arrive any
 * more, NEARCALL_E_UNAVAILABLE. A child needs a descriptor to wait with: while there is
 * none it gets NEARCALL_E_RESOURCE_EXHAUSTED, nothing is lost, and it may try again.
 * NEARCALL_E_FAILED_PRECONDITION means that the program has closed descriptors of the
 * library. */
NEARCALL_API int nearcall_handoff_wait(nearcall_handoff *handoff, int64_t timeout_ms);

/* Waits for the next thing that is given, and takes it. The giver is told before the
 * function returns. What comes from a giver that does not read what it is told waits
 * until it does, and holds up nobody else; after a second its channel is ended. The
 * return values are those of nearcall_handoff_wait(). */
NEARCALL_API int nearcall_handoff_accept(nearcall_handoff *handoff, int64_t timeout_ms,
                                         nearcall_handoff_item *ret_item);

/* Refuses what would be accepted next. Its giver keeps it. text is for people and may
 * be NULL. NEARCALL_E_AGAIN means that nothing waits. */
NEARCALL_API int nearcall_handoff_refuse(nearcall_handoff *handoff, int reason, const char *text);

/* Stops listening. What was not accepted goes back to its givers, who are told that
 * nothing more is taken. text is for people and may be NULL. Channels stay until
 * nearcall_handoff_close(), for what is to be handed back on them. */
NEARCALL_API int nearcall_handoff_drain(nearcall_handoff *handoff, const char *text);

/* ---- Giving ---- */

/*
 * Gives away item->fd, which is an item->kind, together with name, message, prefix, and
 * the addresses if the caller knows them better than the kernel does. Parts that are
 * NULL or have 0 bytes are empty. The function waits until the peer has accepted or
 * refused the item. channel is 0 for the channel of nearcall_handoff_connect(). To hand
 * a connection back pass the channel that it came by, and as prefix the bytes that were
 * read from it and not used.
 *
 * NEARCALL_OK means that it belongs to the peer. A connection was then closed here; a
 * listener or a file is still open, and it is up to the caller to close it. After any
 * error the descriptor is as it was. When the time is over the peer is asked to give
 * the item back. If the peer does not answer within a second its channel is ended, with
 * everything that it had not taken. A signal does not end the wait.
 *
 * Errors are NEARCALL_E_DEADLINE_EXCEEDED, NEARCALL_E_UNAVAILABLE (the channel has
 * ended, or the peer takes no more), NEARCALL_E_RESOURCE_EXHAUSTED (the peer is busy or
 * short of descriptors), NEARCALL_E_UNIMPLEMENTED (the peer does not take this kind),
 * NEARCALL_E_PERMISSION_DENIED, and NEARCALL_E_INVALID_ARGUMENT (a part is longer than
 * the peer accepts).
 */
NEARCALL_API int nearcall_handoff_give(nearcall_handoff *handoff, uint64_t channel,
                                       const nearcall_handoff_item *item, int64_t timeout_ms);

/* ---- What is asked for ---- */

/* Reports, as 1 or 0, whether a request for this host, as in its Host header, fits a
 * pattern: "www.example.com", "*.example.com" for every name below example.com, or "*"
 * for any. It ignores a port, a final dot and the case of letters, and compares as
 * `nearcall front` does. NULL fits nothing. A program that gets a request for another
 * host hands it back. */
NEARCALL_API int nearcall_handoff_host_matches(const char *host, const char *pattern);

/* ---- Functions that a signal handler has left ---- */

/* Does for this handle what nearcall_abandon() does for one of calls; nearcall_signals.h says
 * when it may be called. If a handler has left a function by longjmp(3), the handle stays
 * inside it for ever: all functions return NEARCALL_E_MISUSE, and nearcall_handoff_close()
 * does nothing. After this function the handle can be used, or closed. A handle that was being
 * opened can only be closed.
 *
 * If the handler came while the function slept, what was given and not accepted still waits. If
 * nearcall_handoff_give() was left, its channel is ended, and the peer may have taken the item:
 * close the descriptor, and do not use it. If the handler came at any other moment, all channels
 * are ended, what their memory holds is never freed, and a few descriptors may stay open, such as
 * that of a connection that was just being accepted.
 *
 * It returns 1 if it has abandoned a function, and 0, having done nothing, if the handle was
 * inside none. */
NEARCALL_API int nearcall_handoff_abandon(nearcall_handoff *handoff);

/* ---- Event loops ---- */

/* The descriptor to watch for reading, in this process. When it becomes readable, or
 * after nearcall_handoff_timeout_ms(), accept with a timeout of 0. It stays readable
 * while there is more, and when the handle was drained. It stays the same until a fork.
 * -1 means that there is none; the error message says why. */
NEARCALL_API int nearcall_handoff_fd(nearcall_handoff *handoff);

/* The number of milliseconds until the handle should be used even if its descriptor
 * stays silent; -1 means never, and 0 that something can be accepted. */
NEARCALL_API int64_t nearcall_handoff_timeout_ms(nearcall_handoff *handoff);

#ifdef __cplusplus
}
#endif

#endif
