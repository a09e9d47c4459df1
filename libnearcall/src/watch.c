/* The descriptor that event loops watch, for the life of the handle: an epoll instance,
 * in which the library watches what it needs itself. And the one by which others wake
 * a handle that waits.
 *
 * A child shares both with its parent, and must not touch them: it puts its own in
 * their place. Whether a number is still what it was is asked of the kernel, since
 * the program may have closed it and opened something else. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include "client.h"

#define INFO_BYTES 512
#define TOKEN_BITS 0xFFFFFFFFFFFFull /* 48 bits of one that has all 64 */
#define TOKEN_MARK (0x4E43ull << 48)

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

/* A set takes no descriptor twice, by its number and by what is behind it. */
static bool holds_own_event(const struct nc_watch *watch)
{
    struct epoll_event event = {.events = 0};
    if (epoll_ctl(watch->epoll_fd, EPOLL_CTL_ADD, watch->wake_fd, &event) != 0)
        return errno == EEXIST || errno == ENOMEM || errno == ENOSPC; /* no memory tells nothing */
    (void)epoll_ctl(watch->epoll_fd, EPOLL_CTL_DEL, watch->wake_fd, NULL);
    return false;
}

/* Where the kernel's text cannot be read, without /proc or at the limit of descriptors,
 * the set itself is asked: one that is given up without need is one that loops miss. */
static bool is_own_set(const struct nc_watch *watch)
{
    char text[INFO_BYTES], token[32];
    if (watch->epoll_fd < 0)
        return false;
    snprintf(token, sizeof(token), "data: %llx", (unsigned long long)watch->token);
    return read_info(watch->epoll_fd, text) ? strstr(text, token) != NULL : holds_own_event(watch);
}

/* -1 where the kernel does not number them, as before Linux 5.2. */
static int number_of_event(const char *text)
{
    static const char name[] = "eventfd-id:";
    const char *found = strstr(text, name);
    return found ? atoi(found + sizeof(name) - 1) : -1;
}

/* Cheap, and may be asked by a signal's handler: files and sockets are told from it, not
 * other events. */
static bool may_be_own_event(const struct nc_watch *watch)
{
    return nc_descriptor_is(watch->wake_fd, watch->wake_device, watch->wake_inode);
}

static bool is_own_event(const struct nc_watch *watch)
{
    char text[INFO_BYTES];
    if (!may_be_own_event(watch))
        return false;
    return !read_info(watch->wake_fd, text) ||
           (strstr(text, "eventfd-count:") &&
            (watch->wake_number < 0 || number_of_event(text) == watch->wake_number));
}

void nc_watch_init(struct nc_watch *watch)
{
    watch->wake_fd = -1;
    watch->epoll_fd = watch->socket_fd = watch->wake_number = -1;
}

static int open_event(struct nc_watch *watch)
{
    char text[INFO_BYTES];
    struct stat status;
    int fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (fd >= 0 && fstat(fd, &status) == 0) {
        watch->wake_device = status.st_dev;
        watch->wake_inode = status.st_ino;
        watch->wake_number = read_info(fd, text) ? number_of_event(text) : -1;
    }
    watch->wake_fd = fd;
    return fd < 0 ? -1 : 0;
}

int nc_wake_open(nearcall_client *client)
{
    return client->watch.wake_fd < 0 ? open_event(&client->watch) : 0;
}

static int add_event(const struct nc_watch *watch, int epoll_fd)
{
    struct epoll_event event = {.events = EPOLLIN, .data.u64 = watch->token};
    return epoll_ctl(epoll_fd, EPOLL_CTL_ADD, watch->wake_fd, &event);
}

/* The waker's descriptor is always in the set. What is in there bears the token that tells
 * whose it is. */
