/*
 * Requests to a web server, in the two ways that clients make them:
 *
 * A short connection: connect, GET, 200, close. The server closes first, as the request asks
 * it to; the answer is read to its end.
 *
 * A connection that is kept: it was made, and has had its first answer, before anything is
 * timed. Timed is the second request (a connection for each), or each further one.
 */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "caller.h"

static const char request_once[] = "GET / HTTP/1.1\r\nHost: bench.example\r\nConnection: close\r\n\r\n";
static const char request_kept[] = "GET / HTTP/1.1\r\nHost: bench.example\r\n\r\n";
static const char good[] = "HTTP/1.1 200 ";
static const char length_field[] = "\r\nContent-Length: ";

enum { ANSWER_BYTES_MAX = 4096 };

struct http {
    struct sockaddr_in server;
    int fd; /* the one that is kept; -1: none is */
};

/* How long an answer is by its own word; 0: its head is not whole, or does not say. */
static size_t answer_bytes(const char *answer)
{
    const char *end = strstr(answer, "\r\n\r\n");
    const char *length = end == NULL ? NULL : strcasestr(answer, length_field);

    if (length == NULL || length > end)
        return 0;
    return (size_t)(end + 4 - answer) + strtoul(length + sizeof length_field - 1, NULL, 10);
}

/* Reads an answer to the end of the connection or, of one that is kept, so far as it says itself; returns
 * whether it is a good one. */
static int is_good(int fd, int kept)
{
    char answer[ANSWER_BYTES_MAX];
    size_t have = 0, whole = 0;
    ssize_t bytes = 1;

    while (have < sizeof answer - 1 && bytes != 0 && (whole == 0 || have < whole)) {
        bytes = read(fd, answer + have, sizeof answer - 1 - have);
        if (bytes < 0 || (bytes == 0 && kept))
            return 0;
        have += (size_t)bytes;
        if (kept) {
            answer[have] = '\0';
            whole = answer_bytes(answer);
        }
    }
    return have == (kept ? whole : have) && have >= sizeof good - 1 && memcmp(answer, good, sizeof good - 1) == 0;
}

static int dial(const struct http *http)
{
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    if (fd >= 0 && connect(fd, (const struct sockaddr *)&http->server, sizeof http->server) != 0) {
        close(fd);
        fd = -1;
    }
    return fd;
}

static int call(void *state)
{
    int fd = dial(state);
    int ok = fd >= 0 && write(fd, request_once, sizeof request_once - 1) == (ssize_t)(sizeof request_once - 1) && is_good(fd, 0);

    if (fd >= 0)
        close(fd);
    return ok ? 0 : subject_failed("connect, GET, 200, close");
}

static int call_kept(void *state)
{
    struct http *http = state;

    if (write(http->fd, request_kept, sizeof request_kept - 1) == (ssize_t)(sizeof request_kept - 1) && is_good(http->fd, 1))
        return 0;
    return subject_failed("GET, 200 on a connection that is kept");
}

/* Makes a connection in place of the one before, and its first request. */
static int renew(void *state)
{
    struct http *http = state;

    if (http->fd >= 0)
        close(http->fd);
    http->fd = dial(http);
    return http->fd >= 0 ? call_kept(http) : subject_failed("connect");
}

/* Makes the first request: by itself, or on the connection that is kept. */
static int open_http(const struct subject *subject, void *state, const char *address, size_t payload_bytes)
{
    struct http *http = state;
    unsigned port;

    (void)payload_bytes;
    if (sscanf(address, "tcp:127.0.0.1:%u", &port) != 1 || port > UINT16_MAX) {
        fprintf(stderr, "caller: %s: expected tcp:127.0.0.1:PORT\n", address);
        return -1;
    }
    http->fd = -1;
    http->server.sin_family = AF_INET;
    http->server.sin_port = htons((uint16_t)port);
    http->server.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return subject->call == call ? call(http) : renew(http);
}

const struct subject http_subjects[] = {
    {.name = "http", .state_bytes = sizeof(struct http), .open = open_http, .call = call},
    {.name = "http-second", .state_bytes = sizeof(struct http), .open = open_http, .prepare = renew, .call = call_kept},
    {.name = "http-kept", .state_bytes = sizeof(struct http), .open = open_http, .call = call_kept},
    {0}};
