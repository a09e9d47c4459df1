/* nng over ipc. */
#include "peer.h"

#include <nng/nng.h>
#include <nng/protocol/reqrep0/rep.h>
#include <nng/protocol/reqrep0/req.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { URL_BYTES_MAX = 256 };

struct caller {
    nng_socket socket;
    size_t bytes;
    uint8_t *request;
};

static int failed(const char *what, int error)
{
    fprintf(stderr, "nng: %s: %s\n", what, nng_strerror(error));
    return -1;
}

/* Writes nng's form of an address; -1 after a message on stderr. */
static int url_of(const char *address, char *ret_url)
{
    const char *path = subject_path(address);

    if (path == NULL)
        return -1;
    if (snprintf(ret_url, URL_BYTES_MAX, "ipc://%s", path) >= URL_BYTES_MAX) {
        fprintf(stderr, "nng: %s: too long\n", path);
        return -1;
    }
    return 0;
}

/* By default a message of more than a mebibyte, its header included, is dropped. */
static int allow_any_size(nng_socket socket)
{
    return nng_socket_set_size(socket, NNG_OPT_RECVMAXSZ, 0);
}

static int serve(const char *address)
{
    char url[URL_BYTES_MAX];
    nng_socket socket;
    nng_msg *message;
    int error;

    if (url_of(address, url) != 0)
        return -1;
    if ((error = nng_rep0_open(&socket)) != 0 || (error = allow_any_size(socket)) != 0 ||
        (error = nng_listen(socket, url, NULL, 0)) != 0)
        return failed(url, error);
    peer_ready(address);
    while ((error = nng_recvmsg(socket, &message, 0)) == 0 && (error = nng_sendmsg(socket, message, 0)) == 0)
        ;
    return failed(url, error);
}

/* Makes one call; the answer is compared in full when that is wanted. */
static int exchange(const struct caller *caller, int compare)
{
    nng_msg *message = NULL;
    int error, differs;

    if ((error = nng_msg_alloc(&message, caller->bytes)) != 0)
        return failed("message", error);
    memcpy(nng_msg_body(message), caller->request, caller->bytes);
    if ((error = nng_sendmsg(caller->socket, message, 0)) != 0) {
        nng_msg_free(message);
        return failed("send", error);
    }
    if ((error = nng_recvmsg(caller->socket, &message, 0)) != 0)
        return failed("receive", error);
    differs = nng_msg_len(message) != caller->bytes ||
              (compare && memcmp(nng_msg_body(message), caller->request, caller->bytes) != 0);
    nng_msg_free(message);
    if (differs)
        fprintf(stderr, "nng: the echo differs\n");
    return differs ? -1 : 0;
}

static int call(void *state)
{
    return exchange(state, 0);
}

static int compare(void *state)
{
    return exchange(state, 1);
}

static void version(char ret_version[PEER_VERSION_BYTES_MAX])
{
    snprintf(ret_version, PEER_VERSION_BYTES_MAX, "nng %s", nng_version());
}

static void *open_caller(const struct subject *subject, const char *address, size_t payload_bytes)
{
    struct caller *caller = calloc(1, sizeof *caller);
    char url[URL_BYTES_MAX];
    int error;

    (void)subject;
    if (caller == NULL || url_of(address, url) != 0)
        return NULL;
    caller->bytes = payload_bytes;
    caller->request = malloc(payload_bytes);
    if (caller->request == NULL)
        return NULL;
    peer_fill(caller->request, payload_bytes);
    if ((error = nng_req0_open(&caller->socket)) != 0 || (error = allow_any_size(caller->socket)) != 0 ||
        (error = nng_dial(caller->socket, url, NULL, 0)) != 0) {
        failed(url, error);
        return NULL;
    }
    return compare(caller) == 0 ? caller : NULL;
}

int main(int argc, char **argv)
{
    static const struct peer peer = {
        .version = version,
        .configuration = "ipc, REQ and REP sockets; the server passes the message that it got back and answers one at a time;"
                         " a caller copies its bytes into a message and reads the answer where it is; no limit of size",
        .documentation = "https://nng.nanomsg.org/man/v1.5.0/nng_req.7.html",
        .serve = serve,
        .subject = {.name = "call", .open = open_caller, .call = call},
        .compare = compare,
    };

    return peer_main(argc, argv, &peer);
}
