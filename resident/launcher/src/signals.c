#include "signals.h"

#include <errno.h>
#include <stddef.h>
#include <sys/signalfd.h>
#include <unistd.h>

static const int passed[] = {SIGHUP, SIGINT, SIGQUIT, SIGUSR1, SIGUSR2, SIGTERM, SIGWINCH, SIGTSTP, SIGCONT, SIGCHLD};
enum { PASSED = sizeof(passed) / sizeof(passed[0]) };

int nc_signals_open(struct signals *signals, struct reason *reason)
{
    sigset_t mask;
    sigemptyset(&mask);
    for (size_t i = 0; i < PASSED; i++)
        sigaddset(&mask, passed[i]);
    sigprocmask(SIG_BLOCK, &mask, &signals->before);
    /* What the caller blocked stays pending, as it would for the program; children
     * are the launcher's own. */
    for (size_t i = 0; i < PASSED; i++)
        if (passed[i] != SIGCHLD && sigismember(&signals->before, passed[i]))
            sigdelset(&mask, passed[i]);
    signals->fd = signalfd(-1, &mask, SFD_CLOEXEC | SFD_NONBLOCK);
    if (signals->fd >= 0)
        return 0;
    nc_because(reason, "cannot wait for signals", errno);
    sigprocmask(SIG_SETMASK, &signals->before, NULL);
    return -1;
}

void nc_signals_close(struct signals *signals)
{
    close(signals->fd);
    sigprocmask(SIG_SETMASK, &signals->before, NULL);
}

/* Blocked signals arrive here although they are ignored. To ask for each at the
 * start would cost nine system calls; hardly any run gets one. */
static int is_ignored(int number)
{
    struct sigaction action;
    return number != SIGCHLD && sigaction(number, NULL, &action) == 0 && action.sa_handler == SIG_IGN;
}

int nc_signals_next(const struct signals *signals)
{
    struct signalfd_siginfo information;
    while (read(signals->fd, &information, sizeof(information)) == (ssize_t)sizeof(information)) {
        int number = (int)information.ssi_signo;
        if (!is_ignored(number))
            return number;
    }
    return 0;
}

int nc_signal_interrupts(int number)
{
    return number == SIGHUP || number == SIGINT || number == SIGQUIT || number == SIGTERM;
}

int nc_signal_ends(int number)
{
    return number != SIGWINCH && number != SIGTSTP && number != SIGCONT && number != SIGCHLD;
}
