/* A program that is as little of a resident as can be, for tests of the launcher:
 * one process a run, which prints its arguments and ends with code 7. TINY_START
 * names a file to which each start as a resident adds a line; TINY_DELAY_MS is
 * how long a start takes. */
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { LISTENER = 3, HEADER_BYTES = 48, DESCRIPTORS = 4, EXIT_CODE = 7, REQUEST_BYTES_MAX = 1 << 20 };

static void check(int holds, const char *what)
{
    if (!holds) {
        perror(what);
        _exit(99);
    }
}

static void note_start(void)
{
    const char *path = getenv("TINY_START"), *delay = getenv("TINY_DELAY_MS");
    if (path != NULL) {
        int fd = open(path, O_WRONLY | O_APPEND | O_CREAT, 0600);
        check(fd >= 0 && dprintf(fd, "%d\n", (int)getpid()) > 0, path);
        close(fd);
    }
    if (delay != NULL) {
        struct timespec pause = {atoi(delay) / 1000, (long)(atoi(delay) % 1000) * 1000000};
        nanosleep(&pause, NULL);
    }
    check(truncate(getenv("NEARCALL_RESIDENT_LOCK"), 0) == 0, "lock");
}

static uint32_t number_at(const char *bytes, size_t at)
{
    uint32_t value;
    memcpy(&value, bytes + at, sizeof(value));
    return value;
}

static size_t receive(int connection, char *bytes, int *descriptors)
{
    union {
        char bytes[CMSG_SPACE(sizeof(int) * DESCRIPTORS)];
        struct cmsghdr align;
    } control;
    struct iovec text = {bytes, REQUEST_BYTES_MAX};
    struct msghdr message = {.msg_iov = &text, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof(control)};
    ssize_t length = recvmsg(connection, &message, 0);
    if (length < HEADER_BYTES)
        return 0;
    memcpy(descriptors, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof(int) * DESCRIPTORS);
    size_t have = (size_t)length, total = number_at(bytes, 8);
    while (have < total && (length = recv(connection, bytes + have, total - have, 0)) > 0)
        have += (size_t)length;
    return have == total ? total : 0;
}

static void say(int connection, uint32_t type, uint32_t value)
{
    const uint32_t frame[4] = {type, value, type == 1 ? (uint32_t)getpid() : 0, 0};
    (void)!send(connection, frame, sizeof(frame), MSG_NOSIGNAL);
}

static void print(int argc, char *const *argv)
{
    char line[4096];
    int length = snprintf(line, sizeof(line), "%s", getenv("TINY_WORD") ? getenv("TINY_WORD") : "ran");
    for (int i = 1; i < argc; i++)
        length += snprintf(line + length, sizeof(line) - (size_t)length, " %s", argv[i]);
    line[length++] = '\n';
    check(write(STDOUT_FILENO, line, (size_t)length) == length, "output");
}

static void run(int connection)
{
    static char bytes[REQUEST_BYTES_MAX];
    char *arguments[64];
    int descriptors[DESCRIPTORS];
    if (receive(connection, bytes, descriptors) == 0)
        _exit(0);
    setsid();
    for (int i = 0; i < 3; i++)
        dup2(descriptors[i], i);
    for (int i = 0; i < DESCRIPTORS; i++)
        close(descriptors[i]);
    int count = (int)number_at(bytes, 28);
    char *at = bytes + HEADER_BYTES;
    for (int i = 0; i < count && i < 64; i++)
        arguments[i] = at = at + strlen(at) + 1;
    say(connection, 1, (uint32_t)getpid());
    print(count, arguments);
    dup2(LISTENER, STDIN_FILENO), dup2(LISTENER, STDOUT_FILENO), dup2(LISTENER, STDERR_FILENO);
    say(connection, 2, EXIT_CODE);
    _exit(0);
}

int main(int argc, char **argv)
{
    if (argc < 2 || strcmp(argv[1], "--nearcall-resident") != 0) {
        print(argc, argv);
        return EXIT_CODE;
    }
    note_start();
    for (;;) {
        int connection = accept(LISTENER, NULL, NULL);
        check(connection >= 0, "accept");
        pid_t process = fork();
        check(process >= 0, "fork");
        if (process == 0)
            run(connection);
        close(connection);
        while (waitpid(-1, NULL, WNOHANG) > 0)
            continue;
    }
}
