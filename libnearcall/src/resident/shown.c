/* What the kernel shows of the environment that this process was started with, in
 * /proc/PID/environ: all of it, for as long as the process lives, to whoever may look. Residents
 * live for days, and callers are compared with a copy. */
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "resident/resident.h"

extern char **environ;

/* Which field of /proc/self/stat tells where it is, counted from the name's end. */
enum { FIELD = 48 };

/* What tells administrators whose resident it is. */
static bool is_kept(const char *variable)
{
    return strncmp(variable, "NEARCALL_", 9) == 0 || strncmp(variable, "LISTEN_", 7) == 0;
}

/* 0: the kernel does not tell. */
static uintptr_t find_block(void)
{
    size_t bytes;
    unsigned long start = 0;
    char *text = nc_resident_read_at(AT_FDCWD, "/proc/self/stat", &bytes);
    const char *at = text ? strrchr(text, ')') : NULL;
    for (int field = 0; at && field < FIELD; field++)
        at = strchr(at + 1, ' ');
    if (at)
        start = strtoul(at, NULL, 10);
    free(text);
    if (start == 0)
        errno = ENODATA;
    return start;
}

/* For this process, and the programs that it starts, all stays as it is. */
static int move_out(uintptr_t start, const char *text, size_t bytes)
{
    static char *moved;
    if (!moved && (moved = malloc(bytes + 1)))
        memcpy(moved, text, bytes + 1);
    if (!moved)
        return -1;
    for (char **variable = environ; variable && *variable; variable++)
        if ((uintptr_t)*variable - start < bytes)
            *variable = moved + ((uintptr_t)*variable - start);
    return 0;
}

/* By the kernel, to which no address is a wrong one. */
static int write_block(uintptr_t start, const char *text, size_t bytes)
{
    int memory = open("/proc/self/mem", O_RDWR | O_CLOEXEC);
    ssize_t written = memory < 0 ? -1 : pwrite(memory, text, bytes, (off_t)start);
    int error = errno;
    nc_resident_close_fd(&memory);
    errno = error;
    return written == (ssize_t)bytes ? 0 : -1;
}

void nc_resident_environment_hide(void)
{
    size_t bytes;
    uintptr_t start = find_block();
    char *text = nc_resident_read_at(AT_FDCWD, "/proc/self/environ", &bytes);
    int r = start && text ? move_out(start, text, bytes) : -1;
    for (char *variable = text; r == 0 && variable < text + bytes;) {
        size_t length = strlen(variable);
        if (!is_kept(variable))
            memset(variable, 0, length);
        variable += length + 1;
    }
    if (r == 0)
        r = write_block(start, text, bytes);
    if (r < 0)
        fprintf(stderr, "nearcall: the environment stays in /proc/%ld/environ: %s\n", (long)getpid(), strerror(errno));
    free(text);
}
