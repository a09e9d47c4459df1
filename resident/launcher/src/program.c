#include "program.h"

#include "link.h"
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
static int join_entry(char path[PATH_MAX], const char *entry, size_t length, const char *name)
{
    if (length >= PATH_MAX)
        return -1;
    memcpy(path, entry, length);
    path[length] = '\0';
    return nc_join(path + length, PATH_MAX - length, length > 0 ? "/" : "./", name);
}

/* Whether this launcher is in one of these entries of PATH. */
static int is_this_in(const char *entry, const char *name)
{
    char path[PATH_MAX];
    struct stat file;
    for (;; entry++) {
        size_t length = strcspn(entry, ":");
        if (join_entry(path, entry, length, name) == 0 && stat(path, &file) == 0 && nc_is_this(&file))
            return 1;
        entry += length;
        if (*entry == '\0')
            return 0;
    }
}

/* What is installed beside a link is of a program with that link's name. */
static void remember_link(struct program *program, const char *link)
{
    nc_join(program->link, sizeof(program->link), link);
    if (nc_link_follow(program->link))
        program->name = nc_last_part(program->link);
}

/* Launchers that cannot be read would run each other for ever, by their name: each
 * runs only one that stands behind itself. */
static int is_launcher(struct program *program, const char *entry)
{
    enum nc_kind kind = nc_kind_of(program->found, &program->file);
    program->unreadable = program->by_link && kind == NC_KIND_UNREADABLE;
    if (kind == NC_KIND_LAUNCHER && program->by_link && program->link[0] == '\0')
        remember_link(program, program->found);
    return kind == NC_KIND_LAUNCHER || (program->unreadable && is_this_in(entry, nc_last_part(program->name)));
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
        if (join_entry(program->found, entry, length, name) == 0) {
            int error = check_executable(program);
            const char *called = program->name;
            if (error == 0 && !is_launcher(program, entry))
                return 0;
            if (program->name != called)
                return search(program);
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
    if (program->by_link && strchr(program->name, '/') != NULL)
        remember_link(program, program->name);
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
    if (program->unreadable) {
        nc_because(reason, "it cannot be read, and may be a launcher itself", 0);
        return NC_FOUND_PLAIN;
    }
    if (program->file.st_mode & (S_ISUID | S_ISGID)) {
        nc_because(reason, "it runs as another user or group (setuid, setgid)", 0);
        return NC_FOUND_PLAIN;
    }
    return NC_FOUND;
}

/* Residents start in another directory than the caller's. */
static int join_directory(char path[PATH_MAX], const char *relative, struct reason *reason)
{
    char directory[PATH_MAX] = "";
    if (*relative != '/' && getcwd(directory, sizeof(directory)) == NULL)
        return nc_because(reason, "the current directory has no name", errno);
    if (nc_join(path, PATH_MAX, directory, directory[0] != '\0' ? "/" : "", relative) != 0)
        return nc_because(reason, "the program's path is too long", 0);
    return 0;
}

/* One that is there and cannot be started says all the same that the program itself
 * knows nothing of residents. */
int nc_program_starter(const struct program *program, char path[PATH_MAX], struct reason *reason)
{
    char link[PATH_MAX];
    *path = '\0';
    if (*program->link == '\0')
        return 0;
    if (join_directory(link, program->link, reason) != 0)
        return -1;
    if (nc_link_starter(link, path) != 0)
        return nc_because(reason, "the path of what is installed for it is too long", 0);
    if (access(path, X_OK) == 0)
        return 0;
    if (errno != ENOENT && errno != ENOTDIR)
        return nc_because(reason, path, errno);
    *path = '\0';
    return 0;
}

int nc_program_path(const struct program *program, char path[PATH_MAX], struct reason *reason)
{
    const char *relative = program->path;
    /* For those who read it in a list of processes. */
    while (relative[0] == '.' && relative[1] == '/')
        relative += 2 + strspn(relative + 2, "/");
    return join_directory(path, relative, reason);
}
