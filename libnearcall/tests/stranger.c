/* A library that claims to be one of Nearcall's, of a version that never was. It is no
 * Go code, so it may be loaded beside some. */
#include "embed/embed_library.h"

__attribute__((visibility("default"))) const struct nearcall_embed_library *
nearcall_embed_library(void);

const struct nearcall_embed_library *nearcall_embed_library(void)
{
    static const struct nearcall_embed_library library = {.version = NEARCALL_EMBED_VERSION + 1};
    return &library;
}
