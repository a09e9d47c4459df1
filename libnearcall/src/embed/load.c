#include <dlfcn.h>
#include <elf.h>
#include <limits.h>
#include <link.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/signals.h"
#include "embed/embed.h"

#if defined(__GLIBC__)
#define C_LIBRARY_CAN_LOAD_GO true
#else
#define C_LIBRARY_CAN_LOAD_GO false
#endif

/* Those of linux/futex.h, which not every C library's compiler finds. */
enum { WAIT_PRIVATE = 0 | 128, WAKE_PRIVATE = 1 | 128 };

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

/* ---- One at a time ---- */

/* The process of which a thread looks for a library, 0: none. Two that look for Go code
 * at once would both find none, and load two. */
static _Atomic(pid_t) loading;

/* While it is set, a library is here in part. A child that is forked then lacks the
 * thread that would complete it. */
static atomic_bool is_incomplete;

/* False in such a child. Any other takes over from a thread it does not have. */
static bool begin_loading(void)
{
    for (;;) {
        pid_t by = 0, self = getpid();
        if (atomic_compare_exchange_strong(&loading, &by, self))
            return true;
        if (by == self)
            syscall(SYS_futex, &loading, WAIT_PRIVATE, by, NULL, NULL, 0);
        else if (atomic_load(&is_incomplete))
            return false;
        else if (atomic_compare_exchange_strong(&loading, &by, self))
            return true;
    }
}

static void end_loading(void)
{
    atomic_store(&loading, 0);
    syscall(SYS_futex, &loading, WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
}

/* ---- Loading ---- */

/* A thread that the runtime starts must not be chosen for a signal whose handler
 * belongs to the host: that would run on a stack too small for it. Threads inherit
 * the mask of the loading thread; the runtime unblocks by itself what it must have. */
static void *load(const char *file)
{
    sigset_t former;
    nc_block_signals(&former);
    atomic_store(&is_incomplete, true);
    void *handle = dlopen(file, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    atomic_store(&is_incomplete, false);
    pthread_sigmask(SIG_SETMASK, &former, NULL);
    return handle;
}

static const struct nearcall_embed_library *library_in(void *handle, const char *file, char *reason,
                                                       size_t reason_bytes)
{
    nearcall_embed_library_function *function;
    *(void **)&function = dlsym(handle, NEARCALL_EMBED_SYMBOL);
    if (!function) {
        snprintf(reason, reason_bytes, "%s %s", file, NC_WITHOUT_EMBED);
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

static bool is_first(char *reason, size_t reason_bytes)
{
    const char *other = NULL;
    if (!dl_iterate_phdr(find_go, &other))
        return true;
    snprintf(reason, reason_bytes,
             "there is Go code in this process already (%s), and Go allows one library a "
             "process; register all functions in one library, or serve these in a process of "
             "their own, at a unix: address",
             other);
    return false;
}

/* A file that was loaded may have been removed since. What is there and no file, such as
 * a pipe, dlopen() would wait for. */
static void *find_loaded(const char *file)
{
    struct stat status;
    bool may_be_one = stat(file, &status) != 0 || S_ISREG(status.st_mode);
    return may_be_one ? dlopen(file, RTLD_NOW | RTLD_NOLOAD) : NULL;
}

static const struct nearcall_embed_library *find_or_load(const char *file, char *reason,
                                                         size_t reason_bytes)
{
    void *handle = find_loaded(file);
    if (handle)
        return library_in(handle, file, reason, reason_bytes);
    if (!nc_embed_file_fits(file, reason, reason_bytes) || !is_first(reason, reason_bytes))
        return NULL;
    handle = load(file);
    if (handle)
        return library_in(handle, file, reason, reason_bytes);
    const char *words = dlerror();
    snprintf(reason, reason_bytes, "%s; build it again with `nearcall build PACKAGE -o %.200s`",
             words ? words : "the library cannot be loaded", file);
    return NULL;
}

/* A static program has no loader that it was started by; what dlopen() brings it is a
 * second C library, whose threads it cannot start. */
static bool is_static_program(char *reason, size_t reason_bytes)
{
    if (getauxval(AT_BASE) != 0)
        return false;
    snprintf(reason, reason_bytes,
             "this program was linked with -static and cannot load libraries; link it without, or "
             "serve the functions in a process of their own, at a unix: address");
    return true;
}

const struct nearcall_embed_library *nc_embed_load(const char *file, char *reason,
                                                   size_t reason_bytes)
{
    if (!C_LIBRARY_CAN_LOAD_GO) {
        snprintf(reason, reason_bytes,
                 "Go libraries can be loaded by programs of the GNU C library only; serve the "
                 "functions in a process of their own, and use its unix: address");
        return NULL;
    }
    if (is_static_program(reason, reason_bytes))
        return NULL;
    if (!begin_loading()) {
        snprintf(reason, reason_bytes,
                 "this process was forked while another thread was loading a library, of which it "
                 "has only a part; fork before or after the first embed: address is opened");
        return NULL;
    }
    const struct nearcall_embed_library *library = find_or_load(file, reason, reason_bytes);
    end_loading();
    return library;
}
