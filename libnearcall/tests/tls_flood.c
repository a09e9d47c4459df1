/* A server that wants new keys again and again: what it is answered does not grow without an end, and reading
 * what opens to nothing ends with the turn. Linked with --wrap. */
#include <dlfcn.h>
#include <errno.h>
#include <sys/socket.h>
#include <time.h>

#include "base/clock.h"
#include "base/limits_gen.h"
#include "handle/handle.h"
#include "receive/receive.h"
#include "tls_test.h"
#include "transport/openssl.h"

/* As OpenSSL has them. */
enum { KEEPS_ITS_KEYS, WANTS_NEW_KEYS };

#define UPDATE_BYTES 27
#define FLOOD_UPDATES 8000

/* ---- The server ---- */

struct side {
    struct nc_openssl openssl;
    const struct ssl_method_st *(*TLS_server_method)(void);
    void (*SSL_set_accept_state)(struct ssl_st *ssl);
    int (*SSL_key_update)(struct ssl_st *ssl, int type);
    struct ssl_ctx_st *context;
    struct ssl_st *ssl;
    struct bio_st *in;
    struct bio_st *out;
};

static void find(void *ret_function, const char *name)
{
    void *library = dlopen("libssl.so.3", RTLD_NOW | RTLD_NOLOAD);
    CHECK(library != NULL);
    void *found = dlsym(library, name);
    CHECK(found != NULL);
    memcpy(ret_function, &found, sizeof(found));
    dlclose(library);
}

static void begin_server(struct side *side)
{
    struct nc_openssl *openssl = &side->openssl;
    char words[NC_TLS_WORDS_BYTES];
    CHECK_INT(nc_openssl_load(openssl, words, sizeof(words)), 0);
    find(&side->TLS_server_method, "TLS_server_method");
    find(&side->SSL_set_accept_state, "SSL_set_accept_state");
    find(&side->SSL_key_update, "SSL_key_update");
    side->context = openssl->SSL_CTX_new(side->TLS_server_method());
    CHECK_INT(openssl->SSL_CTX_use_certificate_chain_file(side->context, tls_file("server.pem")), 1);
    CHECK_INT(openssl->SSL_CTX_use_PrivateKey_file(side->context, tls_file("server.key"), NC_SSL_FILETYPE_PEM), 1);
    side->ssl = openssl->SSL_new(side->context);
    side->in = openssl->BIO_new(openssl->BIO_s_mem());
    side->out = openssl->BIO_new(openssl->BIO_s_mem());
    CHECK(side->ssl && side->in && side->out);
    openssl->SSL_set0_rbio(side->ssl, side->in);
    openssl->SSL_set0_wbio(side->ssl, side->out);
    side->SSL_set_accept_state(side->ssl);
}

static void end_server(struct side *side)
{
    side->openssl.SSL_free(side->ssl);
    side->openssl.SSL_CTX_free(side->context);
}

/* What it has to say, up to so many bytes. */
static size_t say(struct side *side, void *to, size_t bytes)
{
    int said = side->openssl.BIO_read(side->out, to, (int)bytes);
    return said > 0 ? (size_t)said : 0;
}

static void hear(struct side *side, struct nc_tls_stream *stream)
{
    size_t bytes;
    const void *sealed = nc_tls_sealed(stream, &bytes);
    if (bytes)
        CHECK_INT(side->openssl.BIO_write(side->in, sealed, (int)bytes), bytes);
    nc_tls_sent(stream, bytes);
}

static void update_keys(struct side *side, int type, int times)
{
    for (int i = 0; i < times; i++) {
        CHECK_INT(side->SSL_key_update(side->ssl, type), 1);
        CHECK_INT(side->openssl.SSL_do_handshake(side->ssl), 1);
    }
}

/* ---- This side ---- */

static size_t arrive(struct side *side, struct nc_tls_stream *stream)
{
    size_t room_bytes;
    void *room = nc_tls_room(stream, &room_bytes);
    size_t bytes = say(side, room, room_bytes);
    if (bytes)
        nc_tls_arrived(stream, bytes);
    return bytes;
}

static struct nc_tls *open_tls(void)
{
    struct nc_tls *tls;
    char words[NC_TLS_WORDS_BYTES];
    const char *path = tls_file("ca.pem");
    struct nc_tls_settings settings = {.authorities = {path, strlen(path)}};
    CHECK_INT(nc_tls_open(&tls, &settings, words, sizeof(words)), 0);
    return tls;
}

