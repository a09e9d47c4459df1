/* A worker's life: it waits, takes one run, and ends with it. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/rights.h"
#include "resident/resident.h"

#define PAUSE_MS 10

/* ---- Beginning ---- */

NEARCALL_API int nearcall_resident_child(nearcall_resident *resident)
{
    if (!resident || resident->supervisor == getpid() || resident->worker || resident->next_lease[1] < 0)
        return NEARCALL_E_MISUSE;
    resident->worker = getpid();
    resident->lease = resident->next_lease[1];
    resident->next_lease[1] = -1;
    nc_resident_close_fd(&resident->next_lease[0]);
    nc_resident_close_fd(&resident->signals);
    nc_resident_workers_free(resident);
    (void)setsid();
    setrlimit(RLIMIT_NOFILE, &resident->descriptors);
    sigaction(SIGCHLD, &resident->child_action, NULL);
    pthread_sigmask(SIG_SETMASK, &resident->mask, NULL);
    nc_resident_reopen_files();
    return NEARCALL_OK;
}

static int add(int epoll, int fd, uint32_t events)
{
    struct epoll_event event = {.events = events, .data = {.fd = fd}};
    return epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event);
}

/* One of those that wait is woken for a connection. */
static int begin_waiting(nearcall_resident *resident)
{
    const struct nc_resident_lease_message ready = {.type = NC_RESIDENT_READY};
    if (nc_resident_changes_keep(&resident->self) < 0)
        return nc_resident_fail(resident, NEARCALL_E_RESOURCE_EXHAUSTED, "no memory for the environment");
    resident->epoll = epoll_create1(EPOLL_CLOEXEC);
    if (resident->epoll < 0 || add(resident->epoll, resident->listener, EPOLLIN | EPOLLEXCLUSIVE) < 0 ||
        add(resident->epoll, resident->lease, EPOLLIN) < 0)
        return nc_resident_fail(resident, NEARCALL_E_RESOURCE_EXHAUSTED, "epoll: %s", strerror(errno));
    (void)nc_resident_lease_send(resident->lease, &ready, -1);
    resident->waits = true;
    return NEARCALL_OK;
}

/* ---- Taking a run ---- */

/* A launcher that goes away without waiting takes its terminal with it. It sends nothing
 * more, so that only its end is told. */
static bool hang_up_with(int connection)
{
    int flags = fcntl(connection, F_GETFL);
    return flags >= 0 && fcntl(connection, F_SETOWN, -getpid()) == 0 &&
           fcntl(connection, F_SETSIG, SIGHUP) == 0 && fcntl(connection, F_SETFL, flags | O_ASYNC) == 0;
}

/* From TAKEN on the supervisor has the connection too; from RUNNING on the run has begun. */
static bool commit(nearcall_resident *resident, int connection)
{
    const struct nc_resident_lease_message taken = {.type = NC_RESIDENT_TAKEN};
    const struct nc_resident_lease_message withdrawn = {.type = NC_RESIDENT_WITHDRAWN};
    uint32_t self = (uint32_t)getpid();
    /* Without a supervisor the run goes on, and tells its end itself. */
    if (nc_resident_lease_send(resident->lease, &taken, connection) < 0 && errno == ETOOMANYREFS) {
        (void)nc_resident_send_frame(connection, NC_RESIDENT_PLAINLY, 0, 0,
                                     "too many descriptors of this user are on the way (ETOOMANYREFS)");
        return false;
    }
    if (hang_up_with(connection) &&
        nc_resident_send_frame(connection, NC_RESIDENT_RUNNING, self, self, NULL) == 0)
        return true;
    (void)nc_resident_lease_send(resident->lease, &withdrawn, -1);
    return false;
}

/* Those of a run were agreed to, and its launcher goes on with them if it is refused. A question has none. */
static void close_all(const int fds[NC_RESIDENT_FDS], bool is_question)
{
    for (int i = 0; i < NC_RESIDENT_FDS; i++)
        if (is_question)
            nc_rights_close(fds[i]);
        else
            nc_rights_close_received(fds[i], getpid());
}

