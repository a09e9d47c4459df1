/* Who may ask: what a run would not have as the caller has it is not run here. */
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "resident.h"
#include "utf8.h"

static const char *const namespaces[NC_RESIDENT_NAMESPACES] = {"mnt", "net", "user", "pid", "uts", "ipc"};
static const char *const always[] = {"LD_PRELOAD", "LD_LIBRARY_PATH", "TZ", NULL};

#define GROUPS_MAX 65536

static int compare_groups(const void *left, const void *right)
{
    gid_t a = *(const gid_t *)left, b = *(const gid_t *)right;
    return (a > b) - (a < b);
}

/* ---- What this process is ---- */

static int keep_groups(struct nc_resident_self *self)
{
    int count = getgroups(0, NULL);
    if (count < 0)
        return -1;
    self->groups = calloc((size_t)count + 1, sizeof(gid_t));
    if (!self->groups || (count = getgroups(count, self->groups)) < 0)
        return -1;
    qsort(self->groups, (size_t)count, sizeof(gid_t), compare_groups);
    self->groups_count = count;
    return 0;
}

static size_t append_names(char *to, const char *const *names)
{
    size_t bytes = 0;
    for (; names && *names; names++) {
        size_t more = strlen(*names) + 1;
        if (to)
            memcpy(to + bytes, *names, more);
        bytes += more;
    }
    return bytes;
}

static int keep_names(struct nc_resident_self *self, const char *const *names)
{
    size_t first = append_names(NULL, names);
    self->names_bytes = first + append_names(NULL, always);
    self->names = malloc(self->names_bytes);
    if (!self->names)
        return -1;
    append_names(self->names, names);
    append_names(self->names + first, always);
    return 0;
}

/* As the kernel has it: the program may have changed its own since. */
static int keep_environment(struct nc_resident_self *self)
{
    int fd = open("/proc/self/environ", O_RDONLY | O_CLOEXEC);
    size_t room = 0;
    ssize_t got = fd < 0 ? -1 : 1;
    while (got > 0) {
        if (self->environment_bytes + 1 >= room) {
            char *grown = realloc(self->environment, room = room ? room * 2 : 16384);
            if (!grown) {
                got = -1;
                break;
            }
            self->environment = grown;
        }
        got = read(fd, self->environment + self->environment_bytes, room - self->environment_bytes - 1);
        if (got > 0)
            self->environment_bytes += (size_t)got;
    }
    if (fd >= 0)
        close(fd);
    if (got == 0)
        self->environment[self->environment_bytes] = 0;
    return got == 0 ? 0 : -1;
}

static int keep_namespaces(struct nc_resident_self *self)
{
    struct stat status;
    char path[64];
    for (int i = 0; i < NC_RESIDENT_NAMESPACES; i++) {
        snprintf(path, sizeof(path), "/proc/self/ns/%s", namespaces[i]);
        if (stat(path, &status) < 0)
            return -1;
        self->namespaces[i].device = status.st_dev;
        self->namespaces[i].inode = status.st_ino;
    }
    if (stat("/proc/self/root", &status) < 0)
        return -1;
    self->root.device = status.st_dev;
    self->root.inode = status.st_ino;
    return 0;
}

int nc_resident_self_init(nearcall_resident *resident, const char *const *names)
{
    struct nc_resident_self *self = &resident->self;
    if (keep_groups(self) < 0 || keep_names(self, names) < 0 || keep_environment(self) < 0 ||
        keep_namespaces(self) < 0)
        return nc_resident_fail(resident, NEARCALL_E_FAILED_PRECONDITION,
                                "this process cannot tell callers from itself: %s; is /proc there?",
                                strerror(errno));
    return NEARCALL_OK;
}

void nc_resident_self_free(struct nc_resident_self *self)
{
    free(self->names);
    free(self->groups);
    free(self->environment);
    *self = (struct nc_resident_self){0};
}

/* ---- What the caller is ---- */

