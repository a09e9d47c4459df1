/* TLS, as a matter of memory alone: what is to be sent is sealed into memory, from which others send it, and
 * what others have received is opened from memory. Nothing here makes a system call on a socket, or waits.
 * A signal may come all the same while OpenSSL is at work: what its handler leaves by a jump is never touched
 * again, not even to free it. What was sealed counts as taken, because its bytes can never be withdrawn.
 *
 * Before each use the errors that the program has left in OpenSSL's queue are marked, and afterwards nothing
 * is left there that was not there before. OpenSSL itself empties that queue of the thread in a handshake, when it
 * reads certificates, and when a new session or new keys arrive. */
#ifndef NC_TLS_H
#define NC_TLS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/uio.h>

#include "base/address.h"

#define NC_TLS_WORDS_BYTES 320

/* What one handle has for all its connections: certificates, keys, and the last session, so that the next
 * connection resumes it. */
struct nc_tls;

/* Of one connection. */
struct nc_tls_stream;

/* A part whose data is NULL was not given. */
struct nc_tls_settings {
    struct nc_part authorities; /* of the servers that are trusted; not given: those of the system */
    struct nc_part certificate; /* of this side, with what it was signed by */
    struct nc_part key; /* not given: it is in the file of the certificate */
    struct nc_part server_name; /* not given: the host of the address */
};

/* Loads OpenSSL and reads the files. 0, or -1 with words that name the option. *ret_tls is set in both cases,
 * and NULL if there is no memory. */
int nc_tls_open(struct nc_tls **ret_tls, const struct nc_tls_settings *settings, char *words, size_t words_bytes);
void nc_tls_free(struct nc_tls *tls);

/* Reads the files again if one of them has changed. 0, or -1 with words: what was read before holds on. */
int nc_tls_renew(struct nc_tls *tls, char *words, size_t words_bytes);

bool nc_tls_is_usable(const struct nc_tls *tls);

/* In a child, in which memory may be half changed: what another thread was using is left where it is. */
void nc_tls_distrust(struct nc_tls *tls);

/* For a server that runs on that host. NULL: no memory. */
struct nc_tls_stream *nc_tls_stream_new(struct nc_tls *tls, const char *host);

/* Keeps the session for the next connection, if it is any good. Nothing is sent, nor is the peer told. */
void nc_tls_stream_free(struct nc_tls_stream *stream);

/* The next step of the handshake. 0: done, EAGAIN: the peer's answer is needed, EPROTO: it failed, ENOMEM. In
 * any case something may have been sealed. */
int nc_tls_greet(struct nc_tls_stream *stream);
bool nc_tls_is_resumed(const struct nc_tls_stream *stream);

/* Where received bytes are put next. */
void *nc_tls_room(struct nc_tls_stream *stream, size_t *ret_bytes);
void nc_tls_arrived(struct nc_tls_stream *stream, size_t bytes);

/* Opens what has arrived. The number of bytes, 0: the peer has sent all, -1 with errno: EAGAIN if more
 * has to arrive, EPROTO, ENOMEM. */
ssize_t nc_tls_take(struct nc_tls_stream *stream, void *to, size_t bytes);

/* Whether nc_tls_take() has something to do though nothing arrives. */
bool nc_tls_holds(const struct nc_tls_stream *stream);

/* Seals what follows the first bytes of the parts, up to a limit. How much, or -1 with errno: EPROTO, ENOMEM. */
ssize_t nc_tls_seal(struct nc_tls_stream *stream, const struct iovec *parts, size_t count, size_t first);

/* What was sealed and is not sent yet. */
const void *nc_tls_sealed(const struct nc_tls_stream *stream, size_t *ret_bytes);
void nc_tls_sent(struct nc_tls_stream *stream, size_t bytes);

/* Sending has failed with an errno. What is sealed may have been said not to count as taken, so it is never sent
 * later; what has arrived can still be opened. */
void nc_tls_stop_sending(struct nc_tls_stream *stream, int error);
int nc_tls_send_error(const struct nc_tls_stream *stream); /* 0: none */

static inline bool nc_tls_keeps(const struct nc_tls_stream *stream)
{
    size_t bytes;
    (void)nc_tls_sealed(stream, &bytes);
    return bytes > 0;
}

/* After EPROTO: what has failed, the code of the error, and whether it may be different the next time. */
const char *nc_tls_what_failed(const struct nc_tls_stream *stream, int *ret_code, bool *ret_retryable);

#endif
