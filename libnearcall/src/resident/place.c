/* Where a resident listens: the socket that it was started with, its path and its lock. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/clock.h"
#include "resident/resident.h"

#define LISTENER_FD 3
#define LISTENER_NAME "nearcall-resident"
#define FIRST_ARGUMENT "--nearcall-resident"
/* What launchers end with when they could not start a program. */
#define NOT_STARTED 125
#define SUFFIX ".sock"
#define LOCK_SUFFIX ".lock"
#define IDENTITY_DIGITS 16
#define LOCK_MS 1000
#define LOCK_PAUSE_MS 5

static bool is_variable(const char *name, const char *value)
{
    const char *is = getenv(name);
    return is && strcmp(is, value) == 0;
}

static bool has_listener(void)
{
    char self[16];
    snprintf(self, sizeof(self), "%ld", (long)getpid());
    return is_variable("LISTEN_FDS", "1") && is_variable("LISTEN_PID", self) &&
           is_variable("LISTEN_FDNAMES", LISTENER_NAME);
}

/* The programs that are started while this one loads do not listen for it. */
__attribute__((constructor)) static void keep_listener(void)
{
    if (has_listener())
        (void)fcntl(LISTENER_FD, F_SETFD, FD_CLOEXEC);
}

NEARCALL_API int nearcall_resident_started(const char *first_argument)
{
    if (!has_listener())
        return 0;
    if (first_argument && strcmp(first_argument, FIRST_ARGUMENT) == 0)
        return 1;
    fputs("nearcall: arguments were read before resident { } (main(), Main): read them inside\n", stderr);
    _exit(NOT_STARTED);
}

/* DIRECTORY/PROGRAM-IDENTITY.sock */
static uint64_t identity_of(const char *path)
{
    size_t bytes = strlen(path), end = sizeof(SUFFIX) - 1;
    if (bytes < end + IDENTITY_DIGITS + 1 || strcmp(path + bytes - end, SUFFIX) != 0)
        return 0;
    const char *digits = path + bytes - end - IDENTITY_DIGITS;
    if (digits[-1] != '-' || strspn(digits, "0123456789abcdef") != IDENTITY_DIGITS)
        return 0;
    return strtoull(digits, NULL, 16);
}

static int is_listening_socket(int fd)
{
    int listens = 0;
    socklen_t bytes = sizeof(listens);
    return getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &bytes) == 0 && listens;
}

/* The socket is beside the lock. What it was bound by is no path here, when its own was too
 * long for an address. */
static void name_files(struct nc_resident_place *place, const char *lock, const struct sockaddr_un *address,
                       size_t path_bytes)
{
    size_t end = sizeof(LOCK_SUFFIX) - 1, bytes = lock ? strlen(lock) : 0;
    bool is_lock = bytes > end && lock[0] == '/' && bytes < sizeof(place->lock);
    if (is_lock)
        memcpy(place->lock, lock, bytes + 1);
    if (is_lock && strcmp(lock + bytes - end, LOCK_SUFFIX) == 0)
        snprintf(place->socket, sizeof(place->socket), "%.*s%s", (int)(bytes - end), lock, SUFFIX);
    else
        memcpy(place->socket, address->sun_path, path_bytes);
}

/* What the launcher bound; another socket may be at the path by now. */
static void keep_file(struct nc_resident_place *place, const char *told)
{
    unsigned long long device, inode;
    struct stat status;
    if (told && sscanf(told, "%llu:%llu", &device, &inode) == 2) {
        place->device = device;
        place->inode = inode;
    } else if (stat(place->socket, &status) == 0) {
        place->device = status.st_dev;
        place->inode = status.st_ino;
    }
}

