/* A worker becomes its launcher's process. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "resident/resident.h"

/* Above what the program expects to be free, and never one of 0, 1 and 2. */
static int move_up(int *fd)
{
    if (*fd > STDERR_FILENO)
        return 0;
    int moved = fcntl(*fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
    if (moved < 0)
        return -1;
    close(*fd);
    *fd = moved;
    return 0;
}

/* What a C library calls the number of a limit. */
#ifdef __GLIBC__
typedef __rlimit_resource_t limit_number;
#else
typedef int limit_number;
#endif

const char *nc_resident_raise_limits(pid_t caller, bool *ret_outgrown)
{
    *ret_outgrown = false;
    for (int i = 0; i < RLIMIT_NLIMITS; i++) {
        struct rlimit theirs, ours;
        if (prlimit(caller, (limit_number)i, NULL, &theirs) < 0)
            return "its resource limits could not be read";
        if (getrlimit((limit_number)i, &ours) < 0 || theirs.rlim_max <= ours.rlim_max)
            continue;
        ours.rlim_max = theirs.rlim_max;
        *ret_outgrown = setrlimit((limit_number)i, &ours) < 0;
        if (*ret_outgrown)
            return "its resource limits are higher than those of the resident";
    }
    return NULL;
}

static const char *apply_limits(pid_t caller)
{
    for (int i = 0; i < RLIMIT_NLIMITS; i++) {
        struct rlimit theirs, ours;
        if (prlimit(caller, (limit_number)i, NULL, &theirs) < 0)
            return "its resource limits could not be read";
        if (getrlimit((limit_number)i, &ours) == 0 && ours.rlim_cur == theirs.rlim_cur &&
            ours.rlim_max == theirs.rlim_max)
            continue;
        if (setrlimit((limit_number)i, &theirs) < 0)
            return "its resource limits could not be set";
    }
    return NULL;
}

static const char *apply(const struct nc_resident_request *request, pid_t caller, int fds[NC_RESIDENT_FDS])
{
    for (int i = 0; i < NC_RESIDENT_FDS; i++)
        if (fds[i] < 0)
            return "a descriptor did not arrive";
    for (int i = 0; i < NC_RESIDENT_FDS; i++)
        if (move_up(&fds[i]) < 0)
            return "no descriptor is free";
    if (fchdir(fds[3]) < 0)
        return "its directory cannot be entered";
    for (int i = 0; i <= STDERR_FILENO; i++)
        if (dup2(fds[i], i) < 0)
            return "a descriptor could not be put in its place";
    umask((mode_t)(request->umask & 0777));
    return apply_limits(caller);
}

const char *nc_resident_apply(const struct nc_resident_request *request, pid_t caller,
                              int fds[NC_RESIDENT_FDS])
{
    const char *fault = apply(request, caller, fds);
    for (int i = 0; i < NC_RESIDENT_FDS; i++)
        if (!fault)
            nc_resident_close_fd(&fds[i]);
    return fault;
}

/* CHLD is left out: a program that ignores it does not learn how its commands end. */
void nc_resident_ignore(uint64_t signals)
{
    for (int number = 1; number <= 64; number++) {
        struct sigaction action;
        if ((signals >> (number - 1) & 1) == 0 || number == SIGCHLD || sigaction(number, NULL, &action) < 0 ||
            action.sa_flags & SA_SIGINFO || action.sa_handler != SIG_DFL)
            continue;
        action.sa_handler = SIG_IGN;
        (void)sigaction(number, &action, NULL);
    }
}

/* ---- Files that the program has opened for reading ---- */

/* The place where it is read next was the parent's too, and all its children's. */
static void reopen(int fd)
{
    char path[64];
    struct stat status;
    int flags = fcntl(fd, F_GETFL);
    if (flags < 0 || (flags & O_ACCMODE) != O_RDONLY || flags & O_PATH || fstat(fd, &status) < 0 ||
        !S_ISREG(status.st_mode))
        return;
    snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    off_t at = lseek(fd, 0, SEEK_CUR);
    int own = open(path, O_RDONLY | O_CLOEXEC);
    if (own < 0)
        return;
    int kept = fcntl(fd, F_GETFD);
    if (lseek(own, at, SEEK_SET) == at)
        (void)dup3(own, fd, kept & FD_CLOEXEC ? O_CLOEXEC : 0);
    close(own);
}

void nc_resident_reopen_files(void)
{
    DIR *directory = opendir("/proc/self/fd");
    if (!directory)
        return;
    for (struct dirent *entry; (entry = readdir(directory)) != NULL;) {
        char *end;
        long fd = strtol(entry->d_name, &end, 10);
        if (end != entry->d_name && *end == 0 && fd != dirfd(directory))
            reopen((int)fd);
    }
    closedir(directory);
}
