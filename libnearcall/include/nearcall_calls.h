/*
 * nearcall_calls.h - options and metadata of single calls
 *
 * This is a part of nearcall.h, which includes it. nearcall.h is the manual for handles,
 * errors, threads and forks.
 *
 *     nearcall_metadata tenant = {"tenant", "acme", 4};
 *     nearcall_call_options options = NEARCALL_CALL_OPTIONS_INIT;
 *     nearcall_view *reports;
 *     options.timeout_ms = 300000;
 *     options.metadata = &tenant;
 *     options.metadata_count = 1;
 *     int r = nearcall_view_new(client, NULL, &options, &reports);
 *     if (r == NEARCALL_OK)
 *         r = nearcall_use_view(client, reports);
 *     if (r == NEARCALL_OK)
 *         r = nearcall_call(client, "report", "2026", 4, 0, &reply);
 *     (void)nearcall_use_view(client, NULL);
 *     nearcall_view_free(reports);
 */
#ifndef NEARCALL_CALLS_H
#define NEARCALL_CALLS_H

#include "nearcall.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Options ---- */

/* A pair of metadata. A key consists of lower-case letters, digits and any of "-_.", and
 * ends in NUL; a value is any bytes. A key may come several times. */
typedef struct nearcall_metadata {
    const char *key;
    const void *value; /* NULL only for 0 bytes */
    size_t value_bytes;
} nearcall_metadata;

#define NEARCALL_IDEMPOTENCY_KEY_BYTES 16

enum {
    /* Wait until the deadline for a server that is not there or is stopping, however many
     * attempts that takes. Without it a call fails with NEARCALL_E_UNAVAILABLE after
     * attempts_max attempts. */
    NEARCALL_CALL_WAIT_FOR_READY = 1,
    /* Send a call again, up to attempts_max times in all, also when its connection was lost
     * and nobody knows whether the function ran, or when its result was lost. The server has
     * to want that as well: the function must be registered as idempotent. A call of any
     * other function fails with NEARCALL_E_FAILED_PRECONDITION before anything is sent; if
     * its description is not known, the server is asked first. The outcome of a call that
     * was sent several times is never "not executed" if one of them may have run. */
    NEARCALL_CALL_RETRY_UNKNOWN = 2
};

/* Begin with NEARCALL_CALL_OPTIONS_INIT. What is 0 or NULL stays as it is without the view,
 * or as the view has it from which another is made. */
typedef struct nearcall_call_options {
    size_t struct_size;         /* sizeof(nearcall_call_options) */
    int64_t timeout_ms;         /* of calls that are given timeout_ms 0; NEARCALL_NO_TIMEOUT: none */
    int64_t backoff_first_us;   /* the mean pause after the first attempt; each further one is twice as long; without: 1 ms */
    int64_t backoff_most_us;    /* the longest mean pause; without: 1 s */
    uint32_t attempts_max;      /* how many times in all a call is sent; 1: never again */
    uint32_t flags;             /* NEARCALL_CALL_WAIT_FOR_READY | ... */
    const char *trace_parent;   /* W3C trace context, as 00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01 */
    const uint8_t *idempotency_key; /* NEARCALL_IDEMPOTENCY_KEY_BYTES bytes that name what is asked for */
    const nearcall_metadata *metadata; /* travel with the request, and are added to those of the view before */
    size_t metadata_count;
} nearcall_call_options;

#define NEARCALL_CALL_OPTIONS_INIT { sizeof(nearcall_call_options), 0, 0, 0, 0, 0, NULL, NULL, NULL, 0 }

/* Options that were checked and encoded once, so that calls through them cost nothing more
 * than the bytes that they send. Opaque, and never changed once it is made. It belongs to no
 * handle: several, in any threads and in forked children, may use it. */
typedef struct nearcall_view nearcall_view;

/*
 * Makes a view with these options, and those of the view former, which may be NULL; options
 * may be NULL, too. Everything is copied. If both have a trace context, or both have an
 * idempotency key, that of former is sent.
 *
 * The handle is needed only for the error message. NEARCALL_E_INVALID_ARGUMENT means that an
 * option is out of range; the message says which. Free the view with nearcall_view_free().
 */
NEARCALL_API int nearcall_view_new(nearcall_client *client, const nearcall_view *former,
                                   const nearcall_call_options *options,
                                   nearcall_view **ret_view);

/* Frees a view. Calls and handles that still use it keep it until they no longer do. view
 * may be NULL. */
NEARCALL_API void nearcall_view_free(nearcall_view *view);

/*
 * Gives the options of the view to all calls that begin from now on, until another view is
 * used: those of nearcall_call(), nearcall_call_codec(), nearcall_request_call() and
 * nearcall_request_send(), and those of generated code. NULL means no view. Calls that have
 * begun keep the options that they have. This costs no system call and no allocation, so it
 * may be done for a single call. nearcall_find() asks the server as often, and waits for it
 * as long, as such a call does.
 *
 * The reply of the last call, its metadata and its error stay as they are, so a program may
 * take a view back before it looks at them.
 *
 * A timeout_ms of 0 means the view's timeout, in all functions that take one. A call that is
 * sent with nearcall_request_send() is sent only once, so attempts, pauses and flags do not
 * concern it. All pairs, the trace context, the key and the function's name share limit
 * extension_bytes_max (4 KiB): a call for which they are too many fails with
 * NEARCALL_E_RESOURCE_EXHAUSTED, not executed.
 */
NEARCALL_API int nearcall_use_view(nearcall_client *client, nearcall_view *view);

/* ---- Calls in flight ---- */

/*
 * Whether nothing of a call's request was sent yet: 1, or 0. Such a call waits in line, or for
 * a connection, and has certainly not run, so a program may cancel it and begin it on another
 * handle instead. A call that was sent may have run, also while nearcall_transport() returns
 * "": the handle may be about to ask the server what became of it.
 */
NEARCALL_API int nearcall_is_unsent(const nearcall_client *client, nearcall_call_id call);

/* ---- Metadata of replies ---- */

/*
 * Reads the metadata that came with a reply or an error: those of the call whose result this
 * handle has returned last. It looks for the next pair from *position on, with this key or,
 * if key is NULL, with any key. If there is one, it sets *ret_pair to the pair, moves
 * *position past it, and returns 1; otherwise it returns 0. Begin with *position 0. The pair
 * is valid for as long as the reply, and its key ends in NUL.
 *
 *     size_t position = 0;
 *     nearcall_metadata pair;
 *     while (nearcall_reply_metadata(client, NULL, &position, &pair))
 *         printf("%s: %.*s\n", pair.key, (int)pair.value_bytes, (const char *)pair.value);
 */
NEARCALL_API int nearcall_reply_metadata(const nearcall_client *client, const char *key,
                                         size_t *position, nearcall_metadata *ret_pair);

#ifdef __cplusplus
}
#endif

#endif
