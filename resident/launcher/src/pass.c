#include "pass.h"

#include "deadline.h"
#include "frame.h"
#include "limits_gen.h"
#include "text.h"

#include <signal.h>
#include <time.h>
#include <unistd.h>

/* A run in a group of its own cannot be stopped from a terminal that is not its
 * session's, so it gets the signal that always stops. */
static void pass_on(const struct run *run, int number)
{
    unsigned size = number == SIGWINCH ? nc_terminal_size(run->caller->terminal) : 0;
    if (run->group != 0)
        kill(-run->group, number == SIGTSTP ? SIGSTOP : number);
    else
        nc_frame_send(run->connection, NC_FRAME_SIGNAL, (uint32_t)number, size, 0);
}

/* The kernel does not stop the processes of a group that no shell could let go on
 * (ssh -t, docker run -it), so it is asked as for any process, not told by SIGSTOP.
 * Returns whether it was stopped, and let go on. */
static int stop_itself(int number)
{
    static const struct timespec at_once;
    sigset_t only;
    sigemptyset(&only);
    sigaddset(&only, number);
    sigprocmask(SIG_UNBLOCK, &only, NULL);
    kill(getpid(), number);
    sigprocmask(SIG_BLOCK, &only, NULL);
    /* What let it go on; the run is told in any case. */
    sigemptyset(&only);
    sigaddset(&only, SIGCONT);
    return sigtimedwait(&only, NULL, &at_once) == SIGCONT;
}

/* Whether the run could take what is typed for others: the kernel keeps the jobs of
 * the terminal's session from that, and a run is of another. */
static int would_steal(const struct run *run)
{
    return run->group != 0 && nc_terminal_is_behind(run->caller->terminal);
}

/* The launcher's caller waits for the launcher: it sees it stopped. In the background
 * it stays so, as a program that reads from the terminal does. */
static void stop(struct run *run, int number)
{
    int has_terminal = run->execution.process == 0;
    pass_on(run, SIGTSTP);
    if (has_terminal)
        nc_terminal_leave(run->caller->terminal);
    while (stop_itself(number) && would_steal(run)) {
        nc_say(run->caller->program->name, " stays stopped in the background, for its standard input is the terminal;"
                                           " fg lets it go on");
        number = SIGTTIN;
    }
    if (has_terminal)
        nc_terminal_return(run->caller->terminal);
    pass_on(run, SIGCONT);
}

/* A run that was stopped goes on to its end. */
static void expect_end(struct run *run, int number)
{
    if (run->group != 0)
        kill(-run->group, SIGCONT);
    run->asked = number;
    if (run->asked_ms == 0)
        run->asked_ms = nc_now_ms() + NC_RESIDENT_END_MS;
}

static void child_ended(struct run *run)
{
    int status;
    if (nc_execute_ended(&run->execution, &status))
        nc_frame_send(run->connection, NC_FRAME_EXECUTED, (uint32_t)status, 0, 1);
}

static void keep(struct run *run, int number)
{
    if (number == SIGWINCH)
        run->size_changed = 1;
    else
        run->stop_at_beginning = number == SIGTSTP;
}

void nc_pass(struct run *run, int number)
{
    /* These are for the program on the caller's side, as with system(3). */
    int is_childs = run->execution.process != 0 && (number == SIGINT || number == SIGQUIT);
    if (number == SIGCHLD)
        child_ended(run);
    else if (!run->running)
        keep(run, number);
    else if (number == SIGTSTP || (number == SIGCONT && would_steal(run)))
        stop(run, number == SIGTSTP ? SIGTSTP : SIGTTIN);
    else if (!is_childs)
        pass_on(run, number);
    if (run->running && !is_childs && nc_signal_interrupts(number))
        expect_end(run, number);
}

void nc_pass_delayed(struct run *run)
{
    if (run->size_changed)
        pass_on(run, SIGWINCH);
    if (run->stop_at_beginning)
        stop(run, SIGTSTP);
    run->size_changed = run->stop_at_beginning = 0;
}

void nc_pass_back(const struct run *run)
{
    /* Blocked now: it is delivered when the launcher unblocks it. */
    if (run->stop_at_beginning)
        kill(getpid(), SIGTSTP);
}