/* The next resident will have a launcher's limits that are higher. */
static const char *limits_refusal(const nearcall_resident *resident, pid_t caller)
{
    const struct nc_resident_lease_message outgrown = {.type = NC_RESIDENT_OUTGROWN};
    bool is_outgrown;
    const char *refusal = nc_resident_raise_limits(caller, &is_outgrown);
    if (is_outgrown)
        (void)nc_resident_lease_send(resident->lease, &outgrown, -1);
    return refusal;
}

static const char *run_refusal(nearcall_resident *resident, int connection, pid_t caller,
                               const int fds[NC_RESIDENT_FDS])
{
    const char *refusal = nc_resident_peer_refusal(&resident->self, connection, caller, resident->request.keyring);
    if (!refusal)
        refusal = nc_resident_variable_refusal(&resident->self, resident->request.environment);
    if (!refusal)
        refusal = nc_resident_interpreter_refusal(&resident->self, &resident->request);
    for (int i = 0; i < NC_RESIDENT_FDS && !refusal; i++)
        if (fds[i] < 0)
            refusal = "a descriptor did not arrive";
    if (!refusal)
        refusal = nc_resident_reads_refusal(&resident->self, &resident->request, fds);
    if (!refusal && nc_resident_watch_is_outdated(resident))
        refusal = "a file that the resident was made from has changed";
    if (!refusal && nc_resident_changes_apply(&resident->self, &resident->request) < 0)
        refusal = "there is no memory for its environment";
    return refusal ? refusal : limits_refusal(resident, caller);
}

static enum nc_resident_taken take_run(nearcall_resident *resident, int connection, pid_t caller,
                                       int fds[NC_RESIDENT_FDS])
{
    const char *refusal = run_refusal(resident, connection, caller, fds);
    enum nc_resident_taken taken = refusal ? NC_RESIDENT_NOTHING : NC_RESIDENT_TOOK;
    if (!refusal && (refusal = nc_resident_apply(&resident->request, caller, fds)) != NULL)
        taken = NC_RESIDENT_SPOILED;
    if (refusal)
        (void)nc_resident_send_frame(connection, NC_RESIDENT_PLAINLY, 0, 0, refusal);
    else if (!commit(resident, connection))
        taken = NC_RESIDENT_SPOILED;
    return taken;
}

static enum nc_resident_taken forward(nearcall_resident *resident, int connection)
{
    const struct nc_resident_lease_message message = {.type = NC_RESIDENT_FORWARD,
                                                      .kind = resident->request.kind};
    return nc_resident_lease_send(resident->lease, &message, connection) == 0 ? NC_RESIDENT_PASSED_ON
                                                                              : NC_RESIDENT_NOTHING;
}

static enum nc_resident_taken serve(nearcall_resident *resident, int connection, nearcall_resident_run *run)
{
    struct ucred peer;
    socklen_t bytes = sizeof(peer);
    int fds[NC_RESIDENT_FDS] = {-1, -1, -1, -1};
    enum nc_resident_taken taken = NC_RESIDENT_NOTHING;
    if (getsockopt(connection, SOL_SOCKET, SO_PEERCRED, &peer, &bytes) < 0 || peer.uid != geteuid())
        return NC_RESIDENT_NOTHING;
    bool is_request = nc_resident_receive(resident, connection, fds) == 0;
    bool is_question = is_request && resident->request.kind != NC_RESIDENT_RUN;
    if (is_question)
        taken = forward(resident, connection);
    else if (is_request)
        taken = take_run(resident, connection, peer.pid, fds);
    close_all(fds, is_question);
    run->process_id = (uint32_t)peer.pid;
    run->user_id = peer.uid;
    run->group_id = peer.gid;
    return taken;
}

/* ---- What the program is given ---- */

/* A script's name is the path that the kernel was given. A launcher may have been called
 * by another name, or found the program in PATH. */
