/* What the C libraries that tests run with do not have alike. */
#ifndef C_LIBRARY_H
#define C_LIBRARY_H

#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

/* By the kernel's own function: musl copies what goes with a message, and has room for
 * one descriptor less than the kernel lets a message carry. */
static inline ssize_t test_send_message(int fd, const struct msghdr *message, int flags)
{
    return syscall(SYS_sendmsg, fd, message, flags);
}

#ifdef __GLIBC__
#include <malloc.h>

static inline size_t test_heap_bytes(void)
{
    struct mallinfo2 heap = mallinfo2();
    return heap.uordblks + heap.hblkhd;
}
#else
#include "test.h"

/* In whole pages: what is lost once in many rounds shows all the same. */
static inline size_t test_heap_bytes(void)
{
    unsigned long pages;
    FILE *sizes = fopen("/proc/self/statm", "r");
    CHECK(sizes != NULL && fscanf(sizes, "%*u %*u %*u %*u %*u %lu", &pages) == 1);
    fclose(sizes);
    return pages * (size_t)sysconf(_SC_PAGESIZE);
}
#endif

#endif
