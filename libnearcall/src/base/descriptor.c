#include "base/descriptor.h"

#include "base/descriptor_status.h"

bool nc_descriptor_is(int fd, dev_t device, ino_t inode)
{
    struct stat status;
    if (fd < 0)
        return false;
    if (nc_descriptor_status(fd, &status) != 0)
        return errno != EBADF;
    return status.st_dev == device && status.st_ino == inode;
}
