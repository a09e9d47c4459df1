/* The part of a library that is no Go code: what children of the process that
 * loaded it may still call, and what protects that process from signals. */
#define _GNU_SOURCE

#include "library.h"

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <ucontext.h>
#include <unistd.h>

#include "_cgo_export.h"

/* The runtime takes these over when it is loaded; others it leaves alone. */
static const int runtime_signals[] = {SIGSEGV, SIGBUS, SIGFPE, SIGURG};
#define RUNTIME_SIGNALS (sizeof(runtime_signals) / sizeof(runtime_signals[0]))

static struct sigaction before_runtime[RUNTIME_SIGNALS];
static struct sigaction by_runtime[RUNTIME_SIGNALS];

static struct nearcall_embed_place place = {.descriptor = -1};

/* Go functions that this thread is inside of. */
static _Thread_local volatile int inside __attribute__((tls_model("initial-exec")));

static _Thread_local int is_known __attribute__((tls_model("initial-exec")));

/* No handler of the host's runs on this thread until leave_go(), and its mask is then
 * what it was. For what is rare: calls have no time for it. A thread that the runtime
 * comes to know has SIGCHLD unblocked by it, see block_children_here(). */
static void enter_go(sigset_t *ret_former)
{
    sigset_t all;
    sigfillset(&all);
    sigdelset(&all, SIGURG);
    sigdelset(&all, SIGPROF);
    for (size_t i = 0; i < RUNTIME_SIGNALS; i++)
        sigdelset(&all, runtime_signals[i]);
    pthread_sigmask(SIG_SETMASK, &all, ret_former);
    if (!is_known)
        pthread_kill(pthread_self(), SIGSTKFLT);
    inside++;
}

static void leave_go(const sigset_t *former)
{
    inside--;
    is_known = 1;
    pthread_sigmask(SIG_SETMASK, former, NULL);
}

static int start(const char *file, char *error, uint64_t error_bytes)
{
    sigset_t former;
    enter_go(&former);
    int r = nearcallEmbedStart((char *)file, error, error_bytes);
    leave_go(&former);
    return r;
}

static void overran(uint32_t function)
{
    sigset_t former;
    enter_go(&former);
    nearcallEmbedOverran(function);
    leave_go(&former);
}

/* The first call of a thread makes it known to the runtime, which changes the
 * thread's mask for good. It is the host's. */
static void become_known(void)
{
    overran(NEARCALL_EMBED_UNNUMBERED); /* does nothing */
}

static int call(struct nearcall_embed_call *call)
{
    if (__builtin_expect(!is_known, 0))
        become_known();
    inside++;
    int r = nearcallEmbedCall(call);
    inside--;
    return r;
}

static struct nearcall_embed_library library = {
    .version = NEARCALL_EMBED_VERSION,
    .place = &place,
    .start = start,
    .call = call,
    .overran = overran,
};

__attribute__((visibility("default"))) const struct nearcall_embed_library *
nearcall_embed_library(void)
{
    return &library;
}

int nearcall_embed_grow(struct nearcall_embed_call *call, uint64_t bytes)
{
    return call->grow(call, bytes);
}

/* ---- Which process this is ---- */

/* A page that the kernel wipes in children; without one nobody is the loader. */
static const volatile uint32_t *new_loader_page(void)
{
    static const uint32_t nobody;
    size_t bytes = (size_t)sysconf(_SC_PAGESIZE);
    uint32_t *page = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (page == MAP_FAILED)
        return &nobody;
    if (madvise(page, bytes, MADV_WIPEONFORK) != 0) {
        munmap(page, bytes);
        return &nobody;
    }
    *page = 1;
    return page;
}

/* ---- Signals ---- */

static int has_handler_of(int signal, const struct sigaction *of)
{
    struct sigaction now;
    return sigaction(signal, NULL, &now) == 0 && now.sa_sigaction == of->sa_sigaction;
}

/* The runtime does not work in a child, and its handlers must not run there. */
static void give_signals_back(void)
{
    for (size_t i = 0; i < RUNTIME_SIGNALS; i++)
        if (has_handler_of(runtime_signals[i], &by_runtime[i]))
            sigaction(runtime_signals[i], &before_runtime[i], NULL);
}

/* libnearcall blocks the host's signals while it loads the library, and threads
 * inherit that. But the runtime has its threads unblock SIGCHLD, with some others, and
 * then the kernel may choose one for a handler of the host's, which does not ask for
 * the alternate stack. So each thread begins with SIGSTKFLT waiting for it: no machine
 * raises that, and it is among those others, so that its handler runs the moment they
 * are unblocked, before one with a higher number, which it blocks from its first
 * instruction on. */
static void block_children_here(int number, siginfo_t *info, void *context)
{
    (void)number, (void)info;
    sigaddset(&((ucontext_t *)context)->uc_sigmask, SIGCHLD);
}

typedef int create_function(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);

struct beginning {
    void *(*routine)(void *);
    void *argument;
};

static void *begin_thread(void *given)
{
    struct beginning beginning = *(struct beginning *)given;
    free(given);
    pthread_kill(pthread_self(), SIGSTKFLT);
    return beginning.routine(beginning.argument);
}

/* Hidden, so that only what is linked into this library finds it in the place of the
 * C library's. */
