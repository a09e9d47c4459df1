#include "start.h"

#include "limits_gen.h"
#include "lock.h"
#include "policy.h"
#include "self.h"
#include "spawn.h"
#include "standing.h"

#include <errno.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

/* What is no socket is nobody's mistake but the user's, and stays. */
static void unlink_socket(const struct place *place)
{
    char path[PATH_MAX];
    struct stat status;
    nc_place_path(place, ".sock", path);
    if (lstat(path, &status) == 0 && S_ISSOCK(status.st_mode))
        unlink(path);
}

/* Under the lock, so that what is at the path belongs to nobody. */
static int listen_at(const struct place *place, struct reason *reason)
{
    char path[PATH_MAX];
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return nc_because(reason, "cannot make a socket", errno);
    unlink_socket(place);
    mode_t before = umask(S_IRWXG | S_IRWXO);
    int result = bind(fd, (const struct sockaddr *)&place->address, sizeof(place->address));
    umask(before);
    if (result != 0 || listen(fd, NC_LISTEN_BACKLOG) != 0) {
        int error = errno;
        nc_place_path(place, ".sock", path);
        nc_because(reason, path, error);
        close(fd);
        return -1;
    }
    return fd;
}

/* Counted before it begins, so that it is when the launcher is killed; not counted
 * where there was no process: that is the launcher's own failure. */
static int spawn_counted(int lock, unsigned starts, const struct place *place, const char *path,
                         const char *starter, int listener, struct reason *reason)
{
    struct reason unused;
    struct stat before;
    if (fstat(lock, &before) != 0 || nc_lock_write(lock, starts + 1, path, reason) != 0)
        return -1;
    if (nc_spawn(place, path, starter, listener, reason) == 0)
        return 0;
    const struct timespec times[] = {before.st_atim, before.st_mtim};
    if (nc_lock_write(lock, starts, path, &unused) == 0)
        futimens(lock, times);
    return -1;
}

/* The connection waits in the backlog before the resident can have ended and
 * taken the socket with it. */
static enum nc_reached spawn_and_reach(int lock, const struct place *place, const char *path,
                                       const char *starter, unsigned starts_max, int *connection,
                                       struct reason *reason)
{
    int starts = nc_lock_starts(lock, place, starts_max, reason);
    int listener = starts < 0 ? -1 : listen_at(place, reason);
    if (listener < 0)
        return NC_REACHED_PLAIN;
    enum nc_reached reached = NC_REACHED_PLAIN;
    if (spawn_counted(lock, (unsigned)starts, place, path, starter, listener, reason) == 0)
        reached = nc_reach(place, connection, reason);
    else
        unlink_socket(place);
    close(listener);
    return reached;
}

enum nc_reached nc_start(const struct place *place, const struct program *program, unsigned starts_max,
                         int *connection, struct reason *reason)
{
    /* It finds its program itself. */
    if (nc_kind_of(program->path, &program->file) == NC_KIND_LAUNCHER) {
        nc_because(reason, "it is a launcher itself", 0);
        return NC_REACHED_PLAIN;
    }
    char path[PATH_MAX], starter[PATH_MAX];
    if (nc_standing_check_start(reason) != 0)
        return NC_REACHED_PLAIN;
    if (nc_program_path(program, path, reason) != 0 || nc_program_starter(program, starter, reason) != 0 ||
        nc_policy_check(place, path, reason) != 0)
        return NC_REACHED_PLAIN;
    int lock = nc_lock_take(place, reason);
    if (lock < 0)
        return NC_REACHED_PLAIN;
    enum nc_reached reached = nc_reach(place, connection, reason);
    if (reached == NC_REACHED_NOBODY)
        reached = spawn_and_reach(lock, place, path, starter, starts_max, connection, reason);
    nc_lock_release(lock);
    return reached;
}

void nc_start_give_up(const struct place *place)
{
    struct reason unused;
    int lock = nc_lock_take(place, &unused);
    if (lock < 0)
        return;
    if (nc_lock_counts(lock))
        unlink_socket(place);
    nc_lock_release(lock);
}
