#include "message.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

enum { BUFFER_BYTES_MIN = 64 * 1024, BACKLOG = 128 };

/* Makes a socket, and binds or connects it; -1 and errno. */
static int open_socket(const char *path, int (*use)(int, const struct sockaddr *, socklen_t))
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int fd;

    if (strlen(path) >= sizeof address.sun_path) {
        errno = ENAMETOOLONG;
        return -1;
    }
    memcpy(address.sun_path, path, strlen(path) + 1);
    fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd >= 0 && use(fd, (struct sockaddr *)&address, sizeof address) != 0) {
        int reason = errno;

        close(fd);
        errno = reason;
        return -1;
    }
    return fd;
}

int message_connect(const char *path)
{
    return open_socket(path, connect);
}

int message_serve(int argc, char **argv, int (*serve)(int fd))
{
    int listener;

    if (argc != 2) {
        fprintf(stderr, "usage: %s PATH\n", argv[0]);
        return 2;
    }
    listener = open_socket(argv[1], bind);
    if (listener < 0 || listen(listener, BACKLOG) != 0) {
        perror(argv[1]);
        return 1;
    }
    printf("ready unix:%s\n", argv[1]);
    fflush(stdout);
    for (;;) {
        int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);

        if (fd < 0 && errno == EINTR)
            continue;
        if (fd < 0 || serve(fd) != 0) {
            perror(argv[0]);
            return 1;
        }
    }
}

int message_send(int fd, const void *data, size_t bytes)
{
    const uint8_t *next = data;

    while (bytes > 0) {
        ssize_t sent = send(fd, next, bytes, MSG_NOSIGNAL);

        if (sent < 0 && errno == EINTR)
            continue;
        if (sent < 0)
            return -1;
        next += sent;
        bytes -= (size_t)sent;
    }
    return 0;
}

static int grow(struct message_buffer *buffer, size_t bytes)
{
    uint8_t *data;

    if (bytes <= buffer->capacity_bytes)
        return 0;
    data = realloc(buffer->data, bytes);
    if (data == NULL)
        return -1;
    buffer->data = data;
    buffer->capacity_bytes = bytes;
    return 0;
}

static ssize_t receive_some(int fd, struct message_buffer *buffer, size_t have)
{
    ssize_t bytes;

    do
        bytes = recv(fd, buffer->data + have, buffer->capacity_bytes - have, 0);
    while (bytes < 0 && errno == EINTR);
    return bytes;
}

ssize_t message_receive(int fd, struct message_buffer *buffer)
{
    size_t have = 0;
    size_t need = MESSAGE_PREFIX_BYTES;

    if (grow(buffer, BUFFER_BYTES_MIN) != 0)
        return -1;
    while (have < need) {
        ssize_t bytes = receive_some(fd, buffer, have);

        if (bytes == 0 && have > 0)
            errno = EPROTO;
        if (bytes <= 0)
            return bytes == 0 && have == 0 ? 0 : -1;
        have += (size_t)bytes;
        if (need == MESSAGE_PREFIX_BYTES && have >= need) {
            uint32_t length;

            memcpy(&length, buffer->data, sizeof length);
            need = MESSAGE_PREFIX_BYTES + (size_t)ntohl(length);
            if (grow(buffer, need) != 0)
                return -1;
        }
    }
    return (ssize_t)have;
}

void message_prefix(uint8_t *prefix, size_t bytes)
{
    uint32_t length = htonl((uint32_t)bytes);

    memcpy(prefix, &length, sizeof length);
}
