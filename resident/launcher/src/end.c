#include "end.h"

#include "finish.h"
#include "text.h"

#include <fcntl.h>
#include <signal.h>
#include <string.h>
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

/* 'T' for one that is stopped, 'Z' for one that has ended or that there is not. */
static char state_of(pid_t process)
{
    char path[sizeof("/proc//stat") + NC_NUMBER_BYTES], number[NC_NUMBER_BYTES], text[64];
    nc_join(path, sizeof(path), "/proc/", nc_number(number, (unsigned long long)process), "/stat");
    int fd = openat(AT_FDCWD, path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return 'Z';
    /* The name, which may have parentheses itself, is of 15 bytes at most. */
    ssize_t length = read(fd, text, sizeof(text));
    close(fd);
    const char *end = length > 0 ? memrchr(text, ')', (size_t)length) : NULL;
    return end != NULL && end + 2 < text + length ? end[2] : 'Z';
}

void nc_end_unless_alive(struct run *run)
{
    run->asked_ms = 0;
    char state = run->process > 0 ? state_of(run->process) : '?';
    if (state != 'T' && state != 'Z' && state != 'X')
        return;
    nc_terminal_restore(run->caller->terminal);
    if (run->ending)
        _exit(run->code);
    nc_finish_by_signal(run->asked);
}
