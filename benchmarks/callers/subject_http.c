/*
 * A short connection: connect, GET, 200, close. The server closes first, as the
 * request asks it to; the answer is read to its end.
 */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "caller.h"

static const char request[] = "GET / HTTP/1.1\r\nHost: bench.example\r\nConnection: close\r\n\r\n";
static const char good[] = "HTTP/1.1 200 ";

struct http {
    struct sockaddr_in server;
};

/* Reads to the end; returns whether the answer begins as a good one does. */
static int is_good(int fd)
{
    char answer[4096];
    size_t have = 0;
    ssize_t bytes;

    while (have < sizeof answer && (bytes = read(fd, answer + have, sizeof answer - have)) != 0) {
        if (bytes < 0)
            return 0;
        have += (size_t)bytes;
    }
    return have >= sizeof good - 1 && memcmp(answer, good, sizeof good - 1) == 0;
}

static int exchange(int fd, const struct http *http)
{
    return connect(fd, (const struct sockaddr *)&http->server, sizeof http->server) == 0 &&
           write(fd, request, sizeof request - 1) == (ssize_t)(sizeof request - 1) && is_good(fd);
}

static int call(void *state)
{
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    int ok = fd >= 0 && exchange(fd, state);

    if (!ok)
        perror("caller: connect, GET, 200, close");
    if (fd >= 0)
        close(fd);
    return ok ? 0 : -1;
}

static void *open_http(const char *address, size_t payload_bytes)
{
    struct http *http = calloc(1, sizeof *http);
    unsigned port;

    (void)payload_bytes;
    if (http == NULL || sscanf(address, "tcp:127.0.0.1:%u", &port) != 1 || port > UINT16_MAX) {
        fprintf(stderr, "caller: %s: expected tcp:127.0.0.1:PORT\n", address);
        free(http);
        return NULL;
    }
    http->server.sin_family = AF_INET;
    http->server.sin_port = htons((uint16_t)port);
    http->server.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (call(http) != 0) {
        free(http);
        return NULL;
    }
    return http;
}

const struct subject subject_http = {.name = "http", .open = open_http, .call = call};
