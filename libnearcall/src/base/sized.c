#include "base/sized.h"

#include <stdint.h>
#include <string.h>

size_t nc_sized_bytes(const void *given)
{
    size_t bytes = 0;
    if (given)
        memcpy(&bytes, given, sizeof(bytes));
    return bytes;
}

const char *nc_sized_read(const void *given, void *options, size_t options_bytes)
{
    size_t given_bytes = nc_sized_bytes(given);
    if (!given)
        return NULL;
    if (given_bytes < sizeof(given_bytes))
        return "the size of the struct, as its ..._INIT sets it";
    for (size_t i = options_bytes; i < given_bytes; i++)
        if (((const uint8_t *)given)[i] != 0)
            return "options that this version of the library knows";
    memcpy(options, given, given_bytes < options_bytes ? given_bytes : options_bytes);
    return NULL;
}
