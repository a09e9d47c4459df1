/* Sealing and opening. */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>

#include "base/limits_gen.h"
#include "transport/tls_state.h"

/* The types of records: from "change cipher spec" to "heartbeat". */
#define RECORD_TYPE_FIRST 20
#define RECORD_TYPE_LAST 24

/* ---- A stream ---- */

static bool is_number(const char *host)
{
    struct in6_addr number;
    return inet_pton(AF_INET, host, &number) == 1 || inet_pton(AF_INET6, host, &number) == 1;
}

/* Whose certificate is wanted. A number is not told to the server: RFC 6066 forbids that. */
static bool expect(const struct nc_openssl *openssl, struct ssl_st *ssl, const char *host)
{
    if (is_number(host))
        return openssl->X509_VERIFY_PARAM_set1_ip_asc(openssl->SSL_get0_param(ssl), host) == 1;
    openssl->SSL_set_hostflags(ssl, NC_X509_NO_PARTIAL_WILDCARDS | NC_X509_NEVER_CHECK_SUBJECT);
    return openssl->SSL_set1_host(ssl, host) == 1 &&
           openssl->SSL_ctrl(ssl, NC_SSL_CTRL_SET_TLSEXT_HOSTNAME, NC_SSL_NAME_OF_HOST, (void *)(uintptr_t)host) == 1;
}

/* Who is named in a file of authorities is trusted, whoever has signed it. */
static bool trust(const struct nc_tls *tls, struct ssl_st *ssl)
{
    const struct nc_openssl *openssl = &tls->openssl;
    if (!tls->paths[NC_TLS_AUTHORITIES])
        return true;
    return openssl->X509_VERIFY_PARAM_set_flags(openssl->SSL_get0_param(ssl), NC_X509_PARTIAL_CHAIN) == 1;
}

/* A session is resumed without another look at the server's certificate, so it ends with that. */
static bool has_expired(const struct nc_openssl *openssl, struct ssl_session_st *session)
{
    const struct x509_st *peer = openssl->SSL_SESSION_get0_peer(session);
    return !peer || openssl->X509_cmp_current_time(openssl->X509_get0_notAfter(peer)) <= 0;
}

static void resume(const struct nc_tls *tls, struct ssl_st *ssl)
{
    if (tls->session && !has_expired(&tls->openssl, tls->session))
        (void)tls->openssl.SSL_set_session(ssl, tls->session);
}

/* Gives both ends to OpenSSL. */
static bool connect_memory(struct nc_tls_stream *stream)
{
    const struct nc_openssl *openssl = &stream->tls->openssl;
    stream->in = openssl->BIO_new(openssl->BIO_s_mem());
    stream->out = openssl->BIO_new(openssl->BIO_s_mem());
    if (!stream->in || !stream->out) {
        (void)openssl->BIO_free(stream->in);
        (void)openssl->BIO_free(stream->out);
        return false;
    }
    openssl->SSL_set0_rbio(stream->ssl, stream->in);
    openssl->SSL_set0_wbio(stream->ssl, stream->out);
    return true;
}

static bool begin(struct nc_tls_stream *stream, const char *host)
{
    const struct nc_openssl *openssl = &stream->tls->openssl;
    stream->ssl = openssl->SSL_new(stream->tls->context);
    if (!stream->ssl || !connect_memory(stream) || !expect(openssl, stream->ssl, host) ||
        !trust(stream->tls, stream->ssl))
        return false;
    resume(stream->tls, stream->ssl);
    openssl->SSL_set_connect_state(stream->ssl);
    return true;
}

static const char *name_of(const struct nc_tls *tls, const char *host)
{
    return tls->server_name ? tls->server_name : host;
}

struct nc_tls_stream *nc_tls_stream_new(struct nc_tls *tls, const char *host)
{
    const struct nc_openssl *openssl = &tls->openssl;
    struct nc_tls_stream *stream = calloc(1, sizeof(*stream));
    if (!stream)
        return NULL;
    stream->tls = tls;
    stream->is_starved = true;
    stream->host = name_of(tls, host);
    (void)openssl->ERR_set_mark();
    bool is_begun = begin(stream, stream->host);
    (void)openssl->ERR_pop_to_mark();
    if (is_begun)
        return stream;
    nc_tls_stream_free(stream);
    return NULL;
}

/* The ticket comes after the handshake, and each connection brings a new one. */
static void keep_session(struct nc_tls_stream *stream)
{
    struct nc_tls *tls = stream->tls;
    if (!stream->is_greeted || stream->error)
        return;
    struct ssl_session_st *session = tls->openssl.SSL_get1_session(stream->ssl);
    if (!session)
        return;
    if (!tls->openssl.SSL_SESSION_is_resumable(session)) {
        tls->openssl.SSL_SESSION_free(session);
        return;
    }
    if (tls->session)
        tls->openssl.SSL_SESSION_free(tls->session);
    tls->session = session;
}

