/* ZeroMQ over ipc. */
#include "peer.h"

#include <stdio.h>
#include <zmq.h>

static void *connection;

/* Makes the socket and joins the endpoint. */
static const char *join(const char *endpoint, int type, int (*use)(void *socket, const char *endpoint))
{
    void *context = zmq_ctx_new();

    connection = context != NULL ? zmq_socket(context, type) : NULL;
    return connection != NULL && use(connection, endpoint) == 0 ? NULL : zmq_strerror(zmq_errno());
}

static const char *serve(const char *endpoint)
{
    const char *wrong = join(endpoint, ZMQ_REP, zmq_bind);
    zmq_msg_t message;

    if (wrong != NULL)
        return wrong;
    peer_ready();
    zmq_msg_init(&message);
    while (zmq_msg_recv(&message, connection, 0) >= 0 && zmq_msg_send(&message, connection, 0) >= 0)
        ;
    return zmq_strerror(zmq_errno());
}

static const char *connect_caller(const char *endpoint)
{
    return join(endpoint, ZMQ_REQ, zmq_connect);
}

static int call(void *state)
{
    struct peer_message *message = state;

    if (zmq_send(connection, message->request, message->bytes, 0) != (int)message->bytes ||
        zmq_recv(connection, message->answer, message->bytes, 0) != (int)message->bytes)
        return peer_failed(zmq_strerror(zmq_errno()));
    return 0;
}

static int compare(void *state)
{
    struct peer_message *message = state;

    return call(message) == 0 ? subject_compare(message->answer, message->request, message->bytes) : -1;
}

static void version(char ret_version[PEER_VERSION_BYTES_MAX])
{
    int major, minor, patch;

    zmq_version(&major, &minor, &patch);
    snprintf(ret_version, PEER_VERSION_BYTES_MAX, "libzmq %d.%d.%d", major, minor, patch);
}

int main(int argc, char **argv)
{
    static const struct peer peer = {
        .name = "zeromq",
        .version = version,
        .configuration = "ipc, REQ and REP sockets, zmq_send and zmq_recv with the caller's own memory as in its guide's first example;"
                         " the server passes the message that it got back and answers one at a time",
        .documentation = "https://zguide.zeromq.org/docs/chapter1/",
        .serve = serve,
        .connect = connect_caller,
        .call = call,
        .compare = compare,
    };

    return peer_main(argc, argv, &peer);
}
