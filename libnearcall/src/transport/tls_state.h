/* What the files of TLS know of each other. */
#ifndef NC_TLS_STATE_H
#define NC_TLS_STATE_H

#include <stdbool.h>
#include <sys/stat.h>
#include <time.h>

#include "base/buffer.h"
#include "transport/openssl.h"
#include "transport/tls.h"

/* The most that one record holds, and what it may take sealed. */
#define NC_TLS_RECORD_BYTES 16384
#define NC_TLS_RECORD_HEADER_BYTES 5
#define NC_TLS_RECORD_SEAL_BYTES 512

enum { NC_TLS_AUTHORITIES, NC_TLS_CERTIFICATE, NC_TLS_KEY, NC_TLS_FILES };

/* How a file was when it was read. */
struct nc_tls_file {
    struct timespec changed;
    off_t bytes;
    ino_t inode;
};

struct nc_tls {
    struct nc_openssl openssl;
    char *paths[NC_TLS_FILES]; /* NULL: not given */
    char *server_name; /* NULL: the host of the address */
    struct nc_tls_file files[NC_TLS_FILES];
    struct ssl_ctx_st *context; /* NULL: to be made */
    struct ssl_session_st *session; /* NULL: none */
};

struct nc_tls_stream {
    struct nc_tls *tls;
    struct ssl_st *ssl;
    const char *host; /* whose certificate is wanted; as long-lived as the handle */
    struct bio_st *in; /* what has arrived; both belong to ssl */
    struct bio_st *out; /* what OpenSSL has just sealed */
    struct nc_buffer sealed; /* what is to be sent */
    bool has_arrived; /* something has */
    bool is_no_tls; /* and it was no TLS */
    bool is_greeted;
    bool is_flooding; /* the peer wants answers, and takes none */
    bool is_starved; /* OpenSSL needs more to open something */
    int error; /* not 0: nothing can be sealed or opened any more */
    int send_error; /* not 0: nothing may be sent any more */
    int code; /* of the failure, positive */
    bool is_retryable;
    char words[NC_TLS_WORDS_BYTES];
    /* Received bytes before they go to OpenSSL, or parts that are joined into one record. */
    uint8_t room[NC_TLS_RECORD_BYTES + NC_TLS_RECORD_SEAL_BYTES];
};

/* OpenSSL has failed with EPROTO: finds the words for it. */
void nc_tls_explain(struct nc_tls_stream *stream);

#endif
