#include <stdarg.h>
#include <stdio.h>

#include "base/utf8.h"
#include "handle/handle.h"

#define LINE_BYTES_MAX 1024

/* Names, paths and reasons of others are in it. None of them may look like another line, or command a terminal. */
static void clean(char *line)
{
    nc_utf8_clean(line);
    for (char *at = line; *at; at++)
        if ((*at > 0 && *at < ' ') || *at == 0x7F)
            *at = ' ';
}

void nc_log_write(const nearcall_client *client, int level, const char *format, ...)
{
    char line[LINE_BYTES_MAX];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(line, sizeof(line), format, arguments);
    va_end(arguments);
    clean(line);
    client->hooks.log(client->hooks.log_argument, level, line);
}
