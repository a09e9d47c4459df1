/* The descriptor that event loops watch, for the life of the handle: an epoll instance,
 * in which the library watches what it needs itself. And the pair of sockets by which
 * others wake a handle that waits: unlike an eventfd these have files of their own.
 *
 * A child shares both with its parent, and must not touch them: it puts its own in
 * their place. Whether a number is still what it was is asked of the kernel, since
 * the program may have closed it and opened something else. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/descriptor.h"
#include "base/random.h"
#include "connection/connection.h"
#include "connection/watch.h"

#define INFO_BYTES 512
#define TOKEN_BITS 0xFFFFFFFFFFFFull /* 48 bits of one that has all 64 */
#define TOKEN_MARK (0x4E43ull << 48)
#define WAKES_AT_ONCE 64

void nc_watch_init(struct nc_watch *watch)
{
    watch->wake.fd = watch->waker.fd = -1;
    watch->epoll_fd = watch->told_fd = watch->socket_fd = -1;
}

/* ---- By what others wake ---- */

/* Cheap, and may be asked by a signal's handler. */
static bool is_own_end(const struct nc_wake_end *end)
{
    return nc_descriptor_is(end->fd, end->device, end->inode);
}

/* The number is told last: it is what other threads ask for. */
static int keep_end(struct nc_wake_end *end, int fd)
{
    struct stat status;
    if (fstat(fd, &status) != 0)
        return -1;
    end->device = status.st_dev;
    end->inode = status.st_ino;
    end->fd = fd;
    return 0;
}

static void close_end(struct nc_wake_end *end)
{
    if (is_own_end(end))
        close(end->fd);
    end->fd = -1;
}

static void close_ends(struct nc_watch *watch)
{
    close_end(&watch->waker);
    close_end(&watch->wake);
}

static int open_ends(struct nc_watch *watch)
{
    int pair[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) != 0)
        return -1;
    if (keep_end(&watch->wake, pair[0]) == 0 && keep_end(&watch->waker, pair[1]) == 0)
        return 0;
    watch->wake.fd = watch->waker.fd = -1;
    close(pair[0]);
    close(pair[1]);
    return -1;
}

int nc_wake_open(nearcall_client *client)
{
    return client->watch.wake.fd < 0 ? open_ends(&client->watch) : 0;
}

/* ---- What loops watch ---- */

/* What the kernel tells of a descriptor of this process; false: nothing. */
static bool read_info(int fd, char *text)
{
    char path[64];
    snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", fd);
    int info = open(path, O_RDONLY | O_CLOEXEC);
    if (info < 0)
        return false;
    ssize_t bytes = read(info, text, INFO_BYTES - 1);
    close(info);
    text[bytes > 0 ? bytes : 0] = '\0';
    return bytes > 0;
}

static int control_event(const struct nc_watch *watch, int epoll_fd, int operation)
{
    struct epoll_event event = {.events = EPOLLIN, .data.u64 = watch->token};
    return epoll_ctl(epoll_fd, operation, watch->wake.fd, &event);
}

/* No other set holds the handle's own end, and to change what is not in there changes
 * nothing. */
static bool holds_own_end(const struct nc_watch *watch)
{
    return control_event(watch, watch->epoll_fd, EPOLL_CTL_MOD) == 0;
}

/* Once the program has closed that end the kernel's text tells, by the token. */
static bool is_own_set(const struct nc_watch *watch)
{
    char text[INFO_BYTES], token[32];
    if (watch->epoll_fd < 0)
        return false;
    if (is_own_end(&watch->wake) && holds_own_end(watch))
        return true;
    snprintf(token, sizeof(token), "data: %llx", (unsigned long long)watch->token);
    return read_info(watch->epoll_fd, text) && strstr(text, token) != NULL;
}

/* The waker's end is always in the set. What is in there bears the token that tells whose
 * it is. */