/* Without "shutdown", OpenSSL takes a session whose connection has ended for one that must not be resumed. */
void nc_tls_stream_free(struct nc_tls_stream *stream)
{
    const struct nc_openssl *openssl = &stream->tls->openssl;
    if (stream->ssl) {
        keep_session(stream);
        openssl->SSL_set_shutdown(stream->ssl, NC_SSL_SHUTDOWN_BOTH);
        openssl->SSL_free(stream->ssl);
    }
    nc_buffer_free(&stream->sealed);
    free(stream);
}

static int fail(struct nc_tls_stream *stream, int error)
{
    if (stream->error == 0) {
        stream->error = error;
        stream->is_starved = true;
        if (error == EPROTO)
            nc_tls_explain(stream);
    }
    return stream->error;
}

/* What this side seals of its own accord leaves room for a record of answers. */
static bool is_flooded(const struct nc_tls_stream *stream, size_t bytes)
{
    return nc_buffer_bytes(&stream->sealed) + bytes > NC_TLS_SEALED_BYTES_MAX + NC_TLS_RECORD_BYTES;
}

/* Takes what OpenSSL has sealed. False: there is no memory, or too much waits to be sent, and the stream has failed. */
static bool take_sealed(struct nc_tls_stream *stream)
{
    const struct nc_openssl *openssl = &stream->tls->openssl;
    long bytes = openssl->BIO_ctrl(stream->out, NC_BIO_CTRL_PENDING, 0, NULL);
    if (bytes <= 0)
        return true;
    if (is_flooded(stream, (size_t)bytes)) {
        stream->is_flooding = true;
        (void)fail(stream, EPROTO);
        return false;
    }
    if (nc_buffer_reserve(&stream->sealed, (size_t)bytes) < 0) {
        (void)fail(stream, ENOMEM);
        return false;
    }
    int taken = openssl->BIO_read(stream->out, stream->sealed.data + stream->sealed.end, (int)bytes);
    stream->sealed.end += taken > 0 ? (size_t)taken : 0;
    return true;
}

/* ---- The handshake ---- */

static bool has_whole_record(const struct nc_tls_stream *stream)
{
    uint8_t *data = NULL;
    long bytes = stream->tls->openssl.BIO_ctrl(stream->in, NC_BIO_CTRL_INFO, 0, &data);
    if (bytes < NC_TLS_RECORD_HEADER_BYTES)
        return false;
    return bytes - NC_TLS_RECORD_HEADER_BYTES >= (data[3] << 8 | data[4]);
}

/* SSL_get_error(3) would look at errors that others have left, and during a handshake SSL_want(3) tells of
 * reading even if that has failed. */
static bool has_failed(const struct nc_tls_stream *stream)
{
    const struct nc_openssl *openssl = &stream->tls->openssl;
    return strcmp(openssl->SSL_state_string(stream->ssl), "SSLERR") == 0;
}

static bool wants_more(const struct nc_tls_stream *stream)
{
    return !has_failed(stream) && stream->tls->openssl.SSL_want(stream->ssl) == NC_SSL_WANTS_TO_READ;
}

static int greet(struct nc_tls_stream *stream)
{
    const struct nc_openssl *openssl = &stream->tls->openssl;
    if (openssl->SSL_do_handshake(stream->ssl) == 1) {
        stream->is_greeted = true;
        stream->is_starved = !has_whole_record(stream);
        return 0;
    }
    stream->is_starved = true;
    return wants_more(stream) ? EAGAIN : fail(stream, EPROTO);
}

int nc_tls_greet(struct nc_tls_stream *stream)
{
    const struct nc_openssl *openssl = &stream->tls->openssl;
    if (stream->error)
        return stream->error;
    (void)openssl->ERR_set_mark();
    int r = greet(stream);
    if (!take_sealed(stream))
        r = stream->error;
    (void)openssl->ERR_pop_to_mark();
    return r;
}

bool nc_tls_is_resumed(const struct nc_tls_stream *stream)
{
    return stream->tls->openssl.SSL_session_reused(stream->ssl) == 1;
}

/* ---- Opening ---- */

void *nc_tls_room(struct nc_tls_stream *stream, size_t *ret_bytes)
{
    *ret_bytes = sizeof(stream->room);
    return stream->room;
}

void nc_tls_arrived(struct nc_tls_stream *stream, size_t bytes)
{
    const struct nc_openssl *openssl = &stream->tls->openssl;
    if (!stream->has_arrived)
        stream->is_no_tls = stream->room[0] < RECORD_TYPE_FIRST || stream->room[0] > RECORD_TYPE_LAST;
    stream->has_arrived = true;
    (void)openssl->ERR_set_mark();
    if (openssl->BIO_write(stream->in, stream->room, (int)bytes) != (int)bytes)
        (void)fail(stream, ENOMEM);
    else if (!stream->error)
        stream->is_starved = false;
    (void)openssl->ERR_pop_to_mark();
}

static int refuse_to(int error)
{
    errno = error;
    return -1;
}

