/* A request whose call was interrupted before anything was sent belongs to that call until
 * it ends: nothing can be put to it, and what the call then sends is what was put before.
 * To send it again is another call, to which that one gives way. */
#include <stdatomic.h>
#include <unistd.h>

#include "script.h"

#define BYTES 60000 /* grows out of its memory with what is put next */

static atomic_int returned; /* from the wait, with the signal */
static pthread_t tester;

static void on_signal(int signal_number)
{
    (void)signal_number;
}

/* One signal alone may arrive before the wait begins. */
static void interrupt_the_test(void)
{
    while (!atomic_load(&returned)) {
        pthread_kill(tester, SIGUSR1);
        usleep(1000);
    }
}

/* The request cannot be sent before the test has come back from its wait. */
static void play(struct script *script)
{
    static uint8_t payload[SCRIPT_PAYLOAD_MAX];
    struct nc_frame frame;
    script_greet(script);
    script_expect(script, NC_RESOLVE, &frame);
    script_reply(script, &frame, "\x80", 1);
    CHECK(script_read_end(script));
    script_accept(script);
    script_read_hello(script);
    interrupt_the_test();
    script_await(script);
    script_welcome(script);
    while (script_try_read(script, &frame, payload)) {
        CHECK_INT(frame.type, NC_REQUEST);
        script_reply(script, &frame, payload + frame.extension_bytes,
                     frame.length - frame.extension_bytes);
    }
}

static void more_is_put(nearcall_client *client)
{
    uint8_t *more = calloc(1, 4 * BYTES), *room = NULL;
    CHECK(more != NULL);
    nearcall_put_raw(client, more, 4 * BYTES);
    CHECK_INT(nearcall_put_check(client), NEARCALL_E_MISUSE);
    CHECK(nearcall_put_reserve(client, 8 * BYTES) == NULL);
    CHECK_INT(nearcall_put_raw_reserve(client, 8 * BYTES, &room), NEARCALL_E_MISUSE);
    CHECK(room == NULL);
    nearcall_put_file(client, STDIN_FILENO);
    free(more);
}

static void nothing(nearcall_client *client)
{
    (void)client;
}

static nearcall_client *begin(const struct script *script, nearcall_function **ret_function)
{
    nearcall_reply reply;
    uint8_t *data = malloc(BYTES);
    CHECK(data != NULL);
    memset(data, 'A', BYTES);
    nearcall_client *client = test_open(script->address, NEARCALL_INTERRUPTIBLE);
    *ret_function = test_find(client, "f");
    nearcall_disconnect(client);
    CHECK_CALL(client, nearcall_request(client, *ret_function, NEARCALL_CODEC_RAW), NEARCALL_OK);
    nearcall_put_raw(client, data, BYTES);
    free(data);
    CHECK_CALL(client, nearcall_request_call(client, 20000, &reply), NEARCALL_E_INTERRUPTED);
    atomic_store(&returned, 1);
    return client;
}

static void check_reply(const nearcall_reply *reply)
{
    CHECK_INT(reply->bytes, BYTES);
    for (size_t i = 0; i < BYTES; i++)
        CHECK_INT(reply->data[i], 'A');
}

static void resumed_after(void (*misuse)(nearcall_client *))
{
    struct script script;
    nearcall_function *function;
    nearcall_reply reply;
    int r;
    atomic_store(&returned, 0);
    script_start(&script, play, NULL);
    nearcall_client *client = begin(&script, &function);
    uint64_t interrupted = nearcall_interrupted(client);
    misuse(client);
    CHECK(nearcall_interrupted(client) == interrupted);
    script_signal(&script);
    do
        r = nearcall_resume(client, interrupted, &reply);
    while (r == NEARCALL_E_INTERRUPTED);
    CHECK_CALL(client, r, NEARCALL_OK);
    check_reply(&reply);
    CHECK_CALL(client, nearcall_request_call(client, 20000, &reply), NEARCALL_E_MISUSE);
    nearcall_close(client);
    script_end(&script);
}

static int call_again(nearcall_client *client, nearcall_reply *ret_reply)
{
    return nearcall_request_call(client, 20000, ret_reply);
}

static int send_again(nearcall_client *client, nearcall_reply *ret_reply)
{
    nearcall_call_id call;
    int r;
    do
        r = nearcall_request_send(client, 20000, &call);
    while (r == NEARCALL_E_INTERRUPTED);
    CHECK_CALL(client, r, NEARCALL_OK);
    CHECK(nearcall_interrupted(client) == 0);
    do
        r = nearcall_wait(client, call, ret_reply);
    while (r == NEARCALL_E_INTERRUPTED);
    return r;
}

static void sent_again(int (*again)(nearcall_client *, nearcall_reply *))
{
    struct script script;
    nearcall_function *function;
    nearcall_reply reply;
    atomic_store(&returned, 0);
    script_start(&script, play, NULL);
    nearcall_client *client = begin(&script, &function);
    uint64_t interrupted = nearcall_interrupted(client);
    script_signal(&script);
    int r = again(client, &reply);
    while (r == NEARCALL_E_INTERRUPTED) /* a signal that came late */
        r = nearcall_resume(client, nearcall_interrupted(client), &reply);
    CHECK_CALL(client, r, NEARCALL_OK);
    check_reply(&reply);
    CHECK_CALL(client, nearcall_resume(client, interrupted, &reply), NEARCALL_E_CANCELLED);
    nearcall_close(client);
    script_end(&script);
}

/* A request that was begun before an interrupted call of raw bytes is whole: to send it
 * gives that call up, as every next call does. */
static void given_up_by_a_send(void)
{
    struct script script;
    nearcall_function *function;
    nearcall_reply reply;
    nearcall_call_id call;
    int r;
    atomic_store(&returned, 0);
    script_start(&script, play, NULL);
    nearcall_client *client = test_open(script.address, NEARCALL_INTERRUPTIBLE);
    function = test_find(client, "f");
    nearcall_disconnect(client);
    CHECK_CALL(client, nearcall_request(client, function, NEARCALL_CODEC_RAW), NEARCALL_OK);
    nearcall_put_raw(client, "sent", 4);
    CHECK_CALL(client, nearcall_call(client, "f", "raw", 3, 20000, &reply), NEARCALL_E_INTERRUPTED);
    uint64_t interrupted = nearcall_interrupted(client);
    atomic_store(&returned, 1);
    script_signal(&script);
    do
        r = nearcall_request_send(client, 20000, &call);
    while (r == NEARCALL_E_INTERRUPTED);
    CHECK_CALL(client, r, NEARCALL_OK);
    CHECK(nearcall_interrupted(client) == 0);
    CHECK_CALL(client, nearcall_resume(client, interrupted, &reply), NEARCALL_E_CANCELLED);
    CHECK_OUTCOME(client, NEARCALL_OUTCOME_NOT_EXECUTED);
    do
        r = nearcall_wait(client, call, &reply);
    while (r == NEARCALL_E_INTERRUPTED);
    CHECK_CALL(client, r, NEARCALL_OK);
    CHECK(reply.bytes == 4 && memcmp(reply.data, "sent", 4) == 0);
    nearcall_close(client);
    script_end(&script);
}

int main(void)
{
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
    test_begin();
    tester = pthread_self();
    CHECK(sigaction(SIGUSR1, &action, NULL) == 0);
    resumed_after(nothing);
    resumed_after(more_is_put);
    sent_again(call_again);
    sent_again(send_again);
    given_up_by_a_send();
    return 0;
}