static int make_set(nearcall_client *client)
{
    struct nc_watch *watch = &client->watch;
    watch->token = TOKEN_MARK | (nc_random(&client->random) & TOKEN_BITS);
    int fd = epoll_create1(EPOLL_CLOEXEC);
    if (fd >= 0 && control_event(watch, fd, EPOLL_CTL_ADD) != 0) {
        close(fd);
        return -1;
    }
    return fd;
}

void nc_watch_open(nearcall_client *client)
{
    struct nc_watch *watch = &client->watch;
    if (watch->epoll_fd >= 0 || nc_wake_open(client) < 0)
        return;
    watch->socket_fd = -1;
    watch->epoll_fd = make_set(client);
}

/* A set that this program has closed gives way to a new one, under another number. Nothing
 * tells of a socket that it has closed, so that the set lacks it. */
void nc_watch_identify(nearcall_client *client)
{
    struct nc_watch *watch = &client->watch;
    if (watch->epoll_fd < 0)
        return;
    if (watch->socket_fd >= 0 && !nc_connection_has_its_socket(&client->connection))
        watch->socket_fd = -1;
    if ((nc_wake_identify(client) && holds_own_end(watch)) || is_own_set(watch))
        return;
    watch->epoll_fd = watch->socket_fd = -1;
    nc_watch_open(client);
}

/* ---- What is in it ---- */

void nc_watch_forget(nearcall_client *client)
{
    struct nc_watch *watch = &client->watch;
    if (watch->socket_fd >= 0 && is_own_set(watch))
        /* closing alone does not end it where a child has a copy */
        (void)epoll_ctl(watch->epoll_fd, EPOLL_CTL_DEL, watch->socket_fd, NULL);
    watch->socket_fd = -1;
}

/* Both numbers may be others' by now, which are not touched. */
static void add_socket(nearcall_client *client, struct epoll_event *event)
{
    struct nc_watch *watch = &client->watch;
    nc_watch_identify(client);
    event->data.u64 = watch->token;
    if (watch->epoll_fd >= 0 && nc_connection_has_its_socket(&client->connection) &&
        epoll_ctl(watch->epoll_fd, EPOLL_CTL_ADD, client->connection.fd, event) == 0)
        watch->socket_fd = client->connection.fd;
}

/* Only to less: a loop that watches edges is told of what joins the set and is ready, and
 * mostly of nothing that changes in there. */
static bool narrow_socket(const struct nc_watch *watch, struct epoll_event *event)
{
    return watch->socket_fd >= 0 && !(event->events & ~watch->events) && is_own_set(watch) &&
           epoll_ctl(watch->epoll_fd, EPOLL_CTL_MOD, watch->socket_fd, event) == 0;
}

void nc_watch_update(nearcall_client *client)
{
    struct nc_watch *watch = &client->watch;
    uint32_t events = (uint32_t)nc_connection_events(client); /* poll(2)'s are epoll's */
    struct epoll_event event = {.events = events, .data.u64 = watch->token};
    if (watch->epoll_fd < 0 || client->connection.fd < 0 ||
        (watch->socket_fd >= 0 && events == watch->events))
        return;
    if (!narrow_socket(watch, &event)) {
        nc_watch_forget(client);
        add_socket(client, &event);
    }
    watch->events = events;
}

/* Whether something may come that what the program was told to watch does not show: there
 * was no descriptor for it or no room in it, or the program has closed what it knew. */
bool nc_watch_misses(const nearcall_client *client)
{
    const struct nc_watch *watch = &client->watch;
    return client->connection.fd >= 0 &&
           (watch->socket_fd < 0 || watch->epoll_fd < 0 || watch->told_fd != watch->epoll_fd);
}

/* ---- Forking, closing ---- */

/* Puts the child's own set where the parent's was, if nothing else is there now. Where none
 * can be opened the number that is given back is the only one that is free. */
