/* libnearcall: raw bytes to echo(), one call at a time and many; and functions of values. A
 * mode named child- is as without, from a child of the process that opened the handle. */
#include <nearcall.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "caller.h"
#include "functions.h"

enum { IN_FLIGHT = 64 };

struct near {
    nearcall_client *client;
    nearcall_function *function; /* NULL for calls by name */
    const struct known_function *known; /* NULL for those of echo() */
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

static int is_as_long(const struct near *near)
{
    if (near->reply.bytes == near->bytes)
        return 1;
    fprintf(stderr, "caller: echo of %zu bytes is %zu bytes\n", near->bytes, near->reply.bytes);
    return 0;
}

static int call_raw(void *state)
{
    struct near *near = state;

    if (nearcall_call(near->client, "echo", near->payload, near->bytes, 0, &near->reply) != NEARCALL_OK)
        return complain(near, "echo");
    return is_as_long(near) ? 0 : -1;
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

/* Compares the last answer in full. */
static int compare(const struct near *near)
{
    if (memcmp(near->reply.data, near->payload, near->bytes) != 0) {
        fprintf(stderr, "caller: the echo differs\n");
        return -1;
    }
    return 0;
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
        if (!is_as_long(near))
            return -1;
    }
    return 0;
}

static void *open_pipelined(const struct subject *subject, const char *address, size_t payload_bytes)
{
    struct near *near = open_with_payload(address, payload_bytes);

    (void)subject;
    if (near == NULL)
        return NULL;
    if (nearcall_find(near->client, "echo", strlen("echo"), 0, &near->function) != NEARCALL_OK) {
        complain(near, "echo");
        return NULL;
    }
    return call_pipelined(near) == 0 && compare(near) == 0 ? near : NULL;
}

static int call_known(void *state)
{
    struct near *near = state;

    return known_function_call(near->known, near->client, near->function, &near->reply);
}

static int transport(const void *state)
{
    const struct near *near = state;

    return transport_of(near->client);
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

static const char child_prefix[] = "child-";

static int is_of_child(const struct subject *subject)
{
    return strncmp(subject->name, child_prefix, sizeof child_prefix - 1) == 0;
}

static void *open_raw(const struct subject *subject, const char *address, size_t payload_bytes)
{
    struct near *near = open_with_payload(address, payload_bytes);

    if (near == NULL || call_raw(near) != 0 || compare(near) != 0)
        return NULL;
    if (is_of_child(subject))
        return become_child() == 0 && call_raw(near) == 0 && compare(near) == 0 ? near : NULL;
    return strstr(address, "shm=off") != NULL || reach_memory(near->client) == 0 ? near : NULL;
}

/* Opens a client for the function of the mode's name. */
static void *open_known(const struct subject *subject, const char *address, size_t payload_bytes)
{
    const int of_child = is_of_child(subject);
    struct near *near = open_client(address);

    (void)payload_bytes;
    if (near == NULL)
        return NULL;
    near->known = known_function(subject->name + (of_child ? sizeof child_prefix - 1 : 0));
    if (near->known == NULL || known_function_find(near->known, near->client, &near->function) != 0 || call_known(near) != 0)
        return NULL;
    return !of_child || (become_child() == 0 && call_known(near) == 0) ? near : NULL;
}

const struct subject nearcall_subjects[] = {
    {.name = "raw", .open = open_raw, .call = call_raw, .transport = transport},
    {.name = "child-raw", .open = open_raw, .call = call_raw, .transport = transport},
    {.name = "pipelined", .open = open_pipelined, .call = call_pipelined, .calls_per_sample = IN_FLIGHT, .transport = transport},
    {.name = "typed", .open = open_known, .call = call_known, .transport = transport},
    {.name = "goroutine", .open = open_known, .call = call_known, .transport = transport},
    {.name = "child-goroutine", .open = open_known, .call = call_known, .transport = transport},
    {.name = "one", .open = open_known, .call = call_known, .transport = transport},
    {.name = "ack", .open = open_known, .call = call_known, .transport = transport},
    {.name = "md5", .open = open_known, .call = call_known, .transport = transport},
    {0}};
