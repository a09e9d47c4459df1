/* How many workers are wanted, and their beginning. */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "resident/resident.h"

/* After a fork that failed. */
#define RETRY_MS 100

unsigned nc_resident_count(const nearcall_resident *resident, enum nc_resident_worker_state state)
{
    unsigned count = 0;
    for (const struct nc_resident_worker *worker = resident->workers; worker; worker = worker->next)
        count += worker->state == state;
    return count;
}

static bool is_backlog_empty(const nearcall_resident *resident)
{
    struct pollfd listener = {.fd = resident->listener, .events = POLLIN};
    return poll(&listener, 1, 0) <= 0;
}

bool nc_resident_wants_worker(const nearcall_resident *resident)
{
    unsigned starting = nc_resident_count(resident, NC_RESIDENT_STARTING);
    unsigned waiting = nc_resident_count(resident, NC_RESIDENT_WAITING);
    unsigned busy = nc_resident_count(resident, NC_RESIDENT_BUSY) + nc_resident_count(resident, NC_RESIDENT_HEARING);
    if (resident->retry_ns > nc_now_ns() || starting + waiting + busy >= resident->workers_max)
        return false;
    if (resident->leaving)
        return starting + waiting == 0 && !is_backlog_empty(resident);
    return starting + waiting < resident->workers_wanted;
}

int nc_resident_ask_for_fork(nearcall_resident *resident)
{
    nc_resident_close_fd(&resident->next_lease[0]);
    nc_resident_close_fd(&resident->next_lease[1]);
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, resident->next_lease) < 0) {
        resident->next_lease[0] = resident->next_lease[1] = -1;
        resident->retry_ns = nc_after_ms(nc_now_ns(), RETRY_MS);
        return 0;
    }
    if (resident->leaving)
        shutdown(resident->next_lease[0], SHUT_WR);
    fflush(NULL); /* what the child had of it, it would write once more */
    resident->retry_ns = 0;
    return NEARCALL_RESIDENT_FORK;
}

/* Without this a worker could not be reaped, and is not wanted. */
static int drop_fork(nearcall_resident *resident, const char *what, int error)
{
    fprintf(stderr, "nearcall: %s: %s; it is tried again\n", what, strerror(error));
    nc_resident_close_fd(&resident->next_lease[0]);
    nc_resident_close_fd(&resident->next_lease[1]);
    resident->retry_ns = nc_after_ms(nc_now_ns(), RETRY_MS);
    return NEARCALL_OK;
}

NEARCALL_API int nearcall_resident_forked(nearcall_resident *resident, pid_t process_id)
{
    int error = errno;
    if (!resident || resident->next_lease[0] < 0)
        return NEARCALL_E_MISUSE;
    if (process_id < 0)
        return drop_fork(resident, "fork", error);
    struct nc_resident_worker *worker = calloc(1, sizeof(*worker));
    int pidfd = (int)syscall(SYS_pidfd_open, process_id, 0);
    if (!worker || pidfd < 0) {
        error = errno;
        free(worker);
        nc_resident_close_fd(&pidfd);
        kill(process_id, SIGKILL);
        while (waitpid(process_id, NULL, 0) < 0 && errno == EINTR)
            ;
        return drop_fork(resident, "pidfd_open", error);
    }
    *worker = (struct nc_resident_worker){.next = resident->workers, .state = NC_RESIDENT_STARTING,
                                          .process_id = process_id, .pidfd = pidfd,
                                          .lease = resident->next_lease[0], .connection = -1};
    resident->workers = worker;
    resident->next_lease[0] = -1;
    nc_resident_close_fd(&resident->next_lease[1]);
    return NEARCALL_OK;
}