static ssize_t open_record(struct nc_tls_stream *stream, void *to, size_t bytes)
{
    const struct nc_openssl *openssl = &stream->tls->openssl;
    size_t opened = 0;
    if (openssl->SSL_read_ex(stream->ssl, to, bytes, &opened) == 1) {
        stream->is_starved = openssl->SSL_pending(stream->ssl) == 0 && !has_whole_record(stream);
        return (ssize_t)opened;
    }
    if (has_failed(stream))
        return refuse_to(fail(stream, EPROTO));
    stream->is_starved = true;
    return wants_more(stream) ? refuse_to(EAGAIN) : 0; /* 0: the peer says that it has sent all */
}

/* Opening may seal something as well: the answer to a peer that wants other keys. */
ssize_t nc_tls_take(struct nc_tls_stream *stream, void *to, size_t bytes)
{
    const struct nc_openssl *openssl = &stream->tls->openssl;
    if (stream->error)
        return refuse_to(stream->error);
    if (stream->is_starved)
        return refuse_to(EAGAIN);
    (void)openssl->ERR_set_mark();
    ssize_t r = open_record(stream, to, bytes);
    int error = errno;
    if (!take_sealed(stream) && r < 0)
        error = stream->error;
    (void)openssl->ERR_pop_to_mark();
    errno = error;
    return r;
}

bool nc_tls_holds(const struct nc_tls_stream *stream)
{
    return !stream->is_starved;
}

/* ---- Sealing ---- */

/* The next bytes of the parts behind so many that were taken, up to a record's: where they lie if they lie
 * together, or else a copy. */
static const uint8_t *next_piece(struct nc_tls_stream *stream, const struct iovec *parts, size_t count,
                                 size_t taken, size_t *ret_bytes)
{
    size_t joined = 0;
    for (size_t i = 0; i < count && joined < NC_TLS_RECORD_BYTES; i++) {
        if (taken >= parts[i].iov_len) {
            taken -= parts[i].iov_len;
            continue;
        }
        const uint8_t *data = (const uint8_t *)parts[i].iov_base + taken;
        size_t bytes = parts[i].iov_len - taken;
        taken = 0;
        if (joined == 0 && (bytes >= NC_TLS_RECORD_BYTES || i + 1 == count)) {
            *ret_bytes = bytes < NC_TLS_RECORD_BYTES ? bytes : NC_TLS_RECORD_BYTES;
            return data;
        }
        if (bytes > NC_TLS_RECORD_BYTES - joined)
            bytes = NC_TLS_RECORD_BYTES - joined;
        memcpy(stream->room + joined, data, bytes);
        joined += bytes;
    }
    *ret_bytes = joined;
    return stream->room;
}

/* Whatever cannot be sealed for want of memory is refused before OpenSSL has any of it. */
static int seal_piece(struct nc_tls_stream *stream, const uint8_t *data, size_t bytes)
{
    size_t sealed = 0;
    if (nc_buffer_reserve(&stream->sealed, bytes + NC_TLS_RECORD_SEAL_BYTES) < 0)
        return ENOMEM;
    if (stream->tls->openssl.SSL_write_ex(stream->ssl, data, bytes, &sealed) != 1 || sealed != bytes)
        return fail(stream, EPROTO);
    return take_sealed(stream) ? 0 : stream->error;
}

static ssize_t seal(struct nc_tls_stream *stream, const struct iovec *parts, size_t count, size_t first)
{
    size_t taken = 0;
    while (nc_buffer_bytes(&stream->sealed) + NC_TLS_RECORD_BYTES + NC_TLS_RECORD_SEAL_BYTES <= NC_TLS_SEALED_BYTES_MAX) {
        size_t bytes;
        const uint8_t *data = next_piece(stream, parts, count, first + taken, &bytes);
        if (bytes == 0)
            break;
        int error = seal_piece(stream, data, bytes);
        if (error)
            return taken ? (ssize_t)taken : refuse_to(error);
        taken += bytes;
    }
    return (ssize_t)taken;
}

ssize_t nc_tls_seal(struct nc_tls_stream *stream, const struct iovec *parts, size_t count, size_t first)
{
    const struct nc_openssl *openssl = &stream->tls->openssl;
    if (stream->error)
        return refuse_to(stream->error);
    (void)openssl->ERR_set_mark();
    ssize_t r = seal(stream, parts, count, first);
    int error = errno;
    (void)openssl->ERR_pop_to_mark();
    errno = error;
    return r;
}

const void *nc_tls_sealed(const struct nc_tls_stream *stream, size_t *ret_bytes)
{
    *ret_bytes = nc_buffer_bytes(&stream->sealed);
    return *ret_bytes ? stream->sealed.data + stream->sealed.start : NULL;
}

void nc_tls_sent(struct nc_tls_stream *stream, size_t bytes)
{
    nc_buffer_consume(&stream->sealed, bytes);
    if (nc_buffer_bytes(&stream->sealed) == 0)
        nc_buffer_trim(&stream->sealed);
}

void nc_tls_stop_sending(struct nc_tls_stream *stream, int error)
{
    stream->send_error = error;
}

int nc_tls_send_error(const struct nc_tls_stream *stream)
{
    return stream->send_error;
}
