#include "standing.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { GET_KEYRING = 0, READ_KEYRING = 11, SESSION_KEYRING = -3, USER_KEYRING = -4 };
enum { CAPABILITIES_VERSION = 0x20080522, SYS_ADMIN = 21 };
/* Since Linux 6.3; headers need not know it. */
enum { GET_MEMORY_DENY_WRITE_EXECUTE = 66 };
#define KEYRING_UNKNOWN UINT32_MAX
#define ASK_PERSONALITY 0xFFFFFFFFUL

/* It cannot change meanwhile. */
static int has_filters(void)
{
    static int mode = -1;
    if (mode < 0)
        mode = prctl(PR_GET_SECCOMP, 0, 0, 0, 0) != 0;
    return mode;
}

static int may_administrate(void)
{
    struct { uint32_t version; int process; } header = {CAPABILITIES_VERSION, 0};
    struct { uint32_t effective, permitted, inheritable; } sets[2] = {{0}};
    return syscall(SYS_capget, &header, sets) == 0 && (sets[0].effective >> SYS_ADMIN & 1) != 0;
}

static int leads_somewhere(const char *link)
{
    char text[1];
    return readlink(link, text, sizeof(text)) >= 0;
}

/* Landlock keeps a process from looking into those that are not restricted as it is. Who
 * needs no no_new_privs for it may look into all others. The first process may be kept
 * from everybody, the second is the kernel's own where it has no program. */
static int may_look_around(void)
{
    return leads_somewhere("/proc/1/ns/user") ||
           (leads_somewhere("/proc/2/ns/user") && !leads_somewhere("/proc/2/exe") && errno == ENOENT);
}

int nc_standing_check(struct reason *reason)
{
    if (prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) != 0)
        return nc_because(reason, "it may be in a sandbox, as it has no_new_privs", 0);
    if (prctl(PR_GET_SECUREBITS, 0, 0, 0, 0) != 0)
        return nc_because(reason, "it has securebits", 0);
    if (prctl(GET_MEMORY_DENY_WRITE_EXECUTE, 0, 0, 0, 0) > 0)
        return nc_because(reason, "it may not execute memory that was written (PR_SET_MDWE)", 0);
    /* Filters may end who asks. */
    if (!has_filters() && personality(ASK_PERSONALITY) != 0)
        return nc_because(reason, "it has a personality", 0);
    if (may_administrate() && !may_look_around())
        return nc_because(reason, "it may be in a sandbox, as it may not look into other processes", 0);
    return 0;
}

/* A line of a process's status, with its newline; empty: there is none. */
static void read_line(const char *path, const char *name, char *line, size_t size)
{
    char text[4096];
    size_t held = 0, name_length = strlen(name);
    ssize_t got = -1;
    int fd = openat(AT_FDCWD, path, O_RDONLY | O_CLOEXEC);
    line[0] = '\0';
    while (fd >= 0 && (got = read(fd, text + held, sizeof(text) - 1 - held)) > 0) {
        text[held += (size_t)got] = '\0';
        const char *at = strstr(text, name);
        const char *end = at ? strchr(at + name_length, '\n') : NULL;
        if (end != NULL && (size_t)(end - at) < size) {
            memcpy(line, at, (size_t)(end - at));
            line[end - at] = '\0';
            break;
        }
        /* The line may have begun in the last bytes. */
        size_t kept = held < size ? held : size;
        memmove(text, text + held - kept, kept);
        held = kept;
    }
    if (fd >= 0)
        close(fd);
}

enum { LINE_BYTES = 64 };

static int is_same_for_first(const char *name)
{
    char own[LINE_BYTES], first[LINE_BYTES];
    read_line("/proc/self/status", name, own, sizeof(own));
    read_line("/proc/1/status", name, first, sizeof(first));
    return own[0] != '\0' && strcmp(own, first) == 0;
}

static int is_traced(void)
{
    static const char untraced[] = "\nTracerPid:\t0";
    char tracer[LINE_BYTES];
    read_line("/proc/self/status", "\nTracerPid:", tracer, sizeof(tracer));
    return strcmp(tracer, untraced) != 0;
}

/* A whole container may have filters. */
int nc_standing_check_start(struct reason *reason)
{
    if (is_traced())
        return nc_because(reason, "it is traced (TracerPid), and a resident would be as well", 0);
    if (!has_filters() || (is_same_for_first("\nSeccomp:") && is_same_for_first("\nSeccomp_filters:")))
        return 0;
    return nc_because(reason, "it may be in a sandbox, as it has seccomp filters of its own", 0);
}

uint32_t nc_standing_keyring(void)
{
    int32_t keys[2];
    if (has_filters())
        return 0;
    long session = syscall(SYS_keyctl, GET_KEYRING, SESSION_KEYRING, 0);
    if (session < 0)
        return errno == ENOSYS ? 0 : KEYRING_UNKNOWN;
    long length = syscall(SYS_keyctl, READ_KEYRING, session, keys, sizeof(keys));
    if (length < 0)
        return KEYRING_UNKNOWN;
    if (length == 0 || (length == sizeof(keys[0]) && syscall(SYS_keyctl, GET_KEYRING, USER_KEYRING, 0) == keys[0]))
        return 0;
    return (uint32_t)session;
}