static bool has_groups(const struct nc_resident_self *self, int connection)
{
    socklen_t bytes = (socklen_t)(((size_t)self->groups_count + 1) * sizeof(gid_t));
    gid_t *groups = malloc(bytes);
    struct ucred peer;
    socklen_t peer_bytes = sizeof(peer);
    bool same = groups && getsockopt(connection, SOL_SOCKET, SO_PEERCRED, &peer, &peer_bytes) == 0 &&
                peer.gid == getegid() &&
                getsockopt(connection, SOL_SOCKET, SO_PEERGROUPS, groups, &bytes) == 0 &&
                bytes == (size_t)self->groups_count * sizeof(gid_t);
    if (same) {
        qsort(groups, (size_t)self->groups_count, sizeof(gid_t), compare_groups);
        same = memcmp(groups, self->groups, bytes) == 0;
    }
    free(groups);
    return same;
}

static bool is_at(pid_t process_id, const char *what, dev_t device, ino_t inode)
{
    char path[64];
    struct stat status;
    snprintf(path, sizeof(path), "/proc/%ld/%s", (long)process_id, what);
    return stat(path, &status) == 0 && status.st_dev == device && status.st_ino == inode;
}

const char *nc_resident_peer_refusal(const struct nc_resident_self *self, int connection, pid_t process_id)
{
    char what[16];
    if (!has_groups(self, connection))
        return "its groups are not those of the resident";
    if (!is_at(process_id, "root", self->root.device, self->root.inode))
        return "its root directory is not that of the resident";
    for (int i = 0; i < NC_RESIDENT_NAMESPACES; i++) {
        snprintf(what, sizeof(what), "ns/%s", namespaces[i]);
        if (!is_at(process_id, what, self->namespaces[i].device, self->namespaces[i].inode))
            return "a namespace of it is not that of the resident";
    }
    return NULL;
}

/* ---- Variables that are read once ---- */

static bool is_read_once(const struct nc_resident_self *self, const char *variable)
{
    size_t length = strcspn(variable, "="), bytes;
    const char *end = self->names + self->names_bytes;
    for (const char *name = self->names; name < end; name += bytes + 1) {
        bytes = strlen(name);
        if (bytes > 0 && name[bytes - 1] == '*' && strncmp(variable, name, bytes - 1) == 0)
            return true;
        if (bytes == length && memcmp(variable, name, bytes) == 0)
            return true;
    }
    return false;
}

static bool has_variable(const struct nc_resident_self *self, const char *variable)
{
    const char *end = self->environment + self->environment_bytes;
    for (const char *own = self->environment; own < end; own += strlen(own) + 1)
        if (strcmp(own, variable) == 0)
            return true;
    return false;
}

static bool is_among(const char *variable, char *const *environment)
{
    for (; *environment; environment++)
        if (strcmp(*environment, variable) == 0)
            return true;
    return false;
}

static const char *refuse(struct nc_resident_self *self, const char *variable)
{
    snprintf(self->refusal, sizeof(self->refusal),
             "the variable %.*s is read only once and has another value than at the resident's start",
             (int)strcspn(variable, "="), variable);
    nc_utf8_clean(self->refusal);
    return self->refusal;
}

const char *nc_resident_variable_refusal(struct nc_resident_self *self, char *const *environment)
{
    char *const *given = environment;
    const char *end = self->environment + self->environment_bytes;
    size_t theirs = 0, ours = 0;
    for (; *environment; environment++) {
        if (!is_read_once(self, *environment))
            continue;
        theirs++;
        if (!has_variable(self, *environment))
            return refuse(self, *environment);
    }
    for (const char *own = self->environment; own < end; own += strlen(own) + 1)
        ours += is_read_once(self, own);
    if (theirs == ours)
        return NULL;
    for (const char *own = self->environment; own < end; own += strlen(own) + 1)
        if (is_read_once(self, own) && !is_among(own, given))
            return refuse(self, own);
    return "a variable that is read only once is set twice";
}
