#include "memory/store.h"

#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/descriptor.h"
#include "base/limits_gen.h"
#include "base/signals.h"
#include "memory/sealed.h"
#include "memory/stream_copy.h"
#include "wire/wire.h"

/* The payload begins behind a head, the first word of which says for which use of the store its
 * contents are valid. */
#define HEAD_BYTES 4096
#define SERIAL_BYTES 8

/* At least a page, whatever the machine. */
#define ALIGNMENT ((size_t)65536)

/* Of Linux 5.14, and of younger headers. */
#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ 22
#endif
#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

void nc_store_init(struct nc_store *store)
{
    *store = (struct nc_store){.fd = -1};
}

static int fail(const char **ret_what, const char *what)
{
    *ret_what = what;
    return -1;
}

int nc_store_attach(struct nc_store *store, int fd, bool writable, bool trusted, const char **ret_what)
{
    struct stat status;
    const char *fault = nc_memory_file_fault(fd, &status);
    if (fault)
        return fail(ret_what, fault);
    if (status.st_size <= HEAD_BYTES)
        return fail(ret_what, "what the server sent for a store has no room for a payload");
    uint64_t room = (uint64_t)status.st_size - HEAD_BYTES;
    *store = (struct nc_store){.fd = fd, .device = status.st_dev, .inode = status.st_ino, .writable = writable,
                               .trusted = trusted};
    /* No payload is larger, so that more need not be mapped. */
    store->room = room < NC_VALUE_BYTES_MAX_CEILING ? (size_t)room : NC_VALUE_BYTES_MAX_CEILING;
    return 0;
}

bool nc_store_is_there(const struct nc_store *store)
{
    return nc_descriptor_is(store->fd, store->device, store->inode);
}

/* ---- The mapping ---- */

static int map(struct nc_store *store)
{
    int protection = store->writable ? PROT_READ | PROT_WRITE : PROT_READ;
    void *region = mmap(NULL, HEAD_BYTES + store->room, protection, MAP_SHARED, store->fd, 0);
    if (region == MAP_FAILED)
        return -1;
    if (madvise(region, HEAD_BYTES + store->room, MADV_DONTFORK) != 0) {
        munmap(region, HEAD_BYTES + store->room);
        return -1;
    }
    store->region = region;
    return 0;
}

/* Brings the pages of the payload up to end into the mapping at once. That takes a fraction of the
 * time of a fault for each, and if there is no memory for one, this fails and sends no signal. */
static int populate(struct nc_store *store, size_t end, int advice)
{
    if (!store->region && map(store) < 0)
        return -1;
    if (end <= store->mapped)
        return 0;
    size_t from = (HEAD_BYTES + store->mapped) & ~(ALIGNMENT - 1);
    if (madvise(store->region + from, HEAD_BYTES + end - from, advice) != 0)
        return -1;
    store->mapped = end;
    return 0;
}

/* ---- Copies. Handlers of signals wait for the end of each: one that forked within it would let
 * the child go on in the parent's store, or where nothing is mapped. ---- */

static int write_mapped(struct nc_store *store, size_t at, const void *data, size_t bytes)
{
    if (populate(store, at + bytes, MADV_POPULATE_WRITE) < 0)
        return -1;
    nc_stream_copy(store->region + HEAD_BYTES + at, data, bytes);
    return 0;
}

/* What is written so far sends no SIGXFSZ, which would end the process. */
static bool may_write_to(size_t end)
{
    struct rlimit limit;
    return getrlimit(RLIMIT_FSIZE, &limit) == 0 && (limit.rlim_cur == RLIM_INFINITY || limit.rlim_cur >= HEAD_BYTES + end);
}

static int write_file(struct nc_store *store, size_t at, const uint8_t *data, size_t bytes)
{
    size_t end = at + bytes;
    for (size_t from = at; from < end;) {
        ssize_t written = pwrite(store->fd, data + (from - at), end - from, (off_t)(HEAD_BYTES + from));
        if (written <= 0)
            return -1;
        from += (size_t)written;
    }
    if (at <= store->written && end > store->written)
        store->written = end;
    return 0;
}

static int read_file(const struct nc_store *store, size_t at, uint8_t *data, size_t bytes)
{
    for (size_t done = 0; done < bytes;) {
        ssize_t got = pread(store->fd, data + done, bytes - done, (off_t)(HEAD_BYTES + at + done));
        if (got <= 0)
            return -1;
        done += (size_t)got;
    }
    return 0;
}

/* What is written for the first time goes through the kernel, which need not clear the pages that it
 * allocates. Later the mapping is quicker, if the kernel can bring its pages in (Linux 5.14). */
static int write_either_way(struct nc_store *store, size_t at, const uint8_t *data, size_t bytes)
{
    bool by_file = store->trusted && may_write_to(at + bytes);
    if (by_file && at + bytes > store->written)
        return write_file(store, at, data, bytes);
    if (write_mapped(store, at, data, bytes) == 0)
        return 0;
    return by_file ? write_file(store, at, data, bytes) : -1;
}

int nc_store_write(struct nc_store *store, const struct nc_fork_guard *guard, size_t at, const void *data, size_t bytes,
                   const char **ret_what)
{
    sigset_t former;
    int r = -1;
    nc_block_signals(&former);
    if (!nc_forked(guard))
        r = write_either_way(store, at, data, bytes);
    pthread_sigmask(SIG_SETMASK, &former, NULL);
    if (r < 0)
        return fail(ret_what, "the request cannot be written to the server's store: there is no memory for it, or the "
                              "kernel is older than Linux 5.14");
    return 0;
}

int nc_store_read(struct nc_store *store, const struct nc_fork_guard *guard, size_t at, void *data, size_t bytes,
                  const char **ret_what)
{
    sigset_t former;
    int r = -1;
    nc_block_signals(&former);
    if (!nc_forked(guard)) {
        bool is_mapped = store->trusted && populate(store, at + bytes, MADV_POPULATE_READ) == 0;
        r = is_mapped ? 0 : read_file(store, at, data, bytes);
        if (is_mapped)
            nc_stream_copy(data, store->region + HEAD_BYTES + at, bytes);
    }
    pthread_sigmask(SIG_SETMASK, &former, NULL);
    if (r < 0)
        return fail(ret_what, "the function ran, but its result cannot be read from the server's store");
    return 0;
}

bool nc_store_is_valid(const struct nc_store *store, uint32_t serial)
{
    uint8_t word[SERIAL_BYTES];
    return pread(store->fd, word, sizeof(word), 0) == sizeof(word) && nc_get_u64(word) == serial;
}

/* ---- The end ---- */

void nc_store_close(struct nc_store *store)
{
    struct nc_store former = *store;
    nc_store_init(store); /* first: a fork by another thread must find what it may unmap */
    if (former.region)
        munmap(former.region, HEAD_BYTES + former.room);
    if (nc_store_is_there(&former))
        close(former.fd);
}

void nc_store_orphan(struct nc_store *store)
{
    if (nc_store_is_there(store))
        close(store->fd);
    nc_store_init(store);
}
