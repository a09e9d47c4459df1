#include "plain.h"

#include "finish.h"
#include "settings.h"
#include "text.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

extern char **environ;

/* A script without an interpreter in its first line is one of the shell. */
static void run_by_shell(const struct program *program)
{
    size_t count = 0;
    while (program->arguments[count] != NULL)
        count++;
    char **arguments = calloc(count + 2, sizeof(*arguments));
    if (arguments == NULL)
        return;
    arguments[0] = (char *)(size_t)"/bin/sh";
    arguments[1] = (char *)(size_t)program->path;
    for (size_t i = 1; i < count; i++)
        arguments[i + 1] = program->arguments[i];
    execve(arguments[0], arguments, environ);
    free(arguments);
}

_Noreturn void nc_plain(const struct program *program, const struct reason *reason)
{
    if (nc_setting_debug())
        nc_say(program->name, " runs plainly: ", reason->text);
    execve(program->path, program->arguments, environ);
    if (errno == ENOEXEC)
        run_by_shell(program);
    nc_plain_missing(program, errno);
}

_Noreturn void nc_plain_missing(const struct program *program, int error)
{
    nc_say(program->name, ": ", strerror(error), program->searched && error == ENOENT ? " (searched for in PATH)" : "");
    _exit(error == ENOENT ? NC_EXIT_NOT_FOUND : NC_EXIT_NOT_EXECUTABLE);
}
