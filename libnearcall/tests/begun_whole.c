/* nearcall_request_send() with NEARCALL_INTERRUPTIBLE returns NEARCALL_OK when all of a large
 * request was sent, however many signals come meanwhile: nobody would send the rest of it while its
 * caller does something else, and the server would take the connection away. */
#include <semaphore.h>
#include <stdatomic.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "handle/handle.h"
#include "script.h"

#define LARGE_BYTES (4 << 20)
#define PATIENCE_SECONDS 20

static sem_t is_read;
static atomic_int strikes; /* signals are sent to the test */
static pthread_t tester;

static void on_signal(int signal_number)
{
    (void)signal_number;
}

static void *strike(void *unused)
{
    while (atomic_load(&strikes)) {
        pthread_kill(tester, SIGUSR1);
        usleep(1000);
    }
    return unused;
}

static void read_large(struct script *script, struct nc_frame *frame)
{
    script_expect_filled(script, frame, 'L');
    CHECK(sem_post(&is_read) == 0);
}

static void greet(struct script *script)
{
    struct nc_frame frame;
    script_greet(script);
    script_expect(script, NC_RESOLVE, &frame);
    script_reply(script, &frame, "\x80", 1);
    script_await(script);
}

static void reads_late(struct script *script)
{
    struct nc_frame large;
    greet(script);
    read_large(script, &large);
    script_await(script);
    script_reply(script, &large, "done", 4);
    script_serve(script);
}

static void sees_it_given_up(struct script *script)
{
    struct nc_frame large, cancel;
    greet(script);
    read_large(script, &large);
    script_expect(script, NC_CANCEL, &cancel);
    CHECK_INT(cancel.call_id, large.call_id);
    script_error(script, large.call_id, 1, NEARCALL_OUTCOME_NOT_EXECUTED, "cancelled");
    script_serve(script);
}

static void never_reads(struct script *script)
{
    greet(script);
    script_await(script);
}

/* The server does not read before it is told to, so that signals find the request half sent. */
static nearcall_client *interrupted(struct script *script, void (*play)(struct script *), pthread_t *striker)
{
    nearcall_call_id call;
    uint8_t *data = malloc(LARGE_BYTES);
    CHECK(data != NULL);
    memset(data, 'L', LARGE_BYTES);
    script_start(script, play, NULL);
    nearcall_client *client = test_open(script->address, NEARCALL_INTERRUPTIBLE);
    nearcall_function *function = test_find(client, "f");
    CHECK_CALL(client, nearcall_request(client, function, NEARCALL_CODEC_RAW), NEARCALL_OK);
    nearcall_put_raw(client, data, LARGE_BYTES);
    free(data);
    atomic_store(&strikes, 1);
    CHECK(pthread_create(striker, NULL, strike, NULL) == 0);
    for (int i = 0; i < 5; i++)
        CHECK_CALL(client, nearcall_request_send(client, 20000, &call), NEARCALL_E_INTERRUPTED);
    nearcall_put_raw(client, "more", 4);
    CHECK_INT(nearcall_put_check(client), NEARCALL_E_MISUSE);
    return client;
}

static void silence(pthread_t striker)
{
    atomic_store(&strikes, 0);
    CHECK(pthread_join(striker, NULL) == 0);
}

static void all_of_it_is_sent(void)
{
    struct script script;
    struct timespec end;
    pthread_t striker;
    nearcall_call_id call;
    nearcall_reply reply;
    int r;
    nearcall_client *client = interrupted(&script, reads_late, &striker);
    script_signal(&script);
    do
        r = nearcall_request_send(client, 20000, &call);
    while (r == NEARCALL_E_INTERRUPTED);
    CHECK_CALL(client, r, NEARCALL_OK);
    silence(striker);
    /* The handle is left alone until the server has all of it. */
    CHECK(clock_gettime(CLOCK_REALTIME, &end) == 0);
    end.tv_sec += PATIENCE_SECONDS;
    CHECK(sem_timedwait(&is_read, &end) == 0);
    CHECK_CALL(client, nearcall_request_send(client, 20000, &call), NEARCALL_E_MISUSE);
    script_signal(&script);
    CHECK_CALL(client, nearcall_wait(client, call, &reply), NEARCALL_OK);
    CHECK(reply.bytes == 4 && memcmp(reply.data, "done", 4) == 0);
    nearcall_close(client);
    script_end(&script);
}

