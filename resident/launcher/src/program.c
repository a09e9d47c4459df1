#include "program.h"

#include "self.h"
#include "text.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

const char *nc_last_part(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

/* 0, or why not, as execve(2) has it. */
static int check_executable(struct program *program)
{
    if (stat(program->found, &program->file) != 0)
        return errno;
    if (!S_ISREG(program->file.st_mode))
        return EACCES;
    return access(program->found, X_OK) == 0 ? 0 : errno;
}

/* An empty entry of PATH is the current directory. */
static int join_entry(struct program *program, const char *entry, size_t length, const char *name)
{
    if (length >= sizeof(program->found))
        return -1;
    memcpy(program->found, entry, length);
    program->found[length] = '\0';
    return nc_join(program->found + length, sizeof(program->found) - length, length > 0 ? "/" : "./", name);
}

/* Launchers that cannot be read would run each other for ever, by their name. */
static int is_launcher(const struct program *program)
{
    return program->by_link ? nc_may_be_launcher(program->found, &program->file)
                            : nc_is_launcher(program->found, &program->file);
}

static int search(struct program *program)
{
    const char *name = nc_last_part(program->name);
    const char *entry = getenv("PATH");
    int seen_without_permission = 0;
    if (entry == NULL)
        entry = "/usr/local/bin:/bin:/usr/bin";
    for (;; entry++) {
        size_t length = strcspn(entry, ":");
        if (join_entry(program, entry, length, name) == 0) {
            int error = check_executable(program);
            if (error == 0 && !is_launcher(program))
                return 0;
            seen_without_permission |= error == EACCES;
        }
        entry += length;
        if (*entry == '\0')
            break;
    }
    errno = seen_without_permission ? EACCES : ENOENT;
    return -1;
}

enum nc_found nc_program_find(struct program *program, struct reason *reason)
{
    program->path = program->name;
    if (program->searched) {
        if (*nc_last_part(program->name) == '\0') {
            errno = ENOENT;
            return NC_FOUND_NONE;
        }
        if (search(program) != 0)
            return NC_FOUND_NONE;
        program->path = program->found;
    } else if (stat(program->path, &program->file) != 0) {
        return NC_FOUND_NONE;
    }
    if (!S_ISREG(program->file.st_mode)) {
        nc_because(reason, "it is not a regular file", 0);
        return NC_FOUND_PLAIN;
    }
    if (program->file.st_mode & (S_ISUID | S_ISGID)) {
        nc_because(reason, "it runs as another user or group (setuid, setgid)", 0);
        return NC_FOUND_PLAIN;
    }
    return NC_FOUND;
}

int nc_program_path(const struct program *program, char path[PATH_MAX], struct reason *reason)
{
    char directory[PATH_MAX];
    const char *relative = program->path;
    /* For those who read it in a list of processes. */
    while (relative[0] == '.' && relative[1] == '/')
        relative += 2 + strspn(relative + 2, "/");
    if (*program->path == '/')
        directory[0] = '\0';
    else if (getcwd(directory, sizeof(directory)) == NULL)
        return nc_because(reason, "the current directory has no name", errno);
    if (nc_join(path, PATH_MAX, directory, directory[0] != '\0' ? "/" : "", relative) != 0)
        return nc_because(reason, "the program's path is too long", 0);
    return 0;
}
