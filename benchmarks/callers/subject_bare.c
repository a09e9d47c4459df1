/* The floor: a message with its length before it, and the same back. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "caller.h"
#include "message.h"

struct bare {
    int fd;
    size_t bytes; /* of the message with its prefix */
    uint8_t *message;
    struct message_buffer answer;
};

static int call(void *state)
{
    struct bare *bare = state;

    if (message_send(bare->fd, bare->message, bare->bytes) != 0 ||
        message_receive(bare->fd, &bare->answer) != (ssize_t)bare->bytes) {
        perror("caller: bare echo");
        return -1;
    }
    return 0;
}

static void *open_bare(const struct subject *subject, const char *address, size_t payload_bytes)
{
    struct bare *bare = calloc(1, sizeof *bare);
    const char *path = subject_path(address);

    (void)subject;
    if (bare == NULL || path == NULL)
        return NULL;
    bare->bytes = MESSAGE_PREFIX_BYTES + payload_bytes;
    bare->message = malloc(bare->bytes);
    bare->fd = message_connect(path);
    if (bare->message == NULL || bare->fd < 0) {
        perror(address);
        return NULL;
    }
    message_prefix(bare->message, payload_bytes);
    subject_fill(bare->message + MESSAGE_PREFIX_BYTES, payload_bytes);
    if (call(bare) != 0)
        return NULL;
    if (memcmp(bare->answer.data, bare->message, bare->bytes) != 0) {
        fprintf(stderr, "caller: %s: the echo differs\n", address);
        return NULL;
    }
    return bare;
}

const struct subject bare_subjects[] = {{.name = "bare", .open = open_bare, .call = call}, {0}};
