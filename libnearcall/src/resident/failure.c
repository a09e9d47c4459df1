/* What a resident says of a failure, and what it closes. */
#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

#include "base/rights.h"
#include "base/utf8.h"
#include "resident/resident.h"

int nc_resident_fail(nearcall_resident *resident, int code, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(resident->message, sizeof(resident->message), format, arguments);
    va_end(arguments);
    nc_utf8_clean(resident->message);
    return code;
}

NEARCALL_API const char *nearcall_resident_error_message(const nearcall_resident *resident)
{
    return resident ? resident->message : "no memory for a handle";
}

void nc_resident_close_fd(int *fd)
{
    if (*fd >= 0)
        close(*fd);
    *fd = -1;
}

void nc_resident_close_connection(int *connection)
{
    if (*connection >= 0)
        nc_rights_drain(*connection);
    nc_resident_close_fd(connection);
}