static int make_set(nearcall_client *client)
{
    struct nc_watch *watch = &client->watch;
    watch->token = TOKEN_MARK | (nc_random(client) & TOKEN_BITS);
    int fd = epoll_create1(EPOLL_CLOEXEC);
    if (fd >= 0 && add_event(watch, fd) != 0) {
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

/* ---- What is in it ---- */

void nc_watch_forget(nearcall_client *client)
{
    struct nc_watch *watch = &client->watch;
    if (watch->socket_fd >= 0 && is_own_set(watch))
        /* closing alone does not end it where a child has a copy */
        (void)epoll_ctl(watch->epoll_fd, EPOLL_CTL_DEL, watch->socket_fd, NULL);
    watch->socket_fd = -1;
}

/* A set that this program has closed gives way to a new one, under another number. */
static void add_socket(nearcall_client *client, struct epoll_event *event)
{
    struct nc_watch *watch = &client->watch;
    if (!is_own_set(watch)) {
        watch->epoll_fd = -1;
        if (!is_own_event(watch))
            watch->wake_fd = -1;
        nc_watch_open(client);
    }
    if (watch->epoll_fd >= 0 &&
        epoll_ctl(watch->epoll_fd, EPOLL_CTL_ADD, client->connection.fd, event) == 0)
        watch->socket_fd = client->connection.fd;
}

void nc_watch_update(nearcall_client *client)
{
    struct nc_watch *watch = &client->watch;
    uint32_t events = (uint32_t)nc_connection_events(client); /* poll(2)'s are epoll's */
    struct epoll_event event = {.events = events, .data.u64 = watch->token};
    if (watch->epoll_fd < 0 || client->connection.fd < 0)
        return;
    if (watch->socket_fd < 0)
        add_socket(client, &event);
    else if (events != watch->events)
        (void)epoll_ctl(watch->epoll_fd, EPOLL_CTL_MOD, watch->socket_fd, &event);
    watch->events = events;
}

/* ---- Forking, closing ---- */

/* Puts the child's own set where the parent's was, if nothing else is there now. */
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
    }
}

void nc_watch_after_fork(nearcall_client *client)
{
    struct nc_watch *watch = &client->watch;
    int former_wake = watch->wake_fd;
    watch->socket_fd = -1;
    atomic_store_explicit(&watch->is_woken, 0, memory_order_relaxed);
    if (former_wake < 0)
        return;
    bool own_event = is_own_event(watch), own_set = is_own_set(watch);
    watch->wake_fd = -1;
    if (nc_wake_open(client) == 0 && watch->epoll_fd >= 0)
        replace_set(client, own_set);
    if (own_event)
        close(former_wake);
}

void nc_watch_free(nearcall_client *client)
{
    struct nc_watch *watch = &client->watch;
    bool own_event = is_own_event(watch);
    if (is_own_set(watch))
        close(watch->epoll_fd);
    if (own_event)
        close(watch->wake_fd);
    nc_watch_init(watch);
}

/* ---- Waking ---- */

/* False: the number has become another's, or nobody's. A new event takes its place. */
bool nc_wake_identify(nearcall_client *client)
{
    struct nc_watch *watch = &client->watch;
    if (watch->wake_fd < 0 || may_be_own_event(watch))
        return true;
    if (open_event(watch) == 0 && is_own_set(watch))
        (void)add_event(watch, watch->epoll_fd);
    return false;
}

/* False: there was none to take. */
bool nc_wake_take(nearcall_client *client)
{
    uint64_t count;
    if (!nc_wake_identify(client))
        return false;
    atomic_store_explicit(&client->watch.is_woken, 0, memory_order_relaxed);
    while (read(client->watch.wake_fd, &count, sizeof(count)) < 0 && errno == EINTR)
        ;
    return true;
}

/* What is_woken tells may have been taken before it was told. Forgotten first, and looked
 * for then: who writes in between tells it anew. */
bool nc_wake_confirm(nearcall_client *client)
{
    struct pollfd event = {client->watch.wake_fd, POLLIN, 0};
    atomic_exchange_explicit(&client->watch.is_woken, 0, memory_order_acquire);
    if (poll(&event, 1, 0) <= 0)
        return false;
    atomic_store_explicit(&client->watch.is_woken, 1, memory_order_relaxed);
    return true;
}

/* Only what a signal's handler may do. */
NEARCALL_API int nearcall_wake(nearcall_client *client)
{
    static const uint64_t one = 1;
    int former = errno, r = NEARCALL_OK;
    if (!client || client->watch.wake_fd < 0)
        return NEARCALL_E_MISUSE;
    if (nc_forked(&client->guard))
        return NEARCALL_OK; /* nothing waits here, and the descriptor is the parent's */
    /* What does not fit is there already. */
    if (!may_be_own_event(&client->watch) ||
        (write(client->watch.wake_fd, &one, sizeof(one)) < 0 && errno == EBADF))
        r = NEARCALL_E_MISUSE;
    else /* last: who sees it finds what was written, or somebody has taken that */
        atomic_store_explicit(&client->watch.is_woken, 1, memory_order_release);
    errno = former;
    return r;
}
