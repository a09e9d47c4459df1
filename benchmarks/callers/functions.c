#include "functions.h"

#include <stdio.h>
#include <string.h>

#include "protocol.h"

/* A server gives shared memory to a caller that has called some times. */
enum { INTEGERS_MAX = 2, CALLS_UNTIL_MEMORY_MAX = 256 };

struct known_function {
    const char *name;
    const char *function; /* at the server */
    size_t arguments;
    int64_t integers[INTEGERS_MAX]; /* the arguments, unless it is given a text */
    const char *given;
    int64_t answer; /* unless it answers with a text */
    const char *text;
    /* Instead of these: all arguments and the result in MessagePack, for functions whose signatures
     * are what is measured. */
    const char *request;
    size_t request_bytes;
    const char *reply;
    size_t reply_bytes;
};

#define EXCHANGE(there, back) \
    .request = (there), .request_bytes = sizeof(there) - 1, .reply = (back), .reply_bytes = sizeof(back) - 1

/* {id: 7, name: "pressure", value: 1.5}, and a list of eight integers. */
#define READING "\x83\xA2id\x07\xA4name\xA8pressure\xA5value\xCB\x3F\xF8\0\0\0\0\0\0"
#define LIST "\x98\x00\x01\x02\x03\x04\x05\x06\x07"

static const struct known_function all[] = {
    {.name = "typed", .function = "ack", .arguments = 2, .integers = {0, 1}, .answer = 2},
    {.name = "goroutine", .function = "goroutine", .answer = 1},
    {.name = "one", .function = "one", .answer = 1},
    {.name = "ack", .function = "ack", .arguments = 2, .integers = {3, 4}, .answer = 125},
    {.name = "md5", .function = "md5", .arguments = 1, .given = "hoge", .text = "ea703e7aa1efda0064eaa507d9e8ab7e"},
    {.name = "shape-integers", .function = "shape_integers", EXCHANGE("\x92\x00\x01", "\x01")},
    {.name = "shape-five", .function = "shape_five", EXCHANGE("\x95\x01\x02\x03\x04\x05", "\x0F")},
    {.name = "shape-narrow", .function = "shape_narrow", EXCHANGE("\x92\x00\x01", "\x01")},
    {.name = "shape-struct", .function = "shape_struct", EXCHANGE("\x91" READING, READING)},
    {.name = "shape-list", .function = "shape_list", EXCHANGE("\x91" LIST, LIST)},
    {.name = "shape-results", .function = "shape_results", EXCHANGE("\x92\x00\x01", "\x92\x01\x00")},
    {.name = "shape-error", .function = "shape_error", EXCHANGE("\x93\x00\x01\x02", "\xC0")},
};

const struct known_function *known_function(const char *name)
{
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        if (strcmp(all[i].name, name) == 0)
            return &all[i];
    }
    fprintf(stderr, "caller: %s: there are one, ack, md5 and shape-...\n", name);
    return NULL;
}

int known_function_find(const struct known_function *known, nearcall_client *client, nearcall_function **ret_function)
{
    if (nearcall_find(client, known->function, strlen(known->function), 0, ret_function) == NEARCALL_OK)
        return 0;
    fprintf(stderr, "caller: %s: %s\n", known->name, nearcall_error_message(client));
    return -1;
}

static void put_arguments(const struct known_function *known, nearcall_client *client)
{
    if (known->request != NULL) {
        nearcall_put_raw(client, known->request, known->request_bytes);
        return;
    }
    nearcall_put_array(client, known->arguments);
    if (known->given != NULL) {
        nearcall_put_string(client, known->given, strlen(known->given));
        return;
    }
    for (size_t i = 0; i < known->arguments; i++)
        nearcall_put_int(client, known->integers[i]);
}

static int is_answer(const struct known_function *known, const nearcall_reply *reply)
{
    nearcall_reader reader = {.next = reply->data, .end = reply->data + reply->bytes};
    nearcall_value value;

    if (known->reply != NULL)
        return reply->bytes == known->reply_bytes && memcmp(reply->data, known->reply, known->reply_bytes) == 0;
    if (nearcall_read(&reader, &value) != NEARCALL_OK)
        return 0;
    if (known->text == NULL)
        return value.type == NEARCALL_INT && value.as.integer == known->answer;
    return value.type == NEARCALL_STRING && value.count == strlen(known->text) &&
           memcmp(value.as.data, known->text, value.count) == 0;
}

int known_function_call(const struct known_function *known, nearcall_client *client, nearcall_function *function,
                        nearcall_reply *reply)
{
    int r = nearcall_request(client, function, NEARCALL_CODEC_MSGPACK);

    if (r == NEARCALL_OK) {
        put_arguments(known, client);
        r = nearcall_request_call(client, 0, reply);
    }
    if (r != NEARCALL_OK) {
        fprintf(stderr, "caller: %s: %s\n", known->name, nearcall_error_message(client));
        return -1;
    }
    if (!is_answer(known, reply)) {
        fprintf(stderr, "caller: %s answered what it never does\n", known->name);
        return -1;
    }
    return 0;
}

int transport_of(const nearcall_client *client)
{
    const char *name = nearcall_transport(client);

    if (strcmp(name, "same process") == 0)
        return TRANSPORT_SAME_PROCESS;
    if (strcmp(name, "tcp") == 0)
        return TRANSPORT_TCP;
    if (strcmp(name, "tls") == 0)
        return TRANSPORT_TLS;
    return strcmp(name, "shared memory") == 0 ? TRANSPORT_SHARED_MEMORY : TRANSPORT_SOCKET;
}

int reach_memory(const nearcall_client *client, int (*call)(void *state), void *state)
{
    for (int i = 0; i < CALLS_UNTIL_MEMORY_MAX && transport_of(client) == TRANSPORT_SOCKET; i++) {
        if (call(state) != 0)
            return -1;
    }
    return 0;
}
