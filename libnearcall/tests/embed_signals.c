/* The host's signals are the host's, also while Go functions run in its thread. */
#include "embed_test.h"

#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define ROUNDS 200

static nearcall_client *client;
static volatile sig_atomic_t handled, handled_elsewhere;

static void handler(int signal)
{
    (void)signal;
    volatile char room[6000]; /* more than Go leaves below its stacks */
    memset((char *)room, 0x55, sizeof(room));
    if (gettid() != getpid())
        handled_elsewhere++;
    handled++;
}

static void install(int signal, int flags)
{
    struct sigaction action = {.sa_handler = handler, .sa_flags = flags};
    handled = 0;
    CHECK_INT(sigaction(signal, &action, NULL), 0);
}

/* Sends the signal again and again until it is ended. */
static pid_t sender_of(int signal)
{
    pid_t parent = getpid(), pid = fork();
    if (pid == 0)
        while (kill(parent, signal) == 0)
            usleep(50);
    return pid;
}

/* Calls during a rain of the signal: answers are right, every goroutine's stack is whole,
 * and no thread of the runtime's takes one. */
static void rain_of(int signal)
{
    pid_t sender = sender_of(signal);
    for (int i = 0; handled < ROUNDS; i++) {
        embed_echo(client, (size_t)(i % 2000));
        CHECK_INT(embed_call_int(client, "deep", i % 500), i % 500);
        if (i % 64 == 0)
            CHECK_INT(embed_call_none(client, "goroutine"), 1);
        if (i % 256 == 0)
            CHECK_INT(embed_call_none(client, "collect"), 1);
    }
    kill(sender, SIGKILL);
    waitpid(sender, NULL, 0);
    if (handled_elsewhere)
        fprintf(stderr, "signal %d: %d of %d\n", signal, handled_elsewhere, handled);
    CHECK_INT(handled_elsewhere, 0);
}

static void each_signal(int flags)
{
    static const int signals[] = {SIGTERM, SIGHUP, SIGCHLD, SIGALRM, SIGUSR1, SIGINT, SIGPIPE};
    for (size_t i = 0; i < sizeof(signals) / sizeof(signals[0]); i++) {
        install(signals[i], flags);
        rain_of(signals[i]);
        signal(signals[i], SIG_DFL);
    }
}

static void child_is_hit(void *unused)
{
    (void)unused;
    install(SIGUSR1, 0);
    rain_of(SIGUSR1);
}

/* In Go a write that nobody reads is an error; the host would have died of it. */
static void broken_pipes(void)
{
    CHECK_INT(embed_call_none(client, "broken_pipe"), 1);
    embed_echo(client, 10);
}

/* And dies of its own, as without the library. */
static void own_broken_pipe(void)
{
    int status, ends[2];
    pid_t pid = fork();
    if (pid == 0) {
        nearcall_client *own;
        signal(SIGPIPE, SIG_DFL); /* whoever runs this may ignore it */
        if (nearcall_open(&own, embed_address("?children=own"), NULL) < 0 || pipe(ends) != 0)
            _exit(1);
        embed_echo(own, 10);
        close(ends[0]);
        _exit(write(ends[1], "x", 1) == 1 ? 2 : 3);
    }
    CHECK_INT(waitpid(pid, &status, 0), pid);
    CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGPIPE);
}

/* The runtime unblocks SIGCHLD in threads it comes to know. */
static void the_mask_is_the_hosts(void)
{
    sigset_t mask;
    sigemptyset(&mask);
    sigaddset(&mask, SIGCHLD);
    CHECK_INT(sigprocmask(SIG_BLOCK, &mask, NULL), 0);
    client = test_open(embed_address(""), 0);
    embed_echo(client, 10);
    CHECK_INT(sigprocmask(SIG_SETMASK, NULL, &mask), 0);
    CHECK(sigismember(&mask, SIGCHLD) == 1 && sigismember(&mask, SIGTERM) == 0);
    sigemptyset(&mask);
    CHECK_INT(sigprocmask(SIG_SETMASK, &mask, NULL), 0);
}

int main(void)
{
    test_begin();
    own_broken_pipe();
    the_mask_is_the_hosts();
    broken_pipes();
    each_signal(SA_ONSTACK | SA_RESTART);
    nearcall_block_signals(client, 1);
    each_signal(SA_RESTART);
    nearcall_block_signals(client, 0);
    test_join(test_fork(child_is_hit, NULL));
    nearcall_close(client);
    return 0;
}
