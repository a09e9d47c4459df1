/*
 * The floor that the kernel sets: a C server that echoes length-prefixed
 * messages on a Unix socket, one thread a connection, and does nothing else.
 *
 *     echo_server PATH
 */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "message.h"

/* Answers until the peer closes. */
static void *answer(void *argument)
{
    int fd = (int)(intptr_t)argument;
    struct message_buffer buffer = {0};
    ssize_t bytes;

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

static int serve(int fd)
{
    pthread_t thread;

    return pthread_create(&thread, NULL, answer, (void *)(intptr_t)fd) == 0 && pthread_detach(thread) == 0 ? 0 : -1;
}

int main(int argc, char **argv)
{
    return message_serve(argc, argv, serve);
}
