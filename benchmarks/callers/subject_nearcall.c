/* libnearcall: raw bytes to echo(), and values to ack(0, 1). */
#include <nearcall.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "caller.h"

struct near {
    nearcall_client *client;
    nearcall_function *ack;
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

static void *open_raw(const char *address, size_t payload_bytes)
{
    struct near *near = open_client(address);

    if (near == NULL)
        return NULL;
    near->bytes = payload_bytes;
    near->payload = malloc(payload_bytes);
    if (near->payload == NULL)
        return NULL;
    subject_fill(near->payload, payload_bytes);
    if (call_raw(near) != 0)
        return NULL;
    if (memcmp(near->reply.data, near->payload, payload_bytes) != 0) {
        fprintf(stderr, "caller: %s: the echo differs\n", address);
        return NULL;
    }
    return near;
}

static int call_typed(void *state)
{
    struct near *near = state;
    nearcall_reader reader;
    nearcall_value value;
    int r = nearcall_request(near->client, near->ack, NEARCALL_CODEC_MSGPACK);

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
    if (near == NULL)
        return NULL;
    if (nearcall_find(near->client, "ack", strlen("ack"), 0, &near->ack) != NEARCALL_OK) {
        complain(near, "ack");
        return NULL;
    }
    return call_typed(near) == 0 ? near : NULL;
}

const struct subject subject_raw = {"raw", open_raw, call_raw};
const struct subject subject_typed = {"typed", open_typed, call_typed};