int nc_resident_place_open(nearcall_resident *resident)
{
    struct nc_resident_place *place = &resident->place;
    struct sockaddr_un address = {0};
    socklen_t bytes = sizeof(address);
    if (!is_listening_socket(LISTENER_FD) ||
        getsockname(LISTENER_FD, (struct sockaddr *)&address, &bytes) < 0 || address.sun_family != AF_UNIX)
        return nc_resident_fail(resident, NEARCALL_E_FAILED_PRECONDITION,
                                "descriptor 3 is no listening socket: nearcall-run starts residents, "
                                "and the program leaves that descriptor alone");
    /* So that SO_PEERCRED names this process to launchers, and not the one that bound it. */
    if (listen(LISTENER_FD, NC_LISTEN_BACKLOG) < 0)
        return nc_resident_fail(resident, NEARCALL_E_FAILED_PRECONDITION, "listen: %s", strerror(errno));
    name_files(place, getenv("NEARCALL_RESIDENT_LOCK"), &address, bytes - offsetof(struct sockaddr_un, sun_path));
    place->identity = identity_of(place->socket);
    keep_file(place, getenv("NEARCALL_RESIDENT_SOCKET"));
    /* Workers wait with epoll, and only one of those that are woken can accept. */
    int flags = fcntl(LISTENER_FD, F_GETFL);
    if (fcntl(LISTENER_FD, F_SETFD, FD_CLOEXEC) < 0 || fcntl(LISTENER_FD, F_SETFL, flags | O_NONBLOCK) < 0)
        return nc_resident_fail(resident, NEARCALL_E_INTERNAL, "fcntl: %s", strerror(errno));
    resident->listener = LISTENER_FD;
    return NEARCALL_OK;
}

bool nc_resident_place_is_own(const nearcall_resident *resident)
{
    struct stat status;
    return lstat(resident->place.socket, &status) == 0 && S_ISSOCK(status.st_mode) &&
           status.st_dev == resident->place.device &&
           status.st_ino == resident->place.inode;
}

static void remove_beside(const char *socket, const char *suffix)
{
    char path[sizeof(((struct nc_resident_place *)0)->socket) + 8];
    size_t stem = strlen(socket);
    if (stem < sizeof(SUFFIX) || strcmp(socket + stem - (sizeof(SUFFIX) - 1), SUFFIX) != 0)
        return;
    snprintf(path, sizeof(path), "%.*s%s", (int)(stem - (sizeof(SUFFIX) - 1)), socket, suffix);
    unlink(path);
}

/* Held for moments only, but by a launcher that may have been stopped. What is done under
 * it is right without it as long as this process listens. */
static void lock_for_a_while(int lock)
{
    int64_t until_ns = nc_after_ms(nc_now_ns(), LOCK_MS);
    while (flock(lock, LOCK_EX | LOCK_NB) < 0 && nc_now_ns() < until_ns)
        (void)poll(NULL, 0, LOCK_PAUSE_MS);
}

/* A descriptor, or -1: there is no lock. */
static int take_lock(const struct nc_resident_place *place)
{
    int lock = place->lock[0] ? open(place->lock, O_RDWR | O_CLOEXEC | O_NOFOLLOW) : -1;
    if (lock >= 0)
        lock_for_a_while(lock);
    return lock;
}

/* Starts are counted in the lock file. Launchers look there, under the lock, before they
 * give one up. */
bool nc_resident_place_ready(const nearcall_resident *resident)
{
    int lock = take_lock(&resident->place);
    bool is_own = nc_resident_place_is_own(resident);
    if (is_own && lock >= 0 && ftruncate(lock, 0) < 0)
        fprintf(stderr, "nearcall: %s: %s\n", resident->place.lock, strerror(errno));
    nc_resident_close_fd(&lock);
    return is_own;
}

void nc_resident_place_remove(const nearcall_resident *resident)
{
    const struct nc_resident_place *place = &resident->place;
    int lock = take_lock(place);
    if (nc_resident_place_is_own(resident)) {
        unlink(place->socket);
        if (resident->outdated) {
            remove_beside(place->socket, ".log");
            if (place->lock[0])
                unlink(place->lock);
        }
    }
    if (lock >= 0)
        close(lock);
}
