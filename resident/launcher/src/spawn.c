#include "spawn.h"

#include "limits_gen.h"
#include "text.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

enum { KERNEL_SIGNALS_BYTES = 8 };
enum { LISTENER = 3 }; /* where the convention of systemd has it */

/* What is added to the environment, and takes the place of what has the name. */
struct additions {
    char process[sizeof("LISTEN_PID=") + NC_NUMBER_BYTES];
    char lock[sizeof("NEARCALL_RESIDENT_LOCK=") + PATH_MAX];
    char socket[sizeof("NEARCALL_RESIDENT_SOCKET=:") + 2 * NC_NUMBER_BYTES];
    char directory[sizeof("NEARCALL_RESIDENT_DIRECTORY=") + PATH_MAX]; /* "": it has no path */
};

static const char *const names[] = {"LISTEN_FDS=", "LISTEN_PID=", "LISTEN_FDNAMES=", "NEARCALL_RESIDENT_LOCK=",
                                    "NEARCALL_RESIDENT_SOCKET=", "NEARCALL_RESIDENT_DIRECTORY="};
enum { NAMES = sizeof(names) / sizeof(names[0]) };

static int is_added(const char *variable)
{
    for (size_t i = 0; i < NAMES; i++)
        if (strncmp(variable, names[i], strlen(names[i])) == 0)
            return 1;
    return 0;
}

static void fill_additions(struct additions *additions, const struct place *place, const struct stat *bound)
{
    char number[NC_NUMBER_BYTES], inode[NC_NUMBER_BYTES], path[PATH_MAX];
    nc_place_path(place, ".lock", path);
    nc_join(additions->process, sizeof(additions->process), "LISTEN_PID=", nc_number(number, (unsigned)getpid()));
    nc_join(additions->lock, sizeof(additions->lock), "NEARCALL_RESIDENT_LOCK=", path);
    nc_join(additions->socket, sizeof(additions->socket), "NEARCALL_RESIDENT_SOCKET=",
            nc_number(number, bound->st_dev), ":", nc_number(inode, bound->st_ino));
    additions->directory[0] = 0;
    if (getcwd(path, sizeof(path)) != NULL && path[0] == '/')
        nc_join(additions->directory, sizeof(additions->directory), "NEARCALL_RESIDENT_DIRECTORY=", path);
}

static char **environment_of(struct additions *additions)
{
    size_t count = 0, at = 0;
    while (environ[count] != NULL)
        count++;
    char **variables = calloc(count + NAMES + 1, sizeof(*variables));
    if (variables == NULL)
        return NULL;
    for (size_t i = 0; i < count; i++)
        if (!is_added(environ[i]))
            variables[at++] = environ[i];
    variables[at++] = (char *)(size_t)"LISTEN_FDS=1";
    variables[at++] = (char *)(size_t)"LISTEN_FDNAMES=nearcall-resident";
    variables[at++] = additions->process;
    variables[at++] = additions->lock;
    variables[at++] = additions->socket;
    if (additions->directory[0] != 0)
        variables[at++] = additions->directory;
    return variables;
}

/* Descriptors from `first` on, also where the kernel cannot close a range. */
static void close_from(int first)
{
    struct rlimit limit;
    if (syscall(SYS_close_range, (unsigned)first, ~0U, 0) == 0)
        return;
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0)
        for (rlim_t fd = (rlim_t)first; fd < limit.rlim_cur; fd++)
            close((int)fd);
}

/* What is said since the program last started is worth more than all of it. */
static int open_log(const struct place *place)
{
    char path[PATH_MAX];
    struct stat status;
    nc_place_path(place, ".log", path);
    int fd = openat(AT_FDCWD, path, O_WRONLY | O_APPEND | O_CREAT | O_NOFOLLOW | O_CLOEXEC, S_IRUSR | S_IWUSR);
    if (fd >= 0 && fstat(fd, &status) == 0 && status.st_size > NC_RESIDENT_LOG_BYTES_MAX && ftruncate(fd, 0) != 0) {
        close(fd);
        return -1;
    }
    return fd;
}

static int set_descriptors(const struct place *place, int listener)
{
    int null = openat(AT_FDCWD, "/dev/null", O_RDWR | O_CLOEXEC);
    int log = open_log(place);
    if (null < 0 || log < 0 || dup2(null, STDIN_FILENO) < 0 || dup2(log, STDOUT_FILENO) < 0 ||
        dup2(log, STDERR_FILENO) < 0)
        return -1;
    /* They are two: the lock was opened before, when the standard descriptors were there. */
    if (dup2(listener, LISTENER) < 0)
        return -1;
    close_from(LISTENER + 1);
    return 0;
}

static void set_signals(void)
{
    /* The kernel's own sigaction, whose default is all zeros: the library keeps some
     * signals to itself, and a caller may ignore even those. */
    static const unsigned long usual[8];
    sigset_t none;
    for (int number = 1; number <= SIGRTMAX; number++)
        syscall(SYS_rt_sigaction, number, usual, NULL, KERNEL_SIGNALS_BYTES);
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
}

/* Never returns. The log tells of a program that cannot be run. */
static void become_resident(const struct place *place, const char *path, const char *starter, int listener,
                            const struct stat *bound)
{
    const char *executed = *starter != '\0' ? starter : path;
    char *arguments[] = {(char *)(size_t)executed, (char *)(size_t)"--nearcall-resident",
                         executed == starter ? (char *)(size_t)path : NULL, NULL};
    struct additions additions;
    fill_additions(&additions, place, bound);
    char **variables = environment_of(&additions);
    umask(S_IRWXG | S_IRWXO); /* also for the log */
    if (variables != NULL && set_descriptors(place, listener) == 0 && chdir("/") == 0) {
        set_signals();
        execve(executed, arguments, variables);
        nc_say(executed, ": ", strerror(errno));
    }
    _exit(126);
}

int nc_spawn(const struct place *place, const char *path, const char *starter, int listener, struct reason *reason)
{
    char socket_path[PATH_MAX];
    struct stat bound;
    /* Now, under the lock: another socket may be there when the program looks. */
    nc_place_path(place, ".sock", socket_path);
    if (lstat(socket_path, &bound) != 0)
        return nc_because(reason, socket_path, errno);
    pid_t between = fork();
    if (between < 0)
        return nc_because(reason, "cannot start a process", errno);
    if (between == 0) {
        if (setsid() < 0)
            _exit(126);
        pid_t resident = fork();
        if (resident == 0) {
            setsid();
            become_resident(place, path, starter, listener, &bound);
        }
        _exit(resident < 0 ? 126 : 0);
    }
    int status = 0;
    while (waitpid(between, &status, 0) < 0 && errno == EINTR)
        continue;
    if (status != 0)
        return nc_because(reason, "cannot start a process", 0);
    return 0;
}
