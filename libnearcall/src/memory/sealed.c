#include "memory/sealed.h"

#include <fcntl.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/statfs.h>

#define SEALS (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL)
/* A file of huge pages has seals as well, and a page of it that cannot be had is a deadly signal. */
#define TMPFS 0x01021994

const char *nc_memory_file_fault(int fd, struct stat *ret_status)
{
    struct stat status;
    struct statfs system;
    int seals = fcntl(fd, F_GET_SEALS);
    if (seals < 0 || (seals & SEALS) != SEALS)
        return "memory that the server sent is not sealed, so that its size could change";
    if (fstat(fd, &status) != 0 || !S_ISREG(status.st_mode) || fstatfs(fd, &system) != 0 || (uint32_t)system.f_type != TMPFS)
        return "what the server sent as memory is no file in memory";
    *ret_status = status;
    return NULL;
}
