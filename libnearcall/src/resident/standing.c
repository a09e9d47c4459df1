/* What the kernel goes by when a process asks it for something. A run is to be allowed what
 * its caller is allowed, no more and no less. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "resident/resident.h"

/* Since Linux 6.5; the libraries' headers need not know it. */
#define PEER_PIDFD 77

#define IO_OF_PROCESS 1
#define GET_KEYRING 0
#define READ_KEYRING 11
#define SESSION_KEYRING (-3)
#define USER_KEYRING (-4)

/* Lines of /proc/PID/status. A tracer decides on each system call, and sees none of those of
 * a resident. */
static const char *const fields[] = {
    "Uid", "Gid", "CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb", "NoNewPrivs", "Seccomp", "Seccomp_filters",
    "Speculation_Store_Bypass", "SpeculationIndirectBranch", "Cpus_allowed", "Mems_allowed", "TracerPid", NULL,
};

/* Parts of a user's slice that part accounts and allow the same. */
static const char *const session_units[] = {
    "session-", "app-", "app.slice", "session.slice", "vte-spawn-", "tmux-spawn-", "init.scope", NULL,
};

/* ---- Reading ---- */

char *nc_resident_read_at(int directory, const char *name, size_t *ret_bytes)
{
    int fd = openat(directory, name, O_RDONLY | O_CLOEXEC);
    size_t room = 4096, bytes = 0;
    char *text = fd < 0 ? NULL : malloc(room);
    ssize_t got = text ? 1 : 0;
    while (got > 0) {
        if (bytes + 1 == room) {
            char *grown = realloc(text, room *= 2);
            if (!grown) {
                got = -1;
                break;
            }
            text = grown;
        }
        got = read(fd, text + bytes, room - bytes - 1);
        bytes += got > 0 ? (size_t)got : 0;
    }
    int error = errno;
    nc_resident_close_fd(&fd);
    errno = error;
    if (got < 0) {
        free(text);
        return NULL;
    }
    if (text)
        text[*ret_bytes = bytes] = 0;
    return text;
}

static bool add(struct nc_resident_standing *standing, const char *name, const char *value, size_t bytes)
{
    size_t room = sizeof(standing->text) - standing->bytes;
    int length = snprintf(standing->text + standing->bytes, room, "%s:%.*s\n", name, (int)bytes, value);
    if (length < 0 || (size_t)length >= room)
        return false;
    standing->bytes += (size_t)length;
    return true;
}

static bool is_among(const char *const *names, const char *line, size_t bytes)
{
    for (; *names; names++)
        if (strlen(*names) == bytes && memcmp(*names, line, bytes) == 0)
            return true;
    return false;
}

static bool add_status(struct nc_resident_standing *standing, int directory)
{
    size_t bytes;
    bool fits = true;
    char *text = nc_resident_read_at(directory, "status", &bytes), *next;
    if (!text)
        return false;
    for (char *line = text; fits && *line; line = next) {
        size_t length = strcspn(line, "\n"), name = strcspn(line, ":\n");
        next = line + length + (line[length] != 0);
        line[length] = 0;
        if (name < length && strncmp(line, "SigIgn", name) == 0)
            standing->ignored = strtoull(line + name + 1, NULL, 16);
        if (name < length && is_among(fields, line, name)) {
            line[name] = 0;
            fits = add(standing, line, line + name + 1, length - name - 1);
        }
    }
    free(text);
    return fits;
}

/* The value in a line, which ends with its newline; NULL: there is no such line. */
static const char *value_of(const struct nc_resident_standing *standing, const char *name)
{
    const char *line = strstr(standing->text, name);
    return line ? line + strlen(name) : NULL;
}

/* A kernel without what the file tells of has no such file, or no value in it. */
static bool add_file(struct nc_resident_standing *standing, int directory, const char *file, const char *name,
                     const struct nc_resident_standing *ours)
{
    static const char none[] = "none";
    size_t bytes = 0;
    const char *own = ours ? value_of(ours, name) : NULL;
    if (own && strncmp(own, ":none\n", 6) == 0)
        return add(standing, name, none, sizeof(none) - 1);
    char *text = nc_resident_read_at(directory, file, &bytes);
    if (!text && errno != ENOENT && errno != EINVAL)
        return false;
    bool fits = add(standing, name, text ? text : none, text ? strcspn(text, "\n") : sizeof(none) - 1);
    free(text);
    return fits;
}

/* ---- Control groups ---- */

static bool is_session_unit(const char *unit, size_t bytes)
{
    for (const char *const *known = session_units; *known; known++)
        if (bytes >= strlen(*known) && memcmp(unit, *known, strlen(*known)) == 0)
            return true;
    size_t digits = bytes > 5 && memcmp(unit, "user@", 5) == 0 ? strspn(unit + 5, "0123456789") : 0;
    return digits > 0 && bytes == 5 + digits + 8 && memcmp(unit + 5 + digits, ".service", 8) == 0;
}

/* How much of a control group's path tells what is allowed in it: of logins, terminals and
 * applications it is their user's slice, for these are as many as windows are open. */
size_t nc_resident_group_bytes(const char *path, size_t bytes)
{
    const char *end = path + bytes, *slice = strstr(path, "/user-");
    size_t digits = slice ? strspn(slice + 6, "0123456789") : 0;
    if (digits == 0 || slice + 12 + digits > end || memcmp(slice + 6 + digits, ".slice", 6) != 0)
        return bytes;
    const char *at = slice + 12 + digits;
    if (at < end && *at != '/')
        return bytes;
    for (const char *unit = at; unit < end;) {
        size_t length = strcspn(++unit, "/\n");
        if (!is_session_unit(unit, length))
            return bytes;
        unit += length;
    }
    return (size_t)(at - path);
}

