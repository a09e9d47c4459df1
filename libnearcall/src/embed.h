/* Calls to a Go library within this process, and whether they are possible here. */
#ifndef NC_EMBED_H
#define NC_EMBED_H

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>

#include "buffer.h"
#include "embed_library.h"
#include "nearcall.h"

struct nc_embed {
    char *file; /* absolute; NULL: the address is another one */
    /* NULL until it was loaded, by this process or by one that it was forked from. It
     * is never unloaded. */
    const struct nearcall_embed_library *library;
    bool is_direct; /* this process has loaded it, so it may enter it */
    bool blocks_signals;
    bool is_too_large; /* the present call's reply, for this handle */
    uint64_t reply_bytes_max;
    struct nearcall_embed_call call;
    struct nc_buffer reply; /* what was handed out last lies here */
};

enum { NC_EMBED_ELSEWHERE = 1 };

/* embed.c */
int nc_embed_open(nearcall_client *client);
int nc_embed_prepare(nearcall_client *client);
void nc_embed_after_fork(nearcall_client *client);
void nc_embed_free(struct nc_embed *embed);
/* NEARCALL_OK, a failure, or NC_EMBED_ELSEWHERE: nothing was done, and the call has
 * to take the connection. */
int nc_embed_call(nearcall_client *client, nearcall_function *function, int codec,
                  const void *data, size_t bytes, int64_t timeout_ms, nearcall_reply *ret_reply);

/* embed_file.c */
enum nc_elf_verdict {
    NC_ELF_FITS,
    NC_ELF_NONE, /* no shared library at all */
    NC_ELF_FOREIGN,
    NC_ELF_BROKEN,
    NC_ELF_LACKS_SYMBOL
};

/* Whether the file is a shared library for this process that defines the symbol.
 * Nothing it may contain does harm. */
enum nc_elf_verdict nc_elf_check(int fd, const char *symbol);
/* Whether the file may be loaded, as far as can be told before; false with a sentence in
 * reason. */
bool nc_embed_file_fits(const char *file, char *reason, size_t reason_bytes);

#define NC_WITHOUT_EMBED                                                                  \
    "is a library without Nearcall: its package main has to import "                      \
    "github.com/nearcall/nearcall/embed and call embed.Serve in a function init"

/* embed_load.c: keeps the host's handlers from this thread, and from those it makes. */
void nc_embed_block_signals(sigset_t *ret_former);

/* The library of that file, loaded if this process has none. NULL with
 * a sentence in reason. Threads that come while another one loads wait for it. */
const struct nearcall_embed_library *nc_embed_load(const char *file, char *reason,
                                                   size_t reason_bytes);

#endif
