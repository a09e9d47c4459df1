/*
 * The floor of handing a connection over: the same answer as the web server's from a program
 * that does nothing else, in one process or in two.
 *
 *     web_floor HOST:PORT direct    accepts, reads, answers, closes
 *     web_floor HOST:PORT handed    accepts, looks at what has come, and sends the connection
 *                                   to a second process, which reads, answers, closes
 *
 * Nobody says that a connection has arrived, nobody looks where it is to go, and one that the
 * second process cannot take is lost: it is the least that the kernel costs.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

enum { REQUEST_BYTES_MAX = 4096, BACKLOG = 65535, DEFER_SECONDS = 10 };

static const char answer[] = "HTTP/1.1 200 OK\r\nDate: Mon, 23 Nov 2026 12:00:00 GMT\r\nContent-Length: 5\r\n"
                             "Content-Type: text/plain; charset=utf-8\r\nConnection: close\r\n\r\nhere\n";

union rights {
    char space[CMSG_SPACE(sizeof(int))];
    struct cmsghdr align;
};

static void fail(const char *what)
{
    perror(what);
    exit(1);
}

static int listen_at(const char *host_port)
{
    struct sockaddr_in address = {.sin_family = AF_INET};
    const int seconds = DEFER_SECONDS;
    unsigned port;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    if (sscanf(host_port, "127.0.0.1:%u", &port) != 1 || port > UINT16_MAX) {
        fprintf(stderr, "web_floor: %s: expected 127.0.0.1:PORT\n", host_port);
        exit(2);
    }
    address.sin_port = htons((uint16_t)port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (fd < 0 || setsockopt(fd, IPPROTO_TCP, TCP_DEFER_ACCEPT, &seconds, sizeof seconds) != 0 ||
        bind(fd, (struct sockaddr *)&address, sizeof address) != 0 || listen(fd, BACKLOG) != 0)
        fail(host_port);
    return fd;
}

static int accept_next(int listener)
{
    int fd;

    do
        fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
    while (fd < 0 && (errno == EINTR || errno == ECONNABORTED));
    if (fd < 0)
        fail("web_floor: accept");
    return fd;
}

/* A client that has gone is nobody's business. */
static void serve(int fd)
{
    char request[REQUEST_BYTES_MAX];

    if (read(fd, request, sizeof request) > 0)
        (void)!write(fd, answer, sizeof answer - 1);
    close(fd);
}

static void give(int channel, int fd)
{
    char byte = 0, request[REQUEST_BYTES_MAX];
    union rights rights = {0};
    struct iovec data = {&byte, 1};
    struct msghdr message = {.msg_iov = &data, .msg_iovlen = 1, .msg_control = rights.space, .msg_controllen = sizeof rights.space};
    struct cmsghdr *header = CMSG_FIRSTHDR(&message);

    (void)!recv(fd, request, sizeof request, MSG_PEEK | MSG_DONTWAIT);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof fd);
    memcpy(CMSG_DATA(header), &fd, sizeof fd);
    if (sendmsg(channel, &message, MSG_NOSIGNAL) != 1)
        fail("web_floor: sendmsg");
    close(fd);
}

/* -1: the other process has ended. */
static int take(int channel)
{
    char byte;
    int fd = -1;
    union rights rights = {0};
    struct iovec data = {&byte, 1};
    struct msghdr message = {.msg_iov = &data, .msg_iovlen = 1, .msg_control = rights.space, .msg_controllen = sizeof rights.space};

    if (recvmsg(channel, &message, MSG_CMSG_CLOEXEC) != 1 || CMSG_FIRSTHDR(&message) == NULL)
        return -1;
    memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof fd);
    return fd;
}

/* Starts the process that serves; returns the channel to it. */
static int start_server(void)
{
    int channel[2], fd;

    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, channel) != 0)
        fail("web_floor: socketpair");
    switch (fork()) {
    case -1:
        fail("web_floor: fork");
        break;
    case 0:
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        close(channel[0]);
        while ((fd = take(channel[1])) >= 0)
            serve(fd);
        _exit(0);
    default:
        close(channel[1]);
    }
    return channel[0];
}

int main(int argc, char **argv)
{
    int listener, channel = -1;

    if (argc != 3 || (strcmp(argv[2], "direct") != 0 && strcmp(argv[2], "handed") != 0)) {
        fputs("usage: web_floor 127.0.0.1:PORT direct|handed\n", stderr);
        return 2;
    }
    signal(SIGPIPE, SIG_IGN);
    if (strcmp(argv[2], "handed") == 0)
        channel = start_server();
    listener = listen_at(argv[1]);
    printf("ready %s\n", argv[1]);
    fflush(stdout);
    for (;;) {
        int fd = accept_next(listener);

        if (channel < 0)
            serve(fd);
        else
            give(channel, fd);
    }
}
