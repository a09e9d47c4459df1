#include <dlfcn.h>
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "embed.h"

#if defined(__GLIBC__)
#define C_LIBRARY_CAN_LOAD_GO true
#else
#define C_LIBRARY_CAN_LOAD_GO false
#endif

#define GO_NOTE_NAME "Go\0"
#define GO_NOTE_BUILD_ID 4

/* ---- Go code that is here already ---- */

static size_t aligned(size_t bytes)
{
    return (bytes + 3) & ~(size_t)3;
}

/* Whether the notes have the build id that Go's linker leaves in all it makes. */
static bool notes_are_of_go(const uint8_t *notes, size_t bytes)
{
    while (bytes >= sizeof(ElfW(Nhdr))) {
        const ElfW(Nhdr) *note = (const void *)notes;
        size_t whole = sizeof(*note) + aligned(note->n_namesz) + aligned(note->n_descsz);
        if (whole > bytes)
            return false;
        if (note->n_type == GO_NOTE_BUILD_ID && note->n_namesz == sizeof(GO_NOTE_NAME) &&
            memcmp(note + 1, GO_NOTE_NAME, sizeof(GO_NOTE_NAME)) == 0)
            return true;
        notes += whole;
        bytes -= whole;
    }
    return false;
}

static int find_go(struct dl_phdr_info *object, size_t object_bytes, void *ret_name)
{
    (void)object_bytes;
    for (size_t i = 0; i < object->dlpi_phnum; i++) {
        const ElfW(Phdr) *segment = &object->dlpi_phdr[i];
        const uint8_t *notes = (const void *)(uintptr_t)(object->dlpi_addr + segment->p_vaddr);
        if (segment->p_type == PT_NOTE && notes_are_of_go(notes, segment->p_memsz)) {
            *(const char **)ret_name = *object->dlpi_name ? object->dlpi_name : "this program itself";
            return 1;
        }
    }
    return 0;
}

/* ---- Why a file cannot be loaded ---- */

static int machine_of(const char *file)
{
    ElfW(Ehdr) header;
    int fd = open(file, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return -1;
    ssize_t bytes = read(fd, &header, sizeof(header));
    close(fd);
    if (bytes < (ssize_t)(offsetof(ElfW(Ehdr), e_machine) + sizeof(header.e_machine)) ||
        memcmp(header.e_ident, ELFMAG, SELFMAG) != 0)
        return -1;
    return header.e_machine;
}

static void explain_loading(const char *file, char *reason, size_t reason_bytes)
{
    const char *words = dlerror();
    int machine = machine_of(file), own = machine_of("/proc/self/exe");
    if (machine >= 0 && own >= 0 && machine != own)
        snprintf(reason, reason_bytes,
                 "%s was built for another architecture (ELF machine %d, this process has %d); "
                 "build it again with the GOARCH of this program",
                 file, machine, own);
    else
        snprintf(reason, reason_bytes,
                 "%s; build it again with `nearcall build PACKAGE -o %.200s`",
                 words ? words : "the library cannot be loaded", file);
}

/* ---- Loading ---- */

void nc_embed_block_signals(sigset_t *ret_former)
{
    static const int needed[] = {SIGURG, SIGPROF, SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP};
    sigset_t all;
    sigfillset(&all);
    for (size_t i = 0; i < sizeof(needed) / sizeof(needed[0]); i++)
        sigdelset(&all, needed[i]);
    pthread_sigmask(SIG_BLOCK, &all, ret_former);
}

/* A thread that the runtime starts must not be chosen for a signal whose handler
 * belongs to the host: that would run on a stack too small for it. Threads inherit
 * the mask of who loads; the runtime unblocks by itself what it must have. */
static void *load(const char *file)
{
    sigset_t former;
    nc_embed_block_signals(&former);
    void *handle = dlopen(file, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    pthread_sigmask(SIG_SETMASK, &former, NULL);
    return handle;
}

static const struct nearcall_embed_library *library_in(void *handle, const char *file, char *reason,
                                                       size_t reason_bytes)
{
    nearcall_embed_library_function *function;
    *(void **)&function = dlsym(handle, NEARCALL_EMBED_SYMBOL);
    if (!function) {
        snprintf(reason, reason_bytes,
                 "%s is a library without Nearcall: its package main has to import "
                 "github.com/nearcall/nearcall/embed and call embed.Serve in a function init",
                 file);
        return NULL;
    }
    const struct nearcall_embed_library *library = function();
    if (library->version == NEARCALL_EMBED_VERSION)
        return library;
    snprintf(reason, reason_bytes,
             "%s speaks version %u of the interface, this libnearcall version %d; build both from "
             "the same release",
             file, (unsigned)library->version, NEARCALL_EMBED_VERSION);
    return NULL;
}

const struct nearcall_embed_library *nc_embed_load(const char *file, char *reason,
                                                   size_t reason_bytes)
{
    const char *other = NULL;
    if (!C_LIBRARY_CAN_LOAD_GO) {
        snprintf(reason, reason_bytes,
                 "Go libraries can be loaded by programs of the GNU C library only; serve the "
                 "functions in a process of their own, and use its unix: address");
        return NULL;
    }
    void *handle = dlopen(file, RTLD_NOW | RTLD_NOLOAD);
    if (handle)
        return library_in(handle, file, reason, reason_bytes);
    if (access(file, R_OK) != 0) {
        snprintf(reason, reason_bytes,
                 "%s: %s; build it with `nearcall build PACKAGE -o %.200s`, and give its path", file,
                 strerror(errno), file);
        return NULL;
    }
    if (dl_iterate_phdr(find_go, &other)) {
        snprintf(reason, reason_bytes,
                 "there is Go code in this process already (%s), and Go allows one library a "
                 "process; register all functions in one library, or serve these in a process of "
                 "their own, at a unix: address",
                 other);
        return NULL;
    }
    handle = load(file);
    if (!handle) {
        explain_loading(file, reason, reason_bytes);
        return NULL;
    }
    return library_in(handle, file, reason, reason_bytes);
}
