/* What a program has read before its runs, of which a caller has its own: where the caller's
 * is another, the program would have become another one. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "resident/resident.h"

static const char variable[] = "NEARCALL_RESIDENT_DIRECTORY=";

/* Where the launcher was that started this resident. */
static const char *directory_of_start(const struct nc_resident_self *self)
{
    const char *end = self->environment + self->environment_bytes;
    for (const char *own = self->environment; own < end; own += strlen(own) + 1)
        if (strncmp(own, variable, sizeof(variable) - 1) == 0)
            return own + sizeof(variable) - 1;
    return "/";
}

/* What is not there any more is nobody's. */
static void keep_directory(struct nc_resident_self *self)
{
    struct stat is;
    self->directory = directory_of_start(self);
    if (stat(self->directory, &is) < 0)
        return;
    self->directory_device = is.st_dev;
    self->directory_inode = is.st_ino;
}

static int keep_name(nearcall_resident *resident, const char *name)
{
    struct nc_resident_self *self = &resident->self;
    if (!name || !*name || strchr(name, '='))
        return nc_resident_fail(resident, NEARCALL_E_INVALID_ARGUMENT, "a variable that was read has no name");
    if (strcmp(name, "*") == 0)
        self->reads_all = true;
    else if (nc_resident_add_name(self, name) < 0)
        return nc_resident_fail(resident, NEARCALL_E_RESOURCE_EXHAUSTED, "no memory for a variable's name");
    return NEARCALL_OK;
}

NEARCALL_API int nearcall_resident_reads(nearcall_resident *resident, int what, const char *name)
{
    if (!resident || resident->waits)
        return NEARCALL_E_MISUSE;
    if (what == NEARCALL_RESIDENT_VARIABLE)
        return keep_name(resident, name);
    if (what == NEARCALL_RESIDENT_DIRECTORY)
        keep_directory(&resident->self);
    else if (what == NEARCALL_RESIDENT_INPUT)
        resident->self.reads_input = true;
    else
        return nc_resident_fail(resident, NEARCALL_E_INVALID_ARGUMENT, "%d is nothing that a program reads", what);
    return NEARCALL_OK;
}

/* As it was while the program loaded. */
static bool is_null_device(int fd)
{
    struct stat is;
    return fstat(fd, &is) == 0 && S_ISCHR(is.st_mode) && is.st_rdev == makedev(1, 3);
}

static bool is_directory_of_start(const struct nc_resident_self *self, const char *path, int fd)
{
    struct stat is;
    return strcmp(path, self->directory) == 0 && fstat(fd, &is) == 0 && self->directory_inode != 0 &&
           is.st_dev == self->directory_device && is.st_ino == self->directory_inode;
}

const char *nc_resident_reads_refusal(const struct nc_resident_self *self,
                                      const struct nc_resident_request *request,
                                      const int fds[NC_RESIDENT_FDS])
{
    if (self->directory && !is_directory_of_start(self, request->directory, fds[NC_RESIDENT_FDS - 1]))
        return "the program reads its directory before the run, and the resident was started in another one";
    if (self->reads_input && !is_null_device(fds[0]))
        return "the program looks at its standard input before the run, and there it was /dev/null";
    return NULL;
}
