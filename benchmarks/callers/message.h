/*
 * Messages with a 4-byte big-endian length before them, over a Unix socket: the
 * framing of the floors and of the simple protocol.
 */
#ifndef MESSAGE_H
#define MESSAGE_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum { MESSAGE_PREFIX_BYTES = 4 };

/* Owned by whoever declared it; data is freed with free(). */
struct message_buffer {
    uint8_t *data;
    size_t capacity_bytes;
};

/* Returns a connected descriptor, -1 and errno. */
int message_connect(const char *path);

/* The whole program of a server: listens at the path that is its only argument, says on stdout
 * that it is ready, and lets serve() have each connection. Returns its exit code; serve() fails
 * by -1 and errno. */
int message_serve(int argc, char **argv, int (*serve)(int fd));

/* Sends bytes as they are, prefix included; -1 and errno. */
int message_send(int fd, const void *data, size_t bytes);

/* Reads one message with its prefix into the buffer, which grows as needed. Returns
 * its bytes with the prefix, 0 at the end of the connection, -1 and errno. The
 * peer sends nothing after a message until it was answered. */
ssize_t message_receive(int fd, struct message_buffer *buffer);

/* Writes the prefix for a message of that many bytes. */
void message_prefix(uint8_t *prefix, size_t bytes);

#endif
