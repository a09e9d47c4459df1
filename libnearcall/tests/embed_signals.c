/* The host's signals are the host's, also while Go functions run in its thread. */
#include "embed_test.h"

#include <errno.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#define ROUNDS 200

static const struct {
    int number;
    bool ends; /* whoever has no handler */
} signals[] = {{SIGTERM, true}, {SIGHUP, true}, {SIGCHLD, false}, {SIGALRM, true},
               {SIGUSR1, true}, {SIGINT, true}, {SIGPIPE, true}};
#define SIGNALS (sizeof(signals) / sizeof(signals[0]))

static nearcall_client *client;
static int handled_pipe[2];
static volatile sig_atomic_t handled, handled_elsewhere;

static void handler(int signal)
{
    (void)signal;
    int error = errno;
    volatile char room[6000]; /* more than Go leaves below its stacks */
    memset((char *)room, 0x55, sizeof(room));
    if (gettid() != getpid())
        handled_elsewhere++;
    handled++;
    if (write(handled_pipe[1], "h", 1) != 1)
        _exit(99);
    errno = error;
}

static void install(int signal, int flags)
{
    struct sigaction action = {.sa_handler = handler, .sa_flags = flags};
    handled = 0;
    CHECK_INT(sigaction(signal, &action, NULL), 0);
}

/* Sends the signal that often, each time when the one before was handled; ends sooner if
 * one is not. */
static pid_t sender_of(int signal)
{
    pid_t parent = getpid(), pid = fork();
    CHECK(pid >= 0);
    if (pid != 0)
        return pid;
    char byte;
    struct pollfd answer = {.fd = handled_pipe[0], .events = POLLIN};
    for (int i = 0; i < ROUNDS; i++)
        if (kill(parent, signal) != 0 || poll(&answer, 1, (int)(10000 * test_slowness())) != 1 ||
            read(handled_pipe[0], &byte, 1) != 1)
            _exit(1);
    _exit(0);
}

/* Calls during a rain of the signal: answers are right, every goroutine's stack is whole,
 * every signal is handled, and no thread of the runtime's takes one. */
static void rain_of(int signal)
{
    int status;
    CHECK_INT(pipe(handled_pipe), 0);
    pid_t sender = sender_of(signal), ended = 0;
    for (int i = 0; ended == 0; i++) {
        embed_echo(client, (size_t)(i % 2000));
        CHECK_INT(embed_call_int(client, "deep", i % 500), i % 500);
        if (i % 64 == 0)
            CHECK_INT(embed_call_none(client, "goroutine"), 1);
        if (i % 256 == 0)
            CHECK_INT(embed_call_none(client, "collect"), 1);
        ended = waitpid(sender, &status, WNOHANG);
    }
    CHECK_INT(ended, sender);
    if (status != 0 || handled_elsewhere)
        fprintf(stderr, "signal %d: handled %d times, elsewhere %d\n", signal, handled, handled_elsewhere);
    CHECK_INT(status, 0);
    CHECK_INT(handled_elsewhere, 0);
    /* The end of the sender is a SIGCHLD more. */
    CHECK(handled == ROUNDS || (signal == SIGCHLD && handled == ROUNDS + 1));
    close(handled_pipe[0]);
    close(handled_pipe[1]);
}

static void each_signal(int flags)
{
    for (size_t i = 0; i < SIGNALS; i++) {
        install(signals[i].number, flags);
        rain_of(signals[i].number);
        signal(signals[i].number, SIG_DFL);
    }
}

static void child_is_hit(void *unused)
{
    (void)unused;
    embed_echo(client, 1);
    CHECK(strcmp(nearcall_transport(client), "same process") != 0);
    each_signal(SA_ONSTACK | SA_RESTART);
    each_signal(SA_RESTART);
}

/* ---- Without a handler ---- */

static void raise_here(int signal_number, bool ignored)
{
    signal(signal_number, ignored ? SIG_IGN : SIG_DFL); /* whoever runs this may ignore it */
    embed_echo(client, 10);
    raise(signal_number);
    embed_echo(client, 10);
    _exit(0);
}

static void loads_and_raises(int signal_number, bool ignored)
{
    signal(signal_number, ignored ? SIG_IGN : SIG_DFL);
    client = test_open(embed_address(""), 0);
    embed_expect_transport(client, "same process");
    raise_here(signal_number, ignored);
}

/* In a process that has loaded the library already body runs in a child. */
static void without_handlers(void (*body)(int, bool))
{
    for (size_t i = 0; i < 2 * SIGNALS; i++) {
        int status, number = signals[i / 2].number;
        bool ignored = i % 2;
        pid_t pid = fork();
        CHECK(pid >= 0);
        if (pid == 0)
            body(number, ignored);
        CHECK_INT(waitpid(pid, &status, 0), pid);
        CHECK_INT(status, signals[i / 2].ends && !ignored ? number : 0); /* ended by it, as wait(2) says */
    }
}

/* ---- Broken pipes ---- */

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

/* The runtime unblocks SIGCHLD in threads it comes to know. One that waits for the
 * process is none of its threads', not even as they begin. */
static void the_mask_is_the_hosts(void)
{
    sigset_t mask;
    sigemptyset(&mask);
    sigaddset(&mask, SIGCHLD);
    CHECK_INT(sigprocmask(SIG_BLOCK, &mask, NULL), 0);
    CHECK_INT(pipe(handled_pipe), 0);
    install(SIGCHLD, SA_ONSTACK | SA_RESTART);
    CHECK_INT(kill(getpid(), SIGCHLD), 0);
    client = test_open(embed_address(""), 0);
    embed_echo(client, 10);
    CHECK_INT(handled, 0);
    CHECK_INT(sigprocmask(SIG_SETMASK, NULL, &mask), 0);
    CHECK(sigismember(&mask, SIGCHLD) == 1 && sigismember(&mask, SIGTERM) == 0);
    sigemptyset(&mask);
    CHECK_INT(sigprocmask(SIG_SETMASK, &mask, NULL), 0);
    CHECK_INT(handled, 1);
    CHECK_INT(handled_elsewhere, 0);
    signal(SIGCHLD, SIG_DFL);
    close(handled_pipe[0]);
    close(handled_pipe[1]);
}

int main(void)
{
    test_begin();
    without_handlers(loads_and_raises);
    own_broken_pipe();
    the_mask_is_the_hosts();
    broken_pipes();
    each_signal(SA_ONSTACK | SA_RESTART);
    nearcall_block_signals(client, 1);
    each_signal(SA_RESTART);
    nearcall_block_signals(client, 0);
    without_handlers(raise_here);
    test_join(test_fork(child_is_hit, NULL));
    nearcall_close(client);
    return 0;
}
