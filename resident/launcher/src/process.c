#include "process.h"

#include "deadline.h"
#include "limits_gen.h"
#include "text.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { STATE_FIELD = 3, STATUS_FIELD = 52, STAT_BYTES = 1024 }; /* proc(5) */

void nc_process_watch(struct process *process, pid_t id)
{
    *process = (struct process){.id = id, .fd = -1};
    if (id > 0)
        process->look_ms = nc_now_ms() + NC_RESIDENT_END_MS;
}

static void is_gone(struct process *process)
{
    process->gone = 1;
    process->look_ms = nc_now_ms() + NC_RESIDENT_END_MS;
}

/* Where that cannot be, it is not watched: the connection tells its end. */
static void open_process(struct process *process)
{
    process->look_ms = 0;
    process->fd = (int)syscall(SYS_pidfd_open, process->id, 0);
    if (process->fd < 0 && errno == ESRCH)
        is_gone(process);
}

static int is_readable(int fd)
{
    struct pollfd end = {fd, POLLIN, 0};
    return poll(&end, 1, 0) > 0;
}

int nc_process_is_long_gone(struct process *process)
{
    if (process->fd >= 0 && is_readable(process->fd)) {
        close(process->fd);
        process->fd = -1;
        is_gone(process);
    }
    if (process->look_ms == 0 || process->look_ms > nc_now_ms())
        return 0;
    if (process->gone)
        return 1;
    open_process(process);
    return 0;
}

static int number_at(const char *text)
{
    int number = 0;
    for (; *text >= '0' && *text <= '9'; text++)
        number = number * 10 + (*text - '0');
    return number;
}

/* To a process that may not look into another, the kernel gives 0 as its status. It asks for the same
 * permission before it lets this link be read. */
static int may_look(pid_t id)
{
    char path[sizeof("/proc//ns/user") + NC_NUMBER_BYTES], number[NC_NUMBER_BYTES], text[1];
    nc_join(path, sizeof(path), "/proc/", nc_number(number, (unsigned long long)id), "/ns/user");
    return readlink(path, text, sizeof(text)) >= 0;
}

char nc_process_state(pid_t id, int *ret_status)
{
    char path[sizeof("/proc//stat") + NC_NUMBER_BYTES], number[NC_NUMBER_BYTES], text[STAT_BYTES];
    *ret_status = -1;
    nc_join(path, sizeof(path), "/proc/", nc_number(number, (unsigned long long)id), "/stat");
    int fd = openat(AT_FDCWD, path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return 'Z';
    ssize_t length = read(fd, text, sizeof(text) - 1);
    close(fd);
    text[length > 0 ? length : 0] = '\0';
    /* The name before it may have parentheses itself. */
    const char *field = strrchr(text, ')');
    if (field == NULL || field[1] == '\0')
        return 'Z';
    char state = *(field += 2);
    for (int i = STATE_FIELD; i < STATUS_FIELD && field != NULL; i++)
        if ((field = strchr(field, ' ')) != NULL)
            field++;
    if (state == 'Z' && field != NULL && may_look(id))
        *ret_status = number_at(field);
    return state;
}
