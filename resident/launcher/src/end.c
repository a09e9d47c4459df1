#include "end.h"

#include "finish.h"
#include "text.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

enum { EXIT_CODE_MAX = 255 };

int nc_end_exited(uint32_t code)
{
    if (code > EXIT_CODE_MAX)
        return -1;
    _exit((int)code);
}

int nc_end_killed(const struct run *run, uint32_t number)
{
    if (number == 0 || number > (uint32_t)SIGRTMAX)
        return -1;
    nc_terminal_restore(run->caller->terminal);
    nc_finish_by_signal((int)number);
}

/* The kernel refuses frames since the launcher gave up, so a run that began just
 * before cannot say how it ends. It gets what the launcher got. */
_Noreturn static void end_interrupted(const struct run *run)
{
    if (run->group != 0)
        kill(-run->group, run->interrupt);
    nc_finish_by_signal(run->interrupt);
}

_Noreturn void nc_end_unknown(const struct run *run)
{
    const char *name = run->caller->program->name;
    char log[PATH_MAX];
    nc_terminal_restore(run->caller->terminal);
    if (run->ending)
        _exit(run->code);
    if (run->interrupt != 0)
        end_interrupted(run);
    nc_place_path(run->caller->place, ".log", log);
    if (run->shut)
        nc_say(name, " began when it was waited for no longer, and was told to end; what it did is unknown"
                     " (a longer NEARCALL_RUN_ANSWER_MS waits longer)");
    else
        nc_say(name, " began and nobody said how it ended: it or its resident was killed; see ", log);
    _exit(NC_EXIT_FAILED);
}

/* Ends as the process did, where the kernel still knows, or as ENDING has it. */
static void end_if_known(const struct run *run, int status)
{
    nc_terminal_restore(run->caller->terminal);
    if (status >= 0 && WIFSIGNALED(status))
        nc_finish_by_signal(WTERMSIG(status));
    if (status >= 0)
        _exit(WEXITSTATUS(status));
    if (run->ending)
        _exit(run->code);
}

void nc_end_unless_alive(struct run *run)
{
    int status = -1;
    run->asked_ms = 0;
    char state = run->process.id > 0 ? nc_process_state(run->process.id, &status) : '?';
    if (state != 'T' && state != 'Z' && state != 'X')
        return;
    end_if_known(run, status);
    nc_finish_by_signal(run->asked);
}

_Noreturn void nc_end_without_word(const struct run *run)
{
    int status;
    (void)nc_process_state(run->process.id, &status);
    end_if_known(run, status);
    nc_end_unknown(run);
}
