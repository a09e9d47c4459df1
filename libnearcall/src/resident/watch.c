/* The files that a resident was made from: it leaves when one of them changes. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "resident/resident.h"

/* How inexact the start of a process is known. */
#define START_SLACK_NS (20 * NC_NS_PER_MS)

#define EVENTS (IN_MODIFY | IN_ATTRIB | IN_MOVE_SELF | IN_DELETE_SELF)
#define ABOVE_EVENTS (IN_MOVE_SELF | IN_DELETE_SELF | IN_DONT_FOLLOW | IN_MASK_ADD)

static uint64_t hash(uint64_t state, uint64_t number)
{
    for (int i = 0; i < 8; i++)
        state = (state ^ (number >> 8 * i & 0xFF)) * 1099511628211U;
    return state;
}

uint64_t nc_resident_identity(const char *path)
{
    struct stat file;
    if (stat(path, &file) < 0)
        return 0;
    const uint64_t numbers[] = {
        file.st_dev, file.st_ino, (uint64_t)file.st_size,
        (uint64_t)file.st_mtim.tv_sec, (uint64_t)file.st_mtim.tv_nsec,
        (uint64_t)file.st_ctim.tv_sec, (uint64_t)file.st_ctim.tv_nsec,
    };
    uint64_t state = 14695981039346656037U;
    for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++)
        state = hash(state, numbers[i]);
    return state;
}

static bool is_same(const struct nc_resident_file *file, const struct stat *now)
{
    return file->device == now->st_dev && file->inode == now->st_ino && file->bytes == now->st_size &&
           memcmp(&file->modified, &now->st_mtim, sizeof(file->modified)) == 0 &&
           memcmp(&file->changed, &now->st_ctim, sizeof(file->changed)) == 0;
}

/* Where there are no more watches, or something may not be watched, the files are looked
 * at with each run instead. */
static void add_watch(nearcall_resident *resident, const char *path, uint32_t events)
{
    if (resident->inotify < 0 || inotify_add_watch(resident->inotify, path, events) < 0)
        resident->looks = true;
}

static bool is_above(const nearcall_resident *resident, const char *path, size_t bytes)
{
    for (const struct nc_resident_above *above = resident->above; above; above = above->next)
        if (above->bytes == bytes && memcmp(above->path, path, bytes) == 0)
            return true;
    return false;
}

/* A file is told nothing of what happens above it: of a directory that is renamed, of a
 * link that leads elsewhere. The last of the path may be such a link. */
static void watch_above(nearcall_resident *resident, const char *path)
{
    for (size_t bytes = strlen(path); bytes > 0 && !is_above(resident, path, bytes);) {
        struct nc_resident_above *above = calloc(1, sizeof(*above) + bytes + 1);
        if (!above) {
            resident->looks = true;
            return;
        }
        memcpy(above->path, path, bytes);
        add_watch(resident, above->path, ABOVE_EVENTS);
        above->bytes = bytes;
        above->next = resident->above;
        resident->above = above;
        while (bytes > 0 && path[bytes - 1] != '/')
            bytes--;
        while (bytes > 0 && path[bytes - 1] == '/')
            bytes--;
    }
}

static void watch_path(nearcall_resident *resident, const char *path)
{
    char real[PATH_MAX];
    add_watch(resident, path, EVENTS);
    watch_above(resident, path);
    if (realpath(path, real))
        watch_above(resident, real);
}

int nc_resident_watch_begin(nearcall_resident *resident)
{
    resident->inotify = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
    add_watch(resident, resident->place.socket, EVENTS);
    return nc_resident_watch_file(resident, resident->program);
}

/* When this process started, by the clock of files, to 10 ms; 0: unknown. */
static int64_t process_start_ns(void)
{
    char text[1024];
    struct timespec boot, now;
    unsigned long long ticks = 0;
    FILE *status = fopen("/proc/self/stat", "re");
    size_t bytes = status ? fread(text, 1, sizeof(text) - 1, status) : 0;
    if (status)
        fclose(status);
    text[bytes] = 0;
    const char *field = strrchr(text, ')'); /* field 2; the start is field 22 */
    for (int i = 2; field && i < 22; i++)
        field = strchr(field + 1, ' ');
    if (!field || sscanf(field, "%llu", &ticks) != 1)
        return 0;
    clock_gettime(CLOCK_BOOTTIME, &boot);
    clock_gettime(CLOCK_REALTIME, &now);
    int64_t up_ns = (int64_t)boot.tv_sec * NC_NS_PER_S + boot.tv_nsec;
    int64_t age_ns = up_ns - (int64_t)ticks * (NC_NS_PER_S / sysconf(_SC_CLK_TCK));
    return (int64_t)now.tv_sec * NC_NS_PER_S + now.tv_nsec - age_ns;
}

