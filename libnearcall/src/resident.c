/* Handles of residents, and the supervisor's life. */
#include "resident.h"

#include <errno.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "clock.h"
#include "utf8.h"

/* After a fork that failed. */
#define RETRY_MS 100

/* Descriptors of a supervisor that are not a run's. */
#define DESCRIPTORS_KEPT 64
#define DESCRIPTORS_PER_WORKER 3
#define WORKERS_MAX 10000

int nc_resident_fail(nearcall_resident *resident, int code, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(resident->message, sizeof(resident->message), format, arguments);
    va_end(arguments);
    nc_utf8_clean(resident->message);
    return code;
}

NEARCALL_API const char *nearcall_resident_error_message(const nearcall_resident *resident)
{
    return resident ? resident->message : "no memory for a handle";
}

void nc_resident_close_fd(int *fd)
{
    if (*fd >= 0)
        close(*fd);
    *fd = -1;
}

/* ---- Opening ---- */

static int keep_program(nearcall_resident *resident, const char *path)
{
    char own[4096];
    ssize_t bytes = path ? 0 : readlink("/proc/self/exe", own, sizeof(own) - 1);
    if (bytes < 0)
        return nc_resident_fail(resident, NEARCALL_E_FAILED_PRECONDITION, "/proc/self/exe: %s", strerror(errno));
    own[bytes] = 0;
    resident->program = strdup(path ? path : own);
    if (!resident->program)
        return nc_resident_fail(resident, NEARCALL_E_RESOURCE_EXHAUSTED, "no memory for the program's path");
    return NEARCALL_OK;
}

static int keep_options(nearcall_resident *resident, const nearcall_resident_options *options)
{
    if (options->workers > NC_RESIDENT_WORKERS_CEILING || options->reserved != 0)
        return nc_resident_fail(resident, NEARCALL_E_INVALID_ARGUMENT, "workers is %u: at most %d can wait",
                                options->workers, NC_RESIDENT_WORKERS_CEILING);
    resident->workers_wanted = options->workers ? options->workers : NC_RESIDENT_WORKERS;
    resident->idle_ms = options->idle_ms == 0 ? NC_RESIDENT_IDLE_MS
                        : options->idle_ms < 0 ? NEARCALL_NO_TIMEOUT
                                               : options->idle_ms;
    return keep_program(resident, options->program);
}

/* As many runs at a time as there can be descriptors for. */
static void raise_descriptors(nearcall_resident *resident)
{
    struct rlimit *kept = &resident->descriptors;
    resident->workers_max = 1;
    if (getrlimit(RLIMIT_NOFILE, kept) < 0)
        return;
    struct rlimit raised = {kept->rlim_max, kept->rlim_max};
    rlim_t most = setrlimit(RLIMIT_NOFILE, &raised) == 0 ? raised.rlim_cur : kept->rlim_cur;
    if (most > DESCRIPTORS_KEPT + DESCRIPTORS_PER_WORKER * (rlim_t)WORKERS_MAX)
        resident->workers_max = WORKERS_MAX;
    else if (most > DESCRIPTORS_KEPT)
        resident->workers_max = (uint32_t)((most - DESCRIPTORS_KEPT) / DESCRIPTORS_PER_WORKER + 1);
}

static int take_signals(nearcall_resident *resident)
{
    struct sigaction action = {.sa_handler = SIG_DFL};
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    if (sigaction(SIGCHLD, &action, &resident->child_action) < 0 ||
        pthread_sigmask(SIG_BLOCK, &set, &resident->mask) != 0 ||
        (resident->signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK)) < 0)
        return nc_resident_fail(resident, NEARCALL_E_RESOURCE_EXHAUSTED, "signalfd: %s", strerror(errno));
    return NEARCALL_OK;
}

