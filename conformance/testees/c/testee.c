/*
 * Testee for libnearcall: a command a line on stdin, an answer a line on
 * stdout. conformance/README.md describes the protocol. The commands are flat
 * objects that the runner writes without escapes, so finding a member by its
 * name is all the JSON that is needed.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "nearcall.h"

/* The text behind "name": in the line, or NULL. */
static const char *member(const char *line, const char *name)
{
    char pattern[64];
    const char *found;

    snprintf(pattern, sizeof(pattern), "\"%s\":", name);
    found = strstr(line, pattern);
    return found ? found + strlen(pattern) : NULL;
}

/* Copies a string member, "" when there is none. The caller frees it. */
static char *text_member(const char *line, const char *name)
{
    const char *start = member(line, name);
    const char *end = start && *start == '"' ? strchr(start + 1, '"') : NULL;

    return end ? strndup(start + 1, (size_t)(end - start - 1)) : strdup("");
}

static long number_member(const char *line, const char *name)
{
    const char *start = member(line, name);

    return start ? strtol(start, NULL, 10) : 0;
}

static int digit_value(char digit)
{
    return digit <= '9' ? digit - '0' : digit - 'a' + 10;
}

/* Turns hex digits, in lower case as the runner writes them, into bytes, in place. Like
 * print_hex it calls nothing for a byte. */
static size_t unhex(char *text)
{
    size_t bytes = strlen(text) / 2;

    for (size_t i = 0; i < bytes; i++)
        text[i] = (char)(digit_value(text[2 * i]) * 16 + digit_value(text[2 * i + 1]));
    return bytes;
}

static void print_escaped(const char *text)
{
    for (; *text; text++) {
        if (*text == '"' || *text == '\\')
            printf("\\%c", *text);
        else if ((unsigned char)*text < 0x20)
            printf("\\u%04x", *text);
        else
            putchar(*text);
    }
}

static void print_failure(int code, int outcome, const char *message)
{
    printf("{\"ok\":false,\"code\":\"%s\",\"outcome\":\"%s\",\"message\":\"",
           nearcall_code_name(code), nearcall_outcome_text(outcome));
    print_escaped(message);
    printf("\"}\n");
}

static void print_result(nearcall_client *client, int r)
{
    if (r == NEARCALL_OK)
        printf("{\"ok\":true}\n");
    else
        print_failure(nearcall_error_code(client), nearcall_error_outcome(client),
                      nearcall_error_message(client));
}

/* A result that cannot be read to its end is lost, as it would be for any
 * program that reads it. */
static int check_value(const nearcall_reply *reply)
{
    nearcall_reader reader = {reply->data, reply->data + reply->bytes};

    if (reply->codec != NEARCALL_CODEC_MSGPACK || nearcall_skip(&reader) != NEARCALL_OK ||
        reader.next != reader.end)
        return NEARCALL_E_INTERNAL;
    return NEARCALL_OK;
}

/* A call of printf for each byte would take, under the sanitizers, a part of the time within
 * which the runner wants the next request. */
static void print_hex(const unsigned char *data, size_t bytes)
{
    static const char digits[] = "0123456789abcdef";
    char text[4096];
    size_t length = 0;

    for (size_t i = 0; i < bytes; i++) {
        text[length++] = digits[data[i] >> 4];
        text[length++] = digits[data[i] & 15];
        if (length == sizeof text || i == bytes - 1) {
            fwrite(text, 1, length, stdout);
            length = 0;
        }
    }
}

static void print_reply(const nearcall_reply *reply)
{
    printf("{\"ok\":true,\"payload_hex\":\"");
    print_hex(reply->data, reply->bytes);
    printf("\"}\n");
}

static int call_typed(nearcall_client *client, const char *name, const void *data, size_t bytes,
                      long timeout_ms, nearcall_reply *ret_reply)
{
    nearcall_function *function;
    int r = nearcall_find(client, name, strlen(name), timeout_ms, &function);

    if (r == NEARCALL_OK)
        r = nearcall_request(client, function, NEARCALL_CODEC_MSGPACK);
    if (r == NEARCALL_OK) {
        nearcall_put_raw(client, data, bytes);
        r = nearcall_request_call(client, timeout_ms, ret_reply);
    }
    return r;
}

static void do_call(nearcall_client *client, const char *line)
{
    char *name = text_member(line, "name");
    char *codec = text_member(line, "codec");
    char *payload = text_member(line, "payload_hex");
    long timeout_ms = number_member(line, "timeout_ms");
    nearcall_reply reply;
    int typed, r;

    if (!name || !codec || !payload)
        abort();
    size_t bytes = unhex(payload);
    typed = strcmp(codec, "msgpack") == 0;
    if (typed)
        r = call_typed(client, name, payload, bytes, timeout_ms, &reply);
    else
        r = nearcall_call(client, name, payload, bytes, timeout_ms, &reply);
    if (r != NEARCALL_OK)
        print_result(client, r);
    else if (typed && check_value(&reply) != NEARCALL_OK)
        print_failure(NEARCALL_E_INTERNAL, NEARCALL_OUTCOME_EXECUTED_RESULT_LOST,
                      "the result is not one MessagePack value");
    else
        print_reply(&reply);
    free(payload);
    free(codec);
    free(name);
}

static void do_connect(nearcall_client **client, const char *line)
{
    nearcall_options options = NEARCALL_OPTIONS_INIT;
    char *address = text_member(line, "address");

    if (!address)
        abort();
    options.attempts_max = (uint32_t)number_member(line, "attempts_max");
    options.frame_bytes_max = (uint32_t)number_member(line, "frame_bytes_max");
    nearcall_close(*client);
    int r = nearcall_open(client, address, &options);
    print_result(*client, r);
    free(address);
}

static void answer(nearcall_client **client, const char *line)
{
    char *verb = text_member(line, "do");

    if (!verb)
        abort();
    if (strcmp(verb, "connect") == 0) {
        do_connect(client, line);
    } else if (strcmp(verb, "call") == 0) {
        do_call(*client, line);
    } else if (strcmp(verb, "ping") == 0) {
        print_result(*client, nearcall_ping(*client, number_member(line, "timeout_ms"), NULL));
    } else if (strcmp(verb, "close") == 0) {
        nearcall_close(*client);
        *client = NULL;
        print_result(NULL, NEARCALL_OK);
    } else {
        fprintf(stderr, "testee: unknown command: %s", line);
        exit(2);
    }
    free(verb);
    fflush(stdout);
}

int main(void)
{
    nearcall_client *client = NULL;
    char *line = NULL;
    size_t capacity = 0;

    while (getline(&line, &capacity, stdin) > 0)
        answer(&client, line);
    nearcall_close(client);
    free(line);
    return 0;
}
