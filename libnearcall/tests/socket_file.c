/* Listening leaves nothing behind that failed, and takes a dead socket's place on every file system. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/socket_file.h"
#include "nearcall_handoff.h"
#include "test.h"

#define EXCHANGE 2 /* RENAME_EXCHANGE */

static bool cannot_exchange;

long __real_syscall(long number, ...);
long __wrap_syscall(long number, ...);
long __wrap_syscall(long number, ...)
{
    long argument[6];
    va_list list;
    va_start(list, number);
    for (int i = 0; i < 6; i++)
        argument[i] = va_arg(list, long);
    va_end(list);
    if (cannot_exchange && number == SYS_renameat2 && argument[4] == EXCHANGE) {
        errno = EINVAL;
        return -1;
    }
    return __real_syscall(number, argument[0], argument[1], argument[2], argument[3], argument[4], argument[5]);
}

static void bind_dead(const char *path)
{
    struct sockaddr_un to = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CHECK((size_t)snprintf(to.sun_path, sizeof(to.sun_path), "%s", path) < sizeof(to.sun_path));
    CHECK_INT(bind(fd, (const struct sockaddr *)&to, sizeof(to)), 0);
    close(fd);
}

/* As ext2 and ntfs3, which rename without replacing, but do not exchange. */
static void takes_the_place_without_exchanging(const char *folder)
{
    char path[108], temporary[108];
    struct stat before, after;
    const char *what = NULL;
    snprintf(path, sizeof(path), "%s/dead", folder);
    snprintf(temporary, sizeof(temporary), "%s/new", folder);
    bind_dead(path);
    bind_dead(temporary);
    CHECK_INT(stat(temporary, &before), 0);
    cannot_exchange = true;
    CHECK_INT(nc_socket_file_publish(temporary, path, &what), 0);
    cannot_exchange = false;
    CHECK_INT(stat(path, &after), 0);
    CHECK(before.st_ino == after.st_ino);
    CHECK(stat(temporary, &after) < 0);
    CHECK_INT(unlink(path), 0);
}

static unsigned sockets_in(const char *folder)
{
    unsigned count = 0;
    DIR *directory = opendir(folder);
    CHECK(directory != NULL);
    for (struct dirent *entry; (entry = readdir(directory)) != NULL;)
        count += entry->d_type == DT_SOCK;
    closedir(directory);
    return count;
}

/* Whatever it is that takes the last descriptor. */
static void leaves_nothing_without_descriptors(const char *folder)
{
    struct rlimit limit, full;
    char address[128];
    int listens = NEARCALL_E_UNKNOWN;
    snprintf(address, sizeof(address), "unix:%s/handoff", folder);
    int next = dup(0);
    close(next);
    CHECK_INT(getrlimit(RLIMIT_NOFILE, &full), 0);
    limit = full;
    for (rlim_t left = 0; listens != NEARCALL_OK && left < 16; left++) {
        nearcall_handoff *handoff;
        limit.rlim_cur = (rlim_t)next + left;
        CHECK_INT(setrlimit(RLIMIT_NOFILE, &limit), 0);
        listens = nearcall_handoff_listen(&handoff, address, NULL);
        CHECK_INT(setrlimit(RLIMIT_NOFILE, &full), 0);
        CHECK_INT(sockets_in(folder), listens == NEARCALL_OK);
        nearcall_handoff_close(handoff);
    }
    CHECK_INT(listens, NEARCALL_OK);
}

int main(void)
{
    char folder[] = "/tmp/nearcall-socket-file-XXXXXX", path[128];
    test_begin();
    CHECK(mkdtemp(folder) != NULL);
    takes_the_place_without_exchanging(folder);
    leaves_nothing_without_descriptors(folder);
    snprintf(path, sizeof(path), "%s/handoff.lock", folder);
    (void)unlink(path);
    CHECK_INT(rmdir(folder), 0);
    return 0;
}