static void replace_set(nearcall_client *client, bool was_own)
{
    struct nc_watch *watch = &client->watch;
    int former = watch->epoll_fd;
    watch->epoll_fd = -1;
    nc_watch_open(client);
    if (!was_own)
        return;
    if (watch->epoll_fd >= 0 && dup3(watch->epoll_fd, former, O_CLOEXEC) == former) {
        close(watch->epoll_fd);
        watch->epoll_fd = former;
    } else {
        close(former);
        nc_watch_open(client);
    }
}

void nc_watch_after_fork(nearcall_client *client)
{
    struct nc_watch *watch = &client->watch;
    watch->socket_fd = -1;
    atomic_store_explicit(&watch->is_woken, 0, memory_order_relaxed);
    bool own_set = is_own_set(watch), was_wakeable = watch->wake.fd >= 0;
    close_ends(watch);
    if (watch->epoll_fd >= 0)
        replace_set(client, own_set);
    else if (was_wakeable)
        (void)nc_wake_open(client);
}

void nc_watch_free(nearcall_client *client)
{
    struct nc_watch *watch = &client->watch;
    if (is_own_set(watch))
        close(watch->epoll_fd);
    close_ends(watch);
    nc_watch_init(watch);
}

/* ---- Waking ---- */

static bool has_its_ends(const nearcall_client *client)
{
    const struct nc_watch *watch = &client->watch;
    if (watch->wake.fd < 0)
        return watch->epoll_fd < 0 && !(client->options.flags & NEARCALL_WAKEABLE);
    return is_own_end(&watch->wake) && is_own_end(&watch->waker);
}

/* False: a number has become another's, or nobody's. New ends take the place of both. */
bool nc_wake_identify(nearcall_client *client)
{
    struct nc_watch *watch = &client->watch;
    if (has_its_ends(client))
        return true;
    bool own_set = is_own_set(watch);
    if (own_set && is_own_end(&watch->wake))
        (void)control_event(watch, watch->epoll_fd, EPOLL_CTL_DEL);
    close_ends(watch);
    if (open_ends(watch) == 0 && own_set)
        (void)control_event(watch, watch->epoll_fd, EPOLL_CTL_ADD);
    return false;
}

/* False: there was none to take. */
bool nc_wake_take(nearcall_client *client)
{
    char wakes[WAKES_AT_ONCE];
    ssize_t taken;
    if (!nc_wake_identify(client))
        return false;
    atomic_store_explicit(&client->watch.is_woken, 0, memory_order_relaxed);
    do
        taken = recv(client->watch.wake.fd, wakes, sizeof(wakes), MSG_DONTWAIT);
    while (taken == sizeof(wakes) || (taken < 0 && errno == EINTR));
    return true;
}

/* What is_woken tells may have been taken before it was told. So is_woken is cleared first, and
 * the descriptor is looked at then: a thread that writes in between sets it again. */
bool nc_wake_confirm(nearcall_client *client)
{
    struct pollfd event = {client->watch.wake.fd, POLLIN, 0};
    atomic_exchange_explicit(&client->watch.is_woken, 0, memory_order_acquire);
    if (poll(&event, 1, 0) <= 0)
        return false;
    atomic_store_explicit(&client->watch.is_woken, 1, memory_order_relaxed);
    return true;
}

/* Only what a signal's handler may do. */
NEARCALL_API int nearcall_wake(nearcall_client *client)
{
    int former = errno, r = NEARCALL_OK;
    if (!client || client->watch.waker.fd < 0)
        return NEARCALL_E_MISUSE;
    if (nc_forked(&client->guard))
        return NEARCALL_OK; /* nothing waits here, and the descriptors are the parent's */
    /* What does not fit is there already. */
    if (!is_own_end(&client->watch.waker) || !is_own_end(&client->watch.wake) ||
        (send(client->watch.waker.fd, "", 1, MSG_NOSIGNAL | MSG_DONTWAIT) < 0 && errno != EAGAIN))
        r = NEARCALL_E_MISUSE;
    else /* last: a reader that sees it finds what was written, or that was taken already */
        atomic_store_explicit(&client->watch.is_woken, 1, memory_order_release);
    errno = former;
    return r;
}
