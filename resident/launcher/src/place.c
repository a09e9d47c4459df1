#include "place.h"

#include "identity.h"
#include "text.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/stat.h>
#include <unistd.h>

enum { OTHERS = S_IRWXG | S_IRWXO };

static int is_private(const struct stat *directory)
{
    return S_ISDIR(directory->st_mode) && directory->st_uid == (uid_t)getauxval(AT_EUID) &&
           (directory->st_mode & OTHERS) == 0;
}

static int check(const struct place *place, const struct stat *directory, struct reason *reason)
{
    char text[NC_REASON_BYTES];
    if (is_private(directory))
        return 0;
    nc_join(text, sizeof(text), place->directory, " is not a directory of this user's alone (mode 0700); remove it");
    return nc_because(reason, text, 0);
}

/* 0 also when somebody else made it at the same time. */
static int make(const struct place *place, struct stat *directory)
{
    mode_t before = umask(OTHERS);
    int result = mkdir(place->directory, S_IRWXU);
    umask(before);
    if (result != 0 && errno != EEXIST)
        return -1;
    return lstat(place->directory, directory);
}

/* sudo may leave XDG_RUNTIME_DIR as another user's: nothing is made there. */
static int is_own(const char *parent)
{
    struct stat status;
    return stat(parent, &status) == 0 && S_ISDIR(status.st_mode) && status.st_uid == (uid_t)getauxval(AT_EUID);
}

static int find_in_runtime_directory(struct place *place, struct stat *directory)
{
    const char *parent = getenv("XDG_RUNTIME_DIR");
    if (parent == NULL || *parent != '/' ||
        nc_join(place->directory, sizeof(place->directory), parent, "/nearcall-resident") != 0)
        return -1;
    if (lstat(place->directory, directory) == 0)
        return 0;
    return errno == ENOENT && is_own(parent) ? make(place, directory) : -1;
}

static int find_directory(struct place *place, struct reason *reason)
{
    struct stat directory;
    char user[NC_NUMBER_BYTES];
    if (find_in_runtime_directory(place, &directory) == 0)
        return check(place, &directory, reason);
    nc_join(place->directory, sizeof(place->directory), "/tmp/nearcall-resident-",
            nc_number(user, getauxval(AT_EUID)));
    if (lstat(place->directory, &directory) == 0 || (errno == ENOENT && make(place, &directory) == 0))
        return check(place, &directory, reason);
    return nc_because(reason, place->directory, errno);
}

void nc_place_path(const struct place *place, const char *ending, char path[PATH_MAX])
{
    nc_join(path, PATH_MAX, place->directory, "/", place->name, ending);
}

/* A path that is too long is reached by way of its directory's descriptor. */
static int fill_address(struct place *place, struct reason *reason)
{
    char number[NC_NUMBER_BYTES];
    place->directory_fd = -1;
    place->address.sun_family = AF_UNIX;
    if (nc_join(place->address.sun_path, sizeof(place->address.sun_path), place->directory, "/", place->name, ".sock") == 0)
        return 0;
    place->directory_fd = openat(AT_FDCWD, place->directory, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (place->directory_fd < 0)
        return nc_because(reason, place->directory, errno);
    if (place->directory_fd <= STDERR_FILENO)
        return nc_because(reason, "a standard descriptor is missing", 0);
    nc_join(place->address.sun_path, sizeof(place->address.sun_path), "/proc/self/fd/",
            nc_number(number, (unsigned long long)place->directory_fd), "/", place->name, ".sock");
    return 0;
}

int nc_place_find(struct place *place, const struct program *program, struct reason *reason)
{
    nc_identity_name(program, place->name);
    if (find_directory(place, reason) != 0)
        return -1;
    return fill_address(place, reason);
}
