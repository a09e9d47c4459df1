/* What a descriptor is, asked the shortest way: hot calls ask before each send. */
#ifndef NC_DESCRIPTOR_STATUS_H
#define NC_DESCRIPTOR_STATUS_H

#include <errno.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

/* fstat() of glibc 2.33 to 2.38 has the kernel look up an empty path, which takes longer. Here
 * the kernel's structure is the C library's, so that the kernel can be asked itself; where a
 * sandbox does not know that call, the C library's way is tried. */
#if defined(__LP64__) && (defined(__x86_64__) || defined(__aarch64__))
static inline int nc_descriptor_status(int fd, struct stat *ret_status)
{
    int r = (int)syscall(SYS_fstat, fd, ret_status);
    return r == 0 || errno == EBADF ? r : fstat(fd, ret_status);
}
#else
static inline int nc_descriptor_status(int fd, struct stat *ret_status)
{
    return fstat(fd, ret_status);
}
#endif

#endif
