/* What status and stop are answered with. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "resident.h"
#include "utf8.h"

/* Into JSON's quotes; what does not fit is left out. */
static void quote(char *to, size_t room, const char *text)
{
    size_t used = 0;
    for (; *text && used + 8 < room; text++) {
        unsigned char letter = (unsigned char)*text;
        if (letter < 0x20 || letter == '"' || letter == '\\')
            used += (size_t)snprintf(to + used, room - used, "\\u%04x", letter);
        else
            to[used++] = (char)letter;
    }
    to[used] = 0;
    nc_utf8_clean(to);
}

void nc_resident_report(nearcall_resident *resident, int connection)
{
    char program[8192], text[sizeof(program) + 512];
    quote(program, sizeof(program), resident->program);
    snprintf(text, sizeof(text),
             "{\"program\":\"%s\",\"pid\":%ld,\"mode\":\"pool\",\"started_ms\":%lld,\"idle_ms\":%lld,"
             "\"runs\":%llu,\"running\":%u,\"waiting\":%u,\"leaving\":%s,\"outdated\":%s}",
             program, (long)getpid(), (long long)resident->started_ms, (long long)resident->idle_ms,
             (unsigned long long)resident->runs, nc_resident_count(resident, NC_RESIDENT_BUSY),
             nc_resident_count(resident, NC_RESIDENT_WAITING), resident->leaving ? "true" : "false",
             resident->outdated ? "true" : "false");
    (void)nc_resident_send_frame(connection, NC_RESIDENT_REPORT, 0, 0, text);
}
