/* The supervisor's table of workers: what they said, and how they ended. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "resident/resident.h"

static void answer_aside(nearcall_resident *resident, uint32_t kind, int connection)
{
    if (kind == NC_RESIDENT_STOP)
        nc_resident_leave(resident, "it was asked to stop");
    nc_resident_report(resident, connection);
    nc_resident_close_connection(&connection);
}

static void heard(nearcall_resident *resident, struct nc_resident_worker *worker,
                  const struct nc_resident_lease_message *message, int fd)
{
    if (message->type == NC_RESIDENT_FORWARD && fd >= 0) {
        answer_aside(resident, message->kind, fd);
    } else if (message->type == NC_RESIDENT_TAKEN) {
        worker->state = NC_RESIDENT_BUSY;
        worker->connection = fd;
        resident->lost = 0;
        if (resident->looks && nc_resident_watch_changed(resident)) {
            resident->outdated = true;
            nc_resident_leave(resident, "a file it was made from has changed");
        }
    } else if (message->type == NC_RESIDENT_WITHDRAWN) {
        worker->is_withdrawn = true;
    } else if (message->type == NC_RESIDENT_SLOW) {
        worker->state = NC_RESIDENT_HEARING;
    } else if (message->type == NC_RESIDENT_OUTGROWN) {
        nc_resident_leave(resident, "a caller's resource limits are higher than its own");
    } else if (message->type == NC_RESIDENT_READY) {
        worker->state = NC_RESIDENT_WAITING;
        resident->failures = 0;
        if (!resident->ready && !nc_resident_place_ready(resident))
            nc_resident_leave(resident, "its socket is gone: a launcher waited in vain for it to be ready"
                                        " (NEARCALL_RUN_ANSWER_MS), or somebody removed it");
        resident->ready = true;
    }
}

void nc_resident_worker_hear(nearcall_resident *resident, struct nc_resident_worker *worker)
{
    struct nc_resident_lease_message message = {0};
    int fd, r = 0;
    while (worker->lease >= 0 && (r = nc_resident_lease_receive(worker->lease, &message, &fd)) > 0)
        heard(resident, worker, &message, fd);
    if (worker->lease >= 0 && (r == 0 || errno != EAGAIN))
        nc_resident_close_fd(&worker->lease);
}

/* What a run left behind has the connection too: it does not get SIGHUP when the launcher
 * goes home, and does not keep it waiting. */
static void tell_end(struct nc_resident_worker *worker, int status)
{
    int flags = fcntl(worker->connection, F_GETFL);
    if (flags >= 0)
        (void)fcntl(worker->connection, F_SETFL, flags & ~O_ASYNC);
    if (WIFSIGNALED(status))
        (void)nc_resident_send_frame(worker->connection, NC_RESIDENT_KILLED, (uint32_t)WTERMSIG(status), 0, NULL);
    else
        (void)nc_resident_send_frame(worker->connection, NC_RESIDENT_EXITED, (uint32_t)WEXITSTATUS(status), 0,
                                     NULL);
    (void)shutdown(worker->connection, SHUT_RDWR);
    nc_resident_close_connection(&worker->connection);
}

static void log_failure(const struct nc_resident_worker *worker, int status)
{
    fprintf(stderr, "nearcall: process %ld %s %d %s a run\n", (long)worker->process_id,
            WIFSIGNALED(status) ? "was ended by signal" : "ended with",
            WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status),
            worker->state == NC_RESIDENT_STARTING ? "before it waited for" : "while it waited for");
}

static void worker_free(nearcall_resident *resident, struct nc_resident_worker *worker)
{
    struct nc_resident_worker **link = &resident->workers;
    while (*link != worker)
        link = &(*link)->next;
    *link = worker->next;
    nc_resident_close_fd(&worker->pidfd);
    nc_resident_close_fd(&worker->lease);
    nc_resident_close_fd(&worker->connection);
    free(worker);
}

void nc_resident_worker_reap(nearcall_resident *resident, struct nc_resident_worker *worker)
{
    int status = 0;
    pid_t ended;
    while ((ended = waitpid(worker->process_id, &status, WNOHANG)) < 0 && errno == EINTR)
        ;
    if (ended == 0)
        return;
    nc_resident_worker_hear(resident, worker); /* its last words */
    if (worker->connection >= 0 && ended > 0)
        tell_end(worker, status);
    if (worker->state == NC_RESIDENT_BUSY) {
        resident->runs += !worker->is_withdrawn;
        resident->idle_since_ns = nc_now_ns();
    }
    bool is_lost = worker->state == NC_RESIDENT_WAITING && !resident->leaving;
    resident->failures += worker->state == NC_RESIDENT_STARTING;
    resident->lost += is_lost;
    if (worker->state == NC_RESIDENT_STARTING || is_lost)
        log_failure(worker, status);
    worker_free(resident, worker);
}

void nc_resident_workers_free(nearcall_resident *resident)
{
    while (resident->workers)
        worker_free(resident, resident->workers);
}
