#include <stdarg.h>
#include <stdio.h>

#include "base/utf8.h"
#include "handle/handle.h"

#define LINE_BYTES_MAX 1024

void nc_log_write(const nearcall_client *client, int level, const char *format, ...)
{
    char line[LINE_BYTES_MAX];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(line, sizeof(line), format, arguments);
    va_end(arguments);
    nc_utf8_clean(line); /* names and paths of others are in it */
    client->hooks.log(client->hooks.log_argument, level, line);
}
