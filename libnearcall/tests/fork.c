/* Handles across fork: children call through what they inherited, close it, or
 * just exit, and the parent's connection notices nothing of all that. The number of
 * forks is NEARCALL_TEST_FORKS. */
#include <errno.h>
#include <fcntl.h>
#include <semaphore.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "c_library.h"
#include "script.h"

static nearcall_client *client;
static nearcall_function *count;

static void call(void)
{
    nearcall_reply reply;
    CHECK_CALL(client, nearcall_request(client, count, NEARCALL_CODEC_MSGPACK), NEARCALL_OK);
    nearcall_put_array(client, 0);
    CHECK_CALL(client, nearcall_request_call(client, 10000, &reply), NEARCALL_OK);
    CHECK(test_read_int(&reply) > 0);
}

static void child_calls(void *unused)
{
    (void)unused;
    call();
    call();
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

/* As daemons do: every descriptor is closed and the numbers are used again. */
static void child_closes_all_descriptors(void *unused)
{
    (void)unused;
    for (int fd = 3; fd < 64; fd++)
        close(fd);
    int files[64 - 3];
    for (int i = 0; i < 64 - 3; i++) {
        files[i] = open("/dev/null", O_RDONLY);
        CHECK(files[i] >= 0);
    }
    call();
    for (int i = 0; i < 64 - 3; i++)
        CHECK(fcntl(files[i], F_GETFD) >= 0); /* none was taken for the socket */
    nearcall_close(client);
}

static void child_forks_again(void *unused)
{
    (void)unused;
    call();
    test_join(test_fork(child_calls, NULL));
    call();
    nearcall_close(client);
}

static void child_finishes_a_request_of_its_parent(void *unused)
{
    nearcall_reply reply;
    (void)unused;
    nearcall_put_array(client, 0);
    CHECK_CALL(client, nearcall_request_call(client, 10000, &reply), NEARCALL_OK);
    nearcall_close(client);
}

static void child_waits_for_a_call_of_its_parent(void *argument)
{
    nearcall_reply reply;
    nearcall_call_id *calls = argument;
    CHECK_CALL(client, nearcall_wait(client, calls[0], &reply), NEARCALL_E_UNAVAILABLE);
    CHECK_OUTCOME(client, NEARCALL_OUTCOME_UNKNOWN);
    nearcall_cancel(client, calls[1]); /* must not reach the parent's server */
    call();
    nearcall_close(client);
}

static void children_of_every_kind(void)
{
    static void (*const bodies[])(void *) = {
        child_calls, child_closes, child_exits, child_closes_all_descriptors, child_forks_again,
    };
    for (size_t i = 0; i < sizeof(bodies) / sizeof(bodies[0]); i++) {
        pid_t pid = test_fork(bodies[i], NULL);
        call();
        test_join(pid);
        call();
    }
    CHECK_CALL(client, nearcall_request(client, count, NEARCALL_CODEC_MSGPACK), NEARCALL_OK);
    test_join(test_fork(child_finishes_a_request_of_its_parent, NULL));
}

static void calls_in_flight(void)
{
    nearcall_call_id calls[2];
    nearcall_reply reply;
    nearcall_function *nap = test_find(client, "sleep");
    for (int i = 0; i < 2; i++) {
        test_request_int(client, nap, 100);
        CHECK_CALL(client, nearcall_request_send(client, 10000, &calls[i]), NEARCALL_OK);
    }
    test_join(test_fork(child_waits_for_a_call_of_its_parent, calls));
    for (int i = 0; i < 2; i++) {
        CHECK_CALL(client, nearcall_wait(client, calls[i], &reply), NEARCALL_OK);
        CHECK_INT(test_read_int(&reply), 100);
    }
}

/* Posted when the child is gone and its parent's connection was looked at: only
 * then may the parent use it again. */
static sem_t looked;

/* The first connection gets not one byte more after the fork, and no end either. */
static void watch_the_first_connection(struct script *script)
{
    struct nc_frame frame;
    uint8_t byte;
    script_greet(script);
    script_expect(script, NC_REQUEST, &frame);
    script_reply(script, &frame, NULL, 0);
    int first = script->fd;
    script->fd = -1;
    script_greet(script); /* the child's */
    script_serve(script);
    CHECK_INT(recv(first, &byte, 1, MSG_DONTWAIT), -1);
    CHECK_INT(errno, EAGAIN);
    CHECK_INT(sem_post(&looked), 0);
    script_hang_up(script);
    script->fd = first;
    script_serve(script);
}

static void child_of_script(void *argument)
{
    nearcall_client *inherited = argument;
    nearcall_reply reply;
    CHECK_CALL(inherited, nearcall_call(inherited, "f", "c", 1, 10000, &reply), NEARCALL_OK);
    nearcall_disconnect(inherited);
    nearcall_close(inherited);
}

static void not_one_byte_on_the_parents_connection(void)
{
    struct script script;
    nearcall_reply reply;
    CHECK_INT(sem_init(&looked, 0, 0), 0);
    script_start(&script, watch_the_first_connection, NULL);
    nearcall_client *parent = test_open(script.address, 0);
    CHECK_CALL(parent, nearcall_call(parent, "f", "a", 1, 10000, &reply), NEARCALL_OK);
    test_join(test_fork(child_of_script, parent));
    CHECK_INT(sem_wait(&looked), 0);
    CHECK_CALL(parent, nearcall_call(parent, "f", "b", 1, 10000, &reply), NEARCALL_OK);
    CHECK_INT(reply.bytes, 1);
    nearcall_close(parent);
    script_end(&script);
}

static volatile pid_t forked_by_handler;

static void fork_in_handler(int signal_number)
{
    (void)signal_number;
    if (forked_by_handler == 0) {
        pid_t pid = fork();
        forked_by_handler = pid ? pid : -1;
    }
}

/* The child comes back from its handler into the library's wait, and must not go on
 * reading what is the parent's. */
static void a_signal_handler_forks(void)
{
    struct sigaction action = {.sa_handler = fork_in_handler};
    nearcall_reply reply;
    nearcall_function *nap = test_find(client, "sleep");
    CHECK(sigaction(SIGVTALRM, &action, NULL) == 0);
    pid_t signaller = fork();
    CHECK(signaller >= 0);
    if (signaller == 0) {
        while (usleep(50000) == 0 && kill(getppid(), SIGVTALRM) == 0)
            ;
        _exit(0);
    }
    test_request_int(client, nap, 400);
    int r = nearcall_request_call(client, 10000, &reply);
    if (forked_by_handler == -1) {
        CHECK_CALL(client, r, NEARCALL_E_UNAVAILABLE);
        CHECK_OUTCOME(client, NEARCALL_OUTCOME_UNKNOWN);
        call();
        nearcall_close(client);
        _exit(0);
    }
    kill(signaller, SIGKILL);
    CHECK_INT(waitpid(signaller, NULL, 0), signaller);
    CHECK_CALL(client, r, NEARCALL_OK);
    CHECK(forked_by_handler > 0);
    test_join(forked_by_handler);
    call();
}

static void child_has_its_own(void *unused)
{
    CHECK(!test_has_mapping("nearcall-caller")); /* what is not mapped cannot be touched */
    child_calls(unused);
}

static void child_has_nothing(void *unused)
{
    (void)unused;
    CHECK(!test_has_mapping("nearcall-caller"));
}

/* The parent's calls go through shared memory, before each fork and after it. */
static void forks_with_calls(long forks)
{
    for (long i = 0; i < forks; i++) {
        pid_t pid = test_fork(i % 2 ? child_has_its_own : child_has_nothing, NULL);
        call();
        CHECK(strcmp(nearcall_transport(client), "shared memory") == 0);
        test_join(pid);
    }
}

/* What a child had written into its parent's ring would have been one. */
static void no_violations(void)
{
    nearcall_reply reply;
    nearcall_function *stats = test_find(client, "nearcall.stats");
    static const char none[] = "\"violations_total\":0,";
    CHECK_CALL(client, nearcall_request(client, stats, NEARCALL_CODEC_MSGPACK), NEARCALL_OK);
    nearcall_put_array(client, 0);
    CHECK_CALL(client, nearcall_request_call(client, 10000, &reply), NEARCALL_OK);
    CHECK(memmem(reply.data, reply.bytes, none, strlen(none)) != NULL);
}

/* Descriptors and memory are flat: what the first tenth needed is all there is. */
static void many_forks(long forks)
{
    for (int i = 0; i < 100; i++)
        call(); /* until there is shared memory */
    CHECK(test_has_mapping("nearcall-caller"));
    forks_with_calls(forks / 10 + 1);
    int descriptors = test_open_descriptors();
    size_t heap = test_heap_bytes();
    forks_with_calls(forks - forks / 10 - 1);
    CHECK_INT(test_open_descriptors(), descriptors);
    CHECK_INT(test_heap_bytes(), heap);
}

int main(void)
{
    struct server server;
    test_begin();
    server_start(&server);
    client = test_open(server.address, 0);
    count = test_find(client, "count");
    children_of_every_kind();
    calls_in_flight();
    a_signal_handler_forks();
    not_one_byte_on_the_parents_connection();
    long forks = test_parameter("NEARCALL_TEST_FORKS", 2000);
    alarm((unsigned)(300 + (double)forks / 50 * test_slowness()));
    many_forks(forks);
    no_violations();
    nearcall_close(client);
    server_stop(&server);
    return 0;
}
