/* A store: a file in memory that the server has made and that holds one payload, as
 * spec/transports.md has it under "Stores". This side writes requests to it and reads replies from
 * it, and never trusts its size: that is looked at once, and sealed.
 *
 * A thread that writes to a file holds a lock of that file, and a server can make it hold that for
 * ever. So a server that is not trusted is written to by the mapping only, whose pages are brought in
 * before. What it has written is read by a system call, which neither allocates pages nor faults.
 *
 * Mappings are not inherited by a child (MADV_DONTFORK), and each copy asks whether this process is
 * one. */
#ifndef NC_STORE_H
#define NC_STORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/fork.h"

/* A copy of so many bytes is made at a time, so that deadlines and forks are noticed. */
#define NC_STORE_CHUNK_BYTES ((size_t)4 << 20)

struct nc_store {
    int fd; /* -1: there is no store */
    dev_t device;
    ino_t inode;
    size_t room; /* bytes of the largest payload */
    bool writable;
    bool trusted; /* only this side, or a peer that it trusts, can write to the file */
    uint8_t *region; /* of the whole file; NULL: not mapped yet */
    size_t written; /* the pages of so many bytes of the payload exist */
    size_t mapped; /* and of so many are in the mapping */
};

/* A zeroed struct would name descriptor 0. */
void nc_store_init(struct nc_store *store);

/* Makes a store of a descriptor that has come, which is the store's from then on. 0, or -1 with
 * *ret_what saying why it cannot be one. There is no store before. */
int nc_store_attach(struct nc_store *store, int fd, bool writable, bool trusted, const char **ret_what);

/* Whether there is a store, and its descriptor still means the file. The program may close what it
 * does not know. */
bool nc_store_is_there(const struct nc_store *store);

/* Write or read at most NC_STORE_CHUNK_BYTES of the payload, within its room. 0, or -1 with
 * *ret_what; also in a child, which has to be asked for. */
int nc_store_write(struct nc_store *store, const struct nc_fork_guard *guard, size_t at, const void *data, size_t bytes,
                   const char **ret_what);
int nc_store_read(struct nc_store *store, const struct nc_fork_guard *guard, size_t at, void *data, size_t bytes,
                  const char **ret_what);

/* Whether the contents are valid for this use. A caller asks after it has read a payload. */
bool nc_store_is_valid(const struct nc_store *store, uint32_t serial);

void nc_store_close(struct nc_store *store);

/* In a child, which does not have the mapping: closes its copy of the descriptor. */
void nc_store_orphan(struct nc_store *store);

#endif
