/* What a handle has for all its connections over TLS. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "transport/tls_state.h"

/* One protocol name, with its length before it. */
static const unsigned char protocols[] = "\x0Anearcall/1";

static const char *const options[NC_TLS_FILES] = {"tls_authorities", "tls_certificate", "tls_key"};

static int say(char *words, size_t words_bytes, const char *option, const char *path, const char *what)
{
    snprintf(words, words_bytes, "%s %s: %s", option, path, what ? what : "it cannot be read");
    return -1;
}

static int no_memory(char *words, size_t words_bytes)
{
    snprintf(words, words_bytes, "no memory for TLS");
    return -1;
}

/* ---- What OpenSSL needs to know ---- */

/* Otherwise OpenSSL asks at the terminal. */
static int refuse_passphrase(char *room, int bytes, int for_writing, void *argument)
{
    (void)room, (void)bytes, (void)for_writing, (void)argument;
    return -1;
}

static const char *last_reason(const struct nc_openssl *openssl)
{
    return openssl->ERR_reason_error_string(openssl->ERR_peek_last_error());
}

static int trust(const struct nc_tls *tls, struct ssl_ctx_st *context, char *words, size_t words_bytes)
{
    const struct nc_openssl *openssl = &tls->openssl;
    const char *path = tls->paths[NC_TLS_AUTHORITIES];
    openssl->SSL_CTX_set_verify(context, NC_SSL_VERIFY_PEER, NULL);
    if (path && openssl->SSL_CTX_load_verify_file(context, path) != 1)
        return say(words, words_bytes, options[NC_TLS_AUTHORITIES], path, last_reason(openssl));
    if (!path && openssl->SSL_CTX_set_default_verify_paths(context) != 1) {
        snprintf(words, words_bytes, "tls: the authorities that the system trusts cannot be read; give some "
                                     "by tls_authorities");
        return -1;
    }
    return 0;
}

/* This side's own. */
static int identify(const struct nc_tls *tls, struct ssl_ctx_st *context, char *words, size_t words_bytes)
{
    const struct nc_openssl *openssl = &tls->openssl;
    const char *certificate = tls->paths[NC_TLS_CERTIFICATE];
    const char *key = tls->paths[NC_TLS_KEY] ? tls->paths[NC_TLS_KEY] : certificate;
    if (!certificate)
        return 0;
    openssl->SSL_CTX_set_default_passwd_cb(context, refuse_passphrase);
    if (openssl->SSL_CTX_use_certificate_chain_file(context, certificate) != 1)
        return say(words, words_bytes, options[NC_TLS_CERTIFICATE], certificate, last_reason(openssl));
    if (openssl->SSL_CTX_use_PrivateKey_file(context, key, NC_SSL_FILETYPE_PEM) != 1)
        return say(words, words_bytes, options[NC_TLS_KEY], key, last_reason(openssl));
    if (openssl->SSL_CTX_check_private_key(context) != 1)
        return say(words, words_bytes, options[NC_TLS_KEY], key, "it is not the key of the certificate");
    return 0;
}

static int set_up(const struct nc_tls *tls, struct ssl_ctx_st *context, char *words, size_t words_bytes)
{
    const struct nc_openssl *openssl = &tls->openssl;
    long mode = NC_SSL_MODE_PARTIAL_WRITE | NC_SSL_MODE_MOVING_WRITE_BUFFER;
    (void)openssl->SSL_CTX_ctrl(context, NC_SSL_CTRL_MODE, mode, NULL);
    if (openssl->SSL_CTX_ctrl(context, NC_SSL_CTRL_SET_MIN_PROTO_VERSION, NC_SSL_TLS1_3, NULL) != 1 ||
        openssl->SSL_CTX_set_alpn_protos(context, protocols, sizeof(protocols) - 1) != 0)
        return no_memory(words, words_bytes);
    if (trust(tls, context, words, words_bytes) < 0)
        return -1;
    return identify(tls, context, words, words_bytes);
}

/* NULL: words say why. */
static struct ssl_ctx_st *make_context(const struct nc_tls *tls, char *words, size_t words_bytes)
{
    const struct nc_openssl *openssl = &tls->openssl;
    (void)openssl->ERR_set_mark();
    struct ssl_ctx_st *context = openssl->SSL_CTX_new(openssl->TLS_client_method());
    if (!context) {
        (void)no_memory(words, words_bytes);
    } else if (set_up(tls, context, words, words_bytes) < 0) {
        openssl->SSL_CTX_free(context);
        context = NULL;
    }
    (void)openssl->ERR_pop_to_mark();
    return context;
}