static struct nc_tls_stream *greet(struct nc_tls *tls, struct side *side)
{
    char nothing[16];
    struct nc_tls_stream *stream = nc_tls_stream_new(tls, "localhost");
    CHECK(stream != NULL);
    while (nc_tls_greet(stream) == EAGAIN) {
        hear(side, stream);
        (void)side->openssl.SSL_do_handshake(side->ssl);
        CHECK(arrive(side, stream) > 0);
    }
    hear(side, stream);
    CHECK_INT(side->openssl.SSL_do_handshake(side->ssl), 1);
    while (arrive(side, stream) > 0)
        CHECK(nc_tls_take(stream, nothing, sizeof(nothing)) < 0 && errno == EAGAIN); /* tickets */
    return stream;
}

/* Which takes nothing of what it is answered. */
static void answers_end(struct nc_tls *tls)
{
    struct side side;
    char nothing[16];
    size_t sealed_bytes;
    int code;
    bool is_retryable;
    begin_server(&side);
    struct nc_tls_stream *stream = greet(tls, &side);
    update_keys(&side, WANTS_NEW_KEYS, FLOOD_UPDATES);
    int error = EAGAIN;
    while (error == EAGAIN && arrive(&side, stream) > 0) {
        CHECK(nc_tls_take(stream, nothing, sizeof(nothing)) < 0);
        error = errno;
        (void)nc_tls_sealed(stream, &sealed_bytes);
        CHECK(sealed_bytes <= NC_TLS_SEALED_BYTES_MAX + (16 << 10));
    }
    CHECK_INT(error, EPROTO);
    CHECK(strstr(nc_tls_what_failed(stream, &code, &is_retryable), "wants new keys again and again") != NULL);
    CHECK_INT(code, -NEARCALL_E_UNAVAILABLE);
    nc_tls_stream_free(stream);
    end_server(&side);
}

/* A server that takes its answers may want as many as it likes. */
static void some_are_answered(struct nc_tls *tls)
{
    struct side side;
    char nothing[16];
    begin_server(&side);
    struct nc_tls_stream *stream = greet(tls, &side);
    for (int i = 0; i < FLOOD_UPDATES / 100; i++) {
        update_keys(&side, WANTS_NEW_KEYS, 100);
        while (arrive(&side, stream) > 0)
            CHECK(nc_tls_take(stream, nothing, sizeof(nothing)) < 0 && errno == EAGAIN);
        hear(&side, stream);
    }
    nc_tls_stream_free(stream);
    end_server(&side);
}

/* ---- One turn ---- */

#define PIECE_BYTES (10 * UPDATE_BYTES)
#define PIECE_NS (4 * NC_NS_PER_MS)
#define READS_MAX 5 /* of what a turn of 10 ms has time for, one of which is not measured */

static struct side *flooding;
static int reads;
static int64_t ahead_ns;

int __real_clock_gettime(clockid_t clock, struct timespec *ret_now);
int __wrap_clock_gettime(clockid_t clock, struct timespec *ret_now);
int __wrap_clock_gettime(clockid_t clock, struct timespec *ret_now)
{
    int r = __real_clock_gettime(clock, ret_now);
    int64_t now_ns = (int64_t)ret_now->tv_sec * NC_NS_PER_S + ret_now->tv_nsec + ahead_ns;
    *ret_now = nc_timespec(now_ns);
    return r;
}

ssize_t __real_recv(int fd, void *data, size_t bytes, int flags);
ssize_t __wrap_recv(int fd, void *data, size_t bytes, int flags);
ssize_t __wrap_recv(int fd, void *data, size_t bytes, int flags)
{
    if (!flooding)
        return __real_recv(fd, data, bytes, flags);
    reads++;
    ahead_ns += PIECE_NS;
    size_t said = say(flooding, data, PIECE_BYTES < bytes ? PIECE_BYTES : bytes);
    CHECK_INT(said, PIECE_BYTES);
    return (ssize_t)said;
}

static void a_turn_ends(struct nc_tls *tls)
{
    struct side side;
    char nothing[16];
    begin_server(&side);
    nearcall_client *client = test_open("tcp:127.0.0.1:1", 0);
    client->connection.tls = greet(tls, &side);
    update_keys(&side, KEEPS_ITS_KEYS, FLOOD_UPDATES);
    flooding = &side;
    CHECK(nc_receive_sealed(client, nothing, sizeof(nothing), MSG_DONTWAIT) < 0 && errno == EAGAIN);
    flooding = NULL;
    CHECK(reads > 1 && reads <= READS_MAX);
    nc_tls_stream_free(client->connection.tls);
    client->connection.tls = NULL;
    nearcall_close(client);
    end_server(&side);
}

int main(void)
{
    test_begin();
    struct nc_tls *tls = open_tls();
    answers_end(tls);
    some_are_answered(tls);
    a_turn_ends(tls);
    nc_tls_free(tls);
    return 0;
}
