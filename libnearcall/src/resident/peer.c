/* Which callers are served: only those whose runs would have here what they have themselves. */
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/utf8.h"
#include "resident/resident.h"

static const char *const namespaces[NC_RESIDENT_NAMESPACES] = {
    "ns/mnt", "ns/net", "ns/user", "ns/pid", "ns/uts", "ns/ipc", "ns/cgroup", "ns/time",
    "ns/pid_for_children", "ns/time_for_children",
};
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
    self->noticed_at = self->names_bytes;
    return 0;
}

/* As the kernel has it: the program may have changed its own since. */
static int keep_environment(struct nc_resident_self *self)
{
    self->environment = nc_resident_read_at(AT_FDCWD, "/proc/self/environ", &self->environment_bytes);
    return self->environment ? 0 : -1;
}

/* By the name that the kernel gives it, which takes half as long to ask for as its number.
 * A kernel without namespaces of a kind has no such file: an empty name. */
static bool name_of(int directory, const char *file, char name[NC_RESIDENT_NAMESPACE_BYTES])
{
    ssize_t bytes = readlinkat(directory, file, name, NC_RESIDENT_NAMESPACE_BYTES - 1);
    if (bytes < 0 && errno != ENOENT)
        return false;
    name[bytes < 0 ? 0 : bytes] = 0;
    return true;
}

static int keep_surroundings(struct nc_resident_self *self)
{
    struct stat root;
    int directory = open("/proc/self", O_PATH | O_DIRECTORY | O_CLOEXEC);
    bool known = directory >= 0 && nc_resident_standing_read(&self->standing, directory, 0, NULL) &&
                 fstatat(directory, "root", &root, 0) == 0;
    for (int i = 0; i < NC_RESIDENT_NAMESPACES && known; i++)
        known = name_of(directory, namespaces[i], self->namespaces[i]);
    if (known) {
        self->root_device = root.st_dev;
        self->root_inode = root.st_ino;
    }
    nc_resident_close_fd(&directory);
    return known ? 0 : -1;
}

int nc_resident_self_init(nearcall_resident *resident, const char *const *names)
{
    struct nc_resident_self *self = &resident->self;
    if (keep_groups(self) < 0 || keep_names(self, names) < 0 || keep_environment(self) < 0 ||
        keep_surroundings(self) < 0 || nc_resident_interpreter_keep(self, resident->program) < 0)
        return nc_resident_fail(resident, NEARCALL_E_FAILED_PRECONDITION,
                                "this process cannot tell callers from itself: %s; is /proc there?",
                                strerror(errno));
    return NEARCALL_OK;
}

void nc_resident_self_free(struct nc_resident_self *self)
{
    nc_resident_changes_free(self);
    free(self->names);
    free(self->interpreter);
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

static const char *refuse_other(struct nc_resident_self *self, const char *what, size_t bytes)
{
    snprintf(self->refusal, sizeof(self->refusal), "its %.*s is not that of the resident", (int)bytes, what);
    nc_utf8_clean(self->refusal);
    return self->refusal;
}

/* By its directory in /proc, which stays its own when its number is another's. */
static const char *refusal_of(struct nc_resident_self *self, int directory, pid_t process_id)
{
    struct nc_resident_standing theirs;
    char namespace[NC_RESIDENT_NAMESPACE_BYTES];
    struct stat root;
    const char *name;
    if (fstatat(directory, "root", &root, 0) < 0 || root.st_dev != self->root_device || root.st_ino != self->root_inode)
        return "its root directory is not that of the resident";
    for (int i = 0; i < NC_RESIDENT_NAMESPACES; i++)
        if (!name_of(directory, namespaces[i], namespace) || strcmp(namespace, self->namespaces[i]) != 0)
            return "a namespace of it is not that of the resident";
    if (!nc_resident_standing_read(&theirs, directory, process_id, &self->standing))
        return "what it is allowed could not be read";
    self->ignored = theirs.ignored;
    size_t bytes = nc_resident_standing_difference(&self->standing, &theirs, &name);
    return bytes > 0 ? refuse_other(self, name, bytes) : nc_resident_standing_restriction(&theirs);
}

const char *nc_resident_peer_refusal(struct nc_resident_self *self, int connection, pid_t process_id, uint32_t keyring)
{
    char path[32];
    uint32_t own = nc_resident_keyring();
    if (!has_groups(self, connection))
        return "its groups are not those of the resident";
    if (keyring != own || own == NC_RESIDENT_KEYRING_UNKNOWN)
        return "its session keyring is not that of the resident";
    snprintf(path, sizeof(path), "/proc/%ld", (long)process_id);
    int directory = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
    const char *refusal = "it has ended";
    if (directory >= 0 && nc_resident_peer_is_there(connection))
        refusal = refusal_of(self, directory, process_id);
    nc_resident_close_fd(&directory);
    return refusal;
}
