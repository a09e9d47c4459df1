/* What tests of libraries within the process share. */
#ifndef EMBED_TEST_H
#define EMBED_TEST_H

#include "embed/embed_library.h"
#include "test.h"

/* embed: with the path of the library that `make` builds for tests, and parameters;
 * valid until the calling thread asks again. */
const char *embed_address(const char *parameters);
/* A file of this test with the library's bytes; those at offset are replaced, or, at
 * offset -1, the first place where from stands. */
const char *embed_copy(const char *name, long offset, const char *from, const char *to,
                       size_t bytes);

/* Where the library serves that this process has loaded, or inherited. */
const struct nearcall_embed_place *embed_place(void);

int64_t embed_call_int(nearcall_client *client, const char *name, int64_t argument);
int64_t embed_call_none(nearcall_client *client, const char *name);
void embed_echo(nearcall_client *client, size_t bytes);
void embed_expect_transport(const nearcall_client *client, const char *expected);

#endif
