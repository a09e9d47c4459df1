#include "base/socket_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

/* Of Linux; not every C library knows them. */
enum { FCHMODAT2 = 452, FILE_OF_SOCKET = 0x89e0 /* SIOCUNIXFILE */, NO_REPLACE = 1, EXCHANGE = 2 };

/* What a socket is bound with, until it is settled. */
#define BIND_MODE 0600

static bool is_file(const struct stat *status, const struct nc_socket_file *file)
{
    return S_ISSOCK(status->st_mode) && status->st_dev == file->device && status->st_ino == file->inode;
}

/* ---- The mode ---- */

/* A descriptor without permission to use the file (O_PATH). A privileged process asks the
 * kernel for the file itself; another looks whether it is such a file as it has just made,
 * which in a directory of another user is a socket of its own. */
static int open_bound(int fd, const char *path, struct stat *ret_status)
{
    int bound = ioctl(fd, FILE_OF_SOCKET);
    if (bound < 0)
        bound = open(path, O_PATH | O_NOFOLLOW | O_CLOEXEC);
    if (bound < 0)
        return -errno;
    if (fstat(bound, ret_status) == 0 && S_ISSOCK(ret_status->st_mode) &&
        ret_status->st_uid == geteuid() && (ret_status->st_mode & 0777 & ~(mode_t)BIND_MODE) == 0)
        return bound;
    close(bound);
    return -ESTALE;
}

static int change_mode(int bound, mode_t mode)
{
    char link[32];
    if (syscall(FCHMODAT2, bound, "", mode, AT_EMPTY_PATH) == 0)
        return 0;
    /* Before Linux 6.6, and where a sandbox does not know of the call. */
    snprintf(link, sizeof(link), "/proc/self/fd/%d", bound);
    return chmod(link, mode) == 0 ? 0 : -errno;
}

int nc_socket_file_settle(int fd, const char *path, mode_t mode, struct nc_socket_file *ret_file)
{
    struct stat status;
    int bound = open_bound(fd, path, &status);
    if (bound < 0)
        return bound;
    *ret_file = (struct nc_socket_file){status.st_dev, status.st_ino};
    int r = change_mode(bound, mode);
    close(bound);
    return r;
}

/* ---- The name ---- */

static int rename_with(const char *from, const char *to, unsigned flags)
{
    return syscall(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, flags) == 0 ? 0 : -errno;
}

static const char *kind_of(mode_t mode)
{
    return S_ISREG(mode)    ? "a regular file"
           : S_ISDIR(mode)  ? "a directory"
           : S_ISLNK(mode)  ? "a symbolic link"
           : S_ISFIFO(mode) ? "a named pipe"
                            : "a device";
}

/* Connects, and leaves again. 0 or -errno. */
static int knock(const char *path)
{
    struct sockaddr_un to = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return -errno;
    memcpy(to.sun_path, path, strnlen(path, sizeof(to.sun_path)));
    int r = connect(fd, (const struct sockaddr *)&to, sizeof(to)) == 0 ? 0 : -errno;
    close(fd);
    return r;
}

/* 0: a socket on which nobody listens; -ENOENT: there is nothing; else what there is. */
static int judge(const char *path, struct nc_socket_file *ret_dead, const char **ret_what)
{
    struct stat status;
    if (lstat(path, &status) < 0)
        return -errno;
    if (!S_ISSOCK(status.st_mode)) {
        *ret_what = kind_of(status.st_mode);
        return -EEXIST;
    }
    *ret_dead = (struct nc_socket_file){status.st_dev, status.st_ino};
    int r = knock(path);
    if (r == -ECONNREFUSED)
        return 0;
    if (r == -ENOENT)
        return r;
    *ret_what = "a socket that somebody uses";
    return -EADDRINUSE;
}

/* Puts the socket in the place of one that was judged to be dead. Should there be something
 * else by now, that gets its place back. 1: done; 0: not yet; -errno. */
static int replace(const char *temporary, const char *path, const struct nc_socket_file *dead)
{
    struct stat status;
    int r = rename_with(temporary, path, EXCHANGE);
    if (r == -ENOENT)
        return 0;
    if (r < 0)
        return r;
    if (lstat(temporary, &status) < 0)
        return -errno;
    if (is_file(&status, dead))
        return unlink(temporary) == 0 ? 1 : -errno;
    return rename_with(temporary, path, EXCHANGE);
}

/* Some file systems cannot look and rename in one step, others cannot exchange. */
static bool is_unknown(int r)
{
    return r == -EINVAL || r == -ENOSYS;
}

int nc_socket_file_publish(const char *temporary, const char *path, const char **ret_what)
{
    struct nc_socket_file dead = {0};
    for (;;) {
        int r = rename_with(temporary, path, NO_REPLACE);
        bool in_steps = is_unknown(r);
        if (r != -EEXIST && !in_steps)
            return r;
        r = judge(path, &dead, ret_what);
        if (r < 0 && r != -ENOENT)
            return r;
        if (r == 0 && !in_steps) {
            r = replace(temporary, path, &dead);
            in_steps = is_unknown(r);
            if (r != 0 && !in_steps)
                return r < 0 ? r : 0;
        }
        if (in_steps)
            return rename(temporary, path) == 0 ? 0 : -errno;
    }
}

/* ---- The end ---- */

void nc_socket_file_remove(const char *path, const struct nc_socket_file *file)
{
    struct stat status;
    if (lstat(path, &status) == 0 && is_file(&status, file))
        unlink(path);
}

void nc_socket_file_remove_any(const char *path)
{
    struct stat status;
    if (lstat(path, &status) == 0 && S_ISSOCK(status.st_mode))
        unlink(path);
}
