/* libnearcall: raw bytes to echo(), one call at a time and many; values to ack(0, 1). */
#include <nearcall.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "caller.h"
#include "functions.h"

/* A server gives shared memory to who has called some times. */
enum { IN_FLIGHT = 64, CALLS_UNTIL_MEMORY_MAX = 256 };

struct near {
    nearcall_client *client;
    nearcall_function *function; /* NULL for calls by name */
    nearcall_reply reply;
    size_t bytes;
    uint8_t *payload;
};

static int complain(const struct near *near, const char *what)
{
    fprintf(stderr, "caller: %s: %s\n", what, nearcall_error_message(near->client));
    return -1;
}

static struct near *open_client(const char *address)
{
    struct near *near = calloc(1, sizeof *near);

    if (near == NULL)
        return NULL;
    if (nearcall_open(&near->client, address, NULL) != NEARCALL_OK || nearcall_connect(near->client, 0) != NEARCALL_OK) {
        complain(near, address);
        return NULL;
    }
    return near;
}

static int call_raw(void *state)
{
    struct near *near = state;

    if (nearcall_call(near->client, "echo", near->payload, near->bytes, 0, &near->reply) != NEARCALL_OK)
        return complain(near, "echo");
    if (near->reply.bytes != near->bytes) {
        fprintf(stderr, "caller: echo of %zu bytes is %zu bytes\n", near->bytes, near->reply.bytes);
        return -1;
    }
    return 0;
}

/* Opens a client that has a payload to send. */
static struct near *open_with_payload(const char *address, size_t payload_bytes)
{
    struct near *near = open_client(address);

    if (near == NULL)
        return NULL;
    near->bytes = payload_bytes;
    near->payload = malloc(payload_bytes);
    if (near->payload == NULL)
        return NULL;
    subject_fill(near->payload, payload_bytes);
    return near;
}

static int find(struct near *near, const char *name)
{
    if (nearcall_find(near->client, name, strlen(name), 0, &near->function) != NEARCALL_OK)
        return complain(near, name);
    return 0;
}

/* Compares the last answer in full. */
static int compare(const struct near *near)
{
    if (memcmp(near->reply.data, near->payload, near->bytes) != 0) {
        fprintf(stderr, "caller: the echo differs\n");
        return -1;
    }
    return 0;
}

/* Calls until the server has given shared memory; to have been given none is no error,
 * the report tells. */
static int reach_memory(struct near *near)
{
    for (int i = 0; i < CALLS_UNTIL_MEMORY_MAX && transport_of(near->client) == TRANSPORT_SOCKET; i++) {
        if (call_raw(near) != 0)
            return -1;
    }
    return 0;
}

static void *open_raw(const char *address, size_t payload_bytes)
{
    struct near *near = open_with_payload(address, payload_bytes);

    if (near == NULL || call_raw(near) != 0 || compare(near) != 0)
        return NULL;
    return strstr(address, "shm=off") != NULL || reach_memory(near) == 0 ? near : NULL;
}

static int send_echo(struct near *near, nearcall_call_id *ret_call)
{
    int r = nearcall_request(near->client, near->function, NEARCALL_CODEC_RAW);

    if (r == NEARCALL_OK) {
        nearcall_put_raw(near->client, near->payload, near->bytes);
        r = nearcall_request_send(near->client, 0, ret_call);
    }
    return r == NEARCALL_OK ? 0 : complain(near, "echo");
}

/* Sends as many calls as a handle holds, then collects them. */
static int call_pipelined(void *state)
{
    struct near *near = state;
    nearcall_call_id calls[IN_FLIGHT];

    for (int i = 0; i < IN_FLIGHT; i++) {
        if (send_echo(near, &calls[i]) != 0)
            return -1;
    }
    for (int i = 0; i < IN_FLIGHT; i++) {
        if (nearcall_wait(near->client, calls[i], &near->reply) != NEARCALL_OK)
            return complain(near, "echo");
        if (near->reply.bytes != near->bytes) {
            fprintf(stderr, "caller: echo of %zu bytes is %zu bytes\n", near->bytes, near->reply.bytes);
            return -1;
        }
    }
    return 0;
}

