/* nng over ipc. */
#include "peer.h"

#include <nng/nng.h>
#include <nng/protocol/reqrep0/rep.h>
#include <nng/protocol/reqrep0/req.h>
#include <stdio.h>
#include <string.h>

static nng_socket connection;

/* By default a message of more than a mebibyte, its header included, is dropped. */
static int allow_any_size(void)
{
    return nng_socket_set_size(connection, NNG_OPT_RECVMAXSZ, 0);
}

static const char *serve(const char *endpoint)
{
    nng_msg *message;
    int error;

    if ((error = nng_rep0_open(&connection)) == 0 && (error = allow_any_size()) == 0 &&
        (error = nng_listen(connection, endpoint, NULL, 0)) == 0) {
        peer_ready();
        while ((error = nng_recvmsg(connection, &message, 0)) == 0 && (error = nng_sendmsg(connection, message, 0)) == 0)
            ;
    }
    return nng_strerror(error);
}

static const char *connect_caller(const char *endpoint)
{
    int error;

    if ((error = nng_req0_open(&connection)) == 0 && (error = allow_any_size()) == 0 &&
        (error = nng_dial(connection, endpoint, NULL, 0)) == 0)
        return NULL;
    return nng_strerror(error);
}

/* Makes one call; the answer is compared in full when that is wanted. */
static int exchange(const struct peer_message *sent, int compare)
{
    nng_msg *message = NULL;
    int error, differs;

    if ((error = nng_msg_alloc(&message, sent->bytes)) != 0)
        return peer_failed(nng_strerror(error));
    memcpy(nng_msg_body(message), sent->request, sent->bytes);
    if ((error = nng_sendmsg(connection, message, 0)) != 0) {
        nng_msg_free(message);
        return peer_failed(nng_strerror(error));
    }
    if ((error = nng_recvmsg(connection, &message, 0)) != 0)
        return peer_failed(nng_strerror(error));
    differs = nng_msg_len(message) != sent->bytes || (compare && memcmp(nng_msg_body(message), sent->request, sent->bytes) != 0);
    nng_msg_free(message);
    return differs ? peer_failed("the echo differs") : 0;
}

static int call(void *message)
{
    return exchange(message, 0);
}

static int compare(void *message)
{
    return exchange(message, 1);
}

static void version(char ret_version[PEER_VERSION_BYTES_MAX])
{
    snprintf(ret_version, PEER_VERSION_BYTES_MAX, "nng %s", nng_version());
}

int main(int argc, char **argv)
{
    static const struct peer peer = {
        .name = "nng",
        .version = version,
        .configuration = "ipc, REQ and REP sockets; the server passes the message that it got back and answers one at a time;"
                         " a caller copies its bytes into a message and reads the answer where it is; no limit of size",
        .documentation = "https://nng.nanomsg.org/man/v1.5.0/nng_req.7.html",
        .serve = serve,
        .connect = connect_caller,
        .call = call,
        .compare = compare,
    };

    return peer_main(argc, argv, &peer);
}
