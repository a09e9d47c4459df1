/* A file that says it is a library: whatever stands in it, looking at it ends and does
 * no harm, and the symbol is found only where its name is. */
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "embed/embed.h"
#include "fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    int fd = memfd_create("library", MFD_CLOEXEC);
    FUZZ_CHECK(fd >= 0 && write(fd, data, bytes) == (ssize_t)bytes);
    enum nc_elf_verdict verdict = nc_elf_check(fd, NEARCALL_EMBED_SYMBOL);
    FUZZ_CHECK(verdict <= NC_ELF_LACKS_SYMBOL);
    FUZZ_CHECK(verdict != NC_ELF_FITS ||
               memmem(data, bytes, NEARCALL_EMBED_SYMBOL, sizeof(NEARCALL_EMBED_SYMBOL)) != NULL);
    close(fd);
    return 0;
}