static nearcall_resident *resident_new(void)
{
    nearcall_resident *resident = calloc(1, sizeof(*resident));
    struct timespec now;
    if (!resident)
        return NULL;
    clock_gettime(CLOCK_REALTIME, &now);
    resident->started_ms = (int64_t)now.tv_sec * 1000 + now.tv_nsec / NC_NS_PER_MS;
    resident->idle_since_ns = nc_now_ns();
    resident->supervisor = getpid();
    resident->listener = resident->signals = resident->inotify = resident->lease = -1;
    resident->epoll = resident->connection = resident->next_lease[0] = resident->next_lease[1] = -1;
    return resident;
}

NEARCALL_API int nearcall_resident_open(nearcall_resident **ret_resident,
                                        const nearcall_resident_options *options)
{
    const nearcall_resident_options none = NEARCALL_RESIDENT_OPTIONS_INIT;
    if (!ret_resident || (options && options->struct_size != sizeof(*options)))
        return NEARCALL_E_MISUSE;
    nearcall_resident *resident = *ret_resident = resident_new();
    if (!resident)
        return NEARCALL_E_RESOURCE_EXHAUSTED;
    options = options ? options : &none;
    int r = keep_options(resident, options);
    if (r == NEARCALL_OK)
        r = nc_resident_place_open(resident);
    if (r == NEARCALL_OK)
        r = nc_resident_self_init(resident, options->environment);
    if (r == NEARCALL_OK)
        r = nc_resident_watch_begin(resident);
    if (r == NEARCALL_OK)
        r = nc_resident_watch_mapped(resident);
    if (r < 0)
        return r;
    nc_resident_environment_hide();
    if (resident->place.identity && resident->place.identity != nc_resident_identity(resident->program))
        resident->outdated = true; /* it changed since the launcher looked */
    raise_descriptors(resident);
    return take_signals(resident);
}

NEARCALL_API int nearcall_resident_watch(nearcall_resident *resident, const char *path)
{
    if (!resident || !path)
        return NEARCALL_E_MISUSE;
    return nc_resident_watch_file(resident, path);
}

NEARCALL_API int nearcall_resident_interruptible_check(nearcall_resident *resident,
                                                       int (*check)(void *argument),
                                                       void *argument)
{
    if (!resident)
        return NEARCALL_E_MISUSE;
    resident->interrupt_check = check;
    resident->interrupt_argument = argument;
    return NEARCALL_OK;
}

NEARCALL_API void nearcall_resident_close(nearcall_resident *resident)
{
    if (!resident)
        return;
    nc_resident_workers_free(resident);
    nc_resident_watch_end(resident);
    nc_resident_self_free(&resident->self);
    nc_resident_request_free(&resident->request);
    int *fds[] = {&resident->listener, &resident->signals, &resident->lease, &resident->epoll,
                  &resident->connection, &resident->next_lease[0], &resident->next_lease[1]};
    for (size_t i = 0; i < sizeof(fds) / sizeof(fds[0]); i++)
        nc_resident_close_fd(fds[i]);
    free(resident->body);
    free(resident->argument_zero);
    free(resident->program);
    free(resident);
}

/* ---- Leaving ---- */

/* From here on nobody finds this resident; what is in the backlog is still done. */
void nc_resident_leave(nearcall_resident *resident, const char *why)
{
    if (resident->leaving)
        return;
    resident->leaving = true;
    fprintf(stderr, "nearcall: process %ld leaves: %s\n", (long)getpid(), why);
    nc_resident_place_remove(resident);
    /* Whoever waits takes what is there, or goes. */
    for (struct nc_resident_worker *worker = resident->workers; worker; worker = worker->next)
        if (worker->lease >= 0)
            shutdown(worker->lease, SHUT_WR);
}

static bool is_backlog_empty(const nearcall_resident *resident)
{
    struct pollfd listener = {.fd = resident->listener, .events = POLLIN};
    return poll(&listener, 1, 0) <= 0;
}

/* ---- Forking ---- */

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
