/* Handles of residents: their beginning and their end. */
#include "resident/resident.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/sized.h"

/* Descriptors of a supervisor that are not a run's. */
#define DESCRIPTORS_KEPT 64
#define DESCRIPTORS_PER_WORKER 3
#define WORKERS_MAX 10000

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
                                        const nearcall_resident_options *given)
{
    nearcall_resident_options options = NEARCALL_RESIDENT_OPTIONS_INIT;
    if (!ret_resident)
        return NEARCALL_E_MISUSE;
    nearcall_resident *resident = *ret_resident = resident_new();
    if (!resident)
        return NEARCALL_E_RESOURCE_EXHAUSTED;
    const char *allowed = nc_sized_read(given, &options, sizeof(options));
    int r = allowed ? nc_resident_fail(resident, NEARCALL_E_INVALID_ARGUMENT, "struct_size is %zu; allowed: %s",
                                       nc_sized_bytes(given), allowed)
                    : keep_options(resident, &options);
    if (r == NEARCALL_OK)
        r = nc_resident_place_open(resident);
    if (r == NEARCALL_OK)
        r = nc_resident_self_init(resident, options.environment);
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
