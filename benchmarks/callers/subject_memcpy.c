/*
 * What copying a payload costs: memcpy in one process. An echo through shared
 * memory touches four buffers, the caller's, one in each region, and the server's
 * own; so four are copied around in a ring, which keeps them as warm as an echo's.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "caller.h"

enum { BUFFERS = 4 };

struct copies {
    size_t bytes;
    unsigned next;
    uint8_t *buffers[BUFFERS];
};

static int call(void *state)
{
    struct copies *copies = state;
    uint8_t *from = copies->buffers[copies->next % BUFFERS];
    uint8_t *to = copies->buffers[++copies->next % BUFFERS];

    memcpy(to, from, copies->bytes);
    /* The copy must be made although nobody here reads it. */
    __asm__ volatile("" : : "r"(to) : "memory");
    return 0;
}

static void *open_memcpy(const struct subject *subject, const char *address, size_t payload_bytes)
{
    struct copies *copies = calloc(1, sizeof *copies);

    (void)subject;
    (void)address;
    if (copies == NULL)
        return NULL;
    copies->bytes = payload_bytes;
    for (int i = 0; i < BUFFERS; i++) {
        copies->buffers[i] = malloc(payload_bytes);
        if (copies->buffers[i] == NULL)
            return NULL;
        memset(copies->buffers[i], i, payload_bytes);
    }
    subject_fill(copies->buffers[0], payload_bytes);
    return copies;
}

const struct subject memcpy_subjects[] = {{.name = "memcpy", .open = open_memcpy, .call = call}, {0}};
