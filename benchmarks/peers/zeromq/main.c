/* ZeroMQ over ipc. */
#include "peer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zmq.h>

enum { ENDPOINT_BYTES_MAX = 256 };

struct caller {
    void *socket;
    size_t bytes;
    uint8_t *request;
    uint8_t *answer;
};

/* Writes ZeroMQ's form of an address; -1 after a message on stderr. */
static int endpoint_of(const char *address, char *ret_endpoint)
{
    const char *path = subject_path(address);

    if (path == NULL)
        return -1;
    if (snprintf(ret_endpoint, ENDPOINT_BYTES_MAX, "ipc://%s", path) >= ENDPOINT_BYTES_MAX) {
        fprintf(stderr, "zeromq: %s: too long\n", path);
        return -1;
    }
    return 0;
}

/* Returns a socket of that type, and whether joining the endpoint did. */
static void *socket_at(const char *address, int type, int (*join)(void *socket, const char *endpoint))
{
    char endpoint[ENDPOINT_BYTES_MAX];
    void *context, *socket;

    if (endpoint_of(address, endpoint) != 0)
        return NULL;
    context = zmq_ctx_new();
    socket = context != NULL ? zmq_socket(context, type) : NULL;
    if (socket == NULL || join(socket, endpoint) != 0) {
        fprintf(stderr, "zeromq: %s: %s\n", endpoint, zmq_strerror(zmq_errno()));
        return NULL;
    }
    return socket;
}

static int serve(const char *address)
{
    void *socket = socket_at(address, ZMQ_REP, zmq_bind);
    zmq_msg_t message;

    if (socket == NULL)
        return -1;
    peer_ready(address);
    zmq_msg_init(&message);
    while (zmq_msg_recv(&message, socket, 0) >= 0 && zmq_msg_send(&message, socket, 0) >= 0)
        ;
    fprintf(stderr, "zeromq: %s\n", zmq_strerror(zmq_errno()));
    return -1;
}

static int call(void *state)
{
    struct caller *caller = state;

    if (zmq_send(caller->socket, caller->request, caller->bytes, 0) != (int)caller->bytes ||
        zmq_recv(caller->socket, caller->answer, caller->bytes, 0) != (int)caller->bytes) {
        fprintf(stderr, "zeromq: %s\n", zmq_strerror(zmq_errno()));
        return -1;
    }
    return 0;
}

static int compare(void *state)
{
    struct caller *caller = state;

    if (call(caller) != 0)
        return -1;
    if (memcmp(caller->request, caller->answer, caller->bytes) != 0) {
        fprintf(stderr, "zeromq: the echo differs\n");
        return -1;
    }
    return 0;
}

static void version(char ret_version[PEER_VERSION_BYTES_MAX])
{
    int major, minor, patch;

    zmq_version(&major, &minor, &patch);
    snprintf(ret_version, PEER_VERSION_BYTES_MAX, "libzmq %d.%d.%d", major, minor, patch);
}

static void *open_caller(const struct subject *subject, const char *address, size_t payload_bytes)
{
    struct caller *caller = calloc(1, sizeof *caller);

    (void)subject;
    if (caller == NULL)
        return NULL;
    caller->bytes = payload_bytes;
    caller->request = malloc(payload_bytes);
    caller->answer = calloc(1, payload_bytes);
    caller->socket = socket_at(address, ZMQ_REQ, zmq_connect);
    if (caller->request == NULL || caller->answer == NULL || caller->socket == NULL)
        return NULL;
    peer_fill(caller->request, payload_bytes);
    return compare(caller) == 0 ? caller : NULL;
}

int main(int argc, char **argv)
{
    static const struct peer peer = {
        .version = version,
        .configuration = "ipc, REQ and REP sockets, zmq_send and zmq_recv with the caller's own memory as in its guide's first example;"
                         " the server passes the message that it got back and answers one at a time",
        .documentation = "https://zguide.zeromq.org/docs/chapter1/",
        .serve = serve,
        .subject = {.name = "call", .open = open_caller, .call = call},
        .compare = compare,
    };

    return peer_main(argc, argv, &peer);
}