/* ---- Files ---- */

/* Looks at the files as they are now; what cannot be read is refused with its reason. OpenSSL will read them as
 * the effective user. */
static int look_at_files(const struct nc_tls *tls, struct nc_tls_file *ret_files, char *words, size_t words_bytes)
{
    memset(ret_files, 0, NC_TLS_FILES * sizeof(*ret_files));
    for (int i = 0; i < NC_TLS_FILES; i++) {
        struct stat status;
        if (!tls->paths[i])
            continue;
        if (stat(tls->paths[i], &status) != 0 || faccessat(AT_FDCWD, tls->paths[i], R_OK, AT_EACCESS) != 0)
            return say(words, words_bytes, options[i], tls->paths[i], strerror(errno));
        ret_files[i] = (struct nc_tls_file){status.st_mtim, status.st_size, status.st_ino};
    }
    return 0;
}

static bool is_same(const struct nc_tls_file *one, const struct nc_tls_file *other)
{
    return one->changed.tv_sec == other->changed.tv_sec && one->changed.tv_nsec == other->changed.tv_nsec &&
           one->bytes == other->bytes && one->inode == other->inode;
}

static bool are_same(const struct nc_tls_file *some, const struct nc_tls_file *others)
{
    for (int i = 0; i < NC_TLS_FILES; i++)
        if (!is_same(&some[i], &others[i]))
            return false;
    return true;
}

static void forget(struct nc_tls *tls)
{
    if (tls->session)
        tls->openssl.SSL_SESSION_free(tls->session);
    if (tls->context)
        tls->openssl.SSL_CTX_free(tls->context);
    nc_tls_distrust(tls);
}

/* A session of before would go on with the former certificates. */
int nc_tls_renew(struct nc_tls *tls, char *words, size_t words_bytes)
{
    struct nc_tls_file files[NC_TLS_FILES];
    if (look_at_files(tls, files, words, words_bytes) < 0)
        return -1;
    if (tls->context && are_same(files, tls->files))
        return 0;
    struct ssl_ctx_st *context = make_context(tls, words, words_bytes);
    if (!context)
        return -1;
    forget(tls);
    tls->context = context;
    memcpy(tls->files, files, sizeof(files));
    return 0;
}

bool nc_tls_is_usable(const struct nc_tls *tls)
{
    return tls->context != NULL;
}

void nc_tls_distrust(struct nc_tls *tls)
{
    tls->context = NULL;
    tls->session = NULL;
}

/* ---- Opening ---- */

/* NULL for a part that was not given, and, with *ret_failed set, for want of memory. */
static char *copy_of(const struct nc_part *part, bool *ret_failed)
{
    if (!part->data)
        return NULL;
    char *copy = strndup(part->data, part->bytes);
    *ret_failed = *ret_failed || !copy;
    return copy;
}

static int keep_settings(struct nc_tls *tls, const struct nc_tls_settings *settings, char *words, size_t words_bytes)
{
    bool failed = false;
    tls->paths[NC_TLS_AUTHORITIES] = copy_of(&settings->authorities, &failed);
    tls->paths[NC_TLS_CERTIFICATE] = copy_of(&settings->certificate, &failed);
    tls->paths[NC_TLS_KEY] = copy_of(&settings->key, &failed);
    tls->server_name = copy_of(&settings->server_name, &failed);
    if (failed)
        return no_memory(words, words_bytes);
    if (tls->paths[NC_TLS_CERTIFICATE] || !tls->paths[NC_TLS_KEY])
        return 0;
    snprintf(words, words_bytes, "tls_key is of no use without the certificate that it belongs to, tls_certificate");
    return -1;
}

int nc_tls_open(struct nc_tls **ret_tls, const struct nc_tls_settings *settings, char *words, size_t words_bytes)
{
    struct nc_tls *tls = calloc(1, sizeof(*tls));
    *ret_tls = tls;
    if (!tls)
        return no_memory(words, words_bytes);
    if (keep_settings(tls, settings, words, words_bytes) < 0 ||
        nc_openssl_load(&tls->openssl, words, words_bytes) < 0)
        return -1;
    return nc_tls_renew(tls, words, words_bytes);
}

void nc_tls_free(struct nc_tls *tls)
{
    if (!tls)
        return;
    forget(tls);
    for (int i = 0; i < NC_TLS_FILES; i++)
        free(tls->paths[i]);
    free(tls->server_name);
    free(tls);
}
