/* What status and stop are answered with. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/utf8.h"
#include "resident/resident.h"

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

/* The names of what the program was seen to read; where there is no room for all, the first. */
static void list_reads(char *to, size_t room, const struct nc_resident_self *self)
{
    const char *name = self->names + self->noticed_at, *end = self->names + self->names_bytes;
    size_t used = 0;
    if (self->reads_all)
        used = (size_t)snprintf(to, room, "\"*\"");
    for (to[used] = 0; name < end; name += strlen(name) + 1) {
        char quoted[256];
        quote(quoted, sizeof(quoted), name);
        if (used + strlen(quoted) + 4 > room)
            break;
        used += (size_t)snprintf(to + used, room - used, "%s\"%s\"", used ? "," : "", quoted);
    }
}

void nc_resident_report(nearcall_resident *resident, int connection)
{
    char program[8192], reads[8192], directory[8192], text[3 * 8192 + 512];
    quote(program, sizeof(program), resident->program);
    quote(directory, sizeof(directory), resident->self.directory ? resident->self.directory : "");
    list_reads(reads, sizeof(reads), &resident->self);
    snprintf(text, sizeof(text),
             "{\"program\":\"%s\",\"pid\":%ld,\"mode\":\"pool\",\"started_ms\":%lld,\"idle_ms\":%lld,"
             "\"runs\":%llu,\"running\":%u,\"waiting\":%u,\"leaving\":%s,\"outdated\":%s,"
             "\"reads\":[%s],\"reads_directory\":\"%s\",\"reads_input\":%s}",
             program, (long)getpid(), (long long)resident->started_ms, (long long)resident->idle_ms,
             (unsigned long long)resident->runs, nc_resident_count(resident, NC_RESIDENT_BUSY),
             nc_resident_count(resident, NC_RESIDENT_WAITING), resident->leaving ? "true" : "false",
             resident->outdated ? "true" : "false", reads, directory, resident->self.reads_input ? "true" : "false");
    (void)nc_resident_send_frame(connection, NC_RESIDENT_REPORT, 0, 0, text);
}
