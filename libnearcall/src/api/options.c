/* Structs of options, whose size says what of them a caller knows. */
#include "api/api.h"
#include "base/sized.h"

int nc_invalid_option(nearcall_client *client, const char *option, long long value, const char *allowed)
{
    return nc_fail(client, NEARCALL_E_INVALID_ARGUMENT, NEARCALL_OUTCOME_NOT_EXECUTED,
                   "option %s is %lld; allowed: %s", option, value, allowed);
}

int nc_read_options(nearcall_client *client, const void *given, void *options, size_t options_bytes)
{
    const char *allowed = nc_sized_read(given, options, options_bytes);
    if (!allowed)
        return NEARCALL_OK;
    return nc_invalid_option(client, "struct_size", (long long)nc_sized_bytes(given), allowed);
}
