#include "execute.h"

#include "finish.h"
#include "text.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* Exactly `value` strings that end with NUL. NULL when they are not, or when
 * there is no memory. */
static char **arguments_of(const struct frame *frame)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < frame->length; i++)
        count += frame->text[i] == '\0';
    if (count == 0 || count != frame->value || frame->text[frame->length - 1] != '\0')
        return NULL;
    char **arguments = calloc((size_t)count + 1, sizeof(*arguments));
    if (arguments == NULL)
        return NULL;
    const char *at = frame->text;
    for (uint32_t i = 0; i < count; i++, at += strlen(at) + 1)
        arguments[i] = (char *)(size_t)at;
    return arguments;
}

_Noreturn static void become(char **arguments, const struct execution *execution, const struct signals *signals)
{
    sigaction(SIGCHLD, &execution->on_child, NULL);
    sigprocmask(SIG_SETMASK, &signals->before, NULL);
    execvp(arguments[0], arguments);
    int error = errno;
    nc_say(arguments[0], ": ", strerror(error));
    _exit(error == ENOENT ? NC_EXIT_NOT_FOUND : NC_EXIT_NOT_EXECUTABLE);
}

int nc_execute(struct execution *execution, const struct frame *frame, const struct signals *signals)
{
    const struct sigaction usual = {.sa_handler = SIG_DFL};
    char **arguments;
    if (execution->process != 0 || (arguments = arguments_of(frame)) == NULL)
        return -1;
    /* A caller that ignores SIGCHLD would let the status be lost. */
    sigaction(SIGCHLD, &usual, &execution->on_child);
    execution->process = fork();
    if (execution->process == 0)
        become(arguments, execution, signals);
    free(arguments);
    if (execution->process < 0) {
        execution->process = 0;
        return -1;
    }
    return 0;
}

int nc_execute_ended(struct execution *execution, int *status)
{
    if (execution->process == 0 || waitpid(execution->process, status, WNOHANG) != execution->process)
        return 0;
    execution->process = 0;
    sigaction(SIGCHLD, &execution->on_child, NULL);
    return 1;
}
