/*
 * The simple protocol, as spec/simple-protocol.md has it: JSON to echo(), whose
 * bytes travel as base64, both encoded and decoded in each call. Once on one connection,
 * once with a connection for every call.
 */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "caller.h"
#include "message.h"

static const char request_head[] = "{\"f\":\"echo\",\"a\":[\"";
static const char request_tail[] = "\"]}";
static const char answer_head[] = "{\"ok\":true,\"r\":\"";

enum {
    REQUEST_HEAD_BYTES = sizeof request_head - 1,
    REQUEST_TAIL_BYTES = sizeof request_tail - 1,
    ANSWER_HEAD_BYTES = sizeof answer_head - 1,
    BASE64_BITS = 6,
    NO_DIGIT = 64
};

struct simple {
    const char *path;
    int fd;
    uint8_t *payload;
    size_t bytes;
    uint8_t values[UCHAR_MAX + 1]; /* of digits of base64 */
    uint8_t *request; /* room for one */
    uint8_t *echo;    /* room for the payload */
    struct message_buffer answer;
};

static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

static size_t base64_bytes(size_t bytes)
{
    return (bytes + 2) / 3 * 4;
}

/* Returns where the text ends. */
static uint8_t *put_base64(uint8_t *out, const uint8_t *data, size_t bytes)
{
    for (size_t i = 0; i < bytes; i += 3) {
        size_t left = bytes - i;
        uint32_t group = (uint32_t)data[i] << 16 | (left > 1 ? (uint32_t)data[i + 1] << 8 : 0) | (left > 2 ? data[i + 2] : 0);

        *out++ = (uint8_t)digits[group >> 18];
        *out++ = (uint8_t)digits[group >> 12 & 63];
        *out++ = left > 1 ? (uint8_t)digits[group >> 6 & 63] : '=';
        *out++ = left > 2 ? (uint8_t)digits[group & 63] : '=';
    }
    return out;
}

/* Decodes to the first that is no digit; returns how many bytes, at most bytes_max. */
static size_t take_base64(const struct simple *simple, const uint8_t *text, const uint8_t *end, uint8_t *out, size_t bytes_max)
{
    size_t bytes = 0;
    uint32_t bits = 0;
    unsigned have = 0;

    for (; text < end && simple->values[*text] != NO_DIGIT && bytes < bytes_max; text++) {
        bits = bits << BASE64_BITS | simple->values[*text];
        have += BASE64_BITS;
        if (have >= CHAR_BIT) {
            have -= CHAR_BIT;
            out[bytes++] = (uint8_t)(bits >> have);
        }
    }
    return bytes;
}

static size_t encode(struct simple *simple)
{
    uint8_t *out = simple->request + MESSAGE_PREFIX_BYTES;

    out = (uint8_t *)mempcpy(out, request_head, REQUEST_HEAD_BYTES);
    out = put_base64(out, simple->payload, simple->bytes);
    out = (uint8_t *)mempcpy(out, request_tail, REQUEST_TAIL_BYTES);
    message_prefix(simple->request, (size_t)(out - simple->request) - MESSAGE_PREFIX_BYTES);
    return (size_t)(out - simple->request);
}

/* Decodes the answer and compares it with what was sent. */
static int decode(struct simple *simple, size_t answer_bytes)
{
    const uint8_t *text = simple->answer.data + MESSAGE_PREFIX_BYTES;
    const uint8_t *end = simple->answer.data + answer_bytes;

    if (answer_bytes >= MESSAGE_PREFIX_BYTES + ANSWER_HEAD_BYTES && memcmp(text, answer_head, ANSWER_HEAD_BYTES) == 0 &&
        take_base64(simple, text + ANSWER_HEAD_BYTES, end, simple->echo, simple->bytes) == simple->bytes &&
        memcmp(simple->echo, simple->payload, simple->bytes) == 0)
        return 0;
    fprintf(stderr, "caller: echo answered %.*s\n", (int)(end - text), (const char *)text);
    return -1;
}

static int exchange(struct simple *simple)
{
    size_t request_bytes = encode(simple);
    ssize_t bytes = -1;

    if (message_send(simple->fd, simple->request, request_bytes) == 0)
        bytes = message_receive(simple->fd, &simple->answer);
    if (bytes <= 0)
        return subject_failed("simple protocol");
    return decode(simple, (size_t)bytes);
}

static int call(void *state)
{
    return exchange(state);
}

static int connect_simple(struct simple *simple)
{
    simple->fd = message_connect(simple->path);
    return simple->fd >= 0 ? 0 : subject_failed(simple->path);
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

static int open_simple(const struct subject *subject, void *state, const char *address, size_t payload_bytes)
{
    struct simple *simple = state;

    simple->path = subject_path(address);
    simple->bytes = payload_bytes;
    simple->payload = subject_payload(payload_bytes);
    simple->echo = malloc(payload_bytes);
    simple->request = malloc(MESSAGE_PREFIX_BYTES + REQUEST_HEAD_BYTES + base64_bytes(payload_bytes) + REQUEST_TAIL_BYTES);
    if (simple->path == NULL || simple->payload == NULL || simple->echo == NULL || simple->request == NULL)
        return -1;
    memset(simple->values, NO_DIGIT, sizeof simple->values);
    for (size_t i = 0; i < sizeof digits - 1; i++)
        simple->values[(uint8_t)digits[i]] = (uint8_t)i;
    return subject->call == call && connect_simple(simple) != 0 ? -1 : subject->call(simple);
}

const struct subject simple_subjects[] = {
    {.name = "simple", .state_bytes = sizeof(struct simple), .open = open_simple, .call = call},
    {.name = "simple-reconnect", .state_bytes = sizeof(struct simple), .open = open_simple, .call = call_reconnecting},
    {0}};