__attribute__((visibility("hidden"))) int pthread_create(pthread_t *ret_thread,
                                                         const pthread_attr_t *attributes,
                                                         void *(*routine)(void *), void *argument)
{
    create_function *create;
    *(void **)&create = dlsym(RTLD_DEFAULT, "pthread_create");
    struct beginning *beginning = malloc(sizeof(*beginning));
    if (!beginning)
        return EAGAIN;
    *beginning = (struct beginning){routine, argument};
    int error = create(ret_thread, attributes, begin_thread, beginning);
    if (error)
        free(beginning);
    return error;
}

/* A Go program that writes to a broken pipe gets an error. As a library Go leaves
 * the signal to its host, whose default is to die. Elsewhere than in a Go function
 * that is still what happens. */
static void on_broken_pipe(int number)
{
    if (inside > 0)
        return;
    sigset_t only;
    sigemptyset(&only);
    sigaddset(&only, number);
    signal(number, SIG_DFL);
    raise(number);
    pthread_sigmask(SIG_UNBLOCK, &only, NULL);
}

static void survive_broken_pipes(void)
{
    struct sigaction now;
    struct sigaction ours = {.sa_handler = on_broken_pipe, .sa_flags = SA_ONSTACK | SA_RESTART};
    if (sigaction(SIGPIPE, NULL, &now) == 0 && now.sa_handler == SIG_DFL)
        sigaction(SIGPIPE, &ours, NULL);
}

/* ---- Descriptors ---- */

/* Inode numbers of sockets, and of the lock that lies beside one, by descriptor, 0 for
 * none. One that was closed since is known by its number having another inode, or none.
 * Those beyond the table stay open in children. */
#define KEPT_MAX 65536
static _Atomic(ino_t) kept[KEPT_MAX];
static atomic_int kept_end;

/* A semaphore, because a goroutine may end on another thread what it began. */
static sem_t opening;

void nearcall_embed_begin_opening(void)
{
    while (sem_wait(&opening) != 0)
        ;
}

void nearcall_embed_end_opening(void)
{
    sem_post(&opening);
}

void nearcall_embed_keep(int fd)
{
    struct stat status;
    if (fd >= KEPT_MAX || fstat(fd, &status) != 0)
        return;
    atomic_store(&kept[fd], status.st_ino);
    if (fd >= atomic_load(&kept_end))
        atomic_store(&kept_end, fd + 1);
}

/* Sockets have numbers of their own, files those of their file system. */
static int is_still(const struct stat *status, ino_t inode)
{
    return status->st_ino == inode &&
           (S_ISSOCK(status->st_mode) || (S_ISREG(status->st_mode) && status->st_dev == place.device));
}

static void close_kept(void)
{
    struct stat status;
    int end = atomic_load(&kept_end);
    for (int fd = 0; fd < end; fd++) {
        ino_t inode = atomic_load_explicit(&kept[fd], memory_order_relaxed);
        if (inode && fstat(fd, &status) == 0 && is_still(&status, inode))
            close(fd);
    }
    atomic_store(&kept_end, 0);
}

/* ---- Coming and going ---- */

static void become_child(void)
{
    int error = errno;
    close_kept();
    give_signals_back();
    sem_init(&opening, 0, 1);
    errno = error;
}

/* Before the runtime begins, which is by a constructor without a priority. */
__attribute__((constructor(101))) static void before_the_runtime(void)
{
    library.loader = getpid();
    library.is_loader = new_loader_page();
    for (size_t i = 0; i < RUNTIME_SIGNALS; i++)
        sigaction(runtime_signals[i], NULL, &before_runtime[i]);
    struct sigaction block = {.sa_sigaction = block_children_here, .sa_flags = SA_ONSTACK | SA_SIGINFO};
    sigaddset(&block.sa_mask, SIGCHLD);
    sigaction(SIGSTKFLT, &block, NULL);
    sem_init(&opening, 0, 1);
    pthread_atfork(nearcall_embed_begin_opening, nearcall_embed_end_opening, become_child);
}

/* Children end too, and what they inherited is not theirs to remove. */
static void remove_place(void)
{
    char target[sizeof(place.path)];
    char lock[sizeof(place.path) + 8];
    if (*library.is_loader == 0)
        return;
    ssize_t bytes = readlink(place.latest, target, sizeof(target) - 1);
    if (bytes > 0) {
        target[bytes] = '\0';
        const char *name = strrchr(place.path, '/') + 1;
        if (strcmp(target, name) == 0)
            unlink(place.latest);
    }
    unlink(place.path);
    strcpy(lock, place.path);
    strcat(lock, ".lock");
    unlink(lock);
}

void nearcall_embed_started(const char *path, const char *latest, int descriptor, uint64_t device,
                            uint64_t inode)
{
    strncpy(place.path, path, sizeof(place.path) - 1);
    strncpy(place.latest, latest, sizeof(place.latest) - 1);
    place.device = (dev_t)device;
    place.inode = (ino_t)inode;
    place.descriptor = descriptor;
    for (size_t i = 0; i < RUNTIME_SIGNALS; i++)
        sigaction(runtime_signals[i], NULL, &by_runtime[i]);
    survive_broken_pipes();
    atexit(remove_place);
}
