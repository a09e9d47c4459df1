#include "identity.h"

#include <stdint.h>
#include <string.h>

enum { PROGRAM_BYTES_MAX = 32, IDENTITY_DIGITS = 16 };

/* FNV-1a over the number's bytes, the lowest first. */
static uint64_t hash_number(uint64_t hash, uint64_t number)
{
    for (int i = 0; i < 8; i++, number >>= 8)
        hash = (hash ^ (number & 0xFF)) * UINT64_C(0x100000001B3);
    return hash;
}

static uint64_t identity(const struct stat *file)
{
    const uint64_t numbers[] = {
        (uint64_t)file->st_dev,          (uint64_t)file->st_ino,         (uint64_t)file->st_size,
        (uint64_t)file->st_mtim.tv_sec,  (uint64_t)file->st_mtim.tv_nsec, (uint64_t)file->st_ctim.tv_sec,
        (uint64_t)file->st_ctim.tv_nsec,
    };
    uint64_t hash = UINT64_C(0xCBF29CE484222325);
    for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++)
        hash = hash_number(hash, numbers[i]);
    return hash;
}

static int is_kept(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' || c == '_' ||
           c == '-';
}

void nc_identity_name(const struct program *program, char name[NC_PLACE_NAME_BYTES])
{
    const char *part = nc_last_part(program->path);
    uint64_t hash = identity(&program->file);
    size_t at = 0;
    for (; at < PROGRAM_BYTES_MAX && part[at] != '\0'; at++)
        name[at] = part[at];
    for (size_t i = 0; i < at; i++)
        if (!is_kept(name[i]))
            name[i] = '_';
    name[at++] = '-';
    for (int i = 0; i < IDENTITY_DIGITS; i++, hash <<= 4)
        name[at++] = "0123456789abcdef"[hash >> 60];
    name[at] = '\0';
}
