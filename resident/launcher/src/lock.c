#include "lock.h"

#include "limits_gen.h"
#include "settings.h"
#include "text.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static void interrupt_only(int signal_number)
{
    (void)signal_number;
}

/* A lock has no timeout, so a timer interrupts it: again and again, because the
 * first time may be before the wait begins. */
static void set_timer(int first_ms, int next_ms, struct itimerval *before)
{
    struct itimerval timer = {{0, (suseconds_t)next_ms * 1000}, {first_ms / 1000, (suseconds_t)(first_ms % 1000) * 1000}};
    setitimer(ITIMER_REAL, &timer, before);
}

static int wait_for_lock(int fd)
{
    enum { AGAIN_MS = 10 };
    struct sigaction interrupt = {.sa_handler = interrupt_only}, before;
    struct itimerval callers;
    sigset_t alarm_only, blocked;
    int result, error;
    sigemptyset(&alarm_only);
    sigaddset(&alarm_only, SIGALRM);
    sigaction(SIGALRM, &interrupt, &before);
    set_timer(nc_setting_answer_ms(), AGAIN_MS, &callers);
    sigprocmask(SIG_UNBLOCK, &alarm_only, &blocked);
    result = flock(fd, LOCK_EX);
    error = errno;
    set_timer(0, 0, NULL);
    sigprocmask(SIG_SETMASK, &blocked, NULL);
    sigaction(SIGALRM, &before, NULL);
    setitimer(ITIMER_REAL, &callers, NULL);
    errno = error == EINTR ? ETIMEDOUT : error;
    return result;
}

/* A resident that leaves for good removes the file: a lock on what was removed
 * keeps nobody out. */
static int is_removed(int fd)
{
    struct stat status;
    return fstat(fd, &status) == 0 && status.st_nlink == 0;
}

int nc_lock_take(const struct place *place, struct reason *reason)
{
    char path[PATH_MAX];
    nc_place_path(place, ".lock", path);
    for (;;) {
        /* A caller's umask may be one that nobody could open the file with again. */
        mode_t before = umask(S_IRWXG | S_IRWXO);
        int fd = openat(AT_FDCWD, path, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, S_IRUSR | S_IWUSR);
        umask(before);
        if (fd < 0)
            return nc_because(reason, path, errno);
        if (flock(fd, LOCK_EX | LOCK_NB) != 0 && wait_for_lock(fd) != 0) {
            nc_because(reason, "cannot lock the resident's place", errno);
            close(fd);
            return -1;
        }
        if (!is_removed(fd))
            return fd;
        close(fd);
    }
}

void nc_lock_release(int lock)
{
    /* Explicitly: the process that was started may not have closed its copy yet. */
    flock(lock, LOCK_UN);
    close(lock);
}

static unsigned read_starts(int lock)
{
    enum { STARTS_COUNTED = 1000 };
    char digits[NC_NUMBER_BYTES];
    unsigned starts = 0;
    ssize_t length = pread(lock, digits, sizeof(digits), 0);
    for (ssize_t i = 0; i < length && digits[i] >= '0' && digits[i] <= '9' && starts < STARTS_COUNTED; i++)
        starts = starts * 10 + (unsigned)(digits[i] - '0');
    return starts;
}

/* Twice as long with each start: the first may have failed because of the callers
 * that asked for them. In a run that has tried once, it is the longest. */
static long long guard_ms(unsigned starts, unsigned starts_max)
{
    long long ms = starts_max < NC_RESIDENT_STARTS_MAX ? NC_RESIDENT_GUARD_MS : NC_RESIDENT_GUARD_FIRST_MS;
    for (; starts > NC_RESIDENT_STARTS_MAX && ms < NC_RESIDENT_GUARD_MS; starts--)
        ms *= 2;
    return ms < NC_RESIDENT_GUARD_MS ? ms : NC_RESIDENT_GUARD_MS;
}

/* A file of the future is one from before the clock was set: it counts as old. */
static int is_younger(int lock, long long ms)
{
    struct stat status;
    struct timespec now;
    if (fstat(lock, &status) != 0)
        return 0;
    clock_gettime(CLOCK_REALTIME, &now);
    long long age_ms = ((long long)now.tv_sec - status.st_mtim.tv_sec) * 1000 +
                       (now.tv_nsec - status.st_mtim.tv_nsec) / 1000000;
    return age_ms > -1000 && age_ms < ms;
}

int nc_lock_counts(int lock)
{
    return read_starts(lock) > 0;
}

int nc_lock_starts(int lock, const struct place *place, unsigned starts_max, struct reason *reason)
{
    char log[PATH_MAX], text[NC_REASON_BYTES];
    unsigned starts = read_starts(lock);
    if (starts < starts_max || !is_younger(lock, guard_ms(starts, starts_max)))
        return (int)starts;
    nc_place_path(place, ".log", log);
    nc_join(text, sizeof(text), "it was started as a resident, which came to nothing; see ", log);
    return nc_because(reason, text, 0);
}

/* What a caller may not write (ulimit -f 0) would end it by SIGXFSZ. */
static int write_whole(int lock, const char *text)
{
    struct sigaction ignore = {.sa_handler = SIG_IGN}, before;
    ssize_t length = (ssize_t)strlen(text);
    sigaction(SIGXFSZ, &ignore, &before);
    ssize_t written = pwrite(lock, text, (size_t)length, 0);
    int error = errno;
    sigaction(SIGXFSZ, &before, NULL);
    errno = error;
    return written == length && ftruncate(lock, (off_t)length) == 0 ? 0 : -1;
}

int nc_lock_write(int lock, unsigned starts, const char *path, struct reason *reason)
{
    char buffer[NC_NUMBER_BYTES], text[NC_NUMBER_BYTES + PATH_MAX + 2];
    /* The path is for people: names of files do not tell two programs of one name apart. */
    nc_join(text, sizeof(text), nc_number(buffer, starts), "\n", path, "\n");
    return write_whole(lock, text) == 0 ? 0 : nc_because(reason, "cannot write the lock file", errno);
}