static bool add_groups(struct nc_resident_standing *standing, int directory)
{
    size_t bytes;
    bool fits = true;
    char *text = nc_resident_read_at(directory, "cgroup", &bytes), *next;
    if (!text)
        return errno == ENOENT;
    for (char *line = text; fits && *line; line = next) {
        size_t length = strcspn(line, "\n");
        next = line + length + (line[length] != 0);
        line[length] = 0;
        fits = add(standing, "control group", line, nc_resident_group_bytes(line, length));
    }
    free(text);
    return fits;
}

/* ---- Scheduling ---- */

struct scheduling {
    uint32_t size, policy;
    uint64_t flags;
    int32_t nice;
    uint32_t priority;
    uint64_t others[4];
};

static bool add_scheduling(struct nc_resident_standing *standing, pid_t process_id)
{
    struct scheduling is = {0};
    char text[96];
    if (syscall(SYS_sched_getattr, process_id, &is, sizeof(is), 0) < 0)
        return false;
    snprintf(text, sizeof(text), "%u %llu %d %u", is.policy, (unsigned long long)is.flags, is.nice, is.priority);
    if (!add(standing, "scheduling (nice)", text, strlen(text)))
        return false;
    long io = syscall(SYS_ioprio_get, IO_OF_PROCESS, process_id);
    snprintf(text, sizeof(text), "%ld", io);
    return (io >= 0 || errno == ENOSYS) && add(standing, "I/O priority", text, strlen(text));
}

bool nc_resident_standing_read(struct nc_resident_standing *standing, int directory, pid_t process_id,
                               const struct nc_resident_standing *ours)
{
    standing->bytes = 0;
    standing->ignored = 0; /* a kernel may not tell */
    return add_status(standing, directory) && add_file(standing, directory, "loginuid", "login user", ours) &&
           add_file(standing, directory, "attr/current", "security label", ours) && add_groups(standing, directory) &&
           add_scheduling(standing, process_id);
}

/* ---- Comparing ---- */

static bool is_zero(const char *value)
{
    return !value || strncmp(value, "\t0\n", 3) == 0;
}

static bool is_same_value(const struct nc_resident_standing *one, const struct nc_resident_standing *other,
                          const char *name)
{
    const char *left = value_of(one, name), *right = value_of(other, name);
    return left && right && strncmp(left, right, strcspn(left, "\n") + 1) == 0;
}

/* A whole container may have filters: nobody in it has fewer. Of two other processes with as
 * many the filters may be others. */
static bool has_filters_of_first(const struct nc_resident_standing *standing)
{
    struct nc_resident_standing first = {.bytes = 0};
    int directory = open("/proc/1", O_PATH | O_DIRECTORY | O_CLOEXEC);
    bool is_known = directory >= 0 && add_status(&first, directory);
    nc_resident_close_fd(&directory);
    return is_known && is_same_value(standing, &first, "\nSeccomp:") && is_same_value(standing, &first, "\nSeccomp_filters:");
}

/* What restricts by these cannot be compared: of filters there is only a number to be seen,
 * of Landlock nothing, and it needs no_new_privs where there is no privilege. */
const char *nc_resident_standing_restriction(const struct nc_resident_standing *standing)
{
    if (!is_zero(value_of(standing, "\nNoNewPrivs:")))
        return "it may be in a sandbox, as it has no_new_privs";
    if (!is_zero(value_of(standing, "\nSeccomp:")) && !has_filters_of_first(standing))
        return "it may be in a sandbox, as it has seccomp filters of its own";
    return NULL;
}

size_t nc_resident_standing_difference(const struct nc_resident_standing *ours,
                                       const struct nc_resident_standing *theirs, const char **ret_name)
{
    const char *own = ours->text, *other = theirs->text;
    if (ours->bytes == theirs->bytes && memcmp(own, other, ours->bytes) == 0)
        return 0;
    while (*own) {
        size_t bytes = strcspn(own, "\n") + 1;
        if (strncmp(own, other, bytes) != 0)
            break;
        own += bytes, other += bytes;
    }
    *ret_name = *own ? own : other;
    return strcspn(*ret_name, ":");
}

/* ---- Who it is ---- */

bool nc_resident_peer_is_there(int connection)
{
    int pidfd = -1;
    socklen_t bytes = sizeof(pidfd);
    if (getsockopt(connection, SOL_SOCKET, PEER_PIDFD, &pidfd, &bytes) < 0)
        return errno == ENOPROTOOPT; /* before Linux 6.5 nobody can tell */
    struct pollfd ended = {.fd = pidfd, .events = POLLIN};
    bool there = poll(&ended, 1, 0) == 0;
    close(pidfd);
    return there;
}

uint32_t nc_resident_keyring(void)
{
    int32_t keys[2];
    /* Filters may end who asks; where there are some, nobody asks. */
    if (prctl(PR_GET_SECCOMP, 0, 0, 0, 0) != 0)
        return 0;
    long session = syscall(SYS_keyctl, GET_KEYRING, SESSION_KEYRING, 0);
    if (session < 0)
        return errno == ENOSYS ? 0 : NC_RESIDENT_KEYRING_UNKNOWN;
    long bytes = syscall(SYS_keyctl, READ_KEYRING, session, keys, sizeof(keys));
    if (bytes < 0)
        return NC_RESIDENT_KEYRING_UNKNOWN;
    if (bytes == 0 || (bytes == sizeof(keys[0]) && syscall(SYS_keyctl, GET_KEYRING, USER_KEYRING, 0) == keys[0]))
        return 0;
    return (uint32_t)session;
}
