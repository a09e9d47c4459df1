/* A handler of a signal may fetch calls wherever the handle is not in use, also between two that the program
 * is told of. A process stops within the first hook. Then it is stepped on, further each time, and gets a
 * signal there. */
#include <poll.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include "test.h"

#define STEPS 400
#define CALLS 4

static struct fetching {
    nearcall_client *client;
    nearcall_call_id calls[CALLS];
    bool over[CALLS]; /* told of, or fetched */
    bool stopped;
} fetching;

static void is_over(nearcall_call_id call)
{
    unsigned i = 0;
    while (i < CALLS && fetching.calls[i] != call)
        i++;
    CHECK(i < CALLS);
    fetching.over[i] = true;
}

static void stop_in_the_first(void *argument, nearcall_call_id call)
{
    (void)argument;
    is_over(call);
    if (!fetching.stopped)
        raise(SIGSTOP);
    fetching.stopped = true;
}

static void fetch_in_handler(int number)
{
    nearcall_reply reply;
    nearcall_call_id call;
    (void)number;
    for (int i = 0; i < 2; i++)
        if ((call = nearcall_next_finished(fetching.client)) != 0 && nearcall_poll(fetching.client, call, &reply) == NEARCALL_OK)
            is_over(call);
}

static int turn(nearcall_client *client)
{
    struct pollfd watched = {nearcall_fd(client), (short)nearcall_events(client), 0};
    poll(&watched, 1, (int)nearcall_timeout_ms(client));
    return nearcall_process(client);
}

static void be_stepped(const struct server *server)
{
    nearcall_options options = NEARCALL_OPTIONS_INIT;
    options.flags = NEARCALL_NONBLOCKING;
    fetching.client = test_open_with(server->address, &options);
    nearcall_function *echo = test_find(fetching.client, "echo");
    CHECK(signal(SIGUSR1, fetch_in_handler) != SIG_ERR);
    for (int i = 0; i < CALLS; i++) {
        CHECK_CALL(fetching.client, nearcall_request(fetching.client, echo, NEARCALL_CODEC_RAW), NEARCALL_OK);
        CHECK_CALL(fetching.client, nearcall_request_send(fetching.client, 20000, &fetching.calls[i]), NEARCALL_OK);
    }
    while (turn(fetching.client) < CALLS)
        ;
    CHECK_INT(nearcall_on_finished(fetching.client, stop_in_the_first, NULL), NEARCALL_OK);
    CHECK(ptrace(PTRACE_TRACEME, 0, NULL, NULL) == 0);
    CHECK(nearcall_process(fetching.client) >= 0);
    CHECK(nearcall_process(fetching.client) >= 0);
    for (int i = 0; i < CALLS; i++)
        CHECK(fetching.over[i]);
    nearcall_close(fetching.client);
}

static void step(pid_t process, int steps)
{
    int status;
    CHECK(waitpid(process, &status, 0) == process && WIFSTOPPED(status) && WSTOPSIG(status) == SIGSTOP);
    while (steps-- > 0) {
        CHECK(ptrace(PTRACE_SINGLESTEP, process, NULL, NULL) == 0);
        CHECK(waitpid(process, &status, 0) == process && WIFSTOPPED(status) && WSTOPSIG(status) == SIGTRAP);
    }
    CHECK(ptrace(PTRACE_DETACH, process, NULL, (void *)(intptr_t)SIGUSR1) == 0);
    CHECK(waitpid(process, &status, 0) == process);
    CHECK_INT(status, 0);
}

int main(void)
{
    struct server server;
    test_begin();
    server_start(&server);
    for (int steps = 0; steps < STEPS; steps++) {
        pid_t process = fork();
        CHECK(process >= 0);
        if (process == 0) {
            be_stepped(&server);
            _exit(0);
        }
        step(process, steps);
    }
    server_stop(&server);
    return 0;
}
