/* A signal's handler that uses the handle whose wait it has interrupted is refused at
 * once, and the wait goes on as if nothing had been. */
#include <pthread.h>

#include "script.h"

static nearcall_client *client;
static nearcall_function *function;
static volatile sig_atomic_t handled;

static void on_signal(int signal_number)
{
    nearcall_reply reply;
    nearcall_call_id call;
    (void)signal_number;
    CHECK_INT(nearcall_call(client, "f", "inner", 5, 100, &reply), NEARCALL_E_MISUSE);
    CHECK_INT(nearcall_ping(client, 100, NULL), NEARCALL_E_MISUSE);
    CHECK_INT(nearcall_connect(client, 100), NEARCALL_E_MISUSE);
    CHECK_INT(nearcall_request(client, function, NEARCALL_CODEC_RAW), NEARCALL_E_MISUSE);
    nearcall_put_raw(client, "inner", 5);
    CHECK(nearcall_put_reserve(client, 5) == NULL);
    CHECK_INT(nearcall_request_send(client, 100, &call), NEARCALL_E_MISUSE);
    CHECK_INT(nearcall_wait(client, 1, &reply), NEARCALL_E_MISUSE);
    CHECK_INT(nearcall_process(client), NEARCALL_E_MISUSE);
    CHECK_INT(nearcall_take_file(client, 0), NEARCALL_E_MISUSE);
    CHECK_INT(nearcall_error_code(client), 0);
    nearcall_cancel(client, 1);
    nearcall_disconnect(client);
    nearcall_close(client);
    handled = 1;
}

static pthread_t tester;

static void answer_when_it_was_handled(struct script *script)
{
    struct nc_frame frame;
    script_greet(script);
    script_expect(script, NC_RESOLVE, &frame);
    script_reply(script, &frame, "\x80", 1);
    script_expect(script, NC_REQUEST, &frame);
    pthread_kill(tester, SIGUSR1);
    while (!handled)
        sched_yield();
    script_reply(script, &frame, "outer", 5);
    script_serve(script);
}

int main(void)
{
    struct script script;
    struct sigaction action = {.sa_handler = on_signal};
    nearcall_reply reply;
    test_begin();
    tester = pthread_self();
    CHECK(sigaction(SIGUSR1, &action, NULL) == 0);
    script_start(&script, answer_when_it_was_handled, NULL);
    client = test_open(script.address, 0);
    function = test_find(client, "f");
    CHECK_CALL(client, nearcall_request(client, function, NEARCALL_CODEC_RAW), NEARCALL_OK);
    nearcall_put_raw(client, "x", 1);
    CHECK_CALL(client, nearcall_request_call(client, 20000, &reply), NEARCALL_OK);
    CHECK(handled && reply.bytes == 5 && memcmp(reply.data, "outer", 5) == 0);
    CHECK_CALL(client, nearcall_call(client, "f", "after", 5, 20000, &reply), NEARCALL_OK);
    nearcall_close(client);
    script_end(&script);
    return 0;
}
