/* What a file says of itself before it is loaded. Loading runs code, and a Go runtime
 * that runs can be neither stopped nor unloaded, so what is not fit must not get there. */
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "embed/embed.h"

#define OWN_CLASS (sizeof(void *) == 8 ? ELFCLASS64 : ELFCLASS32)
#define OWN_BYTE_ORDER (__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__ ? ELFDATA2LSB : ELFDATA2MSB)

/* What has more is no library that somebody wrote. */
#define SYMBOLS_MAX (1 << 20)
#define SYMBOLS_AT_ONCE 128

static bool read_at(int fd, uint64_t offset, void *to, size_t bytes)
{
    return offset <= INT64_MAX && pread(fd, to, bytes, (off_t)offset) == (ssize_t)bytes;
}

static bool read_header(int fd, ElfW(Ehdr) *header)
{
    return read_at(fd, 0, header, sizeof(*header)) &&
           memcmp(header->e_ident, ELFMAG, SELFMAG) == 0;
}

/* The program that runs was built for what this process is. */
static bool is_of_our_machine(const ElfW(Ehdr) *header)
{
    ElfW(Ehdr) own;
    int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
    bool is_known = fd >= 0 && read_header(fd, &own);
    if (fd >= 0)
        close(fd);
    return header->e_ident[EI_CLASS] == OWN_CLASS && header->e_ident[EI_DATA] == OWN_BYTE_ORDER &&
           (!is_known || header->e_machine == own.e_machine);
}

static bool is_named(int fd, const ElfW(Shdr) *names, const ElfW(Sym) *symbol, const char *name,
                     size_t name_bytes)
{
    char found[64];
    if (symbol->st_shndx == SHN_UNDEF || name_bytes > sizeof(found) ||
        symbol->st_name >= names->sh_size || names->sh_size - symbol->st_name < name_bytes)
        return false;
    return read_at(fd, names->sh_offset + symbol->st_name, found, name_bytes) &&
           memcmp(found, name, name_bytes) == 0;
}

static enum nc_elf_verdict find_symbol(int fd, const ElfW(Shdr) *table, const ElfW(Shdr) *names,
                                       const char *name)
{
    ElfW(Sym) symbols[SYMBOLS_AT_ONCE];
    uint64_t left = table->sh_size / sizeof(symbols[0]), offset = table->sh_offset;
    if (left > SYMBOLS_MAX)
        return NC_ELF_BROKEN;
    while (left > 0) {
        size_t count = left < SYMBOLS_AT_ONCE ? (size_t)left : SYMBOLS_AT_ONCE;
        if (!read_at(fd, offset, symbols, count * sizeof(symbols[0])))
            return NC_ELF_BROKEN;
        for (size_t i = 0; i < count; i++)
            if (is_named(fd, names, &symbols[i], name, strlen(name) + 1))
                return NC_ELF_FITS;
        left -= count;
        offset += count * sizeof(symbols[0]);
    }
    return NC_ELF_LACKS_SYMBOL;
}

static bool read_section(int fd, const ElfW(Ehdr) *header, uint32_t number, ElfW(Shdr) *section)
{
    return number < header->e_shnum &&
           read_at(fd, header->e_shoff + (uint64_t)number * sizeof(*section), section, sizeof(*section));
}

/* The loader needs no sections, but whatever links a library or strips it leaves those
 * that name its dynamic symbols. */
static enum nc_elf_verdict search(int fd, const ElfW(Ehdr) *header, const char *name)
{
    ElfW(Shdr) table, names;
    if (header->e_shentsize != sizeof(table))
        return NC_ELF_BROKEN;
    for (uint32_t i = 0; i < header->e_shnum; i++) {
        if (!read_section(fd, header, i, &table))
            return NC_ELF_BROKEN;
        if (table.sh_type != SHT_DYNSYM)
            continue;
        return read_section(fd, header, table.sh_link, &names) ? find_symbol(fd, &table, &names, name)
                                                               : NC_ELF_BROKEN;
    }
    return NC_ELF_LACKS_SYMBOL;
}

enum nc_elf_verdict nc_elf_check(int fd, const char *symbol)
{
    ElfW(Ehdr) header;
    if (!read_header(fd, &header))
        return NC_ELF_NONE;
    if (!is_of_our_machine(&header))
        return NC_ELF_FOREIGN;
    if (header.e_type != ET_DYN)
        return NC_ELF_NONE;
    return search(fd, &header, symbol);
}

static const char *const sentences[] = {
    [NC_ELF_NONE] = "is not a shared library; build one with `nearcall build PACKAGE -o LIBRARY.so`, and give "
                    "its path",
    [NC_ELF_FOREIGN] = "was built for another architecture than this process has; build it again with the "
                       "GOARCH of this program",
    [NC_ELF_BROKEN] = "is incomplete or damaged; build it again with `nearcall build PACKAGE -o LIBRARY.so`",
    [NC_ELF_LACKS_SYMBOL] = NC_WITHOUT_EMBED,
};

bool nc_embed_file_fits(const char *file, char *reason, size_t reason_bytes)
{
    struct stat status;
    int fd = open(file, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0) {
        snprintf(reason, reason_bytes,
                 "%s: %s; build it with `nearcall build PACKAGE -o %.200s`, and give its path", file,
                 strerror(errno), file);
        return false;
    }
    bool is_file = fstat(fd, &status) == 0 && S_ISREG(status.st_mode);
    enum nc_elf_verdict verdict = is_file ? nc_elf_check(fd, NEARCALL_EMBED_SYMBOL) : NC_ELF_NONE;
    close(fd);
    if (verdict != NC_ELF_FITS)
        snprintf(reason, reason_bytes, "%s %s", file, sentences[verdict]);
    return verdict == NC_ELF_FITS;
}
