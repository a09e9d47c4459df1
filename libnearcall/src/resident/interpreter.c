/* The interpreter that env(1) finds for a script by the PATH of whoever calls it. */
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "resident/resident.h"

/* Without a PATH, as the C library has it. */
#define USUAL_PATH "/bin:/usr/bin"
/* Of names that are looked up: in no locale more than these. */
#define NAME_LETTERS "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._+-"

static const char *after_blanks(const char *text)
{
    return text + strspn(text, " \t");
}

static bool is_env(const char *path, size_t bytes)
{
    const char *last = path + bytes;
    while (last > path && last[-1] != '/')
        last--;
    return path + bytes - last == 3 && memcmp(last, "env", 3) == 0;
}

/* The name that env is to look up, from a script's first line; false: the line is none of
 * env's. What env would do before that, as setting a variable, leaves the name empty. */
static bool name_in(const char *line, char name[NAME_MAX + 1])
{
    name[0] = 0;
    if (line[0] != '#' || line[1] != '!')
        return false;
    line = after_blanks(line + 2);
    size_t length = strcspn(line, " \t\r\n");
    if (!is_env(line, length))
        return false;
    line = after_blanks(line + length);
    if (strncmp(line, "-S", 2) == 0)
        line = after_blanks(line + 2);
    length = strcspn(line, " \t\r\n");
    if (strspn(line, NAME_LETTERS) < length)
        return true;
    if (length > 0 && length <= NAME_MAX && line[0] != '-')
        snprintf(name, NAME_MAX + 1, "%.*s", (int)length, line);
    return true;
}

/* As execvp() finds it; empty entries of the path and others that are relative begin in the
 * directory. False: there is none, or nobody can tell. */
static bool find(const char *name, const char *path, const char *directory, char found[PATH_MAX])
{
    struct stat status;
    for (path = path ? path : USUAL_PATH;; path++) {
        size_t bytes = strcspn(path, ":");
        bool absolute = *path == '/';
        int length = snprintf(found, PATH_MAX, "%s%s%.*s/%s", absolute ? "" : directory, absolute ? "" : "/",
                              (int)bytes, path, name);
        if (!absolute && *directory != '/')
            return false;
        if (length < PATH_MAX && stat(found, &status) == 0 && S_ISREG(status.st_mode) && access(found, X_OK) == 0)
            return true;
        path += bytes;
        if (*path == 0)
            return false;
    }
}

static const char *path_among(char *const *environment)
{
    for (; *environment; environment++)
        if (strncmp(*environment, "PATH=", 5) == 0)
            return *environment + 5;
    return NULL;
}

static const char *own_path(const struct nc_resident_self *self)
{
    const char *end = self->environment + self->environment_bytes;
    for (const char *own = self->environment; own < end; own += strlen(own) + 1)
        if (strncmp(own, "PATH=", 5) == 0)
            return own + 5;
    return NULL;
}

int nc_resident_interpreter_keep(struct nc_resident_self *self, const char *program)
{
    char line[512], found[PATH_MAX];
    int fd = open(program, O_RDONLY | O_CLOEXEC);
    ssize_t bytes = fd < 0 ? -1 : read(fd, line, sizeof(line) - 1);
    nc_resident_close_fd(&fd);
    if (bytes <= 0)
        return 0;
    line[bytes] = 0;
    if (!name_in(line, self->interpreter_name))
        return 0;
    bool is = self->interpreter_name[0] && find(self->interpreter_name, own_path(self), "", found);
    self->interpreter = strdup(is ? found : "");
    return self->interpreter ? 0 : -1;
}

const char *nc_resident_interpreter_refusal(const struct nc_resident_self *self,
                                            const struct nc_resident_request *request)
{
    char found[PATH_MAX];
    if (!self->interpreter)
        return NULL;
    if (find(self->interpreter_name, path_among(request->environment), request->directory, found) &&
        strcmp(found, self->interpreter) == 0)
        return NULL;
    return "env would find another interpreter for it in its PATH";
}
