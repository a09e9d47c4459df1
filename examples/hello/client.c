/*
 * The client in C:
 *
 *     cc client.c -lnearcall -o client && ./client unix:/tmp/hello/nearcall.sock
 */
#include <nearcall.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static nearcall_client *go;

/* Starts a call with so many arguments; nearcall_put_...() adds them. */
static void begin(const char *name, uint32_t arguments)
{
    nearcall_function *function;

    if (nearcall_find(go, name, strlen(name), 0, &function) == NEARCALL_OK &&
        nearcall_request(go, function, NEARCALL_CODEC_MSGPACK) == NEARCALL_OK) {
        nearcall_put_array(go, arguments);
        return;
    }
    fprintf(stderr, "%s\n", nearcall_error_message(go));
    exit(1);
}

static void put_text(const char *text)
{
    nearcall_put_string(go, text, strlen(text));
}

/* Makes the call, which is not expected to fail. */
static nearcall_reader finish(void)
{
    nearcall_reply reply;

    if (nearcall_request_call(go, 0, &reply) == NEARCALL_OK)
        return (nearcall_reader){reply.data, reply.data + reply.bytes};
    fprintf(stderr, "%s\n", nearcall_error_message(go));
    exit(1);
}

static nearcall_value next(nearcall_reader *reader)
{
    nearcall_value value;

    if (nearcall_read(reader, &value) == NEARCALL_OK)
        return value;
    fprintf(stderr, "the reply ends early\n");
    exit(1);
}

static void greet(const char *name)
{
    nearcall_reader reader;
    nearcall_value text;

    begin("greet", 1);
    put_text(name);
    reader = finish();
    text = next(&reader);
    printf("greet: %.*s\n", (int)text.count, (const char *)text.as.data);
}

static void divide(int64_t dividend, int64_t divisor)
{
    nearcall_reader reader;
    nearcall_value quotient, remainder;

    begin("divide", 2);
    nearcall_put_int(go, dividend);
    nearcall_put_int(go, divisor);
    reader = finish();
    next(&reader); /* several results are an array */
    quotient = next(&reader);
    remainder = next(&reader);
    printf("divide: %lld, remainder %lld\n", (long long)quotient.as.integer, (long long)remainder.as.integer);
}

static void visit(const char *page)
{
    nearcall_reader reader;
    nearcall_value count;

    begin("visit", 1);
    put_text(page);
    reader = finish();
    count = next(&reader);
    printf("visit: %lld\n", (long long)count.as.integer);
}

static void divide_by_zero(void)
{
    nearcall_reply reply;
    int code;

    begin("divide", 2);
    nearcall_put_int(go, 1);
    nearcall_put_int(go, 0);
    code = nearcall_request_call(go, 0, &reply);
    printf("error: %s, %s, %s\n", nearcall_code_name(code), nearcall_outcome_text(nearcall_error_outcome(go)),
           nearcall_error_message(go));
}

int main(int argc, char **argv)
{
    if (argc != 2 || nearcall_open(&go, argv[1], NULL) != NEARCALL_OK) {
        fprintf(stderr, "usage: client ADDRESS\n%s\n", nearcall_error_message(go));
        return 2;
    }
    greet("World");
    divide(17, 5);
    visit("/");
    divide_by_zero();
    nearcall_close(go);
    return 0;
}
