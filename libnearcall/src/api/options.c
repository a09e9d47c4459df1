/* Structs of options, whose size says what of them a caller knows. */
#include <string.h>

#include "api/api.h"

int nc_invalid_option(nearcall_client *client, const char *option, long long value, const char *allowed)
{
    return nc_fail(client, NEARCALL_E_INVALID_ARGUMENT, NEARCALL_OUTCOME_NOT_EXECUTED,
                   "option %s is %lld; allowed: %s", option, value, allowed);
}

int nc_read_options(nearcall_client *client, const void *given, void *options, size_t options_bytes)
{
    size_t given_bytes;
    if (!given)
        return NEARCALL_OK;
    memcpy(&given_bytes, given, sizeof(given_bytes));
    if (given_bytes < sizeof(given_bytes))
        return nc_invalid_option(client, "struct_size", (long long)given_bytes,
                                 "the size of the struct, as its ..._INIT sets it");
    for (size_t i = options_bytes; i < given_bytes; i++)
        if (((const uint8_t *)given)[i] != 0)
            return nc_invalid_option(client, "struct_size", (long long)given_bytes,
                                     "options that this version of the library knows");
    memcpy(options, given, given_bytes < options_bytes ? given_bytes : options_bytes);
    return NEARCALL_OK;
}
