/* A signal's handler that forks and returns in both processes while a request is copied into a store: the child
 * goes on all the same, and must not write where its parent does. The moment is in the middle of the copy: what
 * is copied is not there at first, and the fault there sends the signal. */
#include <unistd.h>

#define BYTES (6 << 20)
#define MISSING (5 << 20)
#define TRIES_MAX 100
#include "faulting.h"

static nearcall_client *client;
static pid_t forked;

static void on_fault(int signal_number)
{
    (void)signal_number;
    begin_fault(); /* a second one is a child's that reads or writes where nothing is */
    show_the_end();
    CHECK(raise(SIGUSR1) == 0);
}

static void on_signal(int signal_number)
{
    (void)signal_number;
    forked = fork();
}

static int call(nearcall_reply *reply)
{
    return nearcall_call(client, "echo", source, BYTES, 20000, reply);
}

static void in_the_child(int r)
{
    nearcall_reply reply;
    CHECK_CALL(client, r, NEARCALL_E_UNAVAILABLE);
    memset(source, 0x33, BYTES);
    CHECK_CALL(client, call(&reply), NEARCALL_OK); /* by a store of its own */
    CHECK(reply.bytes == BYTES && memcmp(reply.data, source, BYTES) == 0);
    nearcall_close(client);
    _exit(0);
}

/* What is written to a store for the second time is copied to its mapping. The server does not always
 * keep a store, and the first time the kernel copies, which says so where there is nothing to copy. */
static int call_and_fault(nearcall_reply *reply)
{
    for (int tries = 0; tries < TRIES_MAX; tries++) {
        CHECK_CALL(client, call(reply), NEARCALL_OK);
        forked = -1;
        hide_the_end();
        int r = call(reply);
        if (has_faulted)
            return r;
        show_the_end();
        CHECK_CALL(client, r, NEARCALL_E_RESOURCE_EXHAUSTED);
    }
    CHECK(!"the server kept no store");
    return NEARCALL_OK;
}

static void while_copying(void)
{
    nearcall_reply reply;
    int r = call_and_fault(&reply);
    if (forked == 0)
        in_the_child(r);
    CHECK(forked > 0);
    CHECK_CALL(client, r, NEARCALL_OK);
    CHECK(reply.bytes == BYTES && memcmp(reply.data, source, BYTES) == 0);
    test_join(forked);
}

int main(void)
{
    struct server server;
    struct sigaction signal = {.sa_handler = on_signal};
    nearcall_options options = NEARCALL_OPTIONS_INIT;
    test_begin();
    make_source(on_fault);
    server_start_with_stores(&server, (size_t)16 << 20);
    options.value_bytes_max = (size_t)16 << 20;
    client = test_open_with(server.address, &options);
    CHECK(sigaction(SIGUSR1, &signal, NULL) == 0);
    for (int i = 0; i < 5; i++)
        while_copying();
    nearcall_close(client);
    server_stop(&server);
    return 0;
}
