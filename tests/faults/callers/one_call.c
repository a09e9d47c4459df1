/*
 * Opens a handle, calls ack(0, 1), echo with a body that is sent from where it lies, and echo
 * until shared memory is in use and a little longer, pings, closes, and checks that nothing was left behind. Meant to be run while its system calls are made to
 * fail one by one: it prints "ok", or "error CODE OUTCOME", and fails itself
 * only when a rule was broken: a wrong answer, a code that is not documented, an
 * outcome that is missing, a descriptor or memory that was not given back, or a
 * handle that does not recover.
 *
 *     one_call ADDRESS
 */
#include <malloc.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <nearcall.h>

enum { TIMEOUT_MS = 2000, RECOVERY_ATTEMPTS = 3, CALLS = 20, LARGE_BYTES = 2000, DESCRIPTORS = 256 };

/* System calls between these two are the library's: the driver looks for them
 * in the trace. */
static void mark(void) { (void)getppid(); }

/* By a system call that the library does not make: the driver would make it fail here,
 * where the library made one less than it was seen to make. */
static int open_descriptors(void)
{
    struct pollfd all[DESCRIPTORS];
    int open = 0;
    for (int i = 0; i < DESCRIPTORS; i++)
        all[i] = (struct pollfd){.fd = i};
    if (poll(all, DESCRIPTORS, 0) < 0)
        return -1;
    for (int i = 0; i < DESCRIPTORS; i++)
        open += !(all[i].revents & POLLNVAL);
    return open;
}

static int call_ack(nearcall_client *client)
{
    nearcall_function *function;
    nearcall_reply reply;
    nearcall_value value;
    int result = nearcall_find(client, "ack", 3, TIMEOUT_MS, &function);
    if (result < 0 || (result = nearcall_request(client, function, NEARCALL_CODEC_MSGPACK)) < 0)
        return result;
    nearcall_put_array(client, 2);
    nearcall_put_int(client, 0);
    nearcall_put_int(client, 1);
    result = nearcall_request_call(client, TIMEOUT_MS, &reply);
    if (result < 0)
        return result;
    nearcall_reader reader = {reply.data, reply.data + reply.bytes};
    if (nearcall_read(&reader, &value) < 0 || value.type != NEARCALL_INT || value.as.integer != 2) {
        fprintf(stderr, "one_call: wrong answer of ack\n");
        exit(1);
    }
    return NEARCALL_OK;
}

static int call_echo(nearcall_client *client, size_t bytes)
{
    static const uint8_t data[LARGE_BYTES] = "hello";
    nearcall_reply reply;
    int result = nearcall_call(client, "echo", data, bytes, TIMEOUT_MS, &reply);
    if (result == NEARCALL_OK && (reply.bytes != bytes || memcmp(reply.data, data, bytes) != 0)) {
        fprintf(stderr, "one_call: wrong answer of echo\n");
        exit(1);
    }
    return result;
}

static int use(nearcall_client *client)
{
    int result = call_ack(client);
    if (result == NEARCALL_OK)
        result = call_echo(client, LARGE_BYTES);
    for (int i = 0; i < CALLS && result == NEARCALL_OK; i++)
        result = call_echo(client, 5);
    if (result == NEARCALL_OK)
        result = nearcall_ping(client, TIMEOUT_MS, NULL);
    return result;
}

static void check_error(nearcall_client *client, int result)
{
    if (result < -16 || strlen(nearcall_error_message(client)) == 0) {
        fprintf(stderr, "one_call: %d is not documented\n", result);
        exit(1);
    }
    if (client != NULL && nearcall_error_outcome(client) == NEARCALL_OUTCOME_NONE) {
        fprintf(stderr, "one_call: error %d without an outcome: %s\n", result, nearcall_error_message(client));
        exit(1);
    }
}

/* The fault was injected once: the handle must work again. */
static void check_recovery(nearcall_client *client)
{
    int result = NEARCALL_OK;
    for (int i = 0; i < RECOVERY_ATTEMPTS; i++) {
        result = use(client);
        if (result == NEARCALL_OK)
            return;
    }
    fprintf(stderr, "one_call: does not recover: %s\n", nearcall_error_message(client));
    exit(1);
}

static int run(const char *address)
{
    nearcall_client *client;
    int result = nearcall_open(&client, address, NULL);
    if (result == NEARCALL_OK)
        result = use(client);
    if (result < 0) {
        check_error(client, result);
        printf("error %d %d\n", -result, client == NULL ? 0 : nearcall_error_outcome(client));
        if (client != NULL)
            check_recovery(client);
    }
    nearcall_close(client);
    return result;
}

int main(int argc, char **argv)
{
    if (argc != 2)
        return 2;
    setvbuf(stdout, NULL, _IONBF, 0);
    char *volatile first = malloc(1); /* the heap has what it needs for itself from now on */
    free(first);
    int descriptors = open_descriptors();
    size_t heap = mallinfo2().uordblks;
    mark();
    int result = run(argv[1]);
    mark();
    size_t heap_after = mallinfo2().uordblks;
    if (heap_after != heap) {
        fprintf(stderr, "one_call: %zu bytes of heap before, %zu after\n", heap, heap_after);
        return 1;
    }
    if (open_descriptors() != descriptors) {
        fprintf(stderr, "one_call: a descriptor was left open\n");
        return 1;
    }
    if (result == NEARCALL_OK)
        printf("ok\n");
    return 0;
}