int nc_resident_watch_file(nearcall_resident *resident, const char *path)
{
    size_t bytes = strlen(path) + 1;
    struct nc_resident_file *file = calloc(1, sizeof(*file) + bytes);
    struct stat now;
    if (!file)
        return nc_resident_fail(resident, NEARCALL_E_RESOURCE_EXHAUSTED, "no memory for a file's name");
    memcpy(file->path, path, bytes);
    watch_path(resident, path);
    if (stat(path, &now) < 0) {
        free(file);
        return nc_resident_fail(resident, NEARCALL_E_NOT_FOUND, "%.300s: %s", path, strerror(errno));
    }
    file->device = now.st_dev;
    file->inode = now.st_ino;
    file->bytes = now.st_size;
    file->modified = now.st_mtim;
    file->changed = now.st_ctim;
    if (resident->process_start_ns == 0)
        resident->process_start_ns = process_start_ns();
    if ((int64_t)now.st_ctim.tv_sec * NC_NS_PER_S + now.st_ctim.tv_nsec > resident->process_start_ns + START_SLACK_NS)
        resident->outdated = true; /* it may have been read before that */
    file->next = resident->files;
    resident->files = file;
    return NEARCALL_OK;
}

static bool is_watched(const nearcall_resident *resident, const char *path)
{
    for (const struct nc_resident_file *file = resident->files; file; file = file->next)
        if (strcmp(file->path, path) == 0)
            return true;
    return false;
}

/* What was replaced since it was mapped has another file at its path; what the program
 * has removed itself has none, and what it may write to is no code. */
static int watch_line(nearcall_resident *resident, char *line)
{
    static const char deleted[] = " (deleted)";
    char *permissions = strchr(line, ' '), *path = strchr(line, '/');
    if (!permissions || !path || strlen(permissions) < 4 || permissions[3] != 'x' || strncmp(path, "/memfd:", 7) == 0 ||
        strncmp(path, "/dev/", 5) == 0)
        return NEARCALL_OK;
    size_t bytes = strlen(path), ending = sizeof(deleted) - 1;
    bool is_gone = bytes > ending && strcmp(path + bytes - ending, deleted) == 0;
    if (is_gone)
        path[bytes - ending] = 0;
    if (access(path, F_OK) < 0 || is_watched(resident, path))
        return NEARCALL_OK;
    resident->outdated |= is_gone;
    return nc_resident_watch_file(resident, path);
}

int nc_resident_watch_mapped(nearcall_resident *resident)
{
    size_t bytes;
    int r = NEARCALL_OK;
    char *text = nc_resident_read_at(AT_FDCWD, "/proc/self/maps", &bytes), *next;
    for (char *line = text; line && *line && r == NEARCALL_OK; line = next) {
        size_t length = strcspn(line, "\n");
        next = line + length + (line[length] != 0);
        line[length] = 0;
        r = watch_line(resident, line);
    }
    free(text);
    return r;
}

static bool is_any_changed(const nearcall_resident *resident)
{
    struct stat now;
    for (const struct nc_resident_file *file = resident->files; file; file = file->next)
        if (stat(file->path, &now) < 0 || !is_same(file, &now))
            return true;
    return false;
}

/* Events stay where they are until it is known that they tell of nothing: they are what
 * workers go by. */
bool nc_resident_watch_changed(nearcall_resident *resident)
{
    char events[4096] __attribute__((aligned(8)));
    if (is_any_changed(resident))
        return true;
    while (resident->inotify >= 0 && read(resident->inotify, events, sizeof(events)) > 0)
        ;
    return is_any_changed(resident);
}

bool nc_resident_watch_is_outdated(const nearcall_resident *resident)
{
    struct pollfd inotify = {.fd = resident->inotify, .events = POLLIN};
    if (resident->outdated)
        return true;
    if (!resident->looks && poll(&inotify, 1, 0) == 0)
        return false;
    return is_any_changed(resident);
}

void nc_resident_watch_end(nearcall_resident *resident)
{
    while (resident->files) {
        struct nc_resident_file *file = resident->files;
        resident->files = file->next;
        free(file);
    }
    while (resident->above) {
        struct nc_resident_above *above = resident->above;
        resident->above = above->next;
        free(above);
    }
    nc_resident_close_fd(&resident->inotify);
}
