/* The functions of OpenSSL 3 that "tls:" needs. They are found in libssl.so.3 when such an address is
 * opened, so that the library itself depends on libc alone, and they are declared here, so that no header
 * of OpenSSL is needed to build it. None of them is ever given a socket: see tls.h. */
#ifndef NC_OPENSSL_H
#define NC_OPENSSL_H

#include <stddef.h>
#include <stdint.h>

struct asn1_string_st;
struct bio_method_st;
struct bio_st;
struct ssl_ctx_st;
struct ssl_method_st;
struct ssl_session_st;
struct ssl_st;
struct x509_st;
struct x509_store_ctx_st;
struct X509_VERIFY_PARAM_st;

typedef int nc_openssl_verify_function(int is_good, struct x509_store_ctx_st *context);
typedef int nc_openssl_passphrase_function(char *room, int bytes, int for_writing, void *argument);

#define NC_OPENSSL_FUNCTIONS(X)                                                                          \
    X(int, OPENSSL_init_ssl, (uint64_t options, const void *settings))                                   \
    X(const struct ssl_method_st *, TLS_client_method, (void))                                           \
    X(struct ssl_ctx_st *, SSL_CTX_new, (const struct ssl_method_st *method))                            \
    X(void, SSL_CTX_free, (struct ssl_ctx_st *context))                                                  \
    X(long, SSL_CTX_ctrl, (struct ssl_ctx_st *context, int command, long number, void *argument))        \
    X(void, SSL_CTX_set_verify,                                                                          \
      (struct ssl_ctx_st *context, int mode, nc_openssl_verify_function *function))                      \
    X(int, SSL_CTX_set_default_verify_paths, (struct ssl_ctx_st *context))                               \
    X(int, SSL_CTX_load_verify_file, (struct ssl_ctx_st *context, const char *path))                     \
    X(int, SSL_CTX_use_certificate_chain_file, (struct ssl_ctx_st *context, const char *path))           \
    X(int, SSL_CTX_use_PrivateKey_file, (struct ssl_ctx_st *context, const char *path, int type))        \
    X(int, SSL_CTX_check_private_key, (const struct ssl_ctx_st *context))                                \
    X(void, SSL_CTX_set_default_passwd_cb,                                                               \
      (struct ssl_ctx_st *context, nc_openssl_passphrase_function *function))                            \
    X(int, SSL_CTX_set_alpn_protos,                                                                      \
      (struct ssl_ctx_st *context, const unsigned char *protocols, unsigned bytes))                      \
    X(struct ssl_st *, SSL_new, (struct ssl_ctx_st *context))                                            \
    X(void, SSL_free, (struct ssl_st *ssl))                                                              \
    X(long, SSL_ctrl, (struct ssl_st *ssl, int command, long number, void *argument))                    \
    X(void, SSL_set0_rbio, (struct ssl_st *ssl, struct bio_st *bio))                                     \
    X(void, SSL_set0_wbio, (struct ssl_st *ssl, struct bio_st *bio))                                     \
    X(void, SSL_set_connect_state, (struct ssl_st *ssl))                                                 \
    X(int, SSL_do_handshake, (struct ssl_st *ssl))                                                       \
    X(const char *, SSL_state_string, (const struct ssl_st *ssl))                                        \
    X(int, SSL_read_ex, (struct ssl_st *ssl, void *to, size_t bytes, size_t *ret_bytes))                 \
    X(int, SSL_write_ex, (struct ssl_st *ssl, const void *from, size_t bytes, size_t *ret_bytes))        \
    X(int, SSL_want, (const struct ssl_st *ssl))                                                         \
    X(int, SSL_pending, (const struct ssl_st *ssl))                                                      \
    X(void, SSL_set_shutdown, (struct ssl_st *ssl, int mode))                                            \
    X(int, SSL_set1_host, (struct ssl_st *ssl, const char *name))                                        \
    X(void, SSL_set_hostflags, (struct ssl_st *ssl, unsigned flags))                                     \
    X(struct X509_VERIFY_PARAM_st *, SSL_get0_param, (struct ssl_st *ssl))                               \
    X(long, SSL_get_verify_result, (const struct ssl_st *ssl))                                           \
    X(struct ssl_session_st *, SSL_get1_session, (struct ssl_st *ssl))                                   \
    X(int, SSL_set_session, (struct ssl_st *ssl, struct ssl_session_st *session))                        \
    X(int, SSL_session_reused, (const struct ssl_st *ssl))                                               \
    X(void, SSL_SESSION_free, (struct ssl_session_st *session))                                          \
    X(int, SSL_SESSION_is_resumable, (const struct ssl_session_st *session))                             \
    X(struct x509_st *, SSL_SESSION_get0_peer, (struct ssl_session_st *session))                         \
    X(const struct asn1_string_st *, X509_get0_notAfter, (const struct x509_st *certificate))            \
    X(int, X509_cmp_current_time, (const struct asn1_string_st *time))                                   \
    X(int, X509_VERIFY_PARAM_set1_ip_asc, (struct X509_VERIFY_PARAM_st *parameters, const char *number)) \
    X(int, X509_VERIFY_PARAM_set_flags, (struct X509_VERIFY_PARAM_st *parameters, unsigned long flags))  \
    X(const char *, X509_verify_cert_error_string, (long result))                                        \
    X(const struct bio_method_st *, BIO_s_mem, (void))                                                   \
    X(struct bio_st *, BIO_new, (const struct bio_method_st *method))                                    \
    X(int, BIO_free, (struct bio_st *bio))                                                               \
    X(int, BIO_read, (struct bio_st *bio, void *to, int bytes))                                          \
    X(int, BIO_write, (struct bio_st *bio, const void *from, int bytes))                                 \
    X(long, BIO_ctrl, (struct bio_st *bio, int command, long number, void *argument))                    \
    X(int, ERR_set_mark, (void))                                                                         \
    X(int, ERR_pop_to_mark, (void))                                                                      \
    X(unsigned long, ERR_peek_last_error, (void))                                                        \
    X(const char *, ERR_reason_error_string, (unsigned long error))

