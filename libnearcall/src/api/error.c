/* The error that a handle has kept, and what codes and outcomes are called. */
#include "base/errors_gen.h"
#include "handle/handle.h"

NEARCALL_API int nearcall_error_code(const nearcall_client *client)
{
    return client ? client->error.code : -NEARCALL_E_RESOURCE_EXHAUSTED;
}

NEARCALL_API int nearcall_error_outcome(const nearcall_client *client)
{
    return client ? client->error.outcome : NEARCALL_OUTCOME_NOT_EXECUTED;
}

NEARCALL_API const char *nearcall_error_message(const nearcall_client *client)
{
    return client ? client->error.message : "no memory for a handle";
}

NEARCALL_API const uint8_t *nearcall_error_details(const nearcall_client *client,
                                                   size_t *ret_bytes)
{
    if (ret_bytes)
        *ret_bytes = client ? client->error.details_bytes : 0;
    return client ? client->error.details : NULL;
}

NEARCALL_API const char *nearcall_code_name(int code)
{
    return nc_code_name(code);
}

NEARCALL_API const char *nearcall_outcome_text(int outcome)
{
    return nc_outcome_text(outcome);
}
