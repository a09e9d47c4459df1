/* A connection whose welcome does not come is made anew within the deadline, and the next one is
 * given twice as long: its server may have been stopped, and another one may serve the address. */
#include <poll.h>
#include <unistd.h>

#include "base/limits_gen.h"
#include "script.h"

#define TIMEOUT_MS 30000
#define SILENT_AT_FIRST 2

static double silence_ms[SILENT_AT_FIRST];

/* What comes of the first welcome must not be taken for the beginning of the next. */
static void say_too_little(struct script *script)
{
    for (int i = 0; i < SILENT_AT_FIRST; i++) {
        script_accept(script);
        script_read_hello(script);
        script_send(script, "\x89NC", 3);
        double since_ms = test_now_ms();
        CHECK(script_read_end(script));
        silence_ms[i] = test_now_ms() - since_ms;
        script_hang_up(script);
    }
    script_greet(script);
    script_serve(script);
}

static void say_nothing_once(struct script *script)
{
    script_accept(script);
    script_read_hello(script);
    CHECK(script_read_end(script));
    script_hang_up(script);
    script_greet(script);
    script_serve(script);
}

static void waited_for(void)
{
    struct script script;
    nearcall_reply reply;
    script_start(&script, say_too_little, NULL);
    nearcall_client *client = test_open(script.address, 0);
    CHECK_CALL(client, nearcall_call(client, "f", "late", 4, TIMEOUT_MS, &reply), NEARCALL_OK);
    CHECK_INT(reply.bytes, 4);
    for (int i = 0; i < SILENT_AT_FIRST; i++) /* the script began to count a moment after the caller */
        CHECK(silence_ms[i] > 0.9 * (double)(NC_WELCOME_TIMEOUT_MS << i));
    nearcall_close(client);
    script_end(&script);
}

static void in_a_loop(void *unused)
{
    (void)unused;
    struct script script;
    nearcall_call_id call;
    nearcall_reply reply;
    double began_ms = test_now_ms();
    script_start(&script, say_nothing_once, NULL);
    nearcall_client *client = test_open(script.address, NEARCALL_NONBLOCKING);
    CHECK_CALL(client, nearcall_find_begin(client, "f", 1, TIMEOUT_MS, &call), NEARCALL_OK);
    while (nearcall_poll(client, call, &reply) == NEARCALL_E_AGAIN) {
        struct pollfd watched = {nearcall_fd(client), (short)nearcall_events(client), 0};
        CHECK(test_now_ms() - began_ms < TIMEOUT_MS / 2.0);
        (void)poll(&watched, 1, (int)nearcall_timeout_ms(client));
        (void)nearcall_process(client);
    }
    CHECK(nearcall_room(client) != UINT32_MAX);
    nearcall_close(client);
    script_end(&script);
}

int main(void)
{
    test_begin();
    pid_t other = test_fork(in_a_loop, NULL);
    waited_for();
    test_join(other);
    return 0;
}
