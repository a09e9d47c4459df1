/* Handles over TLS across fork: children call through what they inherited, close it, or just exit, and the
 * parent's connection notices nothing of all that. The number of forks is NEARCALL_TEST_FORKS. */
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tls_test.h"

/* Far more than a call takes. */
#define CHILD_PATIENCE_S 10

static nearcall_client *client;
static nearcall_function *count;
static const char *address;

static void call_with(nearcall_client *with, nearcall_function *function)
{
    nearcall_reply reply;
    CHECK_CALL(with, nearcall_request(with, function, NEARCALL_CODEC_MSGPACK), NEARCALL_OK);
    nearcall_put_array(with, 0);
    CHECK_CALL(with, nearcall_request_call(with, 20000, &reply), NEARCALL_OK);
    CHECK(test_read_int(&reply) > 0);
}

static void child_calls(void *unused)
{
    (void)unused;
    call_with(client, count);
    call_with(client, count);
    nearcall_close(client);
}

static void child_closes(void *unused)
{
    (void)unused;
    nearcall_close(client);
}

static void child_exits(void *unused)
{
    (void)unused;
}

static void child_forks_again(void *unused)
{
    (void)unused;
    call_with(client, count);
    test_join(test_fork(child_calls, NULL));
    call_with(client, count);
    nearcall_close(client);
}

static void child_waits_for_a_call_of_its_parent(void *argument)
{
    nearcall_reply reply;
    nearcall_call_id *calls = argument;
    CHECK_CALL(client, nearcall_wait(client, calls[0], &reply), NEARCALL_E_UNAVAILABLE);
    CHECK_OUTCOME(client, NEARCALL_OUTCOME_UNKNOWN);
    nearcall_cancel(client, calls[1]); /* must not reach the parent's server */
    call_with(client, count);
    nearcall_close(client);
}

static void children_of_every_kind(long forks)
{
    static void (*const bodies[])(void *) = {child_calls, child_closes, child_exits, child_forks_again};
    for (long i = 0; i < forks; i++) {
        pid_t pid = test_fork(bodies[i % 4], NULL);
        call_with(client, count);
        test_join(pid);
    }
}

static void calls_in_flight(void)
{
    nearcall_call_id calls[2];
    nearcall_reply reply;
    nearcall_function *nap = test_find(client, "sleep");
    for (int i = 0; i < 2; i++) {
        test_request_int(client, nap, 100);
        CHECK_CALL(client, nearcall_request_send(client, 20000, &calls[i]), NEARCALL_OK);
    }
    test_join(test_fork(child_waits_for_a_call_of_its_parent, calls));
    for (int i = 0; i < 2; i++) {
        CHECK_CALL(client, nearcall_wait(client, calls[i], &reply), NEARCALL_OK);
        CHECK_INT(test_read_int(&reply), 100);
    }
}

/* ---- A fork while another thread is inside the library, and inside OpenSSL ---- */

static atomic_bool is_over;
static nearcall_client *busy;

static void *call_all_the_time(void *unused)
{
    nearcall_function *function = test_find(busy, "count");
    while (!is_over)
        call_with(busy, function);
    return unused;
}

/* The copy of that handle starts anew. Locks of OpenSSL that the thread held are held for ever, and no timeout
 * ends the wait for one: an alarm does. */
static void child_takes_a_busy_handle(void *unused)
{
    (void)unused;
    alarm(CHILD_PATIENCE_S);
    nearcall_function *function = test_find(busy, "count");
    call_with(busy, function);
    nearcall_close(busy);
    _exit(0); /* what the thread was using is left where it is, which sanitizers would call a leak */
}

static void forks_beside_a_thread(long forks)
{
    pthread_t thread;
    unsigned stuck = 0;
    busy = tls_open(address, 0);
    CHECK(pthread_create(&thread, NULL, call_all_the_time, NULL) == 0);
    for (long i = 0; i < forks; i++) {
        int status;
        pid_t pid = test_fork(child_takes_a_busy_handle, NULL);
        CHECK_INT(waitpid(pid, &status, 0), pid);
        CHECK(status == 0 || (WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM));
        stuck += status != 0;
    }
    printf("%u of %ld children waited for a lock of OpenSSL\n", stuck, forks);
    is_over = true;
    CHECK(pthread_join(thread, NULL) == 0);
    nearcall_close(busy);
}

int main(void)
{
    struct tls_server server;
    long forks = test_parameter("NEARCALL_TEST_FORKS", 200);
    test_begin();
    tls_server_start(&server);
    address = server.relay.address;
    client = tls_open(address, 0);
    count = test_find(client, "count");
    children_of_every_kind(forks);
    calls_in_flight();
    forks_beside_a_thread(forks / 4);
    call_with(client, count);
    nearcall_close(client);
    tls_server_stop(&server);
    return 0;
}
