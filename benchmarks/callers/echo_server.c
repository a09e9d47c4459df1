/*
 * The floor that the kernel sets: a C server that echoes length-prefixed
 * messages on a Unix socket, one thread a connection, and does nothing else.
 *
 *     echo_server PATH
 */
#include <arpa/inet.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "message.h"

/* Answers until the peer closes. */
static void *serve(void *argument)
{
    int fd = *(int *)argument;
    struct message_buffer buffer = {0};
    ssize_t bytes;

    free(argument);
    while ((bytes = message_receive(fd, &buffer)) > 0) {
        if (message_send(fd, buffer.data, (size_t)bytes) != 0)
            break;
    }
    if (bytes < 0)
        perror("echo_server");
    free(buffer.data);
    close(fd);
    return NULL;
}

static int start_thread(int fd)
{
    pthread_t thread;
    int *argument = malloc(sizeof *argument);

    if (argument == NULL)
        return -1;
    *argument = fd;
    if (pthread_create(&thread, NULL, serve, argument) != 0) {
        free(argument);
        return -1;
    }
    return pthread_detach(thread);
}

int main(int argc, char **argv)
{
    int listener;

    if (argc != 2) {
        fprintf(stderr, "usage: echo_server PATH\n");
        return 2;
    }
    listener = message_listen(argv[1]);
    if (listener < 0) {
        perror(argv[1]);
        return 1;
    }
    for (;;) {
        int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);

        if (fd < 0 && errno == EINTR)
            continue;
        if (fd < 0 || start_thread(fd) != 0) {
            perror("echo_server");
            return 1;
        }
    }
}
