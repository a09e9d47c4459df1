#include "inherited.h"

#include "text.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* What names them, as a shell's <(...) does, would be another file in the resident. */
static int names_descriptor(char **arguments)
{
    for (; *arguments != NULL; arguments++)
        if (strstr(*arguments, "/dev/fd/") != NULL || strstr(*arguments, "/proc/self/") != NULL)
            return 1;
    return 0;
}

static int is_open(const char *digits)
{
    return *digits >= '0' && *digits <= '9' && fcntl(atoi(digits), F_GETFD) >= 0;
}

/* The option's value where it is given last, or NULL. */
static const char *last_value(const char *flags, const char *option)
{
    const char *value = NULL;
    while ((flags = strstr(flags, option)) != NULL)
        value = flags += strlen(option);
    return value;
}

/* make names the two of its jobserver to all that it starts, but they are open only in
 * those that it takes for another make. A named pipe needs none. */
static int has_jobserver(void)
{
    const char *flags = getenv("MAKEFLAGS");
    if (flags == NULL)
        return 0;
    const char *both = last_value(flags, "--jobserver-auth=");
    if (both == NULL)
        both = last_value(flags, "--jobserver-fds=");
    const char *second = both == NULL ? NULL : strchr(both, ',');
    return second != NULL && is_open(both) && is_open(second + 1);
}

/* As systemd passes sockets to a service. */
static int has_sockets(void)
{
    char number[NC_NUMBER_BYTES];
    const char *process = getenv("LISTEN_PID");
    return process != NULL && getenv("LISTEN_FDS") != NULL && strcmp(process, nc_number(number, (unsigned)getpid())) == 0;
}

const char *nc_inherited(char **arguments)
{
    if (names_descriptor(arguments))
        return "an argument names a descriptor of the caller";
    if (has_jobserver())
        return "make shares its jobs with it (MAKEFLAGS names descriptors that are open)";
    if (has_sockets())
        return "it is passed sockets (LISTEN_PID, LISTEN_FDS)";
    return NULL;
}
