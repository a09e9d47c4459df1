/* Noticing that this process is a child of the one that made a handle. */
#ifndef NC_FORK_H
#define NC_FORK_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include <unistd.h>

/* page is of its own, private and wiped by the kernel in every child: it holds
 * 1 in the process that armed it and 0 elsewhere. NULL where the kernel cannot
 * do that; then the process id decides, at the price of a system call. */
struct nc_fork_guard {
    volatile uint32_t *page;
    pid_t process_id;
};

/* Never fails: without a page it falls back. */
void nc_fork_guard_arm(struct nc_fork_guard *guard);
void nc_fork_guard_rearm(struct nc_fork_guard *guard);
void nc_fork_guard_free(struct nc_fork_guard *guard);

static inline bool nc_forked(const struct nc_fork_guard *guard)
{
    return guard->page ? *guard->page == 0 : guard->process_id != getpid();
}

#endif
