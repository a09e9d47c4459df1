/* NEARCALL_INTERRUPTIBLE: a signal ends the wait, the call goes on after its
 * handler, keeps its deadline, or gives way to the next call and is cancelled. */
#include <stdatomic.h>
#include <sys/time.h>
#include <unistd.h>

#include "script.h"

static atomic_int returned; /* from the wait, with the signal */

static void on_signal(int signal_number)
{
    (void)signal_number;
}

static void install(void)
{
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
    CHECK(sigaction(SIGUSR1, &action, NULL) == 0);
}

static pthread_t tester;

/* Signals the test until it has come back from its wait: one signal alone may
 * arrive before the wait begins. */
static void interrupt_the_test(void)
{
    while (!atomic_load(&returned)) {
        pthread_kill(tester, SIGUSR1);
        usleep(1000);
    }
}

static void answer_after_the_signal(struct script *script)
{
    struct nc_frame frame;
    script_greet(script);
    script_expect(script, NC_REQUEST, &frame);
    interrupt_the_test();
    script_await(script);
    script_reply(script, &frame, "yes", 3);
    script_serve(script);
}

static void resumed_after_a_signal(void)
{
    struct script script;
    nearcall_reply reply;
    atomic_store(&returned, 0);
    script_start(&script, answer_after_the_signal, NULL);
    nearcall_client *client = test_open(script.address, NEARCALL_INTERRUPTIBLE);
    int r = nearcall_call(client, "f", "x", 1, 10000, &reply);
    atomic_store(&returned, 1);
    CHECK_CALL(client, r, NEARCALL_E_INTERRUPTED);
    CHECK_INT(nearcall_error_code(client), 100);
    script_signal(&script);
    do
        r = nearcall_resume(client, nearcall_interrupted(client), &reply);
    while (r == NEARCALL_E_INTERRUPTED);
    CHECK_CALL(client, r, NEARCALL_OK);
    CHECK(reply.bytes == 3 && memcmp(reply.data, "yes", 3) == 0);
    CHECK_CALL(client, nearcall_resume(client, nearcall_interrupted(client), &reply), NEARCALL_E_MISUSE);
    nearcall_close(client);
    script_end(&script);
}

static void expect_cancel(struct script *script)
{
    struct nc_frame frame, next;
    script_greet(script);
    script_expect(script, NC_REQUEST, &frame);
    interrupt_the_test();
    script_expect(script, NC_CANCEL, &next);
    CHECK_INT(next.call_id, frame.call_id);
    script_expect(script, NC_REQUEST, &next);
    script_reply(script, &frame, "old", 3); /* late: must not be taken for the new one */
    script_reply(script, &next, "new", 3);
    script_serve(script);
}

static void given_up_for_another(void)
{
    struct script script;
    nearcall_reply reply;
    atomic_store(&returned, 0);
    script_start(&script, expect_cancel, NULL);
    nearcall_client *client = test_open(script.address, NEARCALL_INTERRUPTIBLE);
    CHECK_CALL(client, nearcall_call(client, "f", "x", 1, 10000, &reply), NEARCALL_E_INTERRUPTED);
    atomic_store(&returned, 1);
    int r = nearcall_call(client, "f", "y", 1, 10000, &reply);
    while (r == NEARCALL_E_INTERRUPTED) /* a second signal may be on its way */
        r = nearcall_resume(client, nearcall_interrupted(client), &reply);
    CHECK_CALL(client, r, NEARCALL_OK);
    CHECK(memcmp(reply.data, "new", 3) == 0);
    nearcall_close(client);
    script_end(&script);
}

static void say_nothing(struct script *script)
{
    struct nc_frame frame;
    script_greet(script);
    script_expect(script, NC_REQUEST, &frame);
    (void)script_read_end(script);
}

/* The deadline is the call's, however often it is resumed. */
static bool deadline_across_signals(void)
{
    struct script script;
    struct itimerval timer = {{0, 5000}, {0, 5000}}, none = {{0, 0}, {0, 0}};
    struct sigaction action = {.sa_handler = on_signal};
    nearcall_reply reply;
    int interruptions = 0;
    script_start(&script, say_nothing, NULL);
    nearcall_client *client = test_open(script.address, NEARCALL_INTERRUPTIBLE);
    CHECK_CALL(client, nearcall_connect(client, 0), NEARCALL_OK);
    CHECK(sigaction(SIGALRM, &action, NULL) == 0);
    CHECK(setitimer(ITIMER_REAL, &timer, NULL) == 0);
    double before_ms = test_now_ms();
    int r = nearcall_call(client, "f", "x", 1, 200, &reply);
    while (r == NEARCALL_E_INTERRUPTED) {
        interruptions++;
        r = nearcall_resume(client, nearcall_interrupted(client), &reply);
    }
    double took_ms = test_now_ms() - before_ms;
    CHECK(setitimer(ITIMER_REAL, &none, NULL) == 0);
    CHECK_CALL(client, r, NEARCALL_E_DEADLINE_EXCEEDED);
    CHECK(interruptions >= 5);
    nearcall_close(client);
    script_end(&script);
    return test_in_time(took_ms, 200);
}

/* Interrupted while half of a large request is written: the rest is the handle's
 * own by then, so the caller may forget its data. */
