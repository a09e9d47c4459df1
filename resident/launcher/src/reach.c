#include "reach.h"

#include "process.h"
#include "settings.h"
#include "text.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/auxv.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

static int connect_to(int fd, const struct place *place)
{
    return connect(fd, (const struct sockaddr *)&place->address, sizeof(place->address));
}

/* A full backlog lets a blocking connect wait, for the time to send. */
static int connect_patiently(int fd, const struct place *place)
{
    int ms = nc_setting_answer_ms();
    struct timeval time = {ms / 1000, (suseconds_t)(ms % 1000) * 1000};
    if (setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &time, sizeof(time)) != 0 || fcntl(fd, F_SETFL, 0) != 0 ||
        connect_to(fd, place) != 0)
        return -1;
    return fcntl(fd, F_SETFL, O_NONBLOCK);
}

static int is_same_user(int fd, struct ucred *peer)
{
    socklen_t size = sizeof(*peer);
    return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, peer, &size) == 0 && peer->uid == (uid_t)getauxval(AT_EUID);
}

/* Asked before anything is sent: what is sent to a process that is stopped, as the caller's
 * pipes, stays open until it goes on. */
static int is_stopped(pid_t resident, struct reason *reason)
{
    char number[NC_NUMBER_BYTES], text[NC_REASON_BYTES];
    int status;
    if (resident <= 0 || nc_process_state(resident, &status) != 'T')
        return 0;
    nc_join(text, sizeof(text), "its resident is stopped; kill -CONT ",
            nc_number(number, (unsigned long long)resident), " lets it go on");
    nc_because(reason, text, 0);
    return 1;
}

static enum nc_reached plain(int fd, struct reason *reason, const char *what, int error)
{
    nc_because(reason, what, error);
    if (fd >= 0)
        close(fd);
    return NC_REACHED_PLAIN;
}

enum nc_reached nc_reach(const struct place *place, int *connection, struct reason *reason)
{
    struct ucred peer;
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return plain(fd, reason, "cannot make a socket", errno);
    /* The kernel gives the lowest number that is free. */
    if (fd <= STDERR_FILENO)
        return plain(fd, reason, "a standard descriptor is missing", 0);
    if (connect_to(fd, place) != 0 && (errno != EAGAIN || connect_patiently(fd, place) != 0)) {
        if (errno != ENOENT && errno != ECONNREFUSED)
            return plain(fd, reason, "cannot connect to the resident", errno);
        close(fd);
        return NC_REACHED_NOBODY;
    }
    if (!is_same_user(fd, &peer))
        return plain(fd, reason, "another user listens at the resident's place", 0);
    if (is_stopped(peer.pid, reason)) {
        close(fd);
        return NC_REACHED_PLAIN;
    }
    *connection = fd;
    return NC_REACHED;
}
