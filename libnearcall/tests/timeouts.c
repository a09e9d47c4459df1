/* Deadlines of every length: never early, never more than 50 ms late, under a
 * timer that interrupts every wait, and after calls of other lengths. */
#include <sys/time.h>

#include "script.h"

static void read_and_say_nothing(struct script *script)
{
    script_greet(script);
    (void)script_read_end(script);
}

static void expect(nearcall_client *client, int64_t timeout_ms)
{
    nearcall_reply reply;
    for (int i = 0; i < TEST_TRIES; i++) {
        double before_ms = test_now_ms();
        CHECK_CALL(client, nearcall_call(client, "f", NULL, 0, timeout_ms, &reply),
                   NEARCALL_E_DEADLINE_EXCEEDED);
        if (test_in_time(test_now_ms() - before_ms, (double)timeout_ms))
            return;
    }
    CHECK(!"the call ended in time");
}

static void on_timer(int signal_number)
{
    (void)signal_number;
}

static void interrupt_every(long microseconds)
{
    struct itimerval timer = {{0, microseconds}, {0, microseconds}};
    struct sigaction action = {.sa_handler = on_timer, .sa_flags = SA_RESTART};
    CHECK(sigaction(SIGVTALRM, &action, NULL) == 0);
    CHECK(sigaction(SIGPROF, &action, NULL) == 0);
    CHECK(sigaction(SIGALRM, &action, NULL) == 0);
    CHECK(setitimer(ITIMER_REAL, &timer, NULL) == 0);
}

int main(void)
{
    static const int64_t timeouts_ms[] = {1, 2, 5, 10, 30, 59, 60, 61, 100, 250, 1000, 3000, 7, 400};
    struct script script;
    test_begin();
    script_start(&script, read_and_say_nothing, NULL);
    nearcall_client *client = test_open(script.address, 0);
    CHECK_CALL(client, nearcall_connect(client, 5000), NEARCALL_OK);
    for (size_t i = 0; i < sizeof(timeouts_ms) / sizeof(timeouts_ms[0]); i++)
        expect(client, timeouts_ms[i]);
    interrupt_every(10000); /* ends test_begin()'s bound too, but never a wait */
    expect(client, 300);
    expect(client, 30);
    interrupt_every(0);
    nearcall_close(client);
    script_end(&script);
    return 0;
}
