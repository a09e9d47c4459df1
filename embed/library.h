#ifndef NEARCALL_EMBED_LIBRARY_C_H
#define NEARCALL_EMBED_LIBRARY_C_H

#include "embed/embed_library.h"

/* Calls call->grow, which Go cannot. */
int nearcall_embed_grow(struct nearcall_embed_call *call, uint64_t bytes);

/* Once, when others can be served: remembers where, prepares for signals and for
 * the end of the process. */
void nearcall_embed_started(const char *path, const char *latest, int descriptor, uint64_t device,
                            uint64_t inode);

/* Between the two no fork begins: what is opened is either known to
 * nearcall_embed_keep() or not there. */
void nearcall_embed_begin_opening(void);
void nearcall_embed_end_opening(void);

/* The socket, or the lock beside it, is this process's alone: a child closes its copy,
 * which would keep the connection, or the place where others connect, alive when this
 * process has ended. */
void nearcall_embed_keep(int fd);

#endif
