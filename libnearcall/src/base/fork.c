#include "base/fork.h"

#include <stddef.h>
#include <sys/mman.h>

static size_t page_bytes(void)
{
    long bytes = sysconf(_SC_PAGESIZE);
    return bytes > 0 ? (size_t)bytes : 4096;
}

void nc_fork_guard_arm(struct nc_fork_guard *guard)
{
    guard->process_id = getpid();
    guard->page = NULL;
    void *page = mmap(NULL, page_bytes(), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (page == MAP_FAILED)
        return;
    if (madvise(page, page_bytes(), MADV_WIPEONFORK) != 0) {
        munmap(page, page_bytes());
        return;
    }
    guard->page = page;
    *guard->page = 1;
}

void nc_fork_guard_rearm(struct nc_fork_guard *guard)
{
    guard->process_id = getpid();
    if (guard->page)
        *guard->page = 1; /* the advice is inherited, so grandchildren notice too */
}

void nc_fork_guard_free(struct nc_fork_guard *guard)
{
    if (guard->page)
        munmap((void *)(uintptr_t)guard->page, page_bytes());
    guard->page = NULL;
}
