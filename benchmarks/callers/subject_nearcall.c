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

static int open_client_with(struct near *near, const char *address, const nearcall_options *options)
{
    if (nearcall_open(&near->client, address, options) != NEARCALL_OK || nearcall_connect(near->client, 0) != NEARCALL_OK)
        return complain(near, address);
    return 0;
}

static int open_client(struct near *near, const char *address)
{
    return open_client_with(near, address, NULL);
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
static int open_with_payload(struct near *near, const char *address, size_t payload_bytes)
{
    near->bytes = payload_bytes;
    near->payload = subject_payload(payload_bytes);
    return near->payload == NULL ? -1 : open_client(near, address);
}

/* Makes a call and compares the answer, of several the last, in full. */
static int compare(const struct subject *subject, struct near *near)
{
    return subject->call(near) == 0 ? subject_compare(near->reply.data, near->payload, near->bytes) : -1;
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

static int open_pipelined(const struct subject *subject, void *state, const char *address, size_t payload_bytes)
{
    struct near *near = state;

    if (open_with_payload(near, address, payload_bytes) != 0)
        return -1;
    if (nearcall_find(near->client, "echo", strlen("echo"), 0, &near->function) != NEARCALL_OK)
        return complain(near, "echo");
    return compare(subject, near);
}

/* The payload as a list of float64, whose answer is used where it lies. */
static int call_floats(void *state)
{
    struct near *near = state;
    size_t wanted = near->bytes / sizeof(double), count = 0;
    const void *answer;
    int r = nearcall_request(near->client, near->function, NEARCALL_CODEC_PACKED);

    if (r == NEARCALL_OK) {
        nearcall_put_array(near->client, 1);
        nearcall_put_packed(near->client, NEARCALL_ELEMENT_FLOAT64, near->payload, wanted);
        r = nearcall_request_call(near->client, 0, &near->reply);
    }
    if (r != NEARCALL_OK)
        return complain(near, "echo_numbers");
    nearcall_reader reader = {near->reply.data, near->reply.data + near->reply.bytes};
    if (nearcall_borrow_numbers(&reader, NEARCALL_ELEMENT_FLOAT64, &answer, &count) == NEARCALL_OK && count == wanted) {
        near->reply.data = answer;
        return 0;
    }
    fprintf(stderr, "caller: echo of %zu numbers is %zu numbers, or they do not lie as a C program reads them\n", wanted, count);
    return -1;
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

static int open_raw(const struct subject *subject, void *state, const char *address, size_t payload_bytes)
{
    struct near *near = state;

    if (open_with_payload(near, address, payload_bytes) != 0 || compare(subject, near) != 0)
        return -1;
    if (is_of_child(subject))
        return become_child() == 0 ? compare(subject, near) : -1;
    return strstr(address, "shm=off") != NULL ? 0 : reach_memory(near->client, call_raw, near);
}

/* As raw, with values that no frame holds. */
static int open_values(const struct subject *subject, void *state, const char *address, size_t payload_bytes)
{
    struct near *near = state;
    nearcall_options options = NEARCALL_OPTIONS_INIT;

    options.value_bytes_max = payload_bytes;
    near->bytes = payload_bytes;
    near->payload = subject_payload(payload_bytes);
    if (near->payload == NULL || open_client_with(near, address, &options) != 0 || compare(subject, near) != 0)
        return -1;
    return reach_memory(near->client, call_raw, near);
}

static int open_floats(const struct subject *subject, void *state, const char *address, size_t payload_bytes)
{
    struct near *near = state;

    if (open_with_payload(near, address, payload_bytes) != 0)
        return -1;
    if (nearcall_find(near->client, "echo_numbers", strlen("echo_numbers"), 0, &near->function) != NEARCALL_OK)
        return complain(near, "echo_numbers");
    if (compare(subject, near) != 0)
        return -1;
    return strstr(address, "shm=off") != NULL ? 0 : reach_memory(near->client, call_floats, near);
}

/* Opens a client for the function of the mode's name. */
static int open_known(const struct subject *subject, void *state, const char *address, size_t payload_bytes)
{
    const int of_child = is_of_child(subject);
    struct near *near = state;

    (void)payload_bytes;
    near->known = known_function(subject->name + (of_child ? sizeof child_prefix - 1 : 0));
    if (near->known == NULL || open_client(near, address) != 0 ||
        known_function_find(near->known, near->client, &near->function) != 0 || call_known(near) != 0)
        return -1;
    return !of_child || (become_child() == 0 && call_known(near) == 0) ? 0 : -1;
}

#define NEAR(mode, opened, called) .name = mode, .state_bytes = sizeof(struct near), .open = opened, .call = called, .transport = transport

const struct subject nearcall_subjects[] = {
    {NEAR("raw", open_raw, call_raw)},
    {NEAR("child-raw", open_raw, call_raw)},
    {NEAR("values", open_values, call_raw)},
    {NEAR("floats", open_floats, call_floats)},
    {NEAR("pipelined", open_pipelined, call_pipelined), .calls_per_sample = IN_FLIGHT},
    {NEAR("typed", open_known, call_known)},
    {NEAR("goroutine", open_known, call_known)},
    {NEAR("child-goroutine", open_known, call_known)},
    {NEAR("one", open_known, call_known)},
    {NEAR("ack", open_known, call_known)},
    {NEAR("md5", open_known, call_known)},
    {NEAR("shape-integers", open_known, call_known)},
    {NEAR("shape-five", open_known, call_known)},
    {NEAR("shape-narrow", open_known, call_known)},
    {NEAR("shape-struct", open_known, call_known)},
    {NEAR("shape-list", open_known, call_known)},
    {NEAR("shape-results", open_known, call_known)},
    {NEAR("shape-error", open_known, call_known)},
    {0}};