/* As a signal's handler does that uses the handle. */
static void another_takes_its_place(void)
{
    struct script script;
    pthread_t striker;
    nearcall_call_id call;
    nearcall_reply reply;
    nearcall_client *client = interrupted(&script, sees_it_given_up, &striker);
    silence(striker);
    script_signal(&script);
    CHECK_CALL(client, nearcall_request(client, test_find(client, "f"), NEARCALL_CODEC_RAW), NEARCALL_OK);
    nearcall_put_raw(client, "other", 5);
    CHECK_CALL(client, nearcall_request_call(client, 20000, &reply), NEARCALL_OK);
    CHECK(reply.bytes == 5 && memcmp(reply.data, "other", 5) == 0);
    CHECK_CALL(client, nearcall_request_send(client, 20000, &call), NEARCALL_E_CANCELLED);
    CHECK_OUTCOME(client, NEARCALL_OUTCOME_UNKNOWN);
    CHECK_CALL(client, nearcall_request_send(client, 20000, &call), NEARCALL_E_MISUSE);
    nearcall_close(client);
    script_end(&script);
}

/* A request that is exchanged for another takes its place as well. */
static void one_that_is_exchanged_takes_its_place(void)
{
    struct script script;
    pthread_t striker;
    nearcall_call_id call;
    nearcall_reply reply;
    nearcall_client *client = interrupted(&script, sees_it_given_up, &striker);
    silence(striker);
    script_signal(&script);
    nearcall_client *other = test_open(script.address, 0);
    CHECK_CALL(other, nearcall_request(other, test_find(client, "f"), NEARCALL_CODEC_RAW), NEARCALL_OK);
    nearcall_put_raw(other, "other", 5);
    CHECK_CALL(client, nearcall_request_swap(client, other), NEARCALL_OK);
    CHECK_CALL(client, nearcall_request_send(client, 20000, &call), NEARCALL_OK);
    CHECK_CALL(client, nearcall_wait(client, call, &reply), NEARCALL_OK);
    CHECK(reply.bytes == 5 && memcmp(reply.data, "other", 5) == 0);
    CHECK_CALL(client, nearcall_request_send(client, 20000, &call), NEARCALL_E_CANCELLED);
    CHECK_OUTCOME(client, NEARCALL_OUTCOME_UNKNOWN);
    nearcall_close(other);
    nearcall_close(client);
    script_end(&script);
}

static void it_is_the_parents(void)
{
    struct script script;
    pthread_t striker;
    nearcall_call_id call;
    int status;
    nearcall_client *client = interrupted(&script, never_reads, &striker);
    silence(striker);
    script_signal(&script);
    pid_t child = fork();
    if (child == 0) {
        CHECK_CALL(client, nearcall_request_send(client, 20000, &call), NEARCALL_E_UNAVAILABLE);
        CHECK_OUTCOME(client, NEARCALL_OUTCOME_UNKNOWN);
        nearcall_close(client);
        close(script.fd);
        close(script.listener);
        _exit(0);
    }
    CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);
    nearcall_close(client);
    script_signal(&script);
    script_end(&script);
}

int main(void)
{
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
    test_begin();
    tester = pthread_self();
    CHECK(sem_init(&is_read, 0, 0) == 0 && sigaction(SIGUSR1, &action, NULL) == 0);
    all_of_it_is_sent();
    another_takes_its_place();
    one_that_is_exchanged_takes_its_place();
    it_is_the_parents();
    return 0;
}
