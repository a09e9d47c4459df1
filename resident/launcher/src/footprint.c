#include "footprint.h"

#include "text.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { TEXT_BYTES = 4096, PATH_BYTES = 96 };

static const char ending[] = ".sock";

/* The beginning of a file, or an empty text. */
static void read_text(const char *path, char text[TEXT_BYTES])
{
    ssize_t length = 0;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd >= 0) {
        length = read(fd, text, TEXT_BYTES - 1);
        close(fd);
    }
    text[length > 0 ? length : 0] = '\0';
}

/* Its part of what it shares with others. */
static unsigned long long memory_kib_of(const char *process)
{
    char path[PATH_BYTES], text[TEXT_BYTES];
    nc_join(path, sizeof(path), "/proc/", process, "/smaps_rollup");
    read_text(path, text);
    const char *line = strstr(text, "\nPss:");
    return line != NULL ? strtoull(line + sizeof("\nPss:") - 1, NULL, 10) : 0;
}

/* Those that one of its threads has started: what waits for a run, and what runs. */
static unsigned long long memory_kib_of_children(const char *process, const char *thread)
{
    char path[PATH_BYTES], text[TEXT_BYTES];
    unsigned long long sum = 0;
    nc_join(path, sizeof(path), "/proc/", process, "/task/", thread, "/children");
    read_text(path, text);
    for (char *child = text, *end; *child >= '0' && *child <= '9'; child = end) {
        end = child + strcspn(child, " ");
        if (*end != '\0')
            *end++ = '\0';
        sum += memory_kib_of(child);
    }
    return sum;
}

static unsigned long long memory_kib_of_resident(pid_t id)
{
    char path[PATH_BYTES], number[NC_NUMBER_BYTES];
    const char *process = nc_number(number, (unsigned long long)id);
    unsigned long long sum = memory_kib_of(process);
    nc_join(path, sizeof(path), "/proc/", process, "/task");
    DIR *threads = opendir(path);
    for (struct dirent *entry; threads != NULL && (entry = readdir(threads)) != NULL;)
        if (*entry->d_name != '.' && strlen(entry->d_name) < NC_NUMBER_BYTES)
            sum += memory_kib_of_children(process, entry->d_name);
    if (threads != NULL)
        closedir(threads);
    return sum;
}

/* Sockets stay where a resident was killed: whether somebody listens has to be tried. */
static void add_socket(const char *directory, const char *name, struct footprint *footprint)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    struct ucred peer;
    socklen_t size = sizeof(peer);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    int fits = nc_join(address.sun_path, sizeof(address.sun_path), directory, "/", name) == 0;
    int connected = fits && connect(fd, (const struct sockaddr *)&address, sizeof(address)) == 0;
    /* A path that is too long for an address, and a full backlog, are taken for one. */
    if (connected || !fits || errno == EAGAIN)
        footprint->residents++;
    if (connected && getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 && peer.pid > 0)
        footprint->memory_kib += memory_kib_of_resident(peer.pid);
    if (fd >= 0)
        close(fd);
}

void nc_footprint(const struct place *place, struct footprint *footprint)
{
    *footprint = (struct footprint){0};
    DIR *directory = opendir(place->directory);
    for (struct dirent *entry; directory != NULL && (entry = readdir(directory)) != NULL;) {
        size_t length = strlen(entry->d_name), end = sizeof(ending) - 1;
        if (length > end && strcmp(entry->d_name + length - end, ending) == 0)
            add_socket(place->directory, entry->d_name, footprint);
    }
    if (directory != NULL)
        closedir(directory);
}
