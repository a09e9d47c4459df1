/* Forks of a process whose handle has the connections of two endpoints: children use both for themselves, and leave their
 * parent's alone. */
#include <errno.h>
#include <unistd.h>

#include "endpoints_test.h"
#include "handle/handle.h"

static nearcall_client *client;
static struct server near, far;
static atomic_int stop;

static void call(const char *name, nearcall_client *through)
{
    nearcall_reply reply;
    CHECK_CALL(through, nearcall_call_codec(through, name, NEARCALL_CODEC_MSGPACK, "\x90", 1, 20000, &reply), NEARCALL_OK);
}

/* The first is there too, the second at the far server alone. */
static void call_both(void)
{
    call("count", client);
    call("level", client);
}

static void child_calls(void *unused)
{
    (void)unused;
    CHECK(strcmp(nearcall_endpoint(client), "") == 0);
    CHECK(!test_has_mapping("nearcall-caller"));
    for (int i = 0; i < 3; i++)
        call_both();
    nearcall_close(client);
}

static void child_closes(void *unused)
{
    (void)unused;
    nearcall_close(client);
}

static void child_disconnects(void *unused)
{
    (void)unused;
    nearcall_disconnect(client);
    call_both();
    nearcall_close(client);
}

static void child_exits(void *unused)
{
    (void)unused;
}

static void child_closes_descriptors(void *unused)
{
    (void)unused;
    for (int fd = 3; fd < 64; fd++)
        close(fd);
    call_both();
    nearcall_close(client);
}

static void child_forks_again(void *unused)
{
    (void)unused;
    call_both();
    test_join(test_fork(child_calls, NULL));
    call_both();
    nearcall_close(client);
}

/* A connection that the parent is still making is the parent's. */
static void child_leaves_what_is_under_way(void *unused)
{
    (void)unused;
    call_it(client);
    nearcall_close(client);
}

static void while_one_is_being_connected(void)
{
    struct host silent, serving;
    nearcall_reply reply;
    host_start(&silent, "tcp:");
    host_start(&serving, "tcp:");
    atomic_store(&silent.way, HOST_SAYS_NOTHING);
    client = test_open(two_hosts(&silent, "|", &serving), 0);
    CHECK_CALL(client, nearcall_call(client, "f", "x", 1, 200, &reply), NEARCALL_OK);
    CHECK(client->endpoints->under_way != 0);
    host_end(&serving);
    host_start_again(&serving); /* its one place is free for the child */
    test_join(test_fork(child_leaves_what_is_under_way, NULL));
    atomic_store(&silent.way, HOST_SERVES);
    while (host_requests(&silent) == 0) /* TCP does not always say what became of a call to the one that has ended */
        (void)nearcall_call(client, "f", "again", 5, 20000, &reply);
    call_it(client);
    nearcall_close(client);
    host_end(&silent);
    host_end(&serving);
}

static void children_of_every_kind(void)
{
    static void (*const bodies[])(void *) = {child_calls, child_closes, child_disconnects,
                                             child_exits, child_closes_descriptors, child_forks_again};
    for (size_t i = 0; i < 2 * sizeof(bodies) / sizeof(bodies[0]); i++) {
        pid_t pid = test_fork(bodies[i / 2], NULL);
        if (i % 2)
            call_both();
        test_join(pid);
        call_both();
    }
}

static void *keep_turning(void *unused)
{
    (void)unused;
    while (!atomic_load(&stop))
        call_both();
    return NULL;
}

static void child_of_busy_parent(void *unused)
{
    (void)unused;
    call_both();
    nearcall_close(client);
    _exit(0); /* what the thread held is lost on purpose: no leak check */
}

static void busy_forks(void)
{
    pthread_t thread;
    long forks = test_parameter("NEARCALL_TEST_BUSY_FORKS", 200);
    CHECK(pthread_create(&thread, NULL, keep_turning, NULL) == 0);
    for (long i = 0; i < forks; i++)
        test_join(test_fork(child_of_busy_parent, NULL));
    atomic_store(&stop, 1);
    CHECK(pthread_join(thread, NULL) == 0);
}

int main(void)
{
    char address[400];
    test_begin();
    server_start(&near);
    server_start_generation(&far, "1");
    snprintf(address, sizeof(address), "%s | %s", near.address, far.address);
    client = test_open(address, 0);
    for (int i = 0; i < 300; i++)
        call_both();
    CHECK(strcmp(nearcall_transport(client), "shared memory") == 0);
    children_of_every_kind();
    CHECK(strcmp(nearcall_transport(client), "shared memory") == 0);
    busy_forks();
    nearcall_close(client);
    server_stop(&near);
    server_stop(&far);
    while_one_is_being_connected();
    return 0;
}
