/* What is refused before anything is done, and what is said of it. */
#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

#include "base/address.h"
#include "base/utf8.h"
#include "handoff/handoff.h"

/* Stands for a user that has no number in this user namespace. */
#define OVERFLOW_USER 65534

int nc_handoff_fail(nearcall_handoff *handoff, int code, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(handoff->message, sizeof(handoff->message), format, arguments);
    va_end(arguments);
    nc_utf8_clean(handoff->message); /* names and texts of others are in it */
    return code;
}

int nc_handoff_parse_address(nearcall_handoff *handoff, struct nc_address *address,
                             const char *text)
{
    const char *reason = "descriptors travel over unix:/path only";
    if (!text)
        return nc_handoff_fail(handoff, NEARCALL_E_MISUSE, "the address is NULL");
    if (nc_address_parse(address, text, true, &reason) < 0 || address->kind != NC_ADDRESS_UNIX)
        return nc_handoff_fail(handoff, NEARCALL_E_INVALID_ARGUMENT, "%.200s is no address: %s",
                               text, reason);
    return NEARCALL_OK;
}

bool nc_handoff_admits(const nearcall_handoff *handoff, uid_t user)
{
    for (uint32_t i = 0; i < handoff->users_count; i++)
        if (handoff->users[i] == user)
            return true;
    return user != OVERFLOW_USER && (user == 0 || user == geteuid());
}

NEARCALL_API const char *nearcall_handoff_error_message(const nearcall_handoff *handoff)
{
    return handoff ? handoff->message : "no memory for a handle";
}

NEARCALL_API int nearcall_handoff_error_reason(const nearcall_handoff *handoff)
{
    return handoff ? handoff->reason : 0;
}