static void *open_pipelined(const char *address, size_t payload_bytes)
{
    struct near *near = open_with_payload(address, payload_bytes);

    if (near == NULL || find(near, "echo") != 0)
        return NULL;
    return call_pipelined(near) == 0 && compare(near) == 0 ? near : NULL;
}

static int call_typed(void *state)
{
    struct near *near = state;
    nearcall_reader reader;
    nearcall_value value;
    int r = nearcall_request(near->client, near->function, NEARCALL_CODEC_MSGPACK);

    if (r == NEARCALL_OK) {
        nearcall_put_array(near->client, 2);
        nearcall_put_int(near->client, 0);
        nearcall_put_int(near->client, 1);
        r = nearcall_request_call(near->client, 0, &near->reply);
    }
    if (r != NEARCALL_OK)
        return complain(near, "ack");
    reader.next = near->reply.data;
    reader.end = near->reply.data + near->reply.bytes;
    if (nearcall_read(&reader, &value) != NEARCALL_OK || value.type != NEARCALL_INT || value.as.integer != 2) {
        fprintf(stderr, "caller: ack(0, 1) is not 2\n");
        return -1;
    }
    return 0;
}

static void *open_typed(const char *address, size_t payload_bytes)
{
    struct near *near = open_client(address);

    (void)payload_bytes;
    if (near == NULL || find(near, "ack") != 0)
        return NULL;
    return call_typed(near) == 0 ? near : NULL;
}

static int transport(const void *state)
{
    const struct near *near = state;

    return transport_of(near->client);
}

static int call_goroutine(void *state)
{
    struct near *near = state;
    int r = nearcall_request(near->client, near->function, NEARCALL_CODEC_MSGPACK);

    if (r == NEARCALL_OK) {
        nearcall_put_array(near->client, 0);
        r = nearcall_request_call(near->client, 0, &near->reply);
    }
    if (r != NEARCALL_OK)
        return complain(near, "goroutine");
    return near->reply.bytes == 1 && near->reply.data[0] == 1 ? 0 : -1;
}

static void *open_goroutine(const char *address, size_t payload_bytes)
{
    struct near *near = open_client(address);

    (void)payload_bytes;
    if (near == NULL || find(near, "goroutine") != 0)
        return NULL;
    return call_goroutine(near) == 0 ? near : NULL;
}

/* Goes on in a child; this process waits for its end, and serves it meanwhile. */
static int become_child(void)
{
    int status;
    pid_t child = fork();

    if (child <= 0)
        return child;
    close(STDIN_FILENO);
    close(STDOUT_FILENO);
    if (waitpid(child, &status, 0) != child)
        status = 1;
    exit(status != 0);
}

static void *open_child_raw(const char *address, size_t payload_bytes)
{
    struct near *near = open_raw(address, payload_bytes);

    return near != NULL && become_child() == 0 && call_raw(near) == 0 && compare(near) == 0 ? near : NULL;
}

static void *open_child_goroutine(const char *address, size_t payload_bytes)
{
    struct near *near = open_goroutine(address, payload_bytes);

    return near != NULL && become_child() == 0 && call_goroutine(near) == 0 ? near : NULL;
}

const struct subject subject_raw = {.name = "raw", .open = open_raw, .call = call_raw, .transport = transport};
const struct subject subject_typed = {.name = "typed", .open = open_typed, .call = call_typed, .transport = transport};
const struct subject subject_goroutine = {
    .name = "goroutine", .open = open_goroutine, .call = call_goroutine, .transport = transport};
const struct subject subject_child_raw = {
    .name = "child-raw", .open = open_child_raw, .call = call_raw, .transport = transport};
const struct subject subject_child_goroutine = {
    .name = "child-goroutine", .open = open_child_goroutine, .call = call_goroutine, .transport = transport};
const struct subject subject_pipelined = {.name = "pipelined",
                                          .open = open_pipelined,
                                          .call = call_pipelined,
                                          .calls_per_sample = IN_FLIGHT,
                                          .transport = transport};
