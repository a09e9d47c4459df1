#include "start.h"

#include "lock.h"
#include "self.h"
#include "spawn.h"

#include <errno.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

/* The kernel takes the lower one of this and net.core.somaxconn. */
enum { BACKLOG = 4096 };

/* Under the lock, so that what is at the path belongs to nobody. */
static int listen_at(const struct place *place, struct reason *reason)
{
    char path[PATH_MAX];
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return nc_because(reason, "cannot make a socket", errno);
    nc_place_path(place, ".sock", path);
    unlink(path);
    mode_t before = umask(S_IRWXG | S_IRWXO);
    int result = bind(fd, (const struct sockaddr *)&place->address, sizeof(place->address));
    umask(before);
    if (result != 0 || listen(fd, BACKLOG) != 0) {
        nc_because(reason, path, errno);
        close(fd);
        return -1;
    }
    return fd;
}

/* The connection waits in the backlog before the resident can have ended and
 * taken the socket with it. */
static enum nc_reached spawn_and_reach(const struct place *place, const char *path, int *connection,
                                       struct reason *reason)
{
    int listener = listen_at(place, reason);
    if (listener < 0)
        return NC_REACHED_PLAIN;
    enum nc_reached reached = NC_REACHED_PLAIN;
    if (nc_spawn(place, path, listener, reason) == 0)
        reached = nc_reach(place, connection, reason);
    close(listener);
    return reached;
}

enum nc_reached nc_start(const struct place *place, const struct program *program, unsigned starts_max,
                         int *connection, struct reason *reason)
{
    /* It finds its program itself. */
    if (nc_is_launcher(program->path, &program->file)) {
        nc_because(reason, "it is a launcher itself", 0);
        return NC_REACHED_PLAIN;
    }
    char path[PATH_MAX];
    int lock = nc_program_path(program, path, reason) == 0 ? nc_lock_take(place, reason) : -1;
    if (lock < 0)
        return NC_REACHED_PLAIN;
    enum nc_reached reached = nc_reach(place, connection, reason);
    if (reached == NC_REACHED_NOBODY) {
        reached = NC_REACHED_PLAIN;
        if (nc_lock_count_start(lock, place, path, starts_max, reason) == 0)
            reached = spawn_and_reach(place, path, connection, reason);
    }
    nc_lock_release(lock);
    return reached;
}

void nc_start_give_up(const struct place *place)
{
    char path[PATH_MAX];
    struct reason unused;
    int lock = nc_lock_take(place, &unused);
    if (lock < 0)
        return;
    nc_place_path(place, ".sock", path);
    if (nc_lock_counts(lock))
        unlink(path);
    nc_lock_release(lock);
}