static void read_large(struct script *script)
{
    static uint8_t body[1 << 20];
    uint8_t header[NC_FRAME_HEADER_BYTES];
    struct nc_frame frame;
    size_t got = 0;
    script_greet(script);
    interrupt_the_test();
    script_await(script);
    CHECK_INT(read(script->fd, header, sizeof(header)), sizeof(header));
    nc_frame_decode(&frame, header);
    while (got < frame.length) {
        ssize_t n = read(script->fd, body + got, frame.length - got);
        CHECK(n > 0);
        got += (size_t)n;
    }
    for (size_t i = frame.extension_bytes; i < got; i++)
        CHECK(body[i] == 'L');
    script_reply(script, &frame, "all", 3);
    script_serve(script);
}

static void in_the_middle_of_a_request(void)
{
    struct script script;
    nearcall_reply reply;
    size_t bytes = (1 << 20) - 100;
    uint8_t *data = malloc(bytes);
    CHECK(data != NULL);
    memset(data, 'L', bytes);
    atomic_store(&returned, 0);
    script_start(&script, read_large, NULL);
    nearcall_client *client = test_open(script.address, NEARCALL_INTERRUPTIBLE);
    int r = nearcall_call(client, "f", data, bytes, 10000, &reply);
    atomic_store(&returned, 1);
    CHECK_CALL(client, r, NEARCALL_E_INTERRUPTED);
    memset(data, 'X', bytes);
    free(data);
    script_signal(&script);
    while (r == NEARCALL_E_INTERRUPTED)
        r = nearcall_resume(client, nearcall_interrupted(client), &reply);
    CHECK_CALL(client, r, NEARCALL_OK);
    CHECK(memcmp(reply.data, "all", 3) == 0);
    nearcall_close(client);
    script_end(&script);
}

/* A request that was resumed to its end is used up. */
static void play_request(struct script *script)
{
    struct nc_frame frame;
    script_greet(script);
    script_expect(script, NC_RESOLVE, &frame);
    script_reply(script, &frame, "\x80", 1);
    script_expect(script, NC_REQUEST, &frame);
    interrupt_the_test();
    script_reply(script, &frame, "yes", 3);
    script_serve(script);
}

static void a_request_is_used_up(void)
{
    struct script script;
    nearcall_reply reply;
    atomic_store(&returned, 0);
    script_start(&script, play_request, NULL);
    nearcall_client *client = test_open(script.address, NEARCALL_INTERRUPTIBLE);
    nearcall_function *function = test_find(client, "f");
    CHECK_CALL(client, nearcall_request(client, function, NEARCALL_CODEC_RAW), NEARCALL_OK);
    nearcall_put_raw(client, "once", 4);
    int r = nearcall_request_call(client, 10000, &reply);
    atomic_store(&returned, 1);
    CHECK_CALL(client, r, NEARCALL_E_INTERRUPTED);
    while (r == NEARCALL_E_INTERRUPTED)
        r = nearcall_resume(client, nearcall_interrupted(client), &reply);
    CHECK_CALL(client, r, NEARCALL_OK);
    CHECK_CALL(client, nearcall_request_call(client, 10000, &reply), NEARCALL_E_MISUSE);
    nearcall_close(client);
    script_end(&script);
}

/* ---- Interrupted within an interruption ---- */

static void answer_the_inner(struct script *script)
{
    struct nc_frame outer, inner;
    script_greet(script);
    script_expect(script, NC_REQUEST, &outer);
    interrupt_the_test();
    script_expect(script, NC_CANCEL, &inner);
    script_expect(script, NC_REQUEST, &inner);
    interrupt_the_test();
    script_await(script);
    script_reply(script, &inner, "inner", 5);
    script_serve(script);
}

/* Begins a call that is interrupted; what names it. */
static uint64_t interrupted_call(nearcall_client *client, const char *data)
{
    nearcall_reply reply;
    atomic_store(&returned, 0);
    int r = nearcall_call(client, "f", data, strlen(data), 20000, &reply);
    atomic_store(&returned, 1);
    CHECK_CALL(client, r, NEARCALL_E_INTERRUPTED);
    return nearcall_interrupted(client);
}

static void each_resumes_its_own(void)
{
    struct script script;
    nearcall_reply reply;
    int r;
    script_start(&script, answer_the_inner, NULL);
    nearcall_client *client = test_open(script.address, NEARCALL_INTERRUPTIBLE);
    uint64_t outer = interrupted_call(client, "outer");
    uint64_t inner = interrupted_call(client, "inner");
    CHECK(outer != 0 && inner != 0 && outer != inner);
    CHECK_CALL(client, nearcall_resume(client, outer, &reply), NEARCALL_E_CANCELLED);
    CHECK_OUTCOME(client, NEARCALL_OUTCOME_UNKNOWN);
    CHECK_CALL(client, nearcall_resume(client, inner + 1, &reply), NEARCALL_E_MISUSE);
    CHECK_CALL(client, nearcall_resume(client, 0, &reply), NEARCALL_E_MISUSE);
    script_signal(&script);
    do
        r = nearcall_resume(client, inner, &reply);
    while (r == NEARCALL_E_INTERRUPTED);
    CHECK_CALL(client, r, NEARCALL_OK);
    CHECK(reply.bytes == 5 && memcmp(reply.data, "inner", 5) == 0);
    CHECK_CALL(client, nearcall_resume(client, outer, &reply), NEARCALL_E_CANCELLED);
    CHECK_CALL(client, nearcall_resume(client, inner, &reply), NEARCALL_E_MISUSE);
    nearcall_close(client);
    script_end(&script);
}

int main(void)
{
    test_begin();
    install();
    tester = pthread_self();
    resumed_after_a_signal();
    given_up_for_another();
    in_the_middle_of_a_request();
    a_request_is_used_up();
    for (int tries = 0; !deadline_across_signals(); tries++)
        CHECK(tries < TEST_TRIES);
    each_resumes_its_own();
    return 0;
}