/* Belongs to one handle. What is in there does not change once it is loaded. */
struct nc_openssl {
#define NC_OPENSSL_MEMBER(type, name, parameters) type(*name) parameters;
    NC_OPENSSL_FUNCTIONS(NC_OPENSSL_MEMBER)
#undef NC_OPENSSL_MEMBER
};

/* Numbers that OpenSSL's headers give names; they are part of what programs are linked with. */
enum {
    NC_OPENSSL_NO_ATEXIT = 0x80000,
    NC_SSL_VERIFY_PEER = 1,
    NC_SSL_FILETYPE_PEM = 1,
    NC_SSL_CTRL_MODE = 33,
    NC_SSL_CTRL_SET_TLSEXT_HOSTNAME = 55,
    NC_SSL_CTRL_SET_MIN_PROTO_VERSION = 123,
    NC_SSL_NAME_OF_HOST = 0,
    NC_SSL_TLS1_3 = 0x0304,
    NC_SSL_MODE_PARTIAL_WRITE = 1,
    NC_SSL_MODE_MOVING_WRITE_BUFFER = 2,
    NC_SSL_WANTS_TO_READ = 3,
    NC_SSL_SHUTDOWN_BOTH = 3,
    NC_X509_NO_PARTIAL_WILDCARDS = 0x4,
    NC_X509_NEVER_CHECK_SUBJECT = 0x20,
    NC_X509_PARTIAL_CHAIN = 0x80000,
    NC_BIO_CTRL_INFO = 3,
    NC_BIO_CTRL_PENDING = 10,
    NC_ERR_REASON_OF_ALERT = 1000 /* the reason of an error that is a peer's alert, less the alert's number */
};

/* Never undone: OpenSSL cannot be taken out of a process again. 0, or -1 with words. */
int nc_openssl_load(struct nc_openssl *openssl, char *words, size_t words_bytes);

#endif
