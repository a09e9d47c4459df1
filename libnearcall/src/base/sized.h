/* Structs of options, whose size says what of them a caller knows. */
#ifndef NC_SIZED_H
#define NC_SIZED_H

#include <stddef.h>

/* Reads options of a caller that was compiled against another version: what is missing stays as
 * it is in options, and what is unknown must be 0. Both structs begin with struct_size. given may
 * be NULL. Returns NULL, or which sizes are allowed. */
const char *nc_sized_read(const void *given, void *options, size_t options_bytes);

/* What the caller says; 0 for NULL. */
size_t nc_sized_bytes(const void *given);

#endif
