#include "self.h"

#include <fcntl.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

/* An ELF note, because the linker puts notes at the start of the file and strip
 * keeps them. Other versions look for the same bytes: they never change. */
struct note {
    uint32_t name_bytes;
    uint32_t content_bytes;
    uint32_t type;
    char name[16];
    unsigned char content[16];
};

enum { NOTE_TYPE = 1, HEAD_BYTES = 2048, LAUNCHER_BYTES_MAX = 1 << 20 };

static const struct note mark __attribute__((section(".note.nearcall"), used, aligned(4))) = {
    sizeof(mark.name),
    sizeof(mark.content),
    NOTE_TYPE,
    "nearcall-run",
    {0x8B, 0x4E, 0x43, 0x4C, 0xF2, 0x61, 0x05, 0xD7, 0x3A, 0x9C, 0x10, 0xE8, 0x57, 0xB4, 0x2D, 0x76},
};

int nc_is_this(const struct stat *file)
{
    struct stat own;
    return stat("/proc/self/exe", &own) == 0 && own.st_dev == file->st_dev && own.st_ino == file->st_ino;
}

enum nc_kind nc_kind_of(const char *path, const struct stat *file)
{
    char head[HEAD_BYTES];
    ssize_t length;
    if (file->st_size > LAUNCHER_BYTES_MAX)
        return NC_KIND_PROGRAM;
    int fd = openat(AT_FDCWD, path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return nc_is_this(file) ? NC_KIND_LAUNCHER : NC_KIND_UNREADABLE;
    length = read(fd, head, sizeof(head));
    close(fd);
    return length > 0 && memmem(head, (size_t)length, &mark, sizeof(mark)) != NULL ? NC_KIND_LAUNCHER : NC_KIND_PROGRAM;
}
