/* What a failure of TLS means to the people who have to mend it. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "nearcall.h"
#include "transport/tls_state.h"

#define REASON_MASK 0x7FFFFFul
#define LIBRARY_SHIFT 23
#define LIBRARY_MASK 0xFFul
#define LIBRARY_SSL 20
#define REASON_UNSUPPORTED_PROTOCOL 258
#define REASON_WRONG_SSL_VERSION 266

/* Results of OpenSSL's look at a certificate. */
enum {
    CERTIFICATE_IS_GOOD = 0,
    NO_AUTHORITY_FOUND = 2,
    NOT_VALID_YET = 9,
    HAS_EXPIRED = 10,
    SELF_SIGNED = 18,
    SELF_SIGNED_IN_CHAIN = 19,
    NO_AUTHORITY_HERE = 20,
    NOT_VERIFIABLE = 21,
    OTHER_HOST = 62,
    OTHER_NUMBER = 64
};

static void fill(struct nc_tls_stream *stream, int code, const char *words)
{
    stream->code = code;
    stream->is_retryable = false;
    snprintf(stream->words, sizeof(stream->words), "%s", words);
}

static const char *advice_on(long result)
{
    switch (result) {
    case NO_AUTHORITY_FOUND:
    case SELF_SIGNED:
    case SELF_SIGNED_IN_CHAIN:
    case NO_AUTHORITY_HERE:
    case NOT_VERIFIABLE:
        return "; no authority that this side trusts has signed it, see tls_authorities";
    case OTHER_HOST:
    case OTHER_NUMBER:
        return "; if it is the right server, give the name in its certificate by tls_server_name";
    case NOT_VALID_YET:
        return "; is the clock of this machine right?";
    default:
        return "";
    }
}

static void certificate_is_bad(struct nc_tls_stream *stream, long result)
{
    fill(stream, -NEARCALL_E_UNAUTHENTICATED, "");
    snprintf(stream->words, sizeof(stream->words), "the server's certificate is not accepted for %.100s: %s%s",
             stream->host, stream->tls->openssl.X509_verify_cert_error_string(result), advice_on(result));
}

/* What the server has said before it closed; NULL: nothing that has words of its own. */
static const char *words_of_alert(unsigned alert)
{
    switch (alert) {
    case 40: return "the server and this side have no way in common to agree on keys";
    case 42:
    case 43:
    case 46: return "the server does not accept this side's certificate, see its log";
    case 44: return "the server does not accept this side's certificate: it was revoked";
    case 45: return "the server does not accept this side's certificate: it has expired";
    case 48: return "the server does not accept this side's certificate: it trusts no authority that has signed it";
    case 49: return "the server does not let this side's certificate in";
    case 70: return "the server speaks no TLS 1.3";
    case 112: return "the server has no certificate for the name that it is called by, see tls_server_name";
    case 116: return "the server wants a certificate of this side; give it by tls_certificate and tls_key";
    case 120: return "the server speaks TLS, but another protocol than nearcall/1";
    default: return NULL;
    }
}

static const char *words_of_reason(unsigned reason)
{
    if (reason == REASON_UNSUPPORTED_PROTOCOL || reason == REASON_WRONG_SSL_VERSION)
        return "the server speaks no TLS 1.3";
    return reason > NC_ERR_REASON_OF_ALERT ? words_of_alert(reason - NC_ERR_REASON_OF_ALERT) : NULL;
}

/* OpenSSL has just put the error on top of the queue. */
static void failed(struct nc_tls_stream *stream)
{
    const struct nc_openssl *openssl = &stream->tls->openssl;
    unsigned long error = openssl->ERR_peek_last_error();
    bool is_of_tls = (error >> LIBRARY_SHIFT & LIBRARY_MASK) == LIBRARY_SSL;
    const char *words = is_of_tls ? words_of_reason((unsigned)(error & REASON_MASK)) : NULL;
    const char *reason = openssl->ERR_reason_error_string(error);
    if (words) {
        fill(stream, -NEARCALL_E_UNAUTHENTICATED, words);
        return;
    }
    fill(stream, -NEARCALL_E_UNAVAILABLE, "");
    stream->is_retryable = stream->is_greeted;
    snprintf(stream->words, sizeof(stream->words), "TLS failed: %s", reason ? reason : "OpenSSL does not say why");
}

void nc_tls_explain(struct nc_tls_stream *stream)
{
    long result = stream->tls->openssl.SSL_get_verify_result(stream->ssl);
    if (stream->is_no_tls)
        fill(stream, -NEARCALL_E_UNAVAILABLE, "the server speaks no TLS; is it one for tcp: addresses?");
    else if (stream->is_flooding)
        fill(stream, -NEARCALL_E_UNAVAILABLE, "TLS failed: the server wants new keys again and again, and takes no answer");
    else if (!stream->is_greeted && result != CERTIFICATE_IS_GOOD)
        certificate_is_bad(stream, result);
    else
        failed(stream);
}

const char *nc_tls_what_failed(const struct nc_tls_stream *stream, int *ret_code, bool *ret_retryable)
{
    if (stream->error != EPROTO)
        return strerror(EPROTO); /* it is not TLS that has failed */
    *ret_code = stream->code;
    *ret_retryable = stream->is_retryable;
    return stream->words;
}
