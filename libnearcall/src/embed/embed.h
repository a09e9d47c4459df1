/* Libraries of Go that this process loads, or that the one it was forked from has loaded: what a
 * file is before it is loaded, loading it, and what a handle knows of it. Calls into one are
 * api/embed.c's.
 * May include: base. */
#ifndef NC_EMBED_H
#define NC_EMBED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buffer.h"
#include "embed/embed_library.h"

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

/* ---- file.c ---- */

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

/* ---- load.c ---- */

/* The library of that file, loaded if this process has none. NULL with
 * a sentence in reason. Threads that come while another one loads wait for it. */
const struct nearcall_embed_library *nc_embed_load(const char *file, char *reason,
                                                   size_t reason_bytes);

#endif
