/*
 * Makes a list of calls and prints what came of each, the same whatever way they
 * travel; and in its last line that way.
 *
 *     call_list ADDRESS
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <nearcall.h>

enum { TIMEOUT_MS = 10000, ROUNDS = 8, PIPELINED = 48, ECHO_BYTES_MAX = 3000000 };

static nearcall_client *client;
static uint8_t *data;

static uint64_t hash(const uint8_t *bytes, size_t count)
{
    uint64_t sum = 0xcbf29ce484222325U;
    for (size_t i = 0; i < count; i++)
        sum = (sum ^ bytes[i]) * 0x100000001b3U;
    return sum;
}

static void tell(const char *what, size_t bytes, int result, const nearcall_reply *reply)
{
    if (result < 0)
        printf("%s %zu: %s, %s\n", what, bytes, nearcall_code_name(result),
               nearcall_outcome_text(nearcall_error_outcome(client)));
    else
        printf("%s %zu: %zu bytes, %016" PRIx64 "\n", what, bytes, reply->bytes,
               hash(reply->data, reply->bytes));
}

static void echo(size_t bytes)
{
    nearcall_reply reply;
    tell("echo", bytes, nearcall_call(client, "echo", data, bytes, TIMEOUT_MS, &reply), &reply);
}

/* A function with up to two arguments; text comes first, a NULL one is none. */
static void call(const char *name, const char *text, const int64_t *numbers, uint32_t count)
{
    nearcall_function *function;
    nearcall_reply reply;
    int result = nearcall_find(client, name, strlen(name), TIMEOUT_MS, &function);
    if (result == NEARCALL_OK)
        result = nearcall_request(client, function, NEARCALL_CODEC_MSGPACK);
    if (result == NEARCALL_OK) {
        nearcall_put_array(client, count + (text != NULL));
        for (uint32_t i = 0; i < count; i++)
            nearcall_put_int(client, numbers[i]);
        if (text != NULL)
            nearcall_put_string(client, text, strlen(text));
        result = nearcall_request_call(client, TIMEOUT_MS, &reply);
    }
    tell(name, 0, result, &reply);
}

static void pipelined(void)
{
    nearcall_call_id calls[PIPELINED];
    nearcall_function *function;
    nearcall_reply reply;
    int result = nearcall_find(client, "echo", 4, TIMEOUT_MS, &function);
    for (size_t i = 0; i < PIPELINED && result == NEARCALL_OK; i++) {
        result = nearcall_request(client, function, NEARCALL_CODEC_RAW);
        nearcall_put_raw(client, data + i, 37 * i);
        if (result == NEARCALL_OK)
            result = nearcall_request_send(client, TIMEOUT_MS, &calls[i]);
    }
    if (result < 0) {
        tell("pipelined", 0, result, NULL);
        return;
    }
    for (size_t i = PIPELINED; i-- > 0;)
        tell("pipelined", 37 * i, nearcall_wait(client, calls[i], &reply), &reply);
}

static void call_all(void)
{
    static const size_t sizes[] = {0, 1, 24, 25, 88, 89, 4096, 65536, 1000000, ECHO_BYTES_MAX};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
        echo(sizes[i]);
    call("ack", NULL, (const int64_t[]){2, 3}, 2);
    call("ack", NULL, (const int64_t[]){9, 9}, 2);
    call("divmod", NULL, (const int64_t[]){7, 0}, 2);
    call("sum", NULL, (const int64_t[]){1 << 30, 5}, 2);
    call("md5", "a text", NULL, 0);
    call("fail", "as asked", (const int64_t[]){9}, 1);
    call("fill", NULL, (const int64_t[]){2500000}, 1);
    call("fill", NULL, (const int64_t[]){6000000}, 1); /* more than is accepted */
    call("sleep", NULL, (const int64_t[]){1}, 1);
    call("no_such_function", NULL, NULL, 0);
    pipelined();
}

int main(int argc, char **argv)
{
    if (argc != 2 || nearcall_open(&client, argv[1], NULL) < 0)
        return 2;
    data = malloc(ECHO_BYTES_MAX);
    if (data == NULL)
        return 2;
    for (size_t i = 0; i < ECHO_BYTES_MAX; i++)
        data[i] = (uint8_t)(i * 31 + i / 251);
    for (int i = 0; i < ROUNDS; i++)
        call_all();
    printf("transport: %s\n", nearcall_transport(client));
    nearcall_close(client);
    free(data);
    return 0;
}
