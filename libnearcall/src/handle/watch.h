/* What others wait for, and how they end a wait here. Owned by connection/watch.c. */
#ifndef NC_HANDLE_WATCH_H
#define NC_HANDLE_WATCH_H

#include <stdatomic.h>
#include <stdint.h>
#include <sys/types.h>

/* One of the two ends of a socket pair, which have files of their own. */
struct nc_wake_end {
    atomic_int fd; /* or -1; other threads read it */
    dev_t device;
    ino_t inode;
};

struct nc_watch {
    int epoll_fd; /* what event loops watch, or -1: nobody has asked for it */
    int told_fd; /* what the program was told to watch last, or -1 */
    int socket_fd; /* the connection's, as it is in there, or -1 */
    uint32_t events;
    uint64_t token; /* by which the set is known */
    struct nc_wake_end wake; /* readable when the handle was woken */
    struct nc_wake_end waker; /* what nearcall_wake() writes to */
    atomic_int is_woken; /* nobody may have taken it yet; see nc_is_woken() */
};

#endif
