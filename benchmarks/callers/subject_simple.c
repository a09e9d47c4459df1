/*
 * The simple protocol, as spec/simple-protocol.md has it: JSON to echo(), whose
 * bytes travel as base64. Once on one connection, once with a connection for
 * every call.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "caller.h"
#include "message.h"

struct simple {
    const char *path;
    int fd;
    char *text; /* the payload in base64 */
    uint8_t *request;
    size_t request_bytes;
    struct message_buffer answer;
};

static char *base64(const uint8_t *data, size_t bytes)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    char *text = malloc((bytes + 2) / 3 * 4 + 1);
    char *out = text;

    if (text == NULL)
        return NULL;
    for (size_t i = 0; i < bytes; i += 3) {
        size_t left = bytes - i;
        uint32_t group = (uint32_t)data[i] << 16 | (left > 1 ? (uint32_t)data[i + 1] << 8 : 0) | (left > 2 ? data[i + 2] : 0);

        *out++ = digits[group >> 18];
        *out++ = digits[group >> 12 & 63];
        *out++ = left > 1 ? digits[group >> 6 & 63] : '=';
        *out++ = left > 2 ? digits[group & 63] : '=';
    }
    *out = '\0';
    return text;
}

/* The answer is good when it holds the payload's base64: nothing else does. */
static int exchange(struct simple *simple)
{
    ssize_t bytes = -1;

    if (message_send(simple->fd, simple->request, simple->request_bytes) == 0)
        bytes = message_receive(simple->fd, &simple->answer);
    if (bytes <= 0) {
        perror("caller: simple protocol");
        return -1;
    }
    if (memmem(simple->answer.data, (size_t)bytes, simple->text, strlen(simple->text)) == NULL) {
        fprintf(stderr, "caller: echo answered %.*s\n", (int)bytes - MESSAGE_PREFIX_BYTES,
                (const char *)simple->answer.data + MESSAGE_PREFIX_BYTES);
        return -1;
    }
    return 0;
}

static int call(void *state)
{
    return exchange(state);
}

static int connect_simple(struct simple *simple)
{
    simple->fd = message_connect(simple->path);
    if (simple->fd < 0) {
        perror(simple->path);
        return -1;
    }
    return 0;
}

static int call_reconnecting(void *state)
{
    struct simple *simple = state;
    int failed;

    if (connect_simple(simple) != 0)
        return -1;
    failed = exchange(simple);
    close(simple->fd);
    return failed;
}

static int write_request(struct simple *simple, size_t payload_bytes)
{
    static const char head[] = "{\"f\":\"echo\",\"a\":[\"";
    static const char tail[] = "\"]}";
    uint8_t *payload = malloc(payload_bytes);
    size_t bytes;

    if (payload == NULL)
        return -1;
    subject_fill(payload, payload_bytes);
    simple->text = base64(payload, payload_bytes);
    free(payload);
    if (simple->text == NULL)
        return -1;
    bytes = strlen(head) + strlen(simple->text) + strlen(tail);
    simple->request = malloc(MESSAGE_PREFIX_BYTES + bytes + 1);
    if (simple->request == NULL)
        return -1;
    message_prefix(simple->request, bytes);
    snprintf((char *)simple->request + MESSAGE_PREFIX_BYTES, bytes + 1, "%s%s%s", head, simple->text, tail);
    simple->request_bytes = MESSAGE_PREFIX_BYTES + bytes;
    return 0;
}

static struct simple *prepare(const char *address, size_t payload_bytes)
{
    struct simple *simple = calloc(1, sizeof *simple);

    if (simple == NULL)
        return NULL;
    simple->path = subject_path(address);
    if (simple->path == NULL || write_request(simple, payload_bytes) != 0)
        return NULL;
    return simple;
}

static void *open_simple(const char *address, size_t payload_bytes)
{
    struct simple *simple = prepare(address, payload_bytes);

    if (simple == NULL || connect_simple(simple) != 0 || call(simple) != 0)
        return NULL;
    return simple;
}

static void *open_reconnecting(const char *address, size_t payload_bytes)
{
    struct simple *simple = prepare(address, payload_bytes);

    if (simple == NULL || call_reconnecting(simple) != 0)
        return NULL;
    return simple;
}

const struct subject subject_simple = {.name = "simple", .open = open_simple, .call = call};
const struct subject subject_simple_reconnect = {
    .name = "simple-reconnect", .open = open_reconnecting, .call = call_reconnecting};