static char *argument_zero(const nearcall_resident *resident)
{
    struct stat named, own;
    char *given = resident->request.arguments[0];
    if (strchr(given, '/') && stat(given, &named) == 0 && stat(resident->program, &own) == 0 &&
        named.st_dev == own.st_dev && named.st_ino == own.st_ino)
        return given;
    return resident->program;
}

static int hand_out(nearcall_resident *resident, int connection, nearcall_resident_run *run)
{
    const struct nc_resident_request *request = &resident->request;
    resident->connection = connection;
    nc_resident_close_fd(&resident->lease);
    nc_resident_close_fd(&resident->epoll);
    nc_resident_close_fd(&resident->listener);
    nc_resident_watch_end(resident);
    nc_resident_ignore(resident->self.ignored);
    request->arguments[0] = argument_zero(resident);
    run->arguments_count = (int)request->arguments_count;
    run->arguments = request->arguments;
    run->environment = request->environment;
    run->environment_count = request->environment_count;
    run->directory = request->directory;
    run->terminal_rows = request->rows;
    run->terminal_columns = request->columns;
    return NEARCALL_RESIDENT_RUN;
}

/* ---- Waiting ---- */

/* A message never comes: what wakes is the lease's end. */
static int wait_for_connection(nearcall_resident *resident)
{
    struct epoll_event events[2];
    int count = nc_resident_epoll_wait(resident, events, 2);
    if (count < 0)
        return errno == EINTR ? NEARCALL_E_INTERRUPTED
                              : nc_resident_fail(resident, NEARCALL_E_INTERNAL, "epoll_wait: %s", strerror(errno));
    for (int i = 0; i < count; i++)
        resident->lease_ended |= events[i].data.fd == resident->lease;
    return NEARCALL_OK;
}

static int accept_run(nearcall_resident *resident, nearcall_resident_run *run)
{
    for (;;) {
        int connection = accept4(resident->listener, NULL, NULL, SOCK_CLOEXEC);
        if (connection < 0 && errno == EINTR)
            return NEARCALL_E_INTERRUPTED;
        if (connection < 0 && resident->lease_ended)
            return NEARCALL_RESIDENT_LEAVE;
        if (connection < 0) {
            if (errno != EAGAIN && errno != ECONNABORTED)
                (void)poll(NULL, 0, PAUSE_MS); /* descriptors or memory are lacking */
            int r = wait_for_connection(resident);
            if (r < 0)
                return r;
            continue;
        }
        enum nc_resident_taken taken = serve(resident, connection, run);
        if (taken == NC_RESIDENT_TOOK)
            return hand_out(resident, connection, run);
        if (taken == NC_RESIDENT_PASSED_ON)
            nc_resident_close_fd(&connection); /* what comes is the supervisor's */
        else
            nc_resident_close_connection(&connection);
        if (taken == NC_RESIDENT_SPOILED || resident->slow)
            return NEARCALL_RESIDENT_LEAVE; /* another one waits in its place */
    }
}

NEARCALL_API int nearcall_resident_accept(nearcall_resident *resident, nearcall_resident_run *ret_run)
{
    nearcall_resident_run run = {0};
    if (!resident || !ret_run || resident->worker != getpid() || resident->connection >= 0)
        return NEARCALL_E_MISUSE;
    int r = resident->waits ? NEARCALL_OK : begin_waiting(resident);
    if (r == NEARCALL_OK)
        r = accept_run(resident, &run);
    if (r == NEARCALL_RESIDENT_RUN)
        *ret_run = run;
    return r;
}

/* Children of the run have the connection as well; it is not theirs. */
NEARCALL_API void nearcall_resident_ending(nearcall_resident *resident, int exit_code)
{
    if (!resident || resident->worker != getpid() || resident->connection < 0)
        return;
    int flags = fcntl(resident->connection, F_GETFL);
    if (flags >= 0)
        (void)fcntl(resident->connection, F_SETFL, flags & ~O_ASYNC);
    (void)nc_resident_send_frame(resident->connection, NC_RESIDENT_ENDING, (uint32_t)exit_code & 0xFF, 0, NULL);
}
