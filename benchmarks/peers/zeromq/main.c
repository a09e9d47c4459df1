/* ZeroMQ over ipc. */
#include "peer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zmq.h>

#define TEXT_OF(number) #number
#define TEXT(number) TEXT_OF(number)

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

static void *open_caller(const char *address, size_t payload_bytes)
{
    struct caller *caller = calloc(1, sizeof *caller);

    if (caller == NULL)
        return NULL;
    caller->bytes = payload_bytes;
    caller->request = malloc(payload_bytes);
    caller->answer = calloc(1, payload_bytes);
    caller->socket = socket_at(address, ZMQ_REQ, zmq_connect);
    if (caller->request == NULL || caller->answer == NULL || caller->socket == NULL)
        return NULL;
    subject_fill(caller->request, payload_bytes);
    if (call(caller) != 0)
        return NULL;
    if (memcmp(caller->request, caller->answer, payload_bytes) != 0) {
        fprintf(stderr, "zeromq: %s: the echo differs\n", address);
        return NULL;
    }
    return caller;
}

int main(int argc, char **argv)
{
    static const struct peer peer = {
        .version = TEXT(ZMQ_VERSION_MAJOR) "." TEXT(ZMQ_VERSION_MINOR) "." TEXT(ZMQ_VERSION_PATCH),
        .configuration = "ipc, C on both sides, REQ and REP sockets as in its guide's first example; each caller is a process with its own socket",
        .documentation = "https://zguide.zeromq.org/docs/chapter1/",
        .serve = serve,
        .subject = {.name = "call", .open = open_caller, .call = call},
    };

    return peer_main(argc, argv, &peer);
}
